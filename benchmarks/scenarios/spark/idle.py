"""A streaming query that has nothing to read: how many statements a second the server gets from it.

Counted are the transactions of the database: each of a source's statements is one by itself, and nobody else is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks.bench import Bench, Scenario
from benchmarks.engine import session
from benchmarks.lines import Finding
from benchmarks.quiet import undisturbed
from benchmarks.scenarios.spark.stream import folder
from benchmarks.sides import Ours, topic_name

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 4
LEAD_S = 5.0
"""The server counts late by a second."""
START_S = 120.0
DURATION_S = {"full": 60.0, "quick": 15.0}


def measure(bench: Bench) -> Iterator[Finding]:
    url, duration_s = bench.url("fast"), DURATION_S[bench.scale.name]
    with bench.log(Ours(), PARTITIONS) as log, undisturbed(bench), folder() as place:
        frame = session().readStream.format("trunkline").options(url=url, subscribe=topic_name(log)).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(place)).start()
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                _until_it_waits(connection, query)
                time.sleep(LEAD_S)
                alone = _transactions(connection)
                began = monotonic()
                time.sleep(duration_s)
                count, took_s = _transactions(connection) - alone, monotonic() - began
            failure = query.exception()
            assert failure is None, f"the query has failed: {failure}"
        finally:
            query.stop()
    bench.say(f"spark-idle: {count} statements in {took_s:.1f} s")
    yield Finding(name="spark-idle.statements", value=count / took_s, note=f"in {took_s:.0f} s")


def _until_it_waits(connection: psycopg.Connection[tuple[Any, ...]], query: StreamingQuery) -> None:
    """A query that is still at its first batch, which is empty, is no quiet one."""
    deadline = monotonic() + START_S
    listening = "select from pg_stat_activity where datname = current_database() and query ilike 'listen %'"
    while query.lastProgress is None or not connection.execute(listening).fetchall():
        assert monotonic() < deadline, "the query does not wait"
        time.sleep(0.1)


def _transactions(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    """So far, and at most one of them this session's own."""
    row = connection.execute(
        "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])


SCENARIO = Scenario("spark-idle", ("spark-idle.statements",), measure)
