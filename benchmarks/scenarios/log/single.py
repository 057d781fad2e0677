"""One record a call on one connection: what publish costs beside the plainest durable insert there is.

The two alternate in small slices, so that whatever the disk does it does to both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.direct.insert import async_inserter, inserter
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name
from trunkline import aio

SLICE_CALLS = 25
SLICES = 80
WARM_CALLS = 20

Medians = tuple[list[float], list[float]]
"""Of each slice, in milliseconds: publish, and the insert."""


@dataclass(frozen=True)
class Alternate:
    """Publish and insert in turn, on the sync client and a sync connection."""

    url: str
    log: int
    slices: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Medians]]:
        topic = topic_name(self.log)
        with (
            trunkline.connect(self.url, settings=ONE_CONNECTION) as client,
            inserter(self.url) as insert,
        ):
            yield lambda: self._alternate(lambda payload: client.publish(topic, payload), insert)

    def _alternate(self, *calls: Callable[[bytes], object]) -> Medians:
        found: Medians = ([], [])
        for call in calls:
            _timed(call, warm_payloads())
        for payloads in slices_of(self.slices):
            for call, medians in zip(calls, found, strict=True):
                medians.append(median(_timed(call, payloads)))
        return found


def _timed(call: Callable[[bytes], object], payloads: Sequence[bytes]) -> list[float]:
    took: list[float] = []
    for payload in payloads:
        began = perf_counter()
        call(payload)
        took.append((perf_counter() - began) * 1_000)
    return took


@dataclass(frozen=True)
class AlternateAsync:
    """The same on the async client and an async connection."""

    url: str
    log: int
    slices: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Medians]]:
        yield lambda: asyncio.run(self._run())

    async def _run(self) -> Medians:
        topic = topic_name(self.log)
        async with (
            await aio.connect(self.url, settings=ONE_CONNECTION) as client,
            async_inserter(self.url) as insert,
        ):
            return await self._alternate(lambda payload: client.publish(topic, payload), insert)

    async def _alternate(self, *calls: Callable[[bytes], Awaitable[object]]) -> Medians:
        found: Medians = ([], [])
        for call in calls:
            await _timed_async(call, warm_payloads())
        for payloads in slices_of(self.slices):
            for call, medians in zip(calls, found, strict=True):
                medians.append(median(await _timed_async(call, payloads)))
        return found


async def _timed_async(call: Callable[[bytes], Awaitable[object]], payloads: Sequence[bytes]) -> list[float]:
    took: list[float] = []
    for payload in payloads:
        began = perf_counter()
        await call(payload)
        took.append((perf_counter() - began) * 1_000)
    return took


def warm_payloads() -> list[bytes]:
    return Payloads("json", 1).batches(1, WARM_CALLS)[0]


def slices_of(count: int) -> list[list[bytes]]:
    return Payloads("json", 0).batches(count, SLICE_CALLS)


def measure(bench: Bench) -> Iterator[Finding]:
    slices = max(8, round(SLICES * bench.scale.work))
    for flush in bench.flushes:
        for name, job in (("single.publish", Alternate), ("single.publish_async", AlternateAsync)):
            with bench.log(Ours(), 1) as log:
                bench.settle()
                ((ours, theirs),) = bench.crew.run([job(bench.url(flush), log, slices)])
            bench.say(f"{name} {flush} flush: {median(ours):.3f} ms, insert {median(theirs):.3f} ms")
            yield _finding(name, flush, ours, theirs)


def _finding(name: str, flush: Flush, ours: list[float], theirs: list[float]) -> Finding:
    return paired(name, ours, theirs, flush=flush, note=f"p50 of {SLICE_CALLS} calls a slice, slices in turn")


SCENARIO = Scenario("single", ("single.publish", "single.publish_async"), measure)
