"""Four writers, then four readers, on four partitions: speed, disk and write-ahead log a record, on both sides.

In each round ours writes and is read, then the baseline, then pgbench runs the baseline's SQL. What was read must be
what was written, record by record, on both sides.

Records are read as a log's are: for the first time, soon after they were written. Columns are read from one half of
each partition and records from the other, so that neither finds the work of the other done. Then everything is
read again, when the baseline has been vacuumed and analysed; that line stands beside the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from benchmarks.baselines import pgbench
from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import WARM_BATCHES, Content, Fill, Place, Scan, Written, rate
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Kind, Payloads
from benchmarks.sides import Ours, Shape, Side

PARTITIONS = 4
WINDOW_RECORDS = 10_000
HALVES: tuple[Shape, Shape] = ("columns", "records")


@dataclass(frozen=True)
class Workload:
    """What each writer of the full run writes, and how often each reader reads it again."""

    name: str
    kind: Kind
    batch_records: int
    batches: int
    passes: int
    with_pglz: bool = False

    def lines(self) -> tuple[str, ...]:
        metrics = ["write", "wal", "read_batches", "read", "read_again", "disk"]
        metrics += ["disk_pglz"] if self.with_pglz else []
        metrics += ["pgbench_write", "pgbench_read"]
        return tuple(f"{self.name}.{metric}" for metric in metrics)


WORKLOADS = (
    Workload("json-1000", "json", 1_000, 240, 2, with_pglz=True),
    Workload("json-100", "json", 100, 2_000, 2, with_pglz=True),
    Workload("json-1", "json", 1, 12_000, 4),
    Workload("random-100", "random", 100, 700, 2),
)


@dataclass(frozen=True)
class Measured:
    """One side in one round."""

    write: float
    disk: float
    wal: float
    contents: list[Content]
    reads: dict[Shape, float] = field(default_factory=dict)
    read_again: float = 0.0
    pgbench_read: float | None = None


def measure(workload: Workload, bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        yield from _one_flush(bench, workload, flush)


def _one_flush(bench: Bench, workload: Workload, flush: Flush) -> Iterator[Finding]:
    program = pgbench.find(bench.programs)
    ours: list[Measured] = []
    theirs: list[Measured] = []
    bare: list[float] = []
    for number in range(bench.rounds(flush)):
        checked = program if number < bench.pgbench_rounds(flush) else None
        ours.append(_side(bench, workload, Ours(), flush))
        theirs.append(_side(bench, workload, Rows(), flush, checked))
        assert ours[-1].contents == theirs[-1].contents, "the two sides did not write the same records"
        if checked is not None:
            bare.append(_pgbench_write(bench, workload, flush, checked))
        bench.say(
            f"{workload.name} {flush} flush, round {number + 1} of {bench.rounds(flush)}: "
            f"write {ours[-1].write:,.0f} records/s, baseline {theirs[-1].write:,.0f}"
        )
    yield from _of_writes(workload, flush, ours, theirs)
    if flush == "fast":
        yield from _of_reads(workload, ours, theirs)
        yield from _of_disk(bench, workload, ours, theirs)
    yield from _of_pgbench(workload, flush, theirs, bare)


def _side(bench: Bench, workload: Workload, side: Side, flush: Flush, program: str | None = None) -> Measured:
    """Write a new log and, where the flush matters not, read it."""
    url = bench.url(flush)
    with bench.log(side, PARTITIONS) as log:
        bench.settle()
        empty = side.disk_bytes(url, log)
        at_start: list[int] = []

        def before() -> None:
            side.analyse(url, log)
            at_start.append(bench.wal_position())

        written = bench.crew.run(_fills(bench, workload, side, log, flush), before=before)
        wal = bench.wal_position() - at_start[0]
        measured = _of_written(written, wal, side.disk_bytes(url, log) - empty)
        return measured if flush == "slow" else _read(bench, workload, side, log, measured, program)


def _fills(bench: Bench, workload: Workload, side: Side, log: int, flush: Flush) -> list[Fill]:
    return [
        Fill(
            Place(side, bench.url(flush), log, partition),
            Payloads(workload.kind, partition),
            workload.batch_records,
            batches_of(workload, bench),
        )
        for partition in range(PARTITIONS)
    ]


def batches_of(workload: Workload, bench: Bench) -> int:
    return max(1, round(workload.batches * bench.scale.work))


def _of_written(written: list[Written], wal: int, disk: int) -> Measured:
    timed = sum(each.records for each in written)
    contents = [each.content for each in written]
    return Measured(rate(written), disk / sum(each.whole.records for each in contents), wal / timed, contents)


def _read(bench: Bench, workload: Workload, side: Side, log: int, measured: Measured, program: str | None) -> Measured:
    url = bench.url("fast")
    places = [Place(side, url, log, partition) for partition in range(PARTITIONS)]
    reads: dict[Shape, float] = {}
    for half, shape in enumerate(HALVES):
        seen = bench.crew.run(
            [_half(place, shape, content, half) for place, content in zip(places, measured.contents, strict=True)]
        )
        expected = [content.halves[half] for content in measured.contents]
        assert [each.checksum for each in seen] == expected, f"{side.name} lost or changed records"
        reads[shape] = rate(seen)
    side.settle(url, log)
    end = 1 + measured.contents[0].whole.records
    seen = bench.crew.run([Scan(place, "columns", 1, end, WINDOW_RECORDS, workload.passes) for place in places])
    assert [each.checksum for each in seen] == [content.whole for content in measured.contents]
    bare = _pgbench_read(url, log, end - 1, program) if program is not None else None
    return replace(measured, reads=reads, read_again=rate(seen), pgbench_read=bare)


def _half(place: Place, shape: Shape, content: Content, half: int) -> Scan:
    middle = 1 + content.halves[0].records
    start, end = ((1, middle), (middle, 1 + content.whole.records))[half]
    return Scan(place, shape, start, end, WINDOW_RECORDS)


def _pgbench_read(url: str, log: int, records: int, program: str) -> float:
    window = min(WINDOW_RECORDS, records)
    return pgbench.read_rate(program, url, log, partitions=PARTITIONS, windows=records // window, window_records=window)


def _pgbench_write(bench: Bench, workload: Workload, flush: Flush, program: str) -> float:
    with bench.log(Rows(), PARTITIONS) as log:
        bench.settle()
        batches = [
            Payloads(workload.kind, partition).batches(1, workload.batch_records)[0] for partition in range(PARTITIONS)
        ]
        commits = batches_of(workload, bench) + WARM_BATCHES
        return pgbench.write_rate(program, bench.url(flush), log, batches, commits)


def _of_writes(workload: Workload, flush: Flush, ours: list[Measured], theirs: list[Measured]) -> Iterator[Finding]:
    yield paired(f"{workload.name}.write", [each.write for each in ours], [each.write for each in theirs], flush=flush)
    yield paired(f"{workload.name}.wal", [each.wal for each in ours], [each.wal for each in theirs], flush=flush)


def _of_reads(workload: Workload, ours: list[Measured], theirs: list[Measured]) -> Iterator[Finding]:
    names: dict[Shape, str] = {"columns": "read_batches", "records": "read"}
    for shape, name in names.items():
        mine, others = [each.reads[shape] for each in ours], [each.reads[shape] for each in theirs]
        yield paired(f"{workload.name}.{name}", mine, others)
    again = [each.read_again for each in ours], [each.read_again for each in theirs]
    yield paired(f"{workload.name}.read_again", *again)


def _of_disk(bench: Bench, workload: Workload, ours: list[Measured], theirs: list[Measured]) -> Iterator[Finding]:
    rows = [each.disk for each in theirs]
    if bench.environment.lz4 or not workload.with_pglz:
        yield paired(f"{workload.name}.disk", [each.disk for each in ours], rows)
    else:
        yield Finding(name=f"{workload.name}.disk", note="not measured: the server has no lz4")
    if workload.with_pglz:
        squeezed = _side(bench, workload, Ours(compression="pglz"), "fast")
        note = f"segment set to pglz before the first write; write {squeezed.write:,.0f} records/s"
        yield paired(f"{workload.name}.disk_pglz", [squeezed.disk], [median(rows)], note=note)


def _of_pgbench(workload: Workload, flush: Flush, theirs: list[Measured], bare: list[float]) -> Iterator[Finding]:
    if not bare:
        for name in ("pgbench_write", "pgbench_read"):
            yield Finding(name=f"{workload.name}.{name}", flush=flush, note="not measured: pgbench not found")
        return
    yield paired(f"{workload.name}.pgbench_write", [each.write for each in theirs[: len(bare)]], bare, flush=flush)
    reads = [(each.read_again, each.pgbench_read) for each in theirs if each.pgbench_read is not None]
    if reads:
        yield paired(f"{workload.name}.pgbench_read", *zip(*reads, strict=True))


SCENARIOS = tuple(Scenario(workload.name, workload.lines(), partial(measure, workload)) for workload in WORKLOADS)
