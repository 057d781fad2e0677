"""What a task of a write does: lays rows out as batches, partition by partition, and stages them in the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trunkline.client.arrays import EncodedArray
from trunkline.engine.checks import check_topic_name
from trunkline.errors import InvalidArgument, NotFound, RoutingStale
from trunkline.records import Topic
from trunkline.spark.database import Database
from trunkline.spark.options import SinkOptions
from trunkline.spark.packing import (
    Numbers,
    bytea_array,
    integer_array,
    partitions_of_keys,
    sizes,
    text_array,
)

RECORD_ALONE_BYTES = 64 * 1024
"""A record over this gets a batch of its own, as everywhere."""
PENDING_BYTES_MAX = 64 * 1024 * 1024
"""About how much a task holds back to fill its batches."""


@dataclass
class Stage:
    """What a task has put down for one topic."""

    topic: Topic
    stage_no: int
    ordinal: int = 0
    record_count: int = 0


@dataclass
class _Pending:
    rows: list[pa.Table] = field(default_factory=list)
    records: int = 0
    bytes: int = 0


class Stager:
    """Stages the rows of one task. Rows for one partition keep their order."""

    def __init__(self, options: SinkOptions, database: Database, first_turn: int) -> None:
        self._options = options
        self._database = database
        self._turn = first_turn
        self._stages: dict[str, Stage] = {}
        self._pending: defaultdict[tuple[str, int], _Pending] = defaultdict(_Pending)
        self._pending_bytes = 0

    def stage(self, batches: Iterator[pa.RecordBatch]) -> list[Stage]:
        """Stage everything; what was staged, by topic. Where it fails, nothing is left behind."""
        try:
            for batch in batches:
                if batch.num_rows:
                    self._add(_columns(batch))
            for place in list(self._pending):
                self._flush(place)
        except BaseException:
            self._database.discard([stage.stage_no for stage in self._stages.values()])
            raise
        return list(self._stages.values())

    def _add(self, rows: pa.Table) -> None:
        for topic, of_topic in self._by_topic(rows):
            for partition, of_partition in self._by_partition(topic, of_topic):
                self._hold(topic, partition, of_partition)

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[Topic, pa.Table]]:
        if self._options.topic is not None:
            yield self._topic(self._options.topic), rows
            return
        names = rows.column("topic")
        if names.null_count:
            raise InvalidArgument("a row has no topic: set option topic, or fill the column")
        for name in pc.unique(names).to_pylist():
            yield self._topic(check_topic_name(name)), rows.filter(pc.equal(names, name))

    def _topic(self, name: str) -> Topic:
        if name not in self._stages:
            self._stages[name] = Stage(self._database.topics.look_up(name), self._database.open_stage())
        return self._stages[name].topic

    def _by_partition(self, topic: Topic, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        partitions = self._partitions(topic, rows)
        if partitions.min() == partitions.max():
            yield int(partitions[0]), rows
            return
        order = np.argsort(partitions, kind="stable")
        edges = np.flatnonzero(np.diff(partitions[order])) + 1
        for which in np.split(order, edges):
            # Taken and not sliced: a slice would keep all rows in memory as long as a quiet partition waits for more.
            yield int(partitions[which[0]]), rows.take(pa.array(which))

    def _partitions(self, topic: Topic, rows: pa.Table) -> Numbers:
        """A given partition, else that of the key, else the one whose turn it is."""
        key = _whole(rows.column("key"))
        found = np.full(rows.num_rows, self._turn % topic.partitions, np.int32)
        if key.null_count < len(key):
            keyed = pc.is_valid(key).to_numpy(zero_copy_only=False)
            found = np.where(keyed, partitions_of_keys(key, topic.partitions), found)
        if key.null_count:
            self._turn += 1
        if "partition" in rows.schema.names:
            given = _whole(rows.column("partition"))
            asked = pc.fill_null(given, -1).to_numpy(zero_copy_only=False)
            chosen = pc.is_valid(given).to_numpy(zero_copy_only=False)
            if chosen.any() and not ((asked[chosen] >= 0) & (asked[chosen] < topic.partitions)).all():
                raise NotFound(f"column partition: topic {topic.name} has the partitions 0 to {topic.partitions - 1}")
            found = np.where(chosen, asked, found)
        return found

    def _hold(self, topic: Topic, partition: int, rows: pa.Table) -> None:
        place = (topic.name, partition)
        held = self._pending[place]
        size = rows.nbytes
        held.rows.append(rows)
        held.records += rows.num_rows
        held.bytes += size
        self._pending_bytes += size
        if held.records >= self._options.batch_records or held.bytes >= self._options.batch_bytes:
            self._flush(place)
        elif self._pending_bytes > PENDING_BYTES_MAX:
            self._flush(max(self._pending, key=lambda each: self._pending[each].bytes))

    def _flush(self, place: tuple[str, int]) -> None:
        held = self._pending.pop(place)
        self._pending_bytes -= held.bytes
        rows = pa.concat_tables(held.rows).combine_chunks()
        value = _whole(rows.column("value"))
        for start, end in cut(sizes(value), self._options.batch_records, self._options.batch_bytes):
            self._put(place, rows.slice(start, end - start))

    def _put(self, place: tuple[str, int], rows: pa.Table) -> None:
        stage = self._stages[place[0]]
        try:
            self._database.put(stage.stage_no, stage.ordinal + 1, stage.topic, place[1], rows.num_rows, _arrays(rows))
        except RoutingStale as error:
            raise RoutingStale(
                f"partitions were added while the task ran, which must be tried again: {error}"
            ) from error
        stage.ordinal += 1
        stage.record_count += rows.num_rows


def cut(lengths: Numbers, records_max: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Pieces of at most so many records and bytes; a large record is alone, whatever its size."""
    count = len(lengths)
    ends = np.cumsum(lengths)
    large = np.flatnonzero(lengths > RECORD_ALONE_BYTES)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        end = min(start + records_max, count, int(np.searchsorted(ends, before + bytes_max, side="right")))
        next_large = int(large[np.searchsorted(large, start)]) if large.size and large[-1] >= start else count
        end = start + 1 if next_large == start else max(start + 1, min(end, next_large))
        yield start, end
        start = end


def _columns(batch: pa.RecordBatch) -> pa.Table:
    """The columns that are written, text as bytes; a null value is refused."""
    columns = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
    value = columns["value"]
    if value.null_count:
        raise InvalidArgument(
            "a row has a null value: a record has bytes, of which there may be none; filter such rows"
        )
    table = {"value": value.cast(pa.binary())}
    key = columns.get("key")
    table["key"] = pa.nulls(len(value), pa.binary()) if key is None else key.cast(pa.binary())
    for name in ("topic", "partition", "headers"):
        if name in columns:
            table[name] = columns[name]
    return pa.table(table)


def _arrays(rows: pa.Table) -> list[EncodedArray | None]:
    """Keys, payloads, and headers as counts, names and values; None for what no record has."""
    key = _whole(rows.column("key"))
    arrays: list[EncodedArray | None] = [
        None if key.null_count == len(key) else bytea_array(key),
        bytea_array(_whole(rows.column("value"))),
    ]
    headers = _whole(rows.column("headers")) if "headers" in rows.schema.names else None
    if headers is None:
        return [*arrays, None, None, None]
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    if not counts.any():
        return [*arrays, None, None, None]
    pairs = headers.flatten()
    names, values = pairs.field("key"), pairs.field("value")
    if pairs.null_count or names.null_count or values.null_count:
        raise InvalidArgument("a header has no name or no value: both are needed, and a value may be empty")
    return [*arrays, integer_array(counts), text_array(names), bytea_array(values.cast(pa.binary()))]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
