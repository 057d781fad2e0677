"""Somebody holds a snapshot while transactions publish: whether they slow down, and what is left behind.

What each transaction puts down and takes away again stays in the stage as dead rows until the snapshot is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from benchmarks.bench import Bench, Scenario
from benchmarks.business import Kind, Market, Run, trade
from benchmarks.lines import Finding, Flush
from benchmarks.snapshot import hold, quarters, rates_over_time

PROCESSES = 4
CLIENTS_EACH = 2
PARTITIONS = 8
STAGE = ("trunkline.outbox_stage",)
_BYTES = "select sum(pg_total_relation_size(t::regclass)) from unnest(%s::text[]) t"
_DEAD = "select coalesce(sum(pg_stat_get_dead_tuples(t::regclass)), 0) from unnest(%s::text[]) t"
KINDS: dict[str, Kind] = {"outbox-snapshot.publish": "ours", "outbox-snapshot.counter": "counter"}


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for name, kind in KINDS.items():
            _vacuum(bench)
            run = _held(bench, kind, flush)
            left = _stage_bytes(bench)
            finding = _finding(name, flush, run)
            bench.say(
                f"{name} {flush} flush, held for {run.market.duration_s:g} s: first quarter {finding.baseline:,.0f} "
                f"transactions/s, last {finding.value:,.0f}"
            )
            yield finding
            if kind == "ours":
                dead, after = _vacuum(bench)
                note = f"{len(run.spans):,} transactions; vacuumed then: {dead:,} dead rows, {after:,} bytes"
                yield Finding(name="outbox-snapshot.stage", flush=flush, value=left, note=note)


def _held(bench: Bench, kind: Kind, flush: Flush) -> Run:
    market = Market(PARTITIONS, PROCESSES, CLIENTS_EACH, 0.0, bench.scale.snapshot_s)
    with psycopg.connect(bench.database.url) as holder:
        return trade(bench, kind, market, bench.url(flush), before=lambda _: hold(holder))


def _finding(name: str, flush: Flush, run: Run) -> Finding:
    events = [(span.ended, 1) for span in run.spans]
    rates = rates_over_time(events, start=run.started, duration_s=run.market.duration_s)
    first, last = quarters(rates)
    return Finding(
        name=name,
        flush=flush,
        value=last,
        baseline=first,
        ratio=last / first,
        note=f"held for {run.market.duration_s:g} s",
        series={"records_per_s": [round(rate) for rate in rates]},
    )


def _stage_bytes(bench: Bench) -> int:
    """Tables, indexes and TOAST of what transactions put down."""
    with psycopg.connect(bench.database.url, autocommit=True) as connection:
        (row,) = connection.execute(_BYTES, [[*STAGE]]).fetchall()
    return int(row[0])


def _vacuum(bench: Bench) -> tuple[int, int]:
    """As autovacuum would soon do: the dead rows that are left after it, and the bytes."""
    with psycopg.connect(bench.database.url, autocommit=True) as connection:
        for table in STAGE:
            connection.execute(f"vacuum {table}".encode())
        (row,) = connection.execute(_DEAD, [[*STAGE]]).fetchall()
    return int(row[0]), _stage_bytes(bench)


SCENARIO = Scenario("outbox-snapshot", (*KINDS, "outbox-snapshot.stage"), measure)
