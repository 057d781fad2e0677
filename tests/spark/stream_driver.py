"""A Spark application that copies one topic to another until it is killed. Started as a process of its own by tests.

Its one argument is JSON (``Settings``). It says ``started`` once Spark is up, and ``batch N`` for every batch it has
finished; it ends with 1 when the query fails, and with 0 when an ``available_now`` query is done.
"""

from __future__ import annotations

import sys
import time

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOOK_S = 0.1


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """What to run. ``write_id``: not a stream, but one batch write of that name."""

    url: str
    checkpoint: str
    records_each: int = 100
    is_speculating: bool = False
    is_available_now: bool = False
    write_id: str | None = None
    sink: dict[str, str] = {}


def session(settings: Settings) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("trunkline-stream-driver")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.checkpointFileManagerClass", FILES)
    )
    if settings.is_speculating:
        # As eager as Spark lets one be: what takes longer than half of the others is tried a second time.
        builder = (
            builder.config("spark.speculation", "true")
            .config("spark.speculation.interval", "10ms")
            .config("spark.speculation.multiplier", "1.0")
            .config("spark.speculation.quantile", "0.1")
            .config("spark.speculation.minTaskRuntime", "0ms")
        )
    return builder.getOrCreate()


def copied(rows: DataFrame) -> DataFrame:
    """Every record goes to the partition from which it came, with its key."""
    return rows.select("key", "value", "partition")


def stream(spark: SparkSession, settings: Settings) -> StreamingQuery:
    rows = (
        spark.readStream.format("trunkline")
        .option("url", settings.url)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.records_each))
        .option("minPartitions", "2")  # tasks beside each other: few records would share one
        .load()
    )
    writer = (
        copied(rows)
        .writeStream.format("trunkline")
        .option("url", settings.url)
        .option("topic", "out")
        .option("checkpointLocation", settings.checkpoint)
        .options(**settings.sink)
    )
    return (writer.trigger(availableNow=True) if settings.is_available_now else writer).start()


def write_once(spark: SparkSession, settings: Settings) -> None:
    rows = spark.read.format("trunkline").option("url", settings.url).option("subscribe", "in").load()
    (
        copied(rows)
        .write.format("trunkline")
        .mode("append")
        .option("url", settings.url)
        .option("topic", "out")
        .option("writeId", settings.write_id)
        .options(**settings.sink)
        .save()
    )


def say(text: str) -> None:
    print(text, flush=True)


def follow(query: StreamingQuery) -> None:
    seen = -1
    while query.isActive:
        time.sleep(LOOK_S)
        progress = query.lastProgress
        if progress is not None and progress.batchId > seen:
            seen = progress.batchId
            say(f"batch {seen}")
    query.awaitTermination()


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    spark = session(settings)
    say("started")
    if settings.write_id is not None:
        write_once(spark, settings)
    else:
        follow(stream(spark, settings))
    say("done")


if __name__ == "__main__":
    main()
