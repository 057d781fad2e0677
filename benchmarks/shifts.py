"""Runs of queues: filled, then emptied by eight workers; what nobody acknowledged is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.bench import Bench
from benchmarks.business import Load, Observe
from benchmarks.crew import Job
from benchmarks.desks import CounterSide, Desk, QueueSide
from benchmarks.jobs import rate
from benchmarks.lines import Flush
from benchmarks.payloads import Tally
from benchmarks.queue_jobs import WARM_TAKES, Emptied, Empty, Feed, Handle

WORKERS = 8
PARTITIONS = 8
BATCH_RECORDS = 100
ACK_DEADLINE_S = 2.0
QUICK_DEADLINE_S = 1.5
OUTLAST = 2.5
"""A run lasts at least so many times the ack deadline: what expires, and has to be looked at, is part of it."""
PROBE_RECORDS = {True: 40_000, False: 1_600}
"""By whether records are taken in batches."""
SLACK = 1.15


@dataclass(frozen=True)
class Shift:
    """How workers of one side are put to work. ``handlers``: at once in each process, each with one record."""

    side: QueueSide
    batch_records: int
    prefetch: int
    feed_records: int = BATCH_RECORDS
    jointly: bool = False
    handlers: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        return (self.side.name, self.batch_records, self.prefetch, self.feed_records, self.handlers)

    def desk(self, number: int, deadline_s: float) -> Desk:
        return Desk(number, self.batch_records, self.prefetch, deadline_s)


@dataclass(frozen=True)
class Run:
    """One run of one side. ``wal`` is bytes of write-ahead log a record, from the first write to the last
    acknowledgement."""

    records: int
    emptied: list[Emptied]
    wal: float
    load: Load | None

    @property
    def rate(self) -> float:
        """Records a second, acknowledged, of all workers together."""
        return rate(self.emptied)

    @property
    def took_s(self) -> float:
        return max(each.ended for each in self.emptied) - min(each.started for each in self.emptied)

    @property
    def clients_load(self) -> float:
        return sum(each.processor_s for each in self.emptied) / self.took_s


class Sizes:
    """How many records keep the workers of a shift busy for as long as a run must last: a short run tells."""

    def __init__(self, bench: Bench, flush: Flush) -> None:
        self._bench = bench
        self._flush: Flush = flush
        self._rates: dict[tuple[object, ...], float] = {}
        quick = bench.scale.name == "quick"
        self.deadline_s = QUICK_DEADLINE_S if quick else ACK_DEADLINE_S
        self.duration_s = self.deadline_s * OUTLAST

    def run(self, shift: Shift) -> Run:
        if shift.key not in self._rates:
            records = PROBE_RECORDS[shift.batch_records > 1 or shift.handlers > 1]
            self._rates[shift.key] = self._emptied(shift, records).rate
        while True:
            found = self._emptied(shift, round(self._rates[shift.key] * self.duration_s * SLACK))
            # A run that was over too soon says only how many records the next one needs.
            self._rates[shift.key] = max(self._rates[shift.key], found.rate)
            if found.took_s >= self.deadline_s * 2:
                return found

    def _emptied(self, shift: Shift, records: int) -> Run:
        return emptied(self._bench, shift, records, self._flush, self.deadline_s, self.duration_s)


def emptied(bench: Bench, shift: Shift, records: int, flush: Flush, deadline_s: float, lasts_s: float) -> Run:
    """Fill a new queue, and empty it. Every record must have been acknowledged, once, or the benchmark fails."""
    side, url = shift.side, bench.url(flush)
    with bench.log(side, PARTITIONS) as log:
        side.open_queue(bench.url("fast"), log, deadline_s)
        bench.settle()
        at_start = bench.wal_position()
        fed = fill(bench, side, log, records, shift.feed_records)
        side.analyse(bench.url("fast"), log)
        jobs: list[Job[Emptied | Load]] = [_worker(shift, url, log, number, deadline_s) for number in range(WORKERS)]
        found = bench.crew.run([*jobs, Observe(bench.database.url, lasts_s)])
        wal = bench.wal_position() - at_start
        done = [each for each in found if isinstance(each, Emptied)]
        left = side.left(bench.url("fast"), log)
        check(side, [fed], [each.tally for each in done], left)
        assert not left.records, f"{side.name}: {left.records} records were not acknowledged"
    load = next(each for each in found if isinstance(each, Load))
    return Run(fed.records, done, wal / fed.records, load)


def _worker(shift: Shift, url: str, log: int, number: int, deadline_s: float) -> Job[Emptied]:
    desk = shift.desk(number, deadline_s)
    if not shift.handlers:
        return Empty(shift.side, url, log, desk, shift.jointly)
    counter: CounterSide = shift.side  # type: ignore[assignment]
    return Handle(counter, url, log, desk, shift.handlers)


def fill(bench: Bench, side: QueueSide, log: int, records: int, batch_records: int) -> Tally:
    """What all writers wrote: enough for what workers take before the start, and so many records more."""
    wanted = records + WORKERS * WARM_TAKES * BATCH_RECORDS
    batches = -(-wanted // (PARTITIONS * batch_records))
    # Written with the disk's own flush: only what workers do is measured twice.
    url = bench.url("fast")
    feeds = [Feed(side, url, log, part, PARTITIONS, batch_records, batches=batches) for part in range(PARTITIONS)]
    return sum((each.tally for each in bench.crew.run(feeds)), Tally())


def check(side: QueueSide, written: Sequence[Tally], done: Sequence[Tally], left: Tally) -> None:
    """What was acknowledged, and what is left, is what was written."""
    fed, total = sum(written, Tally()), sum(done, left)
    assert total == fed, f"{side.name}: {total} was acknowledged or is left, of {fed} that was written"


def limits(runs: Sequence[Run]) -> str:
    """What the machine was busy with: where all of it is, the workers may be the limit and not the server."""
    busy = [run.load.busy for run in runs if run.load is not None and run.load.busy is not None]
    told = [f"processors {median(busy):.0%} busy"] if busy else ["processors: unknown"]
    return ", ".join([*told, f"workers took {median([run.clients_load for run in runs]):.2f} of them"])
