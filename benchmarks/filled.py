"""Logs that are there before the clock starts: the same records on both sides, written by processes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench
from benchmarks.jobs import Place, Pour
from benchmarks.payloads import Payloads, Tally
from benchmarks.sides import Ours, Side

WRITERS = 4
BATCH_RECORDS = 1_000
RECORD_BYTES = 200


@dataclass(frozen=True)
class Filled:
    """A log, how many records it has, and what they are."""

    log: int
    records: int
    tally: Tally


def scaled(bench: Bench, full: int) -> int:
    """A tenth of the work in a quick run."""
    return full if bench.scale.name == "full" else full // 10


@contextmanager
def topic(bench: Bench, records: int, *, partitions: int = WRITERS) -> Iterator[Filled]:
    """A topic with so many orders, spread evenly."""
    with bench.log(Ours(), partitions) as log:
        yield _fill(bench, Ours(), log, partitions, records)


@contextmanager
def table(bench: Bench, records: int) -> Iterator[Filled]:
    """The same orders in one table of the baseline, vacuumed and analysed."""
    with bench.log(Rows(), 1) as log:
        filled = _fill(bench, Rows(), log, 1, records)
        Rows().settle(bench.url("fast"), log)
        yield filled


def _fill(bench: Bench, side: Side, log: int, partitions: int, records: int) -> Filled:
    batches = records // (WRITERS * BATCH_RECORDS)
    url = bench.url("fast")
    jobs = [
        Pour(Place(side, url, log, writer % partitions), orders(writer), BATCH_RECORDS, batches)
        for writer in range(WRITERS)
    ]
    written = sum(bench.crew.run(jobs))
    assert written == records, f"{records} records cannot be spread evenly"
    tallies = [poured(job.payloads.batches(_distinct(job), BATCH_RECORDS), batches) for job in jobs]
    return Filled(log, written, sum(tallies, Tally()))


def orders(writer: int) -> Payloads:
    return Payloads("order", writer, record_bytes=RECORD_BYTES)


def _distinct(job: Pour) -> int:
    return max(1, job.payloads.distinct // job.batch_records)


def poured(some: Sequence[Sequence[bytes]], batches: int) -> Tally:
    """What so many batches hold, when they are some few in turn."""
    total = Tally()
    for number, batch in enumerate(some):
        times = len(range(number, batches, len(some)))
        one = Tally().after(batch)
        total += Tally(one.records * times, one.length * times, one.crcs * times)
    return total
