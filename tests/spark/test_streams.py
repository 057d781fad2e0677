"""Streaming queries of Spark's own over topics: restarts, triggers, errors, memory. More: test_source_stream.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.database.test_failover import wait_until
from trunkline import Client, Message


def stream(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.readStream.format("trunkline").options(url=url, **{"subscribe": "orders", **options}).load()


def run_now(frame: DataFrame, folder: Path, **options: str) -> StreamingQuery:
    """Everything that is there now, into Parquet, and then the end."""
    writer = frame.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value").writeStream
    writer = writer.format("parquet").options(checkpointLocation=str(folder / "checkpoint"), **options)
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    return query


def values(spark: SparkSession, folder: Path) -> list[str]:
    return sorted(row.value for row in spark.read.parquet(str(folder / "out")).collect())


def test_SP_02_SP_10_a_stream_restarted_from_its_checkpoint_misses_and_repeats_nothing(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    """Four runs, each of which ends by itself; between and during them others publish, and a partition is added."""
    tl.create_topic("orders", partitions=2)
    expected = []
    for turn in range(3):
        tl.publish_many("orders", [Message(b"%d-%d" % (turn, i)) for i in range(20)])
        expected += [f"{turn}-{i}" for i in range(20)]
        if turn == 1:
            tl.add_partitions("orders", 3)
            tl.publish("orders", b"added", partition=2)
            expected.append("added")
        run_now(stream(spark, db_url, startingOffsets="earliest", maxOffsetsPerTrigger="15"), tmp_path)
        assert values(spark, tmp_path) == sorted(expected)
    rows = spark.read.parquet(str(tmp_path / "out"))
    assert rows.select("partition", "offset").distinct().count() == rows.count() == len(expected)


def test_a_running_stream_is_woken_reports_its_lag_and_tells_its_progress(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    tl.create_topic("orders")
    frame = stream(spark, db_url, groupId="spark-orders", startingOffsets="earliest")
    writer = frame.writeStream.format("memory").queryName("woken").option("checkpointLocation", str(tmp_path))
    query = writer.start()
    try:
        for turn in range(3):
            tl.publish("orders", b"%d" % turn)
            query.processAllAvailable()
            assert spark.table("woken").count() == turn + 1
        wait_until(lambda: [(g.name, g.lag) for g in tl.groups()] == [("spark-orders", 0)], "the lag is reported", 60)
        progress = [p for p in query.recentProgress if p["numInputRows"]]
        (reported,) = progress[-1]["sources"]
        assert json.loads(reported["endOffset"])["orders"] == {"0": 4}
        assert json.loads(reported["latestOffset"])["orders"] == {"0": 4}
        password = str(psycopg.conninfo.conninfo_to_dict(db_url)["password"])
        assert password not in json.dumps(query.recentProgress, default=str)
        query.explain(extended=True)
    finally:
        query.stop()


KAFKA_JOB = """
orders = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker1:9092,broker2:9092")
    .option("kafka.security.protocol", "SASL_SSL")
    .option("subscribe", "orders")
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 1000)
    .option("minPartitions", 2)
    .option("failOnDataLoss", "false")
    .option("includeHeaders", "true")
    .option("kafka.group.id", "revenue")
    .load()
)
parsed = orders.select(
    f.from_json(f.col("value").cast("string"), "shop STRING, amount DOUBLE, at TIMESTAMP").alias("o"),
    f.col("key").cast("string").alias("customer"),
    "topic", "partition", "offset", "timestamp", "timestampType", "headers",
).select("o.*", "customer", "timestamp")
revenue = (
    parsed.withWatermark("at", "1 minute")
    .groupBy(f.window("at", "1 minute"), "shop")
    .agg(f.sum("amount").alias("revenue"))
)
query = (
    revenue.select(
        f.col("shop").alias("key"),
        f.to_json(f.struct(f.col("window.start").alias("minute"), "shop", "revenue")).alias("value"),
    )
    .writeStream.format("kafka")
    .option("kafka.bootstrap.servers", "broker1:9092,broker2:9092")
    .option("topic", "revenue")
    .option("checkpointLocation", checkpoint)
    .outputMode("append")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
"""


def test_SP_11_a_job_written_for_kafka_runs_with_format_and_url_changed(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    tl.create_topic("orders", partitions=2)
    tl.create_topic("revenue")
    for minute, shop, amount in [(0, "a", 1.0), (0, "a", 2.0), (0, "b", 5.0), (1, "a", 7.0), (9, "z", 0.0)]:
        at = datetime(2026, 5, 1, 12, minute, 30, tzinfo=UTC).isoformat()
        order = json.dumps({"shop": shop, "amount": amount, "at": at})
        tl.publish("orders", order.encode(), key=f"customer-{shop}", headers={"source": "web"})
    job = KAFKA_JOB.replace('.format("kafka")', '.format("trunkline").option("url", url)')
    scope: dict[str, Any] = {"spark": spark, "f": f, "url": db_url, "checkpoint": str(tmp_path)}
    exec(job, scope)  # noqa: S102 - the job is the text above
    found = [(record.key, json.loads(record.payload)) for record in tl.read("revenue")]
    assert sorted((key, one["minute"][14:16], one["revenue"]) for key, one in found) == [
        (b"a", "00", 3.0),
        (b"a", "01", 7.0),
        (b"b", "00", 5.0),
    ]


# -- what is refused --


def test_a_checkpoint_of_another_source_is_refused_and_nothing_is_written(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"a")
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    checkpoint = str(tmp_path / "checkpoint")
    writer = rate.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start().awaitTermination()
    with pytest.raises(StreamingQueryException) as caught:
        run_now(stream(spark, db_url), tmp_path)
    assert "trunkline.errors.InvalidArgument: the checkpoint was not written by format('trunkline')" in str(
        caught.value
    )
    assert "start with a new checkpoint" in str(caught.value)
    assert not [*(tmp_path / "out").glob("*.parquet")]
    assert tl.groups() == []


def test_SP_07_spark_is_told_what_was_lost_and_what_to_do(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    password = str(psycopg.conninfo.conninfo_to_dict(db_url)["password"])
    tl.create_topic("orders")
    tl.publish("orders", b"a")
    run_now(stream(spark, db_url, startingOffsets="earliest"), tmp_path)
    tl.delete_topic("orders")
    tl.create_topic("orders")
    tl.publish_many("orders", [b"x", b"y"])
    with pytest.raises(StreamingQueryException) as caught:
        run_now(stream(spark, db_url), tmp_path)
    said = str(caught.value)
    assert "trunkline.errors.NotFound: topic orders was deleted and created again" in said
    assert "start the reader anew" in said
    assert password not in said
    assert values(spark, tmp_path) == ["a"]


# -- SP-15 --


def test_SP_15_memory_of_a_worker_does_not_grow_with_the_range(spark: SparkSession, tl: Client, db_url: str) -> None:
    """The peak of the process that reads, for 20 MB and for 200 MB: a range that was held would show."""
    tl.create_topic("orders")
    payload = bytes(range(256)) * 40
    for _ in range(20):
        tl.publish_many("orders", [payload] * 1000)

    def peak_mb(end: int) -> float:
        frame = (
            spark.read.format("trunkline")
            .options(url=db_url, subscribe="orders", endingOffsets=json.dumps({"orders": {"0": end}}))
            .load()
        )
        (row,) = (
            frame.select("value")
            .mapInArrow(peaks(), "bytes BIGINT, peak BIGINT")
            .agg(f.sum("bytes").alias("bytes"), f.max("peak").alias("peak"))
            .collect()
        )
        assert row.bytes == (end - 1) * len(payload)
        return float(row.peak) / 1024

    small = peak_mb(2_001)
    large = peak_mb(20_001)
    assert large - small < 60, f"{small:.0f} MB for 20 MB, {large:.0f} MB for 200 MB"


def peaks() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The bytes that came, and the highest peak since then among the other Python workers of the executor, one of which
    reads; this one gets whole batches of Spark's. Made here, so that it is sent by value: workers cannot find the
    tests."""

    def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        from pathlib import Path

        import pyarrow as pa
        import pyarrow.compute as pc

        def children(pid: int) -> list[int]:
            lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
            return [int(child) for each in lists for child in each]

        # By the first batch the one that reads is there. Spark's daemons are children of its Java process, and workers
        # children of theirs.
        total = pc.sum(pc.binary_length(next(batches).column(0))).as_py()
        java = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        workers = [pid for daemon in children(java) for pid in children(daemon) if pid != os.getpid()]
        for pid in workers:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        total += sum(pc.sum(pc.binary_length(batch.column(0))).as_py() for batch in batches)
        found = []
        for pid in workers:
            status = Path(f"/proc/{pid}/status").read_text()
            found += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
        yield pa.RecordBatch.from_pydict({"bytes": [total], "peak": [max(found)]})

    return measured
