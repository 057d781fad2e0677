"""The same business transactions by pgbench, whose clients cost nearly nothing: what the server alone makes of them.

They publish with the SQL function `trunkline.outbox_publish`, as any language may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import sql

from benchmarks.baselines import pgbench
from benchmarks.bench import Bench, Scenario
from benchmarks.business import Kind, check, opened_tables, table_name
from benchmarks.latency import Sample, percentile
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads, made
from benchmarks.scenarios.outbox.business import CLIENTS_EACH, LEAST_S, PARTITIONS, PROCESSES, WORK_S
from benchmarks.sides import topic_name

CLIENTS = PROCESSES * CLIENTS_EACH
KINDS: tuple[Kind, ...] = ("ours", "nothing")
NAMES = tuple(f"outbox-bare.{name}-{partitions}" for partitions in PARTITIONS for name in ("throughput", "p99"))
_SCRIPT = """begin;
insert into public.{table} (body) values ({body}) returning id \\gset
{publish}\\sleep {work_ms} ms
commit;
"""
_PUBLISH = "select trunkline.outbox_publish({topic}, int8send(:id) || {body}, key => convert_to(:id::text, 'UTF8'));\n"


def measure(bench: Bench) -> Iterator[Finding]:
    program = pgbench.find(bench.programs)
    for flush in bench.flushes:
        if program is None:
            yield from (Finding(name=name, flush=flush, note="not measured: there is no pgbench") for name in NAMES)
            continue
        for partitions in PARTITIONS:
            rates: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
            tails: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
            for _ in range(bench.rounds(flush)):
                for kind in KINDS:
                    rate, took = _run(bench, program, kind, partitions, flush)
                    rates[kind].append(rate)
                    tails[kind].append(percentile([Sample(each) for each in took], 99))
                bench.say(
                    f"outbox-bare {flush} flush, partitions: {partitions}: {rates['ours'][-1]:,.0f} transactions/s, "
                    f"p99 {tails['ours'][-1]:.1f} ms; without publishing {rates['nothing'][-1]:,.0f}, "
                    f"{tails['nothing'][-1]:.1f}"
                )
            yield paired(f"outbox-bare.throughput-{partitions}", rates["ours"], rates["nothing"], flush=flush)
            yield paired(f"outbox-bare.p99-{partitions}", tails["ours"], tails["nothing"], flush=flush)


def _run(bench: Bench, program: str, kind: Kind, partitions: int, flush: Flush) -> tuple[float, Sequence[float]]:
    with opened_tables(bench, kind, partitions) as (log, connection):
        script = script_of(kind, log)
        duration_s = max(LEAST_S, bench.scale.stream_s)
        found = pgbench.timed(program, bench.url(flush), script, clients=CLIENTS, duration_s=duration_s)
        check(connection, kind, log, partitions)
    return found


def script_of(kind: Kind, log: int) -> str:
    """A transaction in pgbench's words."""
    body = made(Payloads("json", 0, distinct=2_000))[0]
    literal = sql.SQL(f"'\\x{body.hex()}'::bytea")
    publish = sql.SQL(_PUBLISH).format(topic=sql.Literal(topic_name(log)), body=literal)
    return (
        sql.SQL(_SCRIPT)
        .format(
            table=sql.Identifier(table_name(log)),
            body=literal,
            publish=publish if kind == "ours" else sql.SQL(""),
            work_ms=sql.Literal(round(WORK_S * 1_000)),
        )
        .as_string()
    )


SCENARIO = Scenario("outbox-bare", NAMES, measure)
