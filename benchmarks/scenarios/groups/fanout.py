"""1, 2, 4 and 8 groups over one log: what each group gets, until the processors are full.

``follow``: groups read what is being written at a steady rate. ``scan``: groups read a log that stands there, as fast
as they can. Each group is one process, with one consumer that has all partitions. A line is judged while the machine
has room for its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers
from benchmarks.jobs import Content, rate
from benchmarks.lines import Finding, paired
from benchmarks.processor import Busy
from benchmarks.scans import GroupScan, check, filled
from benchmarks.workload import Workload, drive, shown, sustained

GROUPS = (1, 2, 4, 8)
PARTITIONS = 4
RATE = 5_000.0
BATCHES, BATCHES_MIN = 4_000, 500
BUSY_MAX = 0.95
"""A machine that is busier has no room for more."""


@dataclass(frozen=True)
class Measured:
    """Records a second of one group, and how busy the machine was."""

    rate: float
    busy: float | None


def measure(bench: Bench) -> Iterator[Finding]:
    yield from _findings(bench, "fanout.follow", partial(_follow, bench))
    with bench.log(Consumers(), PARTITIONS) as log:
        contents = filled(bench, log, PARTITIONS, max(BATCHES_MIN, round(BATCHES * bench.scale.work)))
        bench.settle()
        yield from _findings(bench, "fanout.scan", partial(_scan, bench, log, contents))


def _findings(bench: Bench, name: str, measured: Callable[[int, int], Measured]) -> Iterator[Finding]:
    found: dict[int, list[Measured]] = {groups: [] for groups in GROUPS}
    for number in range(bench.scale.rounds):
        for groups, rounds in found.items():
            rounds.append(measured(number, groups))
            bench.say(f"{name}-{groups}: {rounds[-1].rate:,.0f} records/s a group, {shown(rounds[-1].busy)}")
    for groups in GROUPS[1:]:
        yield finding(f"{name}-{groups}", found[groups], found[1])


def finding(name: str, several: Sequence[Measured], alone: Sequence[Measured]) -> Finding:
    """A line that holds while there is room on the machine, or nobody knows how much."""
    shares = sorted(each.busy for each in several if each.busy is not None)
    busy = shares[len(shares) // 2] if shares else None
    return paired(
        name,
        [each.rate for each in several],
        [each.rate for each in alone],
        note=shown(busy),
        holds=busy is None or busy < BUSY_MAX,
    )


def _follow(bench: Bench, _: int, groups: int) -> Measured:
    load = Workload(
        partitions=PARTITIONS,
        writers=4,
        groups=groups,
        write_records=100,
        read_records=200,
        rate=RATE,
        duration_s=max(2.0, bench.scale.stream_s),
        readers_each=1,
    )
    driven = drive(bench, Consumers(), load, "fast")
    total = sustained(driven.reads(), start=driven.started, duration_s=load.duration_s)
    return Measured(total / groups, driven.busy)


def _scan(bench: Bench, log: int, contents: list[Content], number: int, groups: int) -> Measured:
    records = contents[0].whole.records
    scans = [
        GroupScan(bench.url("fast"), log, f"round-{number}-of-{groups}-{group}", PARTITIONS, records)
        for group in range(groups)
    ]
    began: list[Busy | None] = []
    seen = bench.crew.run(scans, before=lambda: began.append(Busy.now()))
    ended = Busy.now()
    check(seen, contents)
    busy = None if began[0] is None or ended is None else began[0].share(ended)
    return Measured(rate(seen) / groups, busy)


LINES = tuple(f"fanout.{kind}-{groups}" for kind in ("follow", "scan") for groups in GROUPS[1:])
SCENARIO = Scenario("fanout", LINES, measure)
