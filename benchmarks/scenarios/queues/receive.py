"""``receive(1)`` where records were published in batches of 1,000, against where they were published one by one.

One worker, nothing claimed ahead; the two alternate in small slices. Then the same by the SQL functions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from benchmarks.bench import Bench, Scenario
from benchmarks.desks import Desk, QueueSide, Worker
from benchmarks.lines import Finding, paired
from benchmarks.our_queues import BareQueues, Queues
from benchmarks.queue_jobs import Feed

BATCH_RECORDS = 1_000
SLICE_CALLS = 25
SLICES, SLICES_MIN = 80, 12
WARM_CALLS = 25
ACK_DEADLINE_S = 30.0
SIDES: dict[str, QueueSide] = {"queue-receive.batches": Queues(), "queue-receive.bare_batches": BareQueues()}

Medians = tuple[list[float], list[float]]
"""Of each slice, in milliseconds: over batches of many, and over batches of one."""


@dataclass(frozen=True)
class Receive:
    """Receive one and acknowledge it, from either log in turn. Only the receiving is timed."""

    side: QueueSide
    url: str
    logs: tuple[int, int]
    slices: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Medians]]:
        desk = Desk(0, 1, 0, ACK_DEADLINE_S)
        many, one = self.logs
        with self.side.worker(self.url, many, desk) as over_many, self.side.worker(self.url, one, desk) as over_one:
            for worker in (over_many, over_one):
                _timed(worker, WARM_CALLS)
            yield lambda: self._alternate(over_many, over_one)

    def _alternate(self, *workers: Worker) -> Medians:
        found: Medians = ([], [])
        for _ in range(self.slices):
            for worker, medians in zip(workers, found, strict=True):
                medians.append(median(_timed(worker, SLICE_CALLS)))
        return found


def _timed(worker: Worker, calls: int) -> list[float]:
    took: list[float] = []
    for _ in range(calls):
        began = perf_counter()
        taken = worker.take()
        took.append((perf_counter() - began) * 1_000)
        assert len(taken) == 1
        worker.done()
    return took


def measure(bench: Bench) -> Iterator[Finding]:
    url, slices = bench.url("fast"), max(SLICES_MIN, round(SLICES * bench.scale.work))
    records = WARM_CALLS + slices * SLICE_CALLS
    for name, side in SIDES.items():
        with bench.log(side, 1) as many, bench.log(side, 1) as one:
            for log, batch_records in ((many, BATCH_RECORDS), (one, 1)):
                side.open_queue(url, log, ACK_DEADLINE_S)
                batches = -(-records // batch_records)
                bench.crew.run([Feed(side, url, log, 0, 1, batch_records, batches=batches)])
            bench.settle()
            ((over_many, over_one),) = bench.crew.run([Receive(side, url, (many, one), slices)])
        bench.say(
            f"{name}: {median(over_many):.3f} ms over batches of 1,000, {median(over_one):.3f} over batches of one"
        )
        yield paired(name, over_many, over_one, note=f"p50 of {SLICE_CALLS} calls a slice, slices in turn")


SCENARIO = Scenario("queue-receive", tuple(SIDES), measure)
