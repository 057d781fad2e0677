"""Writing topics from Spark, exactly once: ``df.write`` and ``df.writeStream`` with ``format("trunkline")``.

Tasks stage their rows (``staging.py``); the driver then publishes what the tasks that Spark counts have staged, in
one short transaction, or a few. A batch is known by (query id, sink id, batch id): whoever commits it again, after a
crash or beside a zombie, finds it in the log. What failed or superfluous tasks have staged is never read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    NullType,
    StringType,
    StructType,
)

from trunkline.errors import InvalidArgument, StageLost
from trunkline.nearest import nearest_name
from trunkline.spark.database import Identity, database
from trunkline.spark.options import SinkOptions
from trunkline.spark.staging import Stage, Stager
from trunkline.spark.workers import leave_quietly

leave_quietly()

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

_TEXT_OR_BYTES = (StringType, BinaryType)


@dataclass
class Staged(WriterCommitMessage):
    """What a task tells the driver: who it belongs to, and the stages with their counts."""

    identity: Identity
    task: int
    stage_nos: list[int]
    record_counts: list[int]
    topic_ids: list[int]


class _Writing:
    """What batch and stream writes share."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument("a log is appended to: use mode('append') or outputMode('append')")
        check_schema(schema, options.topic)
        self._options = options

    def _stage(self, rows: Iterator[pa.RecordBatch], identity: Identity) -> Staged:
        context = _context()
        task = context.partitionId()
        stager = Stager(self._options, database(self._options.url), task + identity.batch_id)
        return _staged(identity, task, stager.stage(rows))

    def _publish(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None = None) -> None:
        """Publish what the tasks have staged, in their order."""
        staged = sorted((each for each in messages if isinstance(each, Staged)), key=lambda each: each.task)
        if len(staged) < len(messages):
            raise StageLost(
                f"Spark commits a write of {len(messages)} tasks, of which {len(staged)} say what they have staged; "
                "nothing was published: run it again"
            )
        if not staged:
            return
        identity = staged[0].identity
        database(self._options.url).publish(
            identity if batch_id is None else replace(identity, batch_id=batch_id),
            stage_nos=[number for each in staged for number in each.stage_nos],
            record_counts=[count for each in staged for count in each.record_counts],
            topic_ids={topic_id for each in staged for topic_id in each.topic_ids},
        )

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        stages = [number for each in messages if isinstance(each, Staged) for number in each.stage_nos]
        database(self._options.url).discard(stages)


class TopicStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """A stream's writes. Spark numbers the batches, and repeats one after a crash."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        options = self._options
        query_id = options.query_id or context.getLocalProperty(QUERY_ID)
        batch_id = context.getLocalProperty(BATCH_ID)
        if not query_id or not batch_id:
            raise InvalidArgument("Spark does not say which batch of which query this is; is this a streaming query?")
        run_id = context.getLocalProperty(RUN_ID) or query_id
        identity = Identity(query_id, sink_id(options), int(batch_id), run_id, is_exact=options.fail_on_changed_batch)
        return self._stage(iterator, identity)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._publish(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - Spark's
        self._discard(messages)


class TopicWriter(_Writing, DataSourceArrowWriter):
    """A batch write. With ``writeId``, done once however often it is run; inside ``foreachBatch``, once a batch, and
    ``sinkId`` tells several writes apart. Otherwise once each time."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._run_id = uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._stage(iterator, self._identity())

    def _identity(self) -> Identity:
        options, context = self._options, _context()
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if not query_id or not batch_id:
            if options.write_id is not None:
                return Identity(f"write:{options.write_id}", sink_id(options), 0, self._run_id, is_exact=False)
            return Identity(f"write:{self._run_id}", sink_id(options), 0, self._run_id, is_named=False)
        if options.write_id is not None:
            raise InvalidArgument(
                "writeId names a write that is done once: inside foreachBatch every batch after the first would be "
                "taken for done; set option sinkId instead, another one for each write"
            )
        if options.sink_id is None:
            raise InvalidArgument(
                "inside foreachBatch every write needs a name, so that a batch that is repeated is not published twice "
                "and two writes are not taken for one: set option sinkId, another one for each write"
            )
        run_id = context.getLocalProperty(RUN_ID) or self._run_id
        return Identity(
            options.query_id or query_id,
            options.sink_id,
            int(batch_id),
            run_id,
            is_exact=options.fail_on_changed_batch,
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._discard(messages)


def sink_id(options: SinkOptions) -> str:
    """The option, else a name made of the topic."""
    if options.sink_id is not None:
        return options.sink_id
    # Not of the URL: the ledger lies in the database itself, and a query that finds it under another address after a
    # failover must be known there.
    return hashlib.sha256(f"topic {options.topic or ''}".encode()).hexdigest()[:32]


def check_schema(schema: StructType, topic: str | None) -> None:
    """Refuse columns that cannot be written, before anything is done."""
    wanted = {
        "value": ("STRING or BINARY", _is_text_or_bytes),
        "key": ("STRING or BINARY", _is_text_or_bytes),
        "topic": ("STRING", lambda kind: isinstance(kind, StringType)),
        "partition": ("INT", lambda kind: isinstance(kind, IntegerType)),
        "headers": ("ARRAY<STRUCT<key: STRING, value: BINARY>>", _is_headers),
    }
    found = {field.name.lower(): field.dataType for field in schema.fields}
    for name, kind in found.items():
        if name not in wanted:
            raise InvalidArgument(
                f"a record has no column {name!r}; {nearest_name(name, tuple(wanted))}. "
                "Select value, and if you like key, topic, partition, headers"
            )
        shown, fits = wanted[name]
        if not fits(kind):
            raise InvalidArgument(f"column {name} must be {shown}, not {kind.simpleString()}")
    if "value" not in found:
        raise InvalidArgument("a record needs a column value: select one, like to_json(struct('*')) AS value")
    if topic is None and "topic" not in found:
        raise InvalidArgument("which topic? set option topic, or add a column topic")


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, (*_TEXT_OR_BYTES, NullType))


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return [field.name for field in fields] == ["key", "value"] and all(
        isinstance(field.dataType, of) for field, of in zip(fields, (StringType, BinaryType), strict=True)
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvalidArgument("this runs in a task of Spark's")
    return context


def _staged(identity: Identity, task: int, stages: list[Stage]) -> Staged:
    return Staged(
        identity,
        task,
        [stage.stage_no for stage in stages],
        [stage.record_count for stage in stages],
        [stage.topic.topic_id for stage in stages],
    )
