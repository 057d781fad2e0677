"""A record that a queue has handed out, and what can become of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from trunkline.engine.deliveries import Claim
from trunkline.records import Record


class AsyncSettler(Protocol):
    """What a delivery needs of the queue that it is from."""

    async def ack_one(self, delivery: AsyncDelivery) -> None: ...

    async def nack(self, deliveries: Iterable[AsyncDelivery], *, delay_s: float = 0.0) -> None: ...

    async def reject(self, deliveries: Iterable[AsyncDelivery], reason: str) -> None: ...

    async def extend(self, deliveries: Iterable[AsyncDelivery], seconds: float) -> None: ...


class AsyncDelivery(Record, frozen=True, gc=False):
    """A record that a queue has handed out, for the ``attempt``-th time. It is held until it is settled, or its
    deadline passes. Each call returns when it is durable, and raises ClaimLost where it is too late."""

    attempt: int
    claim: Claim
    queue: AsyncSettler

    async def ack(self) -> None:
        """It is done: it is not delivered again."""
        await self.queue.ack_one(self)

    async def nack(self, *, delay_s: float = 0.0) -> None:
        """It failed: deliver it again, after the delay. After ``max_attempts`` it goes to the dead letter topic."""
        await self.queue.nack([self], delay_s=delay_s)

    async def reject(self, reason: str) -> None:
        """It can never work: put it into the dead letter topic, where there is one, and do not deliver it again."""
        await self.queue.reject([self], reason)

    async def extend(self, seconds: float) -> None:
        """Hold it until so many seconds from now, or longer where it is held longer already."""
        await self.queue.extend([self], seconds)

    def __repr__(self) -> str:
        place = f"topic={self.topic!r}, partition={self.partition}, offset={self.offset}"
        return f"Delivery({place}, key={self.key!r}, attempt={self.attempt})"


Chosen = dict[Claim, list[AsyncDelivery]]
"""Deliveries by their claims."""
