"""What the process of the portable API's benchmark does: many tasks of some publishers send, or many tasks of some
subscribers receive and acknowledge."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from zlib import crc32

from benchmarks.latency import Sample, percentile
from benchmarks.payloads import Payloads, Tally, made
from benchmarks.ports import Handle, Port, Send

DISTINCT = 2_000
WARM_CALLS = 8
"""Of each publisher or subscriber, before the clock runs: a prepared statement is planned anew five times."""
END_S = 600.0


@dataclass(frozen=True)
class Crowd:
    """So many publishers or subscribers, and tasks of each."""

    clients: int
    tasks: int

    @property
    def size(self) -> int:
        return self.clients * self.tasks

    def __str__(self) -> str:
        return f"{self.clients}x{self.tasks}"


@dataclass(frozen=True)
class Measured:
    """Calls a second of all tasks together, and how long one took, in milliseconds. ``tally`` is of every body that
    went through, also before the clock ran."""

    rate: float
    p50: float
    p99: float
    processor: float
    tally: Tally


@dataclass(frozen=True)
class PortJob:
    """One run of one side. ``calls`` of each task."""

    side: Port
    url: str
    log: int
    crowd: Crowd
    calls: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Measured]]:
        made(PAYLOADS)
        with self.side.there(self.url, self.log):
            yield lambda: asyncio.run(self._run())

    async def _run(self) -> Measured:
        raise NotImplementedError


PAYLOADS = Payloads("json", 0, distinct=DISTINCT)


def bodies(count: int) -> list[bytes]:
    """The first so many payloads, the same on both sides."""
    pool = made(PAYLOADS)
    return [pool[number % len(pool)] for number in range(count)]


class Sending(PortJob):
    """Each task sends one body after the other."""

    async def _run(self) -> Measured:
        warm, work = bodies(WARM_CALLS * self.crowd.clients), bodies(self.crowd.size * self.calls)
        took: list[float] = []
        async with self.side.senders(self.url, self.log, self.crowd.clients) as senders:
            await asyncio.gather(*(_send(send, warm[n :: len(senders)], []) for n, send in enumerate(senders)))
            shares = iter(range(self.crowd.size))
            tasks = [
                _send(send, work[next(shares) :: self.crowd.size], took)
                for send in senders
                for _ in range(self.crowd.tasks)
            ]
            gc.collect()
            processor, began = process_time(), perf_counter()
            await asyncio.gather(*tasks)
            lasted, processor = perf_counter() - began, process_time() - processor
        sent = Tally().after(warm).after(work)
        found = self.side.left(self.url, self.log)
        assert found == sent, f"{self.side.name}: {found} has arrived, of {sent} that was sent"
        return _measured(lasted, took, processor, sent)


async def _send(send: Send, mine: Sequence[bytes], took: list[float]) -> None:
    for body in mine:
        began = perf_counter()
        await send(body)
        took.append(perf_counter() - began)


class Receiving(PortJob):
    """Each task receives one message, touches it and acknowledges it, until all are done."""

    async def _run(self) -> Measured:
        warm = bodies(WARM_CALLS * self.crowd.clients)
        given = bodies(self.crowd.size * self.calls)
        async with self.side.handlers(self.url, self.log, self.crowd.clients) as handlers:
            self.side.fill(self.url, self.log, warm)
            before = Touched(len(warm))
            await before.by(handlers)
            self.side.fill(self.url, self.log, given)
            touched = Touched(len(given))
            gc.collect()
            processor, began = process_time(), perf_counter()
            await touched.by([handle for handle in handlers for _ in range(self.crowd.tasks)])
            lasted, processor = touched.ended - began, process_time() - processor
        seen, left = before.tally + touched.tally, self.side.left(self.url, self.log)
        filled = Tally().after(warm).after(given)
        assert seen == filled, f"{self.side.name}: {seen} was received, of {filled}"
        assert not left.records, f"{self.side.name}: {left.records} messages were not acknowledged"
        return _measured(lasted, touched.took, processor, seen)


class Touched:
    """What tasks have received and acknowledged: they go on until it is so many messages."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._done = asyncio.Event()
        self.records = self._length = self._crcs = 0
        self.took: list[float] = []
        self.ended = 0.0

    @property
    def tally(self) -> Tally:
        return Tally(self.records, self._length, self._crcs)

    async def by(self, handlers: Sequence[Handle]) -> None:
        """Let a task of each handler work, until there is nothing left: then they wait in vain, and are sent home."""
        tasks = [asyncio.create_task(self._work(handle)) for handle in handlers]
        ended = asyncio.create_task(self._done.wait())
        await asyncio.wait([ended, *tasks], timeout=END_S, return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in tasks if task.done() and task.exception() is not None]
        for task in (ended, *tasks):
            task.cancel()
        await asyncio.gather(ended, *tasks, return_exceptions=True)
        for task in failed:
            task.result()
        assert self.records >= self._wanted, f"{self.records} of {self._wanted} messages came"

    async def _work(self, handle: Handle) -> None:
        while self.records < self._wanted:
            began = perf_counter()
            body = await handle()
            self.took.append(perf_counter() - began)
            self.records += 1
            self._length += len(body)
            self._crcs += crc32(body)
        self.ended = self.ended or perf_counter()
        self._done.set()


def _measured(lasted_s: float, took: list[float], processor_s: float, tally: Tally) -> Measured:
    samples = [Sample(each) for each in took]
    return Measured(
        len(took) / lasted_s, percentile(samples, 50), percentile(samples, 99), processor_s / lasted_s, tally
    )
