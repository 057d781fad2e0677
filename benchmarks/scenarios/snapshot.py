"""Somebody holds a snapshot: a dump, a report, a transaction left open. Whether publishing slows down.

The writers run already when the snapshot is taken; the first quarter of the time that it is held is compared with the
last. What is updated in place leaves versions behind that cannot be removed meanwhile, and gets slower and slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import IsolationLevel

from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import Flow, Place, Stream
from benchmarks.lines import Finding, Flush
from benchmarks.payloads import Payloads
from benchmarks.sides import Ours, Side

WRITERS = 4
BATCH_RECORDS = 10
WARM_S = 1.0
BINS = 40


def measure(bench: Bench) -> Iterator[Finding]:
    sides: tuple[tuple[str, Side], ...] = (("snapshot.publish", Ours()), ("snapshot.rows", Rows()))
    for flush in bench.flushes:
        for name, side in sides:
            finding = _finding(name, flush, _held(bench, side, flush), bench.scale.snapshot_s)
            bench.say(
                f"{name} {flush} flush, held for {bench.scale.snapshot_s:g} s: "
                f"first quarter {finding.baseline:,.0f} records/s, last {finding.value:,.0f}"
            )
            yield finding


def _held(bench: Bench, side: Side, flush: Flush) -> list[Flow]:
    with bench.log(side, WRITERS) as log, psycopg.connect(bench.url("fast")) as holder:
        bench.settle()
        jobs = [
            Stream(
                Place(side, bench.url(flush), log, partition),
                Payloads("json", partition),
                BATCH_RECORDS,
                bench.scale.snapshot_s,
                WARM_S,
            )
            for partition in range(WRITERS)
        ]
        return bench.crew.run(jobs, before=lambda: hold(holder))


def hold(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Take a snapshot and a transaction id, and keep both until the connection is closed."""
    connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    connection.execute("select pg_current_xact_id(), count(*) from pg_class")


def _finding(name: str, flush: Flush, flows: Sequence[Flow], duration_s: float) -> Finding:
    rates = rates_over_time(flows, duration_s, BINS)
    first, last = quarters(rates)
    return Finding(
        name=name,
        flush=flush,
        value=last,
        baseline=first,
        ratio=last / first,
        note=f"held for {duration_s:g} s",
        series={"records_per_s": [round(rate) for rate in rates]},
    )


def rates_over_time(flows: Sequence[Flow], duration_s: float, bins: int) -> list[float]:
    """Records a second of all writers together, in equal pieces of the time from the first start on."""
    start = min(flow.started for flow in flows)
    counts = [0] * bins
    for flow in flows:
        for at in flow.commits:
            piece = int((at - start) / duration_s * bins)
            if piece < bins:
                counts[piece] += flow.batch_records
    return [count * bins / duration_s for count in counts]


def quarters(rates: Sequence[float]) -> tuple[float, float]:
    """The mean of the first quarter, and of the last."""
    quarter = len(rates) // 4
    return sum(rates[:quarter]) / quarter, sum(rates[-quarter:]) / quarter


SCENARIO = Scenario("snapshot", ("snapshot.publish", "snapshot.rows"), measure)
