"""Somebody holds a snapshot: a dump, a report, a transaction left open. Whether publishing slows down.

The writers run already when the snapshot is taken; the first quarter of the time that it is held is compared with the
last. What is updated in place leaves versions behind that cannot be removed meanwhile, and gets slower and slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import Flow, Place, Stream
from benchmarks.lines import Finding, Flush
from benchmarks.payloads import Payloads
from benchmarks.sides import Ours, Side
from benchmarks.snapshot import hold, quarters, rates_over_time

WRITERS = 4
BATCH_RECORDS = 10
WARM_S = 1.0


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


def _finding(name: str, flush: Flush, flows: Sequence[Flow], duration_s: float) -> Finding:
    start = min(flow.started for flow in flows)
    events = [(at, flow.batch_records) for flow in flows for at in flow.commits]
    rates = rates_over_time(events, start=start, duration_s=duration_s)
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


SCENARIO = Scenario("snapshot", ("snapshot.publish", "snapshot.rows"), measure)
