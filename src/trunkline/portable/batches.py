"""Topics and subscriptions as their drivers have them, for whoever deals in batches: the bridge, and who only looks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from trunkline.errors import TrunklineError
from trunkline.portable.aio.calls import Calls
from trunkline.portable.aio.driver import AsyncSubscriptionDriver, AsyncTopicDriver
from trunkline.portable.driver import Target
from trunkline.portable.plan import Plan
from trunkline.portable.threaded import opener_of
from trunkline.settings import ReceiveSettings, SendSettings

logger = logging.getLogger("trunkline")

OpenedT = TypeVar("OpenedT", AsyncTopicDriver, AsyncSubscriptionDriver)


@asynccontextmanager
async def topic_driver(plan: Plan[SendSettings], calls: Calls) -> AsyncIterator[AsyncTopicDriver]:
    """The topic, opened, and closed afterwards."""
    async with _opened(plan, calls, opener_of(plan.driver).open_topic) as driver:
        yield driver


@asynccontextmanager
async def subscription_driver(plan: Plan[ReceiveSettings], calls: Calls) -> AsyncIterator[AsyncSubscriptionDriver]:
    """The subscription, opened, and closed afterwards."""
    async with _opened(plan, calls, opener_of(plan.driver).open_subscription) as driver:
        yield driver


@asynccontextmanager
async def _opened(
    plan: Plan[Any], calls: Calls, open_it: Callable[[Target], Awaitable[OpenedT]]
) -> AsyncIterator[OpenedT]:
    async def call() -> OpenedT:
        return await open_it(plan.target)

    plan.check(plan.driver.capabilities)
    driver = await calls.persistently(call)
    try:
        plan.check(driver.capabilities)
        yield driver
    finally:
        try:
            await calls.once(driver.close, plan.settings.close_timeout_s)
        except TrunklineError as error:
            logger.warning("%s could not be closed well: %s", plan.shown, error)
        calls.stop()
