"""From a URL to a topic or a subscription."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar, Unpack

from trunkline.errors import NotSupported
from trunkline.portable.aio.calls import Calls
from trunkline.portable.aio.driver import AsyncDriverOpener, AsyncSubscriptionDriver, AsyncTopicDriver
from trunkline.portable.aio.subscription import AsyncSubscription
from trunkline.portable.aio.topic import AfterSend, AsyncTopic, BeforeSend
from trunkline.portable.driver import Capabilities, Driver
from trunkline.portable.plan import Plan, ReceiveOptions, SendOptions, plan_subscription, plan_topic

OpenedT = TypeVar("OpenedT", AsyncTopicDriver, AsyncSubscriptionDriver)


async def open_topic(
    url: str,
    *,
    before_send: BeforeSend | None = None,
    after_send: AfterSend | None = None,
    require: Collection[str] = (),
    **options: Unpack[SendOptions],
) -> AsyncTopic:
    """A topic that exists, for sending; NotFound where it does not and the broker can know. It is never created.

    ``before_send`` gets each message once, before it is sent, and may return another in its place; ``after_send`` gets
    it and its id once it was sent. NotSupported where the broker lacks a capability that is in ``require``. An option
    wins over the parameter of the same name in the URL.
    """
    plan = plan_topic(url, options, require)
    opener = _opener(plan.driver)

    async def call() -> AsyncTopicDriver:
        return await opener.open_topic(plan.target)

    return AsyncTopic(await _opened(plan, call), plan, before_send=before_send, after_send=after_send)


async def open_subscription(
    url: str, *, require: Collection[str] = (), **options: Unpack[ReceiveOptions]
) -> AsyncSubscription:
    """A subscription that exists, for receiving; NotFound where it does not and the broker can know. It is never
    created.

    NotSupported where the broker lacks a capability that is in ``require``, AckNotSupported where it cannot keep
    ``ack_deadline_s``. An option wins over the parameter of the same name in the URL.
    """
    plan = plan_subscription(url, options, require)
    opener = _opener(plan.driver)

    async def call() -> AsyncSubscriptionDriver:
        return await opener.open_subscription(plan.target)

    return AsyncSubscription(await _opened(plan, call), plan)


async def _opened(plan: Plan[Any], call: Any) -> Any:
    """What the driver opens, if it can do what it is opened for."""
    plan.check(plan.driver.capabilities)
    calls = Calls(plan)
    try:
        driver = await calls.persistently(call)
        if not isinstance(getattr(driver, "capabilities", None), Capabilities):
            raise calls.broken(f"{type(driver).__name__} where what it has opened was due, with its capabilities")
        try:
            plan.check(driver.capabilities)
        except NotSupported:
            await calls.once(driver.close, plan.settings.close_timeout_s)
            raise
    finally:
        calls.stop()
    return driver


def _opener(driver: Driver) -> AsyncDriverOpener:
    if True:  # ASYNC
        opener, form, instead = driver.aio, "asyncio", "trunkline.open_topic and trunkline.open_subscription"
    else:
        opener, form, instead = driver.sync, "blocking", "the same names of the asyncio form"
    if opener is None:
        raise NotSupported(
            f"the driver {driver.name} has no {form} form; use {instead}", driver=driver.name, capability=form
        )
    return opener
