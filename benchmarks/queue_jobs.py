"""What a process of the crew does with a queue: fill it, empty it, or both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from time import monotonic, process_time

from benchmarks.desks import Counter, CounterSide, Desk, QueueSide, Worker
from benchmarks.payloads import Payloads, Tally

WARM_TAKES = 8
"""Before the start: a prepared statement is planned anew five times before its plan is kept."""
DISTINCT = 2_000
"""Payloads of a writer: the same few again and again, so that its process stays small."""


@dataclass(frozen=True)
class Fed:
    """What was written, also before the start. Times are on the clock all processes share."""

    tally: Tally
    records: int
    started: float
    ended: float


@dataclass(frozen=True)
class Feed:
    """Write batches as fast as it goes, so many, or for some time; each is a commit of its own."""

    side: QueueSide
    url: str
    log: int
    partition: int
    partitions: int
    batch_records: int
    batches: int | None = None
    duration_s: float | None = None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Fed]]:
        some = Payloads("json", self.partition, distinct=DISTINCT).batches(
            max(1, DISTINCT // self.batch_records), self.batch_records
        )
        tallies = [Tally().after(batch) for batch in some]
        with self.side.writer(self.url, self.log, self.partition % self.partitions) as write:

            def feed() -> Fed:
                tally, number, started = Tally(), 0, monotonic()
                while self._goes_on(number, started):
                    write(some[number % len(some)])
                    tally += tallies[number % len(some)]
                    number += 1
                return Fed(tally, tally.records, started, monotonic())

            yield feed

    def _goes_on(self, number: int, started: float) -> bool:
        if self.batches is not None:
            return number < self.batches
        assert self.duration_s is not None
        return monotonic() < started + self.duration_s


@dataclass
class Emptied:
    """What one worker took and acknowledged. ``tally`` has what came before the start as well; ``acked`` are moments
    at which records were acknowledged, with how many."""

    tally: Tally
    records: int
    started: float
    ended: float
    processor_s: float
    acked: list[tuple[float, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Empty:
    """Take and acknowledge until nothing is left, or for some time.

    ``jointly``: the side may acknowledge and take the next in one call. A worker that is given some time waits for
    records that are still to come.
    """

    side: QueueSide
    url: str
    log: int
    desk: Desk
    jointly: bool
    duration_s: float | None = None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Emptied]]:
        with self.side.worker(self.url, self.log, self.desk) as worker:
            tally = Tally()
            for _ in range(WARM_TAKES if self.duration_s is None else 0):
                tally = tally.after(worker.take())
                worker.done()
            yield lambda: self._empty(worker, tally)

    def _empty(self, worker: Worker, tally: Tally) -> Emptied:
        acked: list[tuple[float, int]] = []
        before, processor, started = tally.records, process_time(), monotonic()
        take = worker.step if self.jointly else worker.take
        taken = 0
        while self.duration_s is None or monotonic() < started + self.duration_s:
            payloads = take(0.0 if self.duration_s is None else max(0.0, started + self.duration_s - monotonic()))
            if self.jointly and taken:
                acked.append((monotonic(), taken))
            taken = len(payloads)
            if not taken:
                break
            tally = tally.after(payloads)
            if not self.jointly:
                worker.done()
                acked.append((monotonic(), taken))
        if self.jointly and taken:
            worker.done()
            acked.append((monotonic(), taken))
        return Emptied(tally, tally.records - before, started, monotonic(), process_time() - processor, acked)


@dataclass(frozen=True)
class Handle:
    """An application with many handlers at a time: each receives one record and acknowledges it, until nothing is
    left."""

    side: CounterSide
    url: str
    log: int
    desk: Desk
    handlers: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Emptied]]:
        with asyncio.Runner() as runner:
            opened = self._opened()
            counter, tally = runner.run(_entered(opened))
            try:
                yield lambda: runner.run(self._empty(counter, tally))
            finally:
                runner.run(_left(opened))

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Counter, Tally]]:
        async with self.side.counter(self.url, self.log, self.desk) as counter:
            tally = Tally()
            for _ in range(WARM_TAKES):
                held = await counter.receive()
                assert held is not None
                tally = tally.after([held.payload])
                await counter.ack(held)
            yield counter, tally

    async def _empty(self, counter: Counter, tally: Tally) -> Emptied:
        processor, started = process_time(), monotonic()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_handle(counter)) for _ in range(self.handlers)]
        ended = monotonic()
        total = sum((task.result() for task in tasks), tally)
        return Emptied(total, total.records - tally.records, started, ended, process_time() - processor)


async def _entered(opened: AbstractAsyncContextManager[tuple[Counter, Tally]]) -> tuple[Counter, Tally]:
    return await opened.__aenter__()


async def _left(opened: AbstractAsyncContextManager[tuple[Counter, Tally]]) -> None:
    await opened.__aexit__(None, None, None)


async def _handle(counter: Counter) -> Tally:
    payloads: list[bytes] = []
    while (held := await counter.receive()) is not None:
        payloads.append(held.payload)
        await counter.ack(held)
    return Tally().after(payloads)


@dataclass(frozen=True)
class Cycle:
    """Insert one, claim one, acknowledge one: again and again, for some time."""

    side: QueueSide
    url: str
    log: int
    desk: Desk
    partitions: int
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], tuple[Fed, Emptied]]]:
        some = Payloads("json", self.desk.number, distinct=DISTINCT).batches(DISTINCT, 1)
        with (
            self.side.writer(self.url, self.log, self.desk.number % self.partitions) as write,
            self.side.worker(self.url, self.log, self.desk) as worker,
        ):
            written: list[list[bytes]] = []
            taken: list[bytes] = []

            def once() -> None:
                batch = some[len(written) % len(some)]
                write(batch)
                written.append(batch)
                payloads = worker.take()
                if payloads:
                    worker.done()
                    taken.extend(payloads)

            for _ in range(WARM_TAKES):
                once()

            def cycle() -> tuple[Fed, Emptied]:
                before, processor, started = len(taken), process_time(), monotonic()
                while monotonic() < started + self.duration_s:
                    once()
                ended = monotonic()
                fed = Tally().after([payload for batch in written for payload in batch])
                spent = process_time() - processor
                emptied = Emptied(Tally().after(taken), len(taken) - before, started, ended, spent)
                return Fed(fed, fed.records, started, ended), emptied

            yield cycle
