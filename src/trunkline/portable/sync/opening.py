# Generated from src/trunkline/portable/aio/opening.py by tools/twins.py (make fix). Change the source, not this file.
"""From a URL to a topic or a subscription."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar, Unpack

from trunkline.errors import NotSupported
from trunkline.portable.driver import Capabilities, Driver
from trunkline.portable.plan import Plan, ReceiveOptions, SendOptions, plan_subscription, plan_topic
from trunkline.portable.sync.calls import Calls
from trunkline.portable.sync.driver import DriverOpener, SubscriptionDriver, TopicDriver
from trunkline.portable.sync.subscription import Subscription
from trunkline.portable.sync.topic import AfterSend, BeforeSend, Topic

OpenedT = TypeVar("OpenedT", TopicDriver, SubscriptionDriver)


def open_topic(
    url: str,
    *,
    before_send: BeforeSend | None = None,
    after_send: AfterSend | None = None,
    require: Collection[str] = (),
    **options: Unpack[SendOptions],
) -> Topic:
    """A topic that exists, for sending; NotFound where it does not and the broker can know. It is never created.

    ``before_send`` gets each message once, before it is sent, and may return another in its place; ``after_send`` gets
    it and its id once it was sent. NotSupported where the broker lacks a capability that is in ``require``. An option
    wins over the parameter of the same name in the URL.
    """
    plan = plan_topic(url, options, require)
    opener = _opener(plan.driver)

    def call() -> TopicDriver:
        return opener.open_topic(plan.target)

    return Topic(_opened(plan, call), plan, before_send=before_send, after_send=after_send)


def open_subscription(url: str, *, require: Collection[str] = (), **options: Unpack[ReceiveOptions]) -> Subscription:
    """A subscription that exists, for receiving; NotFound where it does not and the broker can know. It is never
    created.

    NotSupported where the broker lacks a capability that is in ``require``, AckNotSupported where it cannot keep
    ``ack_deadline_s``. An option wins over the parameter of the same name in the URL.
    """
    plan = plan_subscription(url, options, require)
    opener = _opener(plan.driver)

    def call() -> SubscriptionDriver:
        return opener.open_subscription(plan.target)

    return Subscription(_opened(plan, call), plan)


def _opened(plan: Plan[Any], call: Any) -> Any:
    """What the driver opens, if it can do what it is opened for."""
    plan.check(plan.driver.capabilities)
    calls = Calls(plan)
    try:
        driver = calls.persistently(call)
        if not isinstance(getattr(driver, "capabilities", None), Capabilities):
            raise calls.broken(f"{type(driver).__name__} where what it has opened was due, with its capabilities")
        try:
            plan.check(driver.capabilities)
        except NotSupported:
            calls.once(driver.close, plan.settings.close_timeout_s)
            raise
    finally:
        calls.stop()
    return driver


def _opener(driver: Driver) -> DriverOpener:
    opener, form, instead = driver.sync, "blocking", "the same names of the asyncio form"
    if opener is None:
        raise NotSupported(
            f"the driver {driver.name} has no {form} form; use {instead}", driver=driver.name, capability=form
        )
    return opener
