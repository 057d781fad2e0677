"""Spark, for the benchmark of it: one session for a whole run, and what is done with frames on either side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.baselines import jdbc
from benchmarks.payloads import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

THREADS = 2
TASKS = 4
REPOSITORY = Path(__file__).resolve().parents[1]
_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@cache
def session() -> SparkSession:
    """The session of the run, started when the first line needs it. Both sides run in it."""
    from pyspark.sql import SparkSession

    from benchmarks.baselines.ceiling import CeilingSource

    # Spark's Python processes must find the benchmark's own source.
    search = os.pathsep.join(filter(None, [str(REPOSITORY), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = search
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(f"local[{THREADS},4]")
        .appName("trunkline-bench")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(THREADS))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.streaming.checkpointFileManagerClass", _FILES)
    )
    jar = jdbc.find_jar()
    if jar is not None:
        builder = builder.config("spark.driver.extraClassPath", str(jar))
    started: SparkSession = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    started.dataSource.register(CeilingSource)
    return started


def stop() -> None:
    """End the session, if one was started."""
    if session.cache_info().currsize:
        session().stop()
        session.cache_clear()


def topic_frame(url: str, topic: str, columns: str | None = None) -> DataFrame:
    """A topic, read as a user would: all its columns, or those that are named."""
    reader = session().read.format("trunkline").options(url=url, subscribe=topic)
    return (reader if columns is None else reader.schema(columns)).load()


def to_noop(frame: DataFrame) -> None:
    """Take every row, and do nothing with it."""
    frame.write.format("noop").mode("overwrite").save()


def tally(frame: DataFrame, column: str) -> Tally:
    """What a frame holds, each record touched by Spark itself."""
    row = frame.selectExpr("count(1)", f"sum(length({column}))", f"sum(crc32({column}))").first()
    assert row is not None
    return Tally(*(int(each or 0) for each in row))


def took_s(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began
