"""Batches of the log as columns of Spark's: the arrays of a batch are laid one after the other, no object a record.

The columns are those of Spark's Kafka source. Spark checks only the first batch of a task against its schema, so every
column has exactly the type that Spark expects: ``binary`` and not ``large_binary``, ``timestamp[us, UTC]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from trunkline.errors import InvalidArgument, LogBroken
from trunkline.nearest import nearest_name

LOG_APPEND_TIME = 1
"""What ``timestampType`` says: the time is the log's, not the producer's."""

_TIME = pa.timestamp("us", "UTC")
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]), nullable=True)
)
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _TIME,
    "timestampType": pa.int32(),
    "headers": _HEADERS,
}
KINDS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
"""The same, as Spark says it."""

_FETCHED: dict[str, tuple[str, ...]] = {
    "key": ("keys",),
    "value": ("payloads", "joined", "lengths"),
    "timestamp": ("append_time", "append_times"),
    "headers": ("header_counts", "header_names", "header_values"),
}


def names(include_headers: bool) -> list[str]:
    """The columns of a read, in order."""
    return [name for name in TYPES if include_headers or name != "headers"]


def schema(include_headers: bool) -> StructType:
    """The columns and their types, for Spark."""
    return StructType([StructField(name, KINDS[name]) for name in names(include_headers)])


def check_schema(wanted: StructType) -> tuple[str, ...]:
    """The columns that a user has asked for with ``.schema(…)``: any of ours, in any order, with their own types."""
    for field in wanted.fields:
        if field.name not in KINDS:
            raise InvalidArgument(f"a topic has no column {field.name!r}; {nearest_name(field.name, tuple(KINDS))}")
        ours = KINDS[field.name]
        if field.dataType != ours:
            raise InvalidArgument(
                f"column {field.name} is {ours.simpleString()}, not {field.dataType.simpleString()}; "
                "read it as it is, then cast it"
            )
    return tuple(wanted.names)


def fetched(wanted: Sequence[str]) -> tuple[str, ...]:
    """The columns of log_read that are needed for these."""
    return ("first_offset", "record_count", *(name for column in wanted for name in _FETCHED.get(column, ())))


@dataclass(frozen=True)
class Layout:
    """Which columns to make, for which partition of which topic."""

    topic: str
    partition: int
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, TYPES[name]) for name in self.columns])

    def flatten(self, rows: pa.RecordBatch, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records of these batches that lie in ``[start, end)``, in order.

        Batches must follow each other without a gap, the first one holding ``start``.
        """
        counts = rows.column("record_count").to_numpy(zero_copy_only=False)
        first = rows.column("first_offset").to_numpy(zero_copy_only=False)
        real = int(np.count_nonzero(counts))
        # A row without records says that more was left for the next read, and is the last.
        if real < len(counts) and counts[real:].any():
            raise LogBroken(f"an empty batch between others in {self.topic} {self.partition}")
        rows, counts, first = rows.slice(0, real), counts[:real].astype(np.int64), first[:real]
        if not real:
            return
        if first[0] > start or not np.array_equal(first[1:], first[:-1] + counts[:-1]):
            raise LogBroken(f"offsets of {self.topic} {self.partition} do not follow each other from {start} on")
        for a, b in self._runs(rows):
            run, run_counts, run_first = rows.slice(a, b - a), counts[a:b], int(first[a])
            low, high = max(start, run_first), min(end, run_first + int(run_counts.sum()))
            if low < high:
                whole = [_MADE[name](self, run, run_counts) for name in self.columns]
                batch = pa.RecordBatch.from_arrays(whole, schema=self.schema)
                yield batch.slice(low - run_first, high - low)

    def _runs(self, rows: pa.RecordBatch) -> list[tuple[int, int]]:
        """Rows that can be laid out together: batches, or runs of batches of one record, which come in another form."""
        merged = "joined" in rows.schema.names and rows.column("joined").null_count < len(rows)
        if not merged and not any(
            0 < rows.column(name).null_count < len(rows)
            for name in ("keys", "header_counts", "append_times")
            if name in rows.schema.names
        ):
            return [(0, len(rows))]
        return [(i, i + 1) for i in range(len(rows))]


def _total(counts: np.ndarray[Any, Any]) -> int:
    return int(counts.sum())


def _key(_layout: Layout, rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    keys = rows.column("keys")
    return pa.nulls(_total(counts), pa.binary()) if keys.null_count else _checked(keys.flatten(), counts)


def _value(_layout: Layout, rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    payloads = rows.column("payloads")
    if not payloads.null_count:
        return _checked(payloads.flatten(), counts)
    lengths = _checked(rows.column("lengths").flatten(), counts).to_numpy(zero_copy_only=False)
    joined = rows.column("joined")[0].as_buffer()
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if int(offsets[-1]) != joined.size:
        raise LogBroken("a run of batches has other lengths than bytes")
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), joined])


def _topic(layout: Layout, _rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    return pa.repeat(pa.scalar(layout.topic), _total(counts))


def _partition(layout: Layout, _rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.full(_total(counts), layout.partition, np.int32))


def _offset(_layout: Layout, rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    first = rows.column("first_offset")[0].as_py()
    return pa.array(np.arange(first, first + _total(counts), dtype=np.int64))


def _timestamp(_layout: Layout, rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    times = rows.column("append_times")
    if not times.null_count:
        each = _checked(times.flatten(), counts)
        return each.cast(pa.int64()).cast(_TIME)
    once = rows.column("append_time").cast(pa.int64()).to_numpy(zero_copy_only=False)
    return pa.array(np.repeat(once, counts)).cast(_TIME)


def _timestamp_type(_layout: Layout, _rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.full(_total(counts), LOG_APPEND_TIME, np.int32))


def _headers(_layout: Layout, rows: pa.RecordBatch, counts: np.ndarray[Any, Any]) -> pa.Array:
    """A record without headers has null, as with Kafka's source."""
    header_counts = rows.column("header_counts")
    if header_counts.null_count:
        return pa.nulls(_total(counts), _HEADERS)
    each = _checked(header_counts.flatten(), counts).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(each) + 1, np.int32)
    np.cumsum(each, out=offsets[1:])
    names_, values = rows.column("header_names").flatten(), rows.column("header_values").flatten()
    if not len(names_) == len(values) == int(offsets[-1]):
        raise LogBroken("a batch has other counts than headers")
    pairs = pa.StructArray.from_arrays([names_.cast(pa.string()), values.cast(pa.binary())], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=_HEADERS, mask=pa.array(each == 0))


def _checked(values: pa.Array, counts: np.ndarray[Any, Any]) -> pa.Array:
    if len(values) != _total(counts):
        raise LogBroken(f"a batch says {_total(counts)} records, and its arrays have {len(values)}")
    return values


_MADE: dict[str, Callable[[Layout, pa.RecordBatch, np.ndarray[Any, Any]], pa.Array]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
