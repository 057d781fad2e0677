"""The memory driver: thin hands for ``trunkline.drivers.memory.broker``."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from trunkline.drivers.memory.aio.shim import Receiver, give_way
from trunkline.drivers.memory.broker import MemoryBroker, find_broker
from trunkline.drivers.memory.capabilities import capabilities_of, topic_of
from trunkline.drivers.memory.holding import Holding
from trunkline.errors import InvalidArgument, TrunklineError
from trunkline.portable.driver import Capabilities, Incoming, Outgoing, Target


class AsyncMemoryTopic:
    """Sends to a topic of a memory broker."""

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self.capabilities: Capabilities = capabilities_of(None)
        self.native: Any = broker
        self._broker = broker
        self._topic = topic

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        await give_way()
        return self._broker.send(self._topic, list(messages))

    async def close(self) -> None:
        """Nothing to give back."""


class AsyncMemorySubscription:
    """Receives from a subscription of a memory broker."""

    def __init__(self, broker: MemoryBroker, holding: Holding, ack_deadline_s: float | None) -> None:
        self.capabilities: Capabilities = capabilities_of(holding)
        self.native: Any = broker
        self._deadline_s = ack_deadline_s or holding.settings.ack_deadline_s
        self.ack_deadline_s: float | None = self._deadline_s
        self._broker = broker
        self._holding = holding
        self._receiver: Receiver | None = None
        self._closed = False

    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        deadline = monotonic() + wait_s
        while not self._closed:
            receiver = self._receiver = Receiver() if wait_s else None
            found = self._holding.take(max_messages, self._deadline_s, self._broker.now, receiver)
            if found or receiver is None:
                return found
            if not await self._woken(receiver, deadline):
                return []
        return []

    async def _woken(self, receiver: Receiver, deadline: float) -> bool:
        """Whether there may be messages; otherwise the time is over, or it is closed, and others get what comes."""
        woken = False
        try:
            # It may have been closed before it was seen to wait: then nobody has woken it.
            woken = not self._closed and await receiver.wait(max(0.0, deadline - monotonic())) and not self._closed
        finally:
            if not woken:
                self._holding.leave(receiver)
        return woken

    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        await give_way()
        return self._holding.ack(ack_ids)

    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        await give_way()
        answers, letters = self._holding.nack(ack_ids, self._broker.now + delay_s if delay_s else None)
        self._broker.bury(letters)
        return answers

    async def release(self, ack_ids: Sequence[Any]) -> None:
        self._holding.release(ack_ids)

    async def close(self) -> None:
        self._closed = True
        if self._receiver is not None:
            self._holding.wake(self._receiver)


class AsyncMemoryOpener:
    """Opens topics and subscriptions of the brokers in this process."""

    async def open_topic(self, target: Target) -> AsyncMemoryTopic:
        broker = find_broker(target.parameters.get("broker", ""))
        topic = topic_of(target)
        broker.find_topic(topic)
        return AsyncMemoryTopic(broker, topic)

    async def open_subscription(self, target: Target) -> AsyncMemorySubscription:
        broker = find_broker(target.parameters.get("broker", ""))
        name = target.parameters.get("subscription")
        if not name:
            raise InvalidArgument("a memory URL must say which subscription: memory://orders?subscription=emails")
        holding = broker.find_subscription(topic_of(target), name)
        return AsyncMemorySubscription(broker, holding, target.ack_deadline_s)
