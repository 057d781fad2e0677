"""URLs of topics and subscriptions: what they say, what is refused, and that their secrets stay theirs."""

from __future__ import annotations

import msgspec
import pytest

import trunkline
from trunkline import errors
from trunkline.portable import plan
from trunkline.portable.address import parse_address, redact, typed_parameters
from trunkline.portable.plan import plan_subscription, plan_topic
from trunkline.portable.registry import driver_names, find_driver


def test_S2_23_a_url_has_a_scheme_a_place_and_parameters() -> None:
    found = parse_address("acme://an%40na:p%2Fw@Host.example:5432/db/orders%20new?queue=a%26b&create=true")
    assert (found.scheme, found.host, found.port, found.path) == ("acme", "Host.example", 5432, "/db/orders new")
    assert (found.username, found.password) == ("an@na", "p/w")
    assert found.parameters == {"queue": "a&b", "create": "true"}


@pytest.mark.parametrize("url", ["memory://Orders", "pubsub+memory://Orders", "PUBSUB+MEMORY://Orders"])
def test_S2_23_a_scheme_may_have_the_pubsub_prefix_and_a_topic_keeps_its_case(url: str) -> None:
    found = parse_address(url)
    assert (found.scheme, found.host) == ("memory", "Orders")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "orders",
        "memory:orders",
        "://orders",
        "1x://orders",
        "memory://or ders",
        "memory://orders\n",
        "memory://orders?subscription",
        "memory://orders?a=1&a=2",
        "memory://orders#part",
        "memory://orders#",
        "memory://host:port/x",
        "memory://host:99999/x",
        "memory://[::1/x",
        "memory://orders/%ff",
        "memory://orders?a=%ff",
    ],
)
def test_S2_23_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        parse_address(url)


@pytest.mark.parametrize("url", [None, 5, b"memory://orders"])
def test_S2_23_a_url_is_text(url: object) -> None:
    with pytest.raises(errors.InvalidArgument, match="must be text"):
        parse_address(url)


SECRET = "hunter2/x"
SECRETIVE = [
    "memory://u:hunter2%2Fx@orders?subscripton=a",
    "memory://u:hunter2%2Fx@orders?ack_deadline_s=soon",
    "nobody://u:hunter2%2Fx@orders",
    "memory://u:hunter2%2Fx@orders:port",
    "memory://u:hunter2%2Fx@orders?subscription=a",
    "memory://orders?subscription=a&api_key=hunter2%2Fx",
    "memory://orders?subscription=a&token=hunter2/x",
    "u:hunter2/x@orders",
    "memory://u:hunter2%2Fx@orders#x",
]


@pytest.mark.parametrize("url", SECRETIVE)
@pytest.mark.parametrize("open_it", [trunkline.open_topic, trunkline.open_subscription])
def test_S2_23_no_error_has_a_secret_in_it(url: str, open_it: object) -> None:
    with pytest.raises(errors.TrunklineError) as caught:
        open_it(url)  # type: ignore[operator]
    chain: list[BaseException | None] = [caught.value, caught.value.__cause__]
    for error in chain:
        assert "hunter2" not in f"{error!r}{error}"


def test_S2_23_a_malformed_value_of_what_a_driver_calls_a_secret_is_not_shown() -> None:
    for secrets, said in (((), "not '12a4'"), ({"pin"}, "not that")):
        with pytest.raises(errors.InvalidArgument, match=said):
            typed_parameters({"pin": "12a4"}, {"pin": int}, "a URL", secrets)


def test_S2_23_what_a_driver_declares_a_secret_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = msgspec.structs.replace(find_driver("memory"), topic_parameters={"pin": int}, secrets=frozenset({"pin"}))
    monkeypatch.setattr(plan, "find_driver", lambda _: declared)
    with pytest.raises(errors.InvalidArgument, match="must be a whole number, not that"):
        plan_topic("memory://orders?pin=12a4", {}, ())


def test_S2_23_a_url_is_shown_without_its_secrets() -> None:
    found = parse_address("acme://u:hunter2@host:1/t?token=hunter2&vault=hunter2&queue=q")
    assert found.shown({"vault"}) == "acme://u@host:1/t?token=***&vault=***&queue=q"
    assert "hunter2" not in repr(parse_address("acme://u:hunter2@host/t?password=hunter2"))
    assert redact("was hunter2 and hunter2/x", ["hunter2", "hunter2/x"]) == "was *** and ***"


def test_S2_23_an_unknown_scheme_names_the_nearest() -> None:
    with pytest.raises(errors.InvalidArgument, match="no driver for memori:// is installed; did you mean 'memory'"):
        trunkline.open_topic("memori://orders")
    assert "memory" in driver_names()


def test_S2_23_an_unknown_parameter_names_the_nearest() -> None:
    with pytest.raises(errors.InvalidArgument, match="no parameter 'subscripton'; did you mean 'subscription'"):
        trunkline.open_subscription("memory://orders?subscripton=a")
    with pytest.raises(errors.InvalidArgument, match="no parameter 'subscription'"):
        trunkline.open_topic("memory://orders?subscription=a")


@pytest.mark.parametrize("text", ["", "soon", "-1", "1 parsec", "nan", "inf", "-5s", "1e3", "٣", "1,5", "9" * 400])
def test_S2_23_a_malformed_duration_is_an_error(text: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        plan_subscription(f"memory://orders?subscription=a&ack_deadline_s={text.replace(' ', '+')}", {}, ())


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60.0), ("1.5", 1.5), ("250ms", 0.25), ("1m", 60.0), ("1h30m", 5400)]
)
def test_S2_23_durations_are_seconds_or_have_a_unit(text: str, seconds: float) -> None:
    plan = plan_subscription(f"memory://orders?subscription=a&ack_deadline_s={text}", {}, ())
    assert plan.settings.ack_deadline_s == plan.target.ack_deadline_s == seconds


def test_options_stand_in_the_url_or_in_the_call_which_wins() -> None:
    plan = plan_topic("memory://orders?send_wait_s=20ms&batch_messages_max=7", {"batch_messages_max": 9}, ())
    assert (plan.settings.send_wait_s, plan.settings.batch_messages_max) == (0.02, 9)
    assert plan.target.parameters == {}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("memory://orders?batch_messages_max=0", {}),
        ("memory://orders?batch_messages_max=1.5", {}),
        ("memory://orders?batch_messages_max=many", {}),
        ("memory://orders", {"batch_messages_max": True}),
        ("memory://orders", {"send_wait_s": float("nan")}),
        ("memory://orders", {"send_wait_s": 61}),
        ("memory://orders", {"deadline_s": -1}),
        ("memory://orders", {"deadline_s": "10"}),
        ("memory://orders", {"prefetch_max": 1}),
    ],
)
def test_an_option_that_cannot_be_is_refused(url: str, options: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidArgument):
        plan_topic(url, options, ())


@pytest.mark.parametrize("require", ["acks", ["speed"], 5, [3]])
def test_what_is_required_must_be_capabilities(require: object) -> None:
    with pytest.raises(errors.InvalidArgument):
        plan_topic("memory://orders", {}, require)  # type: ignore[arg-type]
