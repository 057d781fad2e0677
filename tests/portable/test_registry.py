"""Which driver a scheme means, and what is said of one that cannot be used."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

import trunkline
from trunkline import errors
from trunkline.drivers.memory import DRIVER
from trunkline.portable import Capabilities, Driver, registry
from trunkline.portable.plan import plan_subscription

LONELY = Driver(name="lonely", capabilities=Capabilities())
ASYNC_ONLY = Driver(name="async_only", capabilities=Capabilities(), aio=DRIVER.aio)
SOMETHING = "not a driver"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points as packages would have them."""
    points = {
        "lonely": f"{__name__}:LONELY",
        "async-only": f"{__name__}:ASYNC_ONLY",
        "something": f"{__name__}:SOMETHING",
        "absent": "no_such_module:DRIVER",
        "memory": f"{__name__}:SOMETHING",
    }
    found = [EntryPoint(name, value, registry.GROUP) for name, value in points.items()]
    monkeypatch.setattr(registry, "_registered", lambda: found)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("lonely", "neither an async nor a blocking form"),
        ("something", "must be a trunkline.portable.Driver, not str"),
        ("absent", "cannot be loaded: No module named 'no_such_module'"),
    ],
)
def test_a_driver_that_cannot_be_used_says_why(registered: None, scheme: str, message: str) -> None:
    with pytest.raises(errors.DriverError, match=message):
        trunkline.open_topic(f"{scheme}://orders")


def test_a_driver_without_a_form_for_this_world_is_refused_at_open(registered: None) -> None:
    with pytest.raises(errors.NotSupported, match="the driver async_only has no blocking form") as caught:
        trunkline.open_subscription("async-only://orders")
    assert caught.value.driver == "async_only"


def test_nobody_takes_the_place_of_a_driver_that_comes_with_the_package(registered: None) -> None:
    assert registry.find_driver("memory") is DRIVER
    assert registry.driver_names().count("memory") == 1


def test_an_ack_deadline_that_a_driver_cannot_keep_is_refused_at_open() -> None:
    plan = plan_subscription("memory://orders?subscription=a&ack_deadline_s=5", {}, ())
    with pytest.raises(errors.AckNotSupported, match="the driver memory has no ack_deadline") as caught:
        plan.check(Capabilities(ack_deadline=False))
    assert (caught.value.driver, caught.value.capability) == ("memory", "ack_deadline")
    plan.check(Capabilities(ack_deadline=True))


def test_a_driver_has_eight_methods_at_most() -> None:
    from trunkline.portable import aio, sync  # noqa: F401
    from trunkline.portable.aio import driver as asynchronous
    from trunkline.portable.sync import driver as blocking

    for module, prefix in ((asynchronous, "Async"), (blocking, "")):
        kinds = [getattr(module, f"{prefix}{name}") for name in ("DriverOpener", "TopicDriver", "SubscriptionDriver")]
        methods = {name for kind in kinds for name, value in vars(kind).items() if callable(value) and name[0] != "_"}
        assert len(methods) <= 8, sorted(methods)
        assert {"send_batch", "receive_batch", "ack", "nack", "close"} <= methods


def test_every_error_of_the_portable_api_has_a_code_of_its_own() -> None:
    kinds = (errors.FailedPrecondition, errors.Closed, errors.NotSupported, errors.AckNotSupported, errors.Cancelled)
    codes = {kind.code for kind in (*kinds, errors.DriverError)}
    assert len(codes) == len(kinds) + 1
    assert all(errors.class_of(code) is not None for code in codes)
    assert issubclass(errors.Closed, errors.FailedPrecondition)
