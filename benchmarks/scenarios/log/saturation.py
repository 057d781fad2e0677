"""Writers without a brake: what the server takes on four partitions, and what a single partition takes.

A partition has one commit at a time, so its ceiling is one batch for each flush of the disk, whatever the number of
writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import Place, Stream, records_per_s
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads
from benchmarks.sides import Ours, Side

BATCH_RECORDS = 100
WARM_S = 0.5


@dataclass(frozen=True)
class Load:
    """So many writers, spread over so many partitions."""

    name: str
    writers: int
    partitions: int


LOADS = (
    Load("saturation.partitions-4", 4, 4),
    Load("saturation.partition-1", 4, 1),
    Load("saturation.writer-1", 1, 1),
)


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for load in LOADS:
            rounds = max(1, bench.scale.rounds - 2)
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(_rate(bench, load, Ours(), flush))
                theirs.append(_rate(bench, load, Rows(), flush))
            finding = paired(load.name, ours, theirs, flush=flush, note=_commits(ours))
            bench.say(f"{load.name} {flush} flush: {finding.value:,.0f} records/s")
            yield finding


def _commits(rates: list[float]) -> str:
    return f"{sorted(rates)[len(rates) // 2] / BATCH_RECORDS:,.0f} commits/s in batches of {BATCH_RECORDS}"


def _rate(bench: Bench, load: Load, side: Side, flush: Flush) -> float:
    with bench.log(side, load.partitions) as log:
        bench.settle()
        flows = bench.crew.run(
            [
                Stream(
                    Place(side, bench.url(flush), log, writer % load.partitions),
                    Payloads("json", writer),
                    BATCH_RECORDS,
                    bench.scale.stream_s,
                    WARM_S,
                )
                for writer in range(load.writers)
            ]
        )
    return records_per_s(flows)


SCENARIO = Scenario("saturation", tuple(load.name for load in LOADS), measure)
