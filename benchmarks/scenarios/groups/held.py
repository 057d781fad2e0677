"""Somebody holds a snapshot while a group reads what is being written: whether reading slows down.

The first quarter of the time is compared with the last. The baseline moves one row with every read; its old versions
cannot be removed meanwhile, and each read has to pass them.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from benchmarks.baselines.claims import Claims
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers
from benchmarks.lines import Finding, Flush
from benchmarks.members import GroupSide
from benchmarks.snapshot import hold, quarters, rates_over_time
from benchmarks.workload import Driven, Workload, drive

SIDES: dict[str, GroupSide] = {"held.consume": Consumers(), "held.claims": Claims()}


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for name, side in SIDES.items():
            finding = _finding(name, flush, _driven(bench, side, flush))
            bench.say(
                f"{name} {flush} flush, held for {bench.scale.snapshot_s:g} s: "
                f"first quarter {finding.baseline:,.0f} records/s, last {finding.value:,.0f}"
            )
            yield finding


def _driven(bench: Bench, side: GroupSide, flush: Flush) -> Driven:
    load = Workload(
        partitions=4,
        writers=4,
        groups=1,
        write_records=10,
        read_records=200,
        rate=None,
        duration_s=bench.scale.snapshot_s,
        readers_each=4,
    )
    with psycopg.connect(bench.url("fast")) as holder:
        return drive(bench, side, load, flush, before=lambda: hold(holder))


def _finding(name: str, flush: Flush, driven: Driven) -> Finding:
    duration_s = driven.workload.duration_s
    rates = rates_over_time(driven.reads(), start=driven.started, duration_s=duration_s)
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


SCENARIO = Scenario("held", tuple(SIDES), measure)
