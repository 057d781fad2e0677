"""A hundred callers of one client: they share batches, so together they publish far more than one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding, paired
from benchmarks.payloads import Payloads, made
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name
from trunkline import aio

CALLERS = 100
ALONE_CALLS = 1_000
CALLS_EACH = 100

Rates = tuple[list[float], list[float]]
"""Calls a second of each round: a hundred callers, and one."""


@dataclass(frozen=True)
class Tasks:
    """One async client; a hundred tasks, then one, in turn."""

    url: str
    log: int
    rounds: int
    work: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Rates]]:
        made(Payloads("json", 0))
        yield lambda: asyncio.run(self._run())

    async def _run(self) -> Rates:
        found: Rates = ([], [])
        async with await aio.connect(self.url, settings=ONE_CONNECTION) as client:
            await self._calls(client, 20)
            for _ in range(self.rounds):
                found[0].append(await self._together(client))
                found[1].append(await self._alone(client))
        return found

    async def _together(self, client: aio.AsyncClient) -> float:
        each = max(5, round(CALLS_EACH * self.work))
        began = perf_counter()
        await asyncio.gather(*(self._calls(client, each) for _ in range(CALLERS)))
        return CALLERS * each / (perf_counter() - began)

    async def _alone(self, client: aio.AsyncClient) -> float:
        calls = max(50, round(ALONE_CALLS * self.work))
        began = perf_counter()
        await self._calls(client, calls)
        return calls / (perf_counter() - began)

    async def _calls(self, client: aio.AsyncClient, count: int) -> None:
        topic, payloads = topic_name(self.log), made(Payloads("json", 0))
        for number in range(count):
            await client.publish(topic, payloads[number])


@dataclass(frozen=True)
class Threads:
    """One sync client; a hundred threads, then one, in turn."""

    url: str
    log: int
    rounds: int
    work: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Rates]]:
        made(Payloads("json", 0))
        with (
            trunkline.connect(self.url, settings=ONE_CONNECTION) as client,
            ThreadPoolExecutor(CALLERS) as pool,
        ):
            # A pool starts a thread when there is work for it: now, and not while the clock runs.
            list(pool.map(lambda _: self._calls(client, 2), range(CALLERS)))
            yield lambda: self._run(client, pool)

    def _run(self, client: trunkline.Client, pool: ThreadPoolExecutor) -> Rates:
        found: Rates = ([], [])
        for _ in range(self.rounds):
            found[0].append(self._together(client, pool))
            found[1].append(self._alone(client))
        return found

    def _together(self, client: trunkline.Client, pool: ThreadPoolExecutor) -> float:
        each = max(5, round(CALLS_EACH * self.work))
        began = perf_counter()
        list(pool.map(lambda _: self._calls(client, each), range(CALLERS)))
        return CALLERS * each / (perf_counter() - began)

    def _alone(self, client: trunkline.Client) -> float:
        calls = max(50, round(ALONE_CALLS * self.work))
        began = perf_counter()
        self._calls(client, calls)
        return calls / (perf_counter() - began)

    def _calls(self, client: trunkline.Client, count: int) -> None:
        topic, payloads = topic_name(self.log), made(Payloads("json", 0))
        for number in range(count):
            client.publish(topic, payloads[number])


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for name, job in (("concurrent.tasks", Tasks), ("concurrent.threads", Threads)):
            with bench.log(Ours(), 1) as log:
                bench.settle()
                ((together, alone),) = bench.crew.run(
                    [job(bench.url(flush), log, bench.rounds(flush), bench.scale.work)]
                )
            finding = paired(name, together, alone, flush=flush)
            bench.say(f"{name} {flush} flush: {finding.value:,.0f} calls/s, alone {finding.baseline:,.0f}")
            yield finding


SCENARIO = Scenario("concurrent", ("concurrent.tasks", "concurrent.threads"), measure)
