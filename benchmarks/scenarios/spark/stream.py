"""A topic of two million orders through a stream that ends with it (``availableNow``), in four micro-batches: into
another topic, exactly once, and into Parquet. Beside it the plain read of the same topic into the noop sink."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import filled
from benchmarks.bench import Bench, Scenario
from benchmarks.engine import TASKS, session, tally, to_noop, took_s, topic_frame
from benchmarks.filled import Filled, scaled
from benchmarks.lines import Finding, Flush, paired
from benchmarks.sides import Ours, topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORDS = 2_000_000
BATCHES = 4


def measure(bench: Bench) -> Iterator[Finding]:
    records = scaled(bench, RECORDS)
    with filled.topic(bench, records) as given:
        to_noop(topic_frame(bench.url("fast"), topic_name(given.log)))
        _to_topic(bench, "fast", given)
        _to_parquet(bench, given)
        for flush in bench.flushes:
            yield from _one_flush(bench, flush, given)


def _one_flush(bench: Bench, flush: Flush, given: Filled) -> Iterator[Finding]:
    reads, topics, files = [], [], []
    for number in range(bench.rounds(flush)):
        frame = topic_frame(bench.url("fast"), topic_name(given.log))
        reads.append(given.records / took_s(lambda: to_noop(frame)))  # noqa: B023 - called at once
        topics.append(_to_topic(bench, flush, given))
        told = f"read {reads[-1]:,.0f}, to a topic {topics[-1]:,.0f}"
        if flush == "fast":
            files.append(_to_parquet(bench, given))
            told += f", to Parquet {files[-1]:,.0f}"
        bench.say(f"spark-stream {flush} flush, round {number + 1} of {bench.rounds(flush)}: {told} records/s")
    note = f"{given.records:,} records of {filled.RECORD_BYTES} bytes in {BATCHES} micro-batches"
    yield paired("spark-stream.topic", topics, reads, flush=flush, note=note)
    if files:
        yield paired("spark-stream.parquet", files, reads, note=note)


def _to_topic(bench: Bench, flush: Flush, given: Filled) -> float:
    url = bench.url(flush)
    with bench.log(Ours(), TASKS) as log, folder() as place:
        bench.settle()
        writer = stream(url, given).select("value").writeStream.format("trunkline")
        rate = given.records / _run(writer.options(url=url, topic=topic_name(log)), place)
        assert tally(topic_frame(url, topic_name(log)), "value") == given.tally, "the stream lost or changed records"
        return rate


def _to_parquet(bench: Bench, given: Filled) -> float:
    with folder() as place:
        bench.settle()
        writer = stream(bench.url("fast"), given).writeStream.format("parquet").option("path", str(place / "lake"))
        rate = given.records / _run(writer, place)
        assert tally(session().read.parquet(str(place / "lake")), "value") == given.tally, "Parquet has other records"
        return rate


def stream(url: str, given: Filled) -> DataFrame:
    """All of the topic, some of it at a time."""
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(given.records // BATCHES)}
    return session().readStream.format("trunkline").options(url=url, subscribe=topic_name(given.log), **limits).load()


def _run(writer: DataStreamWriter, place: Path) -> float:
    """How long the stream takes, from its start to its end."""

    def run() -> None:
        query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    return took_s(run)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of this run, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="trunkline-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


SCENARIO = Scenario("spark-stream", ("spark-stream.topic", "spark-stream.parquet"), measure)
