"""Writers and groups of readers on one log, all at the same time; and what is to be known of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from benchmarks.bench import Bench
from benchmarks.crew import Job
from benchmarks.group_jobs import Consume, Consumed, Observe, Pace, Publish, Published, Share
from benchmarks.jobs import Place
from benchmarks.lines import Flush
from benchmarks.members import GroupSide, Seat
from benchmarks.payloads import Kind, Payloads, Tally
from benchmarks.stamps import STAMP_BYTES

RECORD_BYTES = 1_024
LEAD_S = 0.5
"""Readers read for so long before the first record is published: nobody begins with a backlog."""
GRACE_S = 0.5


@dataclass(frozen=True)
class Workload:
    """``rate`` is records a second of all writers together; None means as many as go.

    A group has a reader for each partition, or one for all of them.
    """

    partitions: int
    writers: int
    groups: int
    write_records: int
    read_records: int
    rate: float | None
    duration_s: float
    readers_each: int
    payloads: Kind = "cart"

    @property
    def share(self) -> int:
        return self.partitions // self.readers_each


@dataclass(frozen=True)
class Driven:
    """What all processes did, once it was found that every group read all that was written."""

    workload: Workload
    published: list[Published]
    consumed: list[Consumed]
    busy: float | None
    """How much of the machine was busy while the writers wrote; None where that cannot be told."""

    @property
    def started(self) -> float:
        return min(each.started for each in self.published)

    @property
    def failures(self) -> int:
        writers, readers = (sum(each.failures for each in side) for side in (self.published, self.consumed))
        return writers + readers

    @property
    def tally(self) -> Tally:
        """Of what was written: without stamps, so that two sides that did the same have the same."""
        return sum((each.tally for each in self.published), Tally())

    def of_group(self, group: str) -> list[Consumed]:
        return [each for each in self.consumed if each.group == group]

    @property
    def groups(self) -> list[str]:
        return sorted({each.group for each in self.consumed})

    def writes(self) -> list[tuple[float, int]]:
        """Moments at which records were acknowledged, with how many."""
        return [(call.acknowledged, each.batch_records) for each in self.published for call in each.calls]

    def reads(self) -> list[tuple[float, int]]:
        """Moments at which records were in a reader's hands, with how many."""
        return [(read.handed, read.records) for each in self.consumed for read in each.reads]


def drive(
    bench: Bench, side: GroupSide, workload: Workload, flush: Flush, *, before: Callable[[], object] | None = None
) -> Driven:
    """One run on a new log. Readers have their partitions, and everybody is connected, before it begins."""
    groups = [f"group-{number}" for number in range(workload.groups)]
    with bench.log(side, workload.partitions) as log:
        side.create_groups(bench.url(flush), log, groups)
        bench.settle()
        found = bench.crew.run(_jobs(side, bench.url(flush), log, workload, groups), before=before)
    driven = Driven(
        workload,
        [each for each in found if isinstance(each, Published)],
        [each for each in found if isinstance(each, Consumed)],
        next(each.busy for each in found if isinstance(each, Share)),
    )
    if not driven.failures:
        _check(side, driven)
    return driven


def _jobs(
    side: GroupSide, url: str, log: int, workload: Workload, groups: Sequence[str]
) -> list[Job[Published | Consumed | Share]]:
    at_least_s = LEAD_S + workload.duration_s + GRACE_S
    readers = [
        Consume(side, url, log, Seat(group, reader, workload.share, workload.read_records), at_least_s)
        for group in groups
        for reader in range(workload.readers_each)
    ]
    writers = [_writer(side, url, log, workload, number) for number in range(workload.writers)]
    return [*readers, *writers, Observe(LEAD_S, workload.duration_s)]


def _writer(side: GroupSide, url: str, log: int, workload: Workload, number: int) -> Publish:
    return Publish(
        Place(side, url, log, number % workload.partitions),
        Payloads(workload.payloads, number, distinct=2_000, record_bytes=RECORD_BYTES - STAMP_BYTES),
        workload.write_records,
        pace(workload, number),
        LEAD_S,
        workload.duration_s,
    )


def pace(workload: Workload, number: int) -> Pace | None:
    """When a writer publishes: all writers take turns at equal distances."""
    if workload.rate is None:
        return None
    interval_s = workload.writers * workload.write_records / workload.rate
    return Pace(interval_s, interval_s * number / workload.writers)


def _check(side: GroupSide, driven: Driven) -> None:
    for group in driven.groups:
        seen = sum((each.tally for each in driven.of_group(group)), Tally())
        assert seen == driven.tally, f"{group} of {side.name} read {seen}, of {driven.tally} that was written"


def sustained(events: Sequence[tuple[float, int]], *, start: float, duration_s: float) -> float:
    """Records a second from the start to the last of them, or to the end of the time if that is later."""
    end = max(at for at, _ in events)
    return sum(records for _, records in events) / max(duration_s, end - start)


def within(events: Iterable[tuple[float, int]], *, start: float, duration_s: float) -> float:
    """Records a second of those that came in the time."""
    return sum(records for at, records in events if start <= at < start + duration_s) / duration_s


def lag_max(driven: Driven) -> int:
    """The most records that were acknowledged and not yet in a group's hands, over all groups and all the time."""
    return max(_lag_max(driven.writes(), driven, group) for group in driven.groups)


def _lag_max(writes: Sequence[tuple[float, int]], driven: Driven, group: str) -> int:
    reads = [(read.handed, -read.records) for each in driven.of_group(group) for read in each.reads]
    return max(accumulate(records for _, records in sorted([*writes, *reads])), default=0)


def shown(share: float | None) -> str:
    return "processors: unknown" if share is None else f"processors {share:.0%} busy"
