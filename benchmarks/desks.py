"""Workers of queues, on all sides of a comparison: Trunkline's, and those of tables whose rows are hidden or deleted.

A worker takes records and acknowledges them. Each is driven by the same jobs (benchmarks/queue_jobs.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from benchmarks.payloads import Tally
from benchmarks.sides import Write


@dataclass(frozen=True)
class Desk:
    """Which worker it is, how many records it takes at a time, how many it may claim ahead, and for how long a claim
    is held."""

    number: int
    batch_records: int
    prefetch: int
    ack_deadline_s: float


class Worker(Protocol):
    """One process with one connection for its statements."""

    def take(self, wait_s: float = 0.0) -> Sequence[bytes]:
        """The next records, at most as many as its desk says; none where there is nothing left for that long."""

    def done(self) -> None:
        """Acknowledge what was taken last; durable when it returns."""

    def step(self, wait_s: float = 0.0) -> Sequence[bytes]:
        """Acknowledge what was taken last, if anything, and take the next: in one call where the side has one."""


class Held(NamedTuple):
    """One record in a handler's hands, and what its side needs to acknowledge it."""

    payload: bytes
    receipt: object


class Counter(Protocol):
    """One process whose many handlers receive one record each, and acknowledge it."""

    async def receive(self) -> Held | None:
        """The next record; None where nothing is left."""

    async def ack(self, held: Held) -> None:
        """It is done; durable when it returns."""


class QueueSide(Protocol):
    """Ways to fill and to empty one kind of queue. Queues are told apart by the number of their log."""

    @property
    def name(self) -> str: ...

    def create(self, url: str, log: int, partitions: int) -> None: ...

    def open_queue(self, url: str, log: int, ack_deadline_s: float) -> None:
        """Make the queue, before the first worker comes."""

    def drop(self, url: str, log: int) -> None: ...

    def analyse(self, url: str, log: int) -> None:
        """Let the planner know the tables, as it would in a queue that has been there for a while."""

    def writer(self, url: str, log: int, partition: int) -> AbstractContextManager[Write]: ...

    def worker(self, url: str, log: int, desk: Desk) -> AbstractContextManager[Worker]: ...

    def left(self, url: str, log: int) -> Tally:
        """What nobody has acknowledged, once all workers have ended; it may be taken out for that."""


class CounterSide(QueueSide, Protocol):
    """A queue that an application with many handlers reads."""

    def counter(self, url: str, log: int, desk: Desk) -> AbstractAsyncContextManager[Counter]: ...
