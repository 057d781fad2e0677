"""A blocking driver for asyncio: each call in a thread. For whoever must do with any driver, as the bridge must."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from trunkline.errors import TrunklineError
from trunkline.portable.aio.driver import AsyncDriverOpener
from trunkline.portable.driver import Capabilities, Driver, Incoming, Outgoing, Target
from trunkline.portable.sync.driver import DriverOpener, SubscriptionDriver, TopicDriver


class ThreadedTopic:
    """A blocking topic."""

    def __init__(self, inner: TopicDriver) -> None:
        self._inner = inner
        self.capabilities: Capabilities = inner.capabilities
        self.native: Any = inner.native

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        return await asyncio.to_thread(self._inner.send_batch, messages)

    async def close(self) -> None:
        await asyncio.to_thread(self._inner.close)


class ThreadedSubscription:
    """A blocking subscription. A receive that is cancelled ends in its thread when the subscription is closed; what it
    got comes again after its deadline."""

    def __init__(self, inner: SubscriptionDriver) -> None:
        self._inner = inner
        self.capabilities: Capabilities = inner.capabilities
        self.native: Any = inner.native
        self.ack_deadline_s: float | None = inner.ack_deadline_s

    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        return await asyncio.to_thread(self._inner.receive_batch, max_messages, wait_s)

    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return await asyncio.to_thread(self._inner.ack, ack_ids)

    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return await asyncio.to_thread(self._inner.nack, ack_ids, delay_s)

    async def release(self, ack_ids: Sequence[Any]) -> None:
        await asyncio.to_thread(self._inner.release, ack_ids)

    async def close(self) -> None:
        await asyncio.to_thread(self._inner.close)


class ThreadedOpener:
    """Opens what a blocking driver opens."""

    def __init__(self, inner: DriverOpener) -> None:
        self._inner = inner

    async def open_topic(self, target: Target) -> ThreadedTopic:
        return ThreadedTopic(await asyncio.to_thread(self._inner.open_topic, target))

    async def open_subscription(self, target: Target) -> ThreadedSubscription:
        return ThreadedSubscription(await asyncio.to_thread(self._inner.open_subscription, target))


def opener_of(driver: Driver) -> AsyncDriverOpener:
    """The driver's own for asyncio, else its blocking one in threads."""
    if driver.aio is not None:
        return driver.aio
    assert driver.sync is not None, "the registry refuses a driver without any form"
    return ThreadedOpener(driver.sync)
