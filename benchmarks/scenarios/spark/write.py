"""A million orders from a frame that Spark holds in memory: into a topic, exactly once, and by JDBC into a table.

Both sides write the same cached frame of four partitions, each time into a log that is new. Ours stages in the tasks
and publishes when all of them are done; with JDBC every task commits by itself, and nobody would notice that a batch
is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks import filled
from benchmarks.baselines import jdbc
from benchmarks.baselines.rows import Rows
from benchmarks.bench import Bench, Scenario
from benchmarks.engine import TASKS, session, tally, took_s, topic_frame
from benchmarks.filled import Filled, scaled
from benchmarks.lines import Finding, Flush, paired
from benchmarks.sides import Ours, topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS = 1_000_000


def measure(bench: Bench) -> Iterator[Finding]:
    with filled.topic(bench, scaled(bench, RECORDS)) as given, cached(bench, given) as rows:
        _ours(bench, "fast", rows, given)
        if jdbc.find_jar() is not None:
            _theirs(bench, "fast", rows, given)
        for flush in bench.flushes:
            yield _one_flush(bench, flush, rows, given)


def _one_flush(bench: Bench, flush: Flush, rows: DataFrame, given: Filled) -> Finding:
    ours, theirs = [], []
    for number in range(bench.rounds(flush)):
        ours.append(_ours(bench, flush, rows, given))
        told = f"topic {ours[-1]:,.0f}"
        if jdbc.find_jar() is not None:
            theirs.append(_theirs(bench, flush, rows, given))
            told += f", jdbc {theirs[-1]:,.0f}"
        bench.say(f"spark-write {flush} flush, round {number + 1} of {bench.rounds(flush)}: {told} records/s")
    if not theirs:
        return Finding(name="spark-write.jdbc", flush=flush, note=jdbc.MISSING)
    note = f"{given.records:,} records of {filled.RECORD_BYTES} bytes, {TASKS} tasks"
    return paired("spark-write.jdbc", ours, theirs, flush=flush, note=note)


@contextmanager
def cached(bench: Bench, given: Filled) -> Iterator[DataFrame]:
    """The records, numbered from 1 on, in Spark's memory."""
    each = given.records // TASKS
    columns = f"partition * {each} + offset as c_offset", "value"
    rows = topic_frame(bench.url("fast"), topic_name(given.log)).selectExpr(*columns).persist()
    rows.count()
    yield rows
    rows.unpersist()


def _ours(bench: Bench, flush: Flush, rows: DataFrame, given: Filled) -> float:
    url = bench.url(flush)
    with bench.log(Ours(), TASKS) as log:
        bench.settle()
        rate = given.records / took_s(lambda: append(rows, url, log))
        assert tally(topic_frame(url, topic_name(log)), "value") == given.tally, "a topic lost or changed records"
        return rate


def append(rows: DataFrame, url: str, log: int) -> None:
    """Exactly once, with default settings."""
    rows.select("value").write.format("trunkline").options(url=url, topic=topic_name(log)).mode("append").save()


def _theirs(bench: Bench, flush: Flush, rows: DataFrame, given: Filled) -> float:
    url = bench.url(flush)
    with bench.log(Rows(), 1) as log:
        bench.settle()
        named = rows.withColumnRenamed("value", "payload")
        rate = given.records / took_s(lambda: jdbc.append(named, url, log))
        written = jdbc.read(session(), url, log, records=given.records, tasks=TASKS)
        assert tally(written, "payload") == given.tally, "the table lost or changed records"
        return rate


SCENARIO = Scenario("spark-write", ("spark-write.jdbc",), measure)
