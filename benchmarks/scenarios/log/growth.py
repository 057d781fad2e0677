"""Whether the log costs more as it grows: publish and read in logs of three sizes, in turn.

The logs stand side by side while they are measured, so that nothing but their size differs. Reads start at random
batches, all over the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from time import perf_counter

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import Place, Pour
from benchmarks.lines import Finding, Flush
from benchmarks.payloads import SEED, Payloads
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name

BATCH_RECORDS = 1_000
"""Of the batches that fill the logs; a read takes one of them."""
PUBLISH_RECORDS = 10
SLICE_CALLS = 5
SLICES = 20

Costs = list[float]
"""Microseconds a record, for each log, from the smallest to the largest."""


@dataclass(frozen=True)
class Probe:
    """Publish to each log and read from it, in small slices in turn. It adds few records: the small log stays small."""

    url: str
    logs: tuple[tuple[int, int], ...]
    """Number and size."""
    reading: bool

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Costs]]:
        with trunkline.connect(self.url, settings=ONE_CONNECTION) as client:
            yield lambda: self._costs(client)

    def _costs(self, client: trunkline.Client) -> Costs:
        chance = Random(SEED)
        took: list[list[float]] = [[] for _ in self.logs]
        for number in range(SLICES + 2):
            for (log, size), found in zip(self.logs, took, strict=True):
                call = self._call(client, topic_name(log), size, chance)
                costs = [_cost_us(call) for _ in range(SLICE_CALLS)]
                # The first two slices are for caches and plans.
                if number >= 2:
                    found.extend(costs)
        return [median(each) for each in took]

    def _call(self, client: trunkline.Client, topic: str, size: int, chance: Random) -> Callable[[], int]:
        if self.reading:
            return lambda: _read(client, topic, 1 + chance.randrange(size // BATCH_RECORDS) * BATCH_RECORDS)
        batch = Payloads("json", 1).batches(1, PUBLISH_RECORDS)[0]
        return lambda: len(client.publish_many(topic, batch))


def _read(client: trunkline.Client, topic: str, offset: int) -> int:
    batches = client.read_batches(topic, offset=offset, max_records=BATCH_RECORDS)
    return sum(len(batch) for batch in batches)


def _cost_us(call: Callable[[], int]) -> float:
    began = perf_counter()
    records = call()
    return (perf_counter() - began) * 1e6 / records


def measure(bench: Bench) -> Iterator[Finding]:
    with ExitStack() as stack:
        logs = tuple((stack.enter_context(bench.log(Ours(), 1)), size) for size in bench.scale.log_records)
        for log, size in logs:
            bench.say(f"growth: filling a log with {size:,} records")
            _fill(bench, log, size)
        bench.settle()
        for flush in bench.flushes:
            yield _probed(bench, "growth.publish", Probe(bench.url(flush), logs, reading=False), flush)
        yield _probed(bench, "growth.read", Probe(bench.url("fast"), logs, reading=True), "fast")


def _fill(bench: Bench, log: int, size: int) -> None:
    place = Place(Ours(), bench.url("fast"), log, 0)
    bench.crew.run([Pour(place, Payloads("json", 0), BATCH_RECORDS, size // BATCH_RECORDS)])


def _probed(bench: Bench, name: str, probe: Probe, flush: Flush) -> Finding:
    (costs,) = bench.crew.run([probe])
    sizes = [f"{size:,}" for _, size in probe.logs]
    shown = ", ".join(f"{cost:.2f} us at {size}" for cost, size in zip(costs, sizes, strict=True))
    bench.say(f"{name} {flush} flush: {shown}")
    return Finding(
        name=name,
        flush=flush,
        value=max(costs),
        baseline=min(costs),
        ratio=max(costs) / min(costs),
        note=shown,
        series={"us_per_record": costs},
    )


SCENARIO = Scenario("growth", ("growth.publish", "growth.read"), measure)
