"""From a view to where it goes: one streaming query a sink, each with its own checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import BinaryType, StringType

from trunkline.errors import QueryFailed, TrunklineError
from trunkline.spark.pipeline.file import ConsoleSink, ParquetSink, Sink, TopicSink
from trunkline.spark.pipeline.steps import check_columns

_RECORD = ("value", "key", "partition", "headers")
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""Every column is in every record, and a time loses nothing."""


class ShowRows(Protocol):
    """How rows of a batch are shown on a console."""

    def __call__(self, sink: str, batch: int, columns: Sequence[str], rows: Sequence[Row], *, more: bool) -> None: ...


@dataclass(frozen=True)
class Output:
    """What a query needs beside its rows. ``failures`` takes what a batch of ours failed with, by sink."""

    url: str
    name: str
    checkpoint: str
    trigger: dict[str, Any]
    show_rows: ShowRows
    failures: dict[str, BaseException]


def shape(sink: Sink, rows: DataFrame) -> DataFrame:
    """The columns that are written; InvalidArgument where one is missing."""
    made = sink.made
    if isinstance(made, TopicSink):
        return _records(sink, made, rows)
    if isinstance(made, ParquetSink):
        check_columns(sink.place, made.partition_by, rows)
        if made.partition_by and len(made.partition_by) >= len(rows.columns):
            raise sink.place.error("partition_by names every column: none would be left in the files")
    return rows


def start(sink: Sink, rows: DataFrame, output: Output) -> StreamingQuery:
    """Start the query of a sink; ``rows`` are those of ``shape``."""
    written = rows.writeStream.queryName(output.name).outputMode(sink.mode).trigger(**output.trigger)
    return _STARTED[type(sink.made)](sink, written.option("checkpointLocation", output.checkpoint), output)


# -- topics --


def _records(sink: Sink, made: TopicSink, rows: DataFrame) -> DataFrame:
    """Key and value. Rows that have a column ``value`` are records already, unless the sink says otherwise."""
    if made.value is None and not made.values and "value" in rows.columns:
        return _as_they_are(sink, made, rows)
    check_columns(sink.place, tuple(filter(None, (made.key, made.value, *made.values))), rows)
    if made.value is not None:
        _check_text(sink, rows, made.value)
        value = rows[made.value]
    else:
        value = F.to_json(F.struct(*(rows[name] for name in made.values or rows.columns)), _JSON)
    chosen = [value.alias("value")]
    if made.key is not None:
        chosen.append(_key(rows, made.key).alias("key"))
    return rows.select(*chosen)


def _as_they_are(sink: Sink, made: TopicSink, rows: DataFrame) -> DataFrame:
    check_columns(sink.place, (made.key,) if made.key else (), rows)
    _check_text(sink, rows, "value")
    extra = [name for name in rows.columns if name not in (*_RECORD, made.key)]
    if extra:
        raise sink.place.error(
            f"there is a column value, so rows are taken as records, and {', '.join(extra)} would be lost: "
            "name the columns of the JSON, like value: [minute, revenue], or select value, key, partition, headers only"
        )
    chosen = [rows[name] for name in rows.columns if name in _RECORD and not (name == "key" and made.key)]
    return rows.select(*chosen, *([_key(rows, made.key).alias("key")] if made.key else []))


def _check_text(sink: Sink, rows: DataFrame, name: str) -> None:
    kind = rows.select(name).schema.fields[0].dataType
    if not isinstance(kind, StringType | BinaryType):
        raise sink.place.error(
            f"column {name} is {kind.simpleString()}, and a record is STRING or BINARY: cast it, or write a list, "
            f"value: [{name}], for JSON"
        )


def _key(rows: DataFrame, name: str) -> Column:
    kind = rows.select(name).schema.fields[0].dataType
    return rows[name] if isinstance(kind, StringType | BinaryType) else rows[name].cast("string")


def _topic(sink: Sink, written: DataStreamWriter, output: Output) -> StreamingQuery:
    assert isinstance(sink.made, TopicSink)
    options = {"url": output.url, "topic": sink.made.topic, "sinkId": sink.name}
    if sink.mode == "append":
        return written.format("trunkline").options(**options).start()
    # Spark lets a source written in Python append only. A batch that is repeated is still published once: the sink
    # knows it by the query, its own name and the batch.
    return _each_batch(
        sink,
        written,
        output,
        lambda rows, _: rows.write.format("trunkline").options(**options).mode("append").save(),
    )


# -- files and the console --


def _parquet(sink: Sink, written: DataStreamWriter, _output: Output) -> StreamingQuery:
    assert isinstance(sink.made, ParquetSink)
    if sink.made.partition_by:
        written = written.partitionBy(*sink.made.partition_by)
    return written.format("parquet").option("path", located(sink.made.path)).start()


def located(path: str) -> str:
    """A path as Spark needs it: of this machine and whole, unless it names another file system."""
    return path if "://" in path else str(Path(path).expanduser().absolute())


def _console(sink: Sink, written: DataStreamWriter, output: Output) -> StreamingQuery:
    most = sink.made.rows if isinstance(sink.made, ConsoleSink) else 0

    def show(rows: DataFrame, batch: int) -> None:
        # All of it is computed, however few are shown: a step that groups keeps its state for every partition or none.
        rows.persist()
        try:
            count = rows.count()
            output.show_rows(sink.name, batch, rows.columns, rows.limit(most).collect(), more=count > most)
        finally:
            rows.unpersist()

    return _each_batch(sink, written, output, show)


def _each_batch(
    sink: Sink, written: DataStreamWriter, output: Output, work: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    def guarded(rows: DataFrame, batch: int) -> None:
        try:
            work(rows, batch)
        except Exception as error:  # noqa: BLE001 - raised again, short here and whole by the run
            # Spark looks through the text of an error in a way that long ones overflow its stack: it gets a short
            # one, and the whole is kept here.
            output.failures[sink.name] = error
            kind = type(error) if isinstance(error, TrunklineError) else QueryFailed
            raise kind(f"batch {batch} of {sink.name} failed") from None

    return written.foreachBatch(guarded).start()


_STARTED: dict[type, Callable[[Sink, DataStreamWriter, Output], StreamingQuery]] = {
    TopicSink: _topic,
    ParquetSink: _parquet,
    ConsoleSink: _console,
}
