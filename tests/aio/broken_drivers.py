"""Drivers that are broken, each in one way, and one that is not: the memory driver with a fault in its hands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

import msgspec

from tests.aio.shim import Gate, ignoring_cancellation
from trunkline.drivers.memory import DRIVER
from trunkline.drivers.memory.aio.driver import AsyncMemoryOpener, AsyncMemorySubscription, AsyncMemoryTopic
from trunkline.errors import TrunklineError
from trunkline.portable.driver import Driver, Incoming, Outgoing, Target


class Sound:
    """No fault: what the suite says of it must be good, or it says nothing about the others."""

    async def open_topic(self, target: Target) -> AsyncMemoryTopic:
        return self.topic(await AsyncMemoryOpener().open_topic(target))

    async def open_subscription(self, target: Target) -> AsyncMemorySubscription:
        return self.subscription(await AsyncMemoryOpener().open_subscription(target))

    def topic(self, topic: AsyncMemoryTopic) -> AsyncMemoryTopic:
        return topic

    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return subscription


class _LossyTopic(AsyncMemoryTopic):
    numbers = count(1)

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        kept = [each for each in messages if next(self.numbers) % 100]
        ids = list(await super().send_batch(kept))
        return ids + [f"lost-{next(self.numbers)}" for _ in range(len(messages) - len(kept))]


class LosesOneInAHundred(Sound):
    def topic(self, topic: AsyncMemoryTopic) -> AsyncMemoryTopic:
        return _LossyTopic(topic._broker, topic._topic)


class _EarlySubscription(AsyncMemorySubscription):
    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        found = await super().receive_batch(max_messages, wait_s)
        self._holding.ack([each.ack_id for each in found])
        return found

    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return None

    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return None


class AcksEarly(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _EarlySubscription(subscription._broker, subscription._holding, None)


class _ForgetfulSubscription(AsyncMemorySubscription):
    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return await self.ack(ack_ids)


class NeverRedelivers(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _ForgetfulSubscription(subscription._broker, subscription._holding, 1e12)


class _ManglingTopic(AsyncMemoryTopic):
    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        return await super().send_batch(
            [
                Outgoing(each.body, each.key, {name.lower(): value for name, value in each.attributes.items()})
                for each in messages
            ]
        )


class ManglesAttributes(Sound):
    def topic(self, topic: AsyncMemoryTopic) -> AsyncMemoryTopic:
        return _ManglingTopic(topic._broker, topic._topic)


class _StubbornSubscription(AsyncMemorySubscription):
    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        deadline = monotonic() + wait_s
        while True:
            left_s = max(0.0, deadline - monotonic())
            found = await ignoring_cancellation(partial(self._receive, max_messages, left_s))
            if found or not left_s:
                return found

    async def _receive(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        return await super().receive_batch(max_messages, wait_s)

    async def close(self) -> None:
        """Nobody is woken."""


class IgnoresCancel(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _StubbornSubscription(subscription._broker, subscription._holding, None)


class _BackwardTopic(AsyncMemoryTopic):
    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        return list(await super().send_batch(messages[::-1]))[::-1]


class SendsBackwards(Sound):
    def topic(self, topic: AsyncMemoryTopic) -> AsyncMemoryTopic:
        return _BackwardTopic(topic._broker, topic._topic)


class _ShortTopic(AsyncMemoryTopic):
    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        ids = list(await super().send_batch(messages[:200]))
        return ids + [f"lost-{number}" for number in range(len(messages) - len(ids))]


class DropsBeyondTwoHundred(Sound):
    def topic(self, topic: AsyncMemoryTopic) -> AsyncMemoryTopic:
        return _ShortTopic(topic._broker, topic._topic)


class _HastySubscription(AsyncMemorySubscription):
    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        return await super().receive_batch(max_messages, 0.0)


class NeverWaits(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _HastySubscription(subscription._broker, subscription._holding, None)


class IgnoresTheDeadline(Sound):
    """What the reader has chosen is shown, and not kept."""

    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        careless = AsyncMemorySubscription(subscription._broker, subscription._holding, None)
        careless.ack_deadline_s = subscription.ack_deadline_s
        return careless


class _BusySubscription(AsyncMemorySubscription):
    """An ack goes to the broker between two receives."""

    _between = Gate()

    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        try:
            return await super().receive_batch(max_messages, wait_s)
        finally:
            self._between.open()
            self._between = Gate()

    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        await self._between.wait()
        return await super().ack(ack_ids)


class BlocksAcks(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _BusySubscription(subscription._broker, subscription._holding, None)


class _LazySubscription(AsyncMemorySubscription):
    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return await super().ack(ack_ids[:1]) and [None] * len(ack_ids)

    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return await super().nack(ack_ids[:1], delay_s) and [None] * len(ack_ids)

    async def release(self, ack_ids: Sequence[Any]) -> None:
        await super().release(ack_ids[:1])


class SettlesTheFirst(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _LazySubscription(subscription._broker, subscription._holding, None)


class _PoliteSubscription(AsyncMemorySubscription):
    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        await super().nack(ack_ids, delay_s)
        return None


class HidesWhatIsLost(Sound):
    def subscription(self, subscription: AsyncMemorySubscription) -> AsyncMemorySubscription:
        return _PoliteSubscription(subscription._broker, subscription._holding, None)


def registered(fault: type[Sound]) -> Driver:
    """A driver of the memory broker with this fault."""
    if True:  # ASYNC
        return msgspec.structs.replace(DRIVER, name="broken", aio=fault())
    else:
        return msgspec.structs.replace(DRIVER, name="broken", sync=fault())


UNDER_TEST = registered(Sound)
"""Where the registry finds it; tests put another into its place."""
