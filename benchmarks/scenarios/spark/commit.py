"""Somebody publishes to a topic at a fixed rate while a gigabyte that was staged for it is published by a sink.

Staging and publishing are what a Spark write does, called without Spark. ``publish`` counts the records that were due
while the driver published what the tasks had staged, when partitions are locked; ``write`` those that were due in the
whole write, staging included, when the publisher shares the disk and the processors with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks.bench import Bench, Scenario
from benchmarks.drip import dripping
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads, made
from benchmarks.sides import Ours, topic_name

if TYPE_CHECKING:
    import pyarrow as pa

    from trunkline.spark.staging import Stage

PARTITIONS = 4
PER_S = 200
RECORD_BYTES = 1_024
BATCH_RECORDS = 10_000
LEAD_S = 1.0
IDLE_S = {"full": 5.0, "quick": 2.0}


@dataclass(frozen=True)
class Round:
    """p99 of the publisher in milliseconds, and how long things took."""

    idle: float
    published: float
    whole: float
    stage_s: float
    publish_s: float
    records: int


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        rounds = []
        for number in range(bench.rounds(flush)):
            rounds.append(_round(bench, flush))
            bench.say(f"spark-commit {flush} flush, round {number + 1} of {bench.rounds(flush)}: {_told(rounds[-1])}")
        yield from _findings(rounds, flush, bench.scale.memory_bytes)


def _round(bench: Bench, flush: Flush) -> Round:
    url, count = bench.url(flush), bench.scale.memory_bytes // RECORD_BYTES
    with bench.log(Ours(), PARTITIONS) as log:
        bench.settle()
        with dripping(url, log, PARTITIONS, PER_S) as dripped:
            time.sleep(LEAD_S)
            moments = [monotonic()]
            time.sleep(IDLE_S[bench.scale.name])
            moments.append(monotonic())
            stages = stage(url, log, count)
            moments.append(monotonic())
            publish(url, stages)
            moments.append(monotonic())
        began, idle_end, staged, done = moments
        return Round(
            dripped.p99_ms(began, idle_end),
            dripped.p99_ms(staged, done),
            dripped.p99_ms(idle_end, done),
            staged - idle_end,
            done - staged,
            dripped.count(staged, done),
        )


def stage(url: str, log: int, count: int) -> list[Stage]:
    """Stage so many carts as a task of Spark's does."""
    from trunkline.spark.database import database
    from trunkline.spark.options import sink_options
    from trunkline.spark.staging import Stager

    options = sink_options({"url": url, "topic": topic_name(log)})
    stages = Stager(options, database(url), 0).stage(_rows(count))
    assert sum(each.record_count for each in stages) == count, "not everything was staged"
    return stages


def _rows(count: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    pool = made(Payloads("cart", 1, distinct=BATCH_RECORDS, record_bytes=RECORD_BYTES))
    batch = pa.RecordBatch.from_arrays([pa.array(pool, pa.binary())], names=["value"])
    for start in range(0, count, BATCH_RECORDS):
        yield batch.slice(0, min(BATCH_RECORDS, count - start))


def publish(url: str, stages: list[Stage]) -> None:
    """Publish what was staged as the driver does."""
    from trunkline.spark.database import Identity, database

    database(url).publish(
        Identity(uuid4().hex, "bench", 0, "run", is_named=False),
        stage_nos=[each.stage_no for each in stages],
        record_counts=[each.record_count for each in stages],
        topic_ids={each.topic.topic_id for each in stages},
    )


def _told(last: Round) -> str:
    return (
        f"p99 idle {last.idle:.1f} ms, while publishing for {last.publish_s:.2f} s {last.published:.1f} ms of "
        f"{last.records} records, in the whole write {last.whole:.1f} ms; staged in {last.stage_s:.1f} s"
    )


def _findings(rounds: list[Round], flush: Flush, size: int) -> Iterator[Finding]:
    idle = [each.idle for each in rounds]
    took = median(each.publish_s for each in rounds), median(each.stage_s for each in rounds)
    note = f"p99; {size / 1e6:,.0f} MB published in {took[0]:.2f} s, staged in {took[1]:.1f} s"
    yield paired("spark-commit.publish", [each.published for each in rounds], idle, flush=flush, note=note)
    yield paired("spark-commit.write", [each.whole for each in rounds], idle, flush=flush, note=note)


SCENARIO = Scenario("spark-commit", ("spark-commit.publish", "spark-commit.write"), measure)
