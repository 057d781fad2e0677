# Generated from src/trunkline/client/aio/queue_delivery.py by tools/twins.py (make fix). Change the source, not this file.
"""A record that a queue has handed out, and what can become of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from trunkline.engine.deliveries import Claim
from trunkline.records import Record


class Settler(Protocol):
    """What a delivery needs of the queue that it is from."""

    def ack_one(self, delivery: Delivery) -> None: ...

    def nack(self, deliveries: Iterable[Delivery], *, delay_s: float = 0.0) -> None: ...

    def reject(self, deliveries: Iterable[Delivery], reason: str) -> None: ...

    def extend(self, deliveries: Iterable[Delivery], seconds: float) -> None: ...


class Delivery(Record, frozen=True, gc=False):
    """A record that a queue has handed out, for the ``attempt``-th time. It is held until it is settled, or its
    deadline passes. Each call returns when it is durable, and raises ClaimLost where it is too late."""

    attempt: int
    claim: Claim
    queue: Settler

    def ack(self) -> None:
        """It is done: it is not delivered again."""
        self.queue.ack_one(self)

    def nack(self, *, delay_s: float = 0.0) -> None:
        """It failed: deliver it again, after the delay. After ``max_attempts`` it goes to the dead letter topic."""
        self.queue.nack([self], delay_s=delay_s)

    def reject(self, reason: str) -> None:
        """It can never work: put it into the dead letter topic, where there is one, and do not deliver it again."""
        self.queue.reject([self], reason)

    def extend(self, seconds: float) -> None:
        """Hold it until so many seconds from now, or longer where it is held longer already."""
        self.queue.extend([self], seconds)

    def __repr__(self) -> str:
        place = f"topic={self.topic!r}, partition={self.partition}, offset={self.offset}"
        return f"Delivery({place}, key={self.key!r}, attempt={self.attempt})"


Chosen = dict[Claim, list[Delivery]]
"""Deliveries by their claims."""
