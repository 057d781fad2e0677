"""Spark, for the benchmark of it: one session for a whole run, and what is done with frames on either side."""

from __future__ import annotations

import os
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


@cache
def session() -> SparkSession:
    """The session of the run, started when the first line needs it. Both sides run in it."""
    import trunkline.spark
    from benchmarks.baselines.ceiling import CeilingSource

    # Spark's Python processes must find the benchmark's own source.
    search = os.pathsep.join(filter(None, [str(REPOSITORY), str(REPOSITORY / "src"), os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = search
    config = {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "10000"}
    jar = jdbc.find_jar()
    if jar is not None:
        config["spark.driver.extraClassPath"] = str(jar)
    started = trunkline.spark.session("trunkline-bench", master=f"local[{THREADS},4]", config=config)
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
