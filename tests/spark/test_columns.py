"""Batches of the log as columns: whatever log_read returns, the records come out as they went in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from trunkline.errors import InvalidArgument, LogBroken
from trunkline.spark.columns import LOG_APPEND_TIME, TYPES, Layout, check_schema, fetched, names, schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALL = tuple(TYPES)

_FETCHED_TYPES = {
    "first_offset": pa.int64(),
    "record_count": pa.int32(),
    "append_time": pa.timestamp("us", "UTC"),
    "append_times": pa.list_(pa.timestamp("us", "UTC")),
    "keys": pa.list_(pa.binary()),
    "payloads": pa.list_(pa.binary()),
    "joined": pa.binary(),
    "lengths": pa.list_(pa.int32()),
    "header_counts": pa.list_(pa.int32()),
    "header_names": pa.list_(pa.string()),
    "header_values": pa.list_(pa.binary()),
}


@dataclass(frozen=True)
class Wanted:
    """A record, as it must come out."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    time_us: int


records = st.builds(
    Wanted,
    key=st.none() | st.binary(max_size=4),
    value=st.binary(max_size=9),
    headers=st.just([]) | st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=3),
    time_us=st.just(0),
)


@st.composite
def some_batches(draw: st.DrawFn) -> list[tuple[bool, list[Wanted]]]:
    """Batches (records of one time), and runs of batches of one record (each with its own)."""
    found = []
    time_us = 0
    for is_merged in draw(st.lists(st.booleans(), min_size=1, max_size=6)):
        bare = draw(st.booleans())
        of_batch = []
        time_us += draw(st.integers(0, 10**12))
        for each in draw(st.lists(records, min_size=1, max_size=8)):
            time_us += draw(st.integers(0, 9)) if is_merged else 0
            key, headers = (None, []) if bare else (each.key, each.headers)
            of_batch.append(Wanted(key, each.value, headers, time_us))
        found.append((is_merged, of_batch))
    return found


def rows_of(batches: list[tuple[bool, list[Wanted]]], first: int, columns: tuple[str, ...]) -> pa.RecordBatch:
    """As log_read with merge_small returns it."""
    found: list[dict[str, Any]] = []
    for is_merged, batch in batches:
        has_keys = any(each.key is not None for each in batch)
        has_headers = any(each.headers for each in batch)
        pairs = [pair for each in batch for pair in each.headers]
        row: dict[str, Any] = {
            "first_offset": first,
            "record_count": len(batch),
            "append_time": EPOCH + timedelta(microseconds=batch[0].time_us),
            "keys": [each.key for each in batch] if has_keys else None,
            "header_counts": [len(each.headers) for each in batch] if has_headers else None,
            "header_names": [name for name, _ in pairs] if has_headers else None,
            "header_values": [value for _, value in pairs] if has_headers else None,
        }
        if is_merged:
            row["joined"] = b"".join(each.value for each in batch)
            row["lengths"] = [len(each.value) for each in batch]
            row["append_times"] = [EPOCH + timedelta(microseconds=each.time_us) for each in batch]
        else:
            row["payloads"] = [each.value for each in batch]
        found.append(row)
        first += len(batch)
    schema = pa.schema([pa.field(name, _FETCHED_TYPES[name]) for name in dict.fromkeys(fetched(columns))])
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names} for row in found], schema=schema)


def shown(each: Wanted, offset: int) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in each.headers] or None
    return {
        "key": each.key,
        "value": each.value,
        "topic": "orders",
        "partition": 3,
        "offset": offset,
        "timestamp": EPOCH + timedelta(microseconds=each.time_us),
        "timestampType": LOG_APPEND_TIME,
        "headers": headers,
    }


@settings(deadline=None)
@given(
    some_batches(),
    st.lists(st.sampled_from(ALL), min_size=1, max_size=8, unique=True),
    st.integers(1, 2**60),
    st.integers(0, 5),
    st.integers(0, 5),
    st.booleans(),
)
def test_records_come_out_as_they_went_in(
    batches: list[tuple[bool, list[Wanted]]], columns: list[str], first: int, skip: int, leave: int, has_more: bool
) -> None:
    wanted = [each for _, batch in batches for each in batch]
    # As the reader asks: the first batch holds the start.
    start = first + min(skip, len(batches[0][1]) - 1)
    end = max(start, first + len(wanted) - leave)
    rows = rows_of(batches, first, tuple(columns))
    if has_more:
        closing = dict.fromkeys(rows.schema.names) | {"first_offset": first + len(wanted), "record_count": 0}
        rows = pa.concat_batches([rows, pa.RecordBatch.from_pylist([closing], schema=rows.schema)])
    layout = Layout("orders", 3, tuple(columns))
    found = list(layout.flatten(rows, start, end))
    expected = [shown(each, first + i) for i, each in enumerate(wanted) if start <= first + i < end]
    assert [row for batch in found for row in batch.to_pylist()] == [
        {name: row[name] for name in columns} for row in expected
    ]
    for batch in found:
        assert batch.schema.equals(layout.schema)
        batch.validate(full=True)


@pytest.mark.parametrize("include_headers", [True, False])
def test_columns_have_the_types_that_spark_expects(include_headers: bool) -> None:
    expected = to_arrow_schema(schema(include_headers), timezone="UTC")
    assert Layout("orders", 0, tuple(names(include_headers))).schema.equals(expected)


def test_a_gap_between_batches_is_an_error() -> None:
    one = rows_of([(False, [Wanted(None, b"a", [], 0)])], 1, ("value",))
    three = rows_of([(False, [Wanted(None, b"c", [], 0)])], 3, ("value",))
    layout = Layout("orders", 0, ("value",))
    with pytest.raises(LogBroken, match="do not follow"):
        list(layout.flatten(pa.concat_batches([one, three]), 1, 4))
    with pytest.raises(LogBroken, match="do not follow"):
        list(layout.flatten(three, 2, 4))


@pytest.mark.parametrize("array", ["payloads", "keys"])
def test_arrays_that_do_not_fit_the_count_are_an_error(array: str) -> None:
    columns = ("key", "value")
    rows = rows_of([(False, [Wanted(b"k", b"a", [], 0), Wanted(b"k", b"b", [], 0)])], 1, columns)
    broken = [{**row, array: row[array][:1]} for row in rows.to_pylist()]
    with pytest.raises(LogBroken, match="says 2 records"):
        list(Layout("orders", 0, columns).flatten(pa.RecordBatch.from_pylist(broken, schema=rows.schema), 1, 3))


def test_a_schema_may_name_columns_in_any_order() -> None:
    assert check_schema(of(("offset", LongType()), ("value", BinaryType()))) == ("offset", "value")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("valeu", BinaryType(), "did you mean 'value'"),
        ("value", StringType(), "column value is binary, not string; .*cast"),
        ("partition", LongType(), "column partition is int"),
        ("timestamp", TimestampNTZType(), "column timestamp is timestamp, not timestamp_ntz"),
        ("headers", MapType(StringType(), BinaryType()), "column headers is array"),
    ],
)
def test_a_schema_that_a_topic_does_not_have_is_refused(name: str, kind: DataType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check_schema(of((name, kind)))


def of(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])
