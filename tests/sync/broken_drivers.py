# Generated from tests/aio/broken_drivers.py by tools/twins.py (make fix). Change the source, not this file.
"""Drivers that are broken, each in one way, and one that is not: the memory driver with a fault in its hands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from time import monotonic
from typing import Any

import msgspec

from tests.sync.shim import Gate, ignoring_cancellation
from trunkline.drivers.memory import DRIVER
from trunkline.drivers.memory.sync.driver import MemoryOpener, MemorySubscription, MemoryTopic
from trunkline.errors import TrunklineError
from trunkline.portable.driver import Driver, Incoming, Outgoing, Target


class Sound:
    """No fault: what the suite says of it must be good, or it says nothing about the others."""

    def open_topic(self, target: Target) -> MemoryTopic:
        return self.topic(MemoryOpener().open_topic(target))

    def open_subscription(self, target: Target) -> MemorySubscription:
        return self.subscription(MemoryOpener().open_subscription(target))

    def topic(self, topic: MemoryTopic) -> MemoryTopic:
        return topic

    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return subscription


class _LossyTopic(MemoryTopic):
    numbers = count(1)

    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        kept = [each for each in messages if next(self.numbers) % 100]
        ids = list(super().send_batch(kept))
        return ids + [f"lost-{next(self.numbers)}" for _ in range(len(messages) - len(kept))]


class LosesOneInAHundred(Sound):
    def topic(self, topic: MemoryTopic) -> MemoryTopic:
        return _LossyTopic(topic._broker, topic._topic)


class _EarlySubscription(MemorySubscription):
    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        found = super().receive_batch(max_messages, wait_s)
        self._holding.ack([each.ack_id for each in found])
        return found

    def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return None

    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return None


class AcksEarly(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _EarlySubscription(subscription._broker, subscription._holding, None)


class _ForgetfulSubscription(MemorySubscription):
    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return self.ack(ack_ids)


class NeverRedelivers(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _ForgetfulSubscription(subscription._broker, subscription._holding, 1e12)


class _ManglingTopic(MemoryTopic):
    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        return super().send_batch(
            [
                Outgoing(each.body, each.key, {name.lower(): value for name, value in each.attributes.items()})
                for each in messages
            ]
        )


class ManglesAttributes(Sound):
    def topic(self, topic: MemoryTopic) -> MemoryTopic:
        return _ManglingTopic(topic._broker, topic._topic)


class _StubbornSubscription(MemorySubscription):
    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        deadline = monotonic() + wait_s
        while True:
            left_s = max(0.0, deadline - monotonic())
            found = ignoring_cancellation(partial(self._receive, max_messages, left_s))
            if found or not left_s:
                return found

    def _receive(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        return super().receive_batch(max_messages, wait_s)

    def close(self) -> None:
        """Nobody is woken."""


class IgnoresCancel(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _StubbornSubscription(subscription._broker, subscription._holding, None)


class _BackwardTopic(MemoryTopic):
    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        return list(super().send_batch(messages[::-1]))[::-1]


class SendsBackwards(Sound):
    def topic(self, topic: MemoryTopic) -> MemoryTopic:
        return _BackwardTopic(topic._broker, topic._topic)


class _ShortTopic(MemoryTopic):
    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        ids = list(super().send_batch(messages[:200]))
        return ids + [f"lost-{number}" for number in range(len(messages) - len(ids))]


class DropsBeyondTwoHundred(Sound):
    def topic(self, topic: MemoryTopic) -> MemoryTopic:
        return _ShortTopic(topic._broker, topic._topic)


class _HastySubscription(MemorySubscription):
    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        return super().receive_batch(max_messages, 0.0)


class NeverWaits(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _HastySubscription(subscription._broker, subscription._holding, None)


class IgnoresTheDeadline(Sound):
    """What the reader has chosen is shown, and not kept."""

    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        careless = MemorySubscription(subscription._broker, subscription._holding, None)
        careless.ack_deadline_s = subscription.ack_deadline_s
        return careless


class _BusySubscription(MemorySubscription):
    """An ack goes to the broker between two receives."""

    _between = Gate()

    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        try:
            return super().receive_batch(max_messages, wait_s)
        finally:
            self._between.open()
            self._between = Gate()

    def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        self._between.wait()
        return super().ack(ack_ids)


class BlocksAcks(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _BusySubscription(subscription._broker, subscription._holding, None)


class _LazySubscription(MemorySubscription):
    def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        return super().ack(ack_ids[:1]) and [None] * len(ack_ids)

    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        return super().nack(ack_ids[:1], delay_s) and [None] * len(ack_ids)

    def release(self, ack_ids: Sequence[Any]) -> None:
        super().release(ack_ids[:1])


class SettlesTheFirst(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _LazySubscription(subscription._broker, subscription._holding, None)


class _PoliteSubscription(MemorySubscription):
    def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        super().nack(ack_ids, delay_s)
        return None


class HidesWhatIsLost(Sound):
    def subscription(self, subscription: MemorySubscription) -> MemorySubscription:
        return _PoliteSubscription(subscription._broker, subscription._holding, None)


def registered(fault: type[Sound]) -> Driver:
    """A driver of the memory broker with this fault."""
    return msgspec.structs.replace(DRIVER, name="broken", sync=fault())


UNDER_TEST = registered(Sound)
"""Where the registry finds it; tests put another into its place."""
