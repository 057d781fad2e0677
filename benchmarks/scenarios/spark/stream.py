"""A topic of two million orders through a stream that ends with it (``availableNow``), in four micro-batches: into
another topic, exactly once, and into Parquet. Beside it the plain read of the same topic into the noop sink.

The rate is that of the micro-batches, as Spark clocks them. A stream starts once: the note says how long that takes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
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


@dataclass(frozen=True)
class Streamed:
    """Records a second in micro-batches, and how long the query took besides."""

    rate: float
    rest_s: float


def measure(bench: Bench) -> Iterator[Finding]:
    records = scaled(bench, RECORDS)
    with filled.topic(bench, records) as given:
        to_noop(topic_frame(bench.url("fast"), topic_name(given.log)))
        _to_topic(bench, "fast", given)
        _to_parquet(bench, given)
        for flush in bench.flushes:
            yield from _one_flush(bench, flush, given)


def _one_flush(bench: Bench, flush: Flush, given: Filled) -> Iterator[Finding]:
    reads: list[float] = []
    topics: list[Streamed] = []
    files: list[Streamed] = []
    for number in range(bench.rounds(flush)):
        frame = topic_frame(bench.url("fast"), topic_name(given.log))
        reads.append(given.records / took_s(lambda: to_noop(frame)))  # noqa: B023 - called at once
        topics.append(_to_topic(bench, flush, given))
        told = f"read {reads[-1]:,.0f}, to a topic {topics[-1].rate:,.0f}"
        if flush == "fast":
            files.append(_to_parquet(bench, given))
            told += f", to Parquet {files[-1].rate:,.0f}"
        bench.say(f"spark-stream {flush} flush, round {number + 1} of {bench.rounds(flush)}: {told} records/s")
    note = f"{given.records:,} records of {filled.RECORD_BYTES} bytes in {BATCHES} micro-batches"
    yield paired("spark-stream.topic", [each.rate for each in topics], reads, flush=flush, note=_note(note, topics))
    if files:
        yield paired("spark-stream.parquet", [each.rate for each in files], reads, note=_note(note, files))


def _note(note: str, runs: list[Streamed]) -> str:
    return f"{note}; before the first of them and after the last {median(each.rest_s for each in runs):.1f} s"


def _to_topic(bench: Bench, flush: Flush, given: Filled) -> Streamed:
    url = bench.url(flush)
    with bench.log(Ours(), TASKS) as log, folder() as place:
        bench.settle()
        writer = stream(url, given).select("value").writeStream.format("trunkline")
        streamed = _run(writer.options(url=url, topic=topic_name(log)), place, given.records)
        assert tally(topic_frame(url, topic_name(log)), "value") == given.tally, "the stream lost or changed records"
        return streamed


def _to_parquet(bench: Bench, given: Filled) -> Streamed:
    with folder() as place:
        bench.settle()
        writer = stream(bench.url("fast"), given).writeStream.format("parquet").option("path", str(place / "lake"))
        streamed = _run(writer, place, given.records)
        assert tally(session().read.parquet(str(place / "lake")), "value") == given.tally, "Parquet has other records"
        return streamed


def stream(url: str, given: Filled) -> DataFrame:
    """All of the topic, some of it at a time."""
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(given.records // BATCHES)}
    return session().readStream.format("trunkline").options(url=url, subscribe=topic_name(given.log), **limits).load()


def _run(writer: DataStreamWriter, place: Path, records: int) -> Streamed:
    began = perf_counter()
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    whole_s = perf_counter() - began
    batches = [each for each in query.recentProgress if each["numInputRows"] > 0]
    assert sum(each["numInputRows"] for each in batches) == records, "Spark counts other records"
    batches_s = sum(each["durationMs"]["triggerExecution"] for each in batches) / 1000
    return Streamed(records / batches_s, whole_s - batches_s)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of this run, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="trunkline-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


SCENARIO = Scenario("spark-stream", ("spark-stream.topic", "spark-stream.parquet"), measure)
