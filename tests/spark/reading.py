"""What the tests of reading share: the rows that SQL shows, and a reader driven as Spark drives it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import DataSourceReader, Filter
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from trunkline.spark.columns import LOG_APPEND_TIME, check_schema, schema
from trunkline.spark.options import source_options
from trunkline.spark.provider import TrunklineSource
from trunkline.spark.ranges import Range
from trunkline.spark.source import TopicStreamReader

Rows = list[dict[str, Any]]
_RECORDS = (
    "select partition, r.offset, key, payload, append_time, header_names, header_values "
    "from trunkline.records(%s, max_records => 2000000) r order by 1, 2"
)


def rows_of_sql(url: str, *topics: str) -> Rows:
    """Every record of these topics, as trunkline.records shows it, in the columns of Spark's."""
    found: Rows = []
    with psycopg.connect(url, autocommit=True) as connection:
        for topic in topics:
            for partition, offset, key, payload, time, names, values in connection.execute(_RECORDS, [topic]):
                pairs = zip(names or [], values or [], strict=True)
                found.append(
                    {
                        "key": key,
                        "value": payload,
                        "topic": topic,
                        "partition": partition,
                        "offset": offset,
                        "timestamp": time.astimezone(UTC),
                        "timestampType": LOG_APPEND_TIME,
                        "headers": [{"key": name, "value": value} for name, value in pairs] or None,
                    }
                )
    return in_order(found)


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def without_headers(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != "headers"} for row in rows]


def rows_of_spark(frame: DataFrame) -> Rows:
    """What Spark collects, as plain values; the session's zone is UTC."""
    return in_order([_plain(row) for row in frame.collect()])


def _plain(row: Row) -> dict[str, Any]:
    found = row.asDict(recursive=True)
    for name, value in found.items():
        if isinstance(value, bytearray):
            found[name] = bytes(value)
        elif isinstance(value, datetime):
            # Spark gives local time without saying so.
            found[name] = value.astimezone(UTC)
    for pair in found.get("headers") or []:
        pair["value"] = bytes(pair["value"])
    return found


def a_reader(url: str, **options: str) -> DataSourceReader:
    source = TrunklineSource({"url": url, **options})
    columns = schema(options.get("includeHeaders") == "true")
    return source.reader(columns)


def planned(reader: DataSourceReader) -> list[Range]:
    return [range_ for each in reader.partitions() if each.value is not None for range_ in each.value]


def rows_read(reader: DataSourceReader) -> Rows:
    """What the tasks of a read return, task by task."""
    found: Rows = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += batch.to_pylist()  # type: ignore[union-attr]
    return found


def rows_narrowed(url: str, filters: list[Filter], **options: str) -> tuple[list[Range], Rows]:
    """The ranges and rows of a read that was given filters."""
    reader = a_reader(url, pushFilters="true", **options)
    assert list(reader.pushFilters(filters)) == filters, "Spark applies every filter itself"
    return planned(reader), rows_read(reader)


class Stream:
    """A stream reader that is asked what Spark asks, in its order; offsets pass through JSON, as in a checkpoint."""

    def __init__(self, url: str, **options: str) -> None:
        what = {} if options.keys() & {"subscribePattern", "assign"} else {"subscribe": "orders"}
        found = source_options({"url": url, **what, **options}, streaming=True)
        self.reader = TopicStreamReader(found, check_schema(schema(found.include_headers)))

    def initial(self) -> dict[str, Any]:
        first = _kept(self.reader.initialOffset())
        assert _kept(self.reader.initialOffset()) == first, "Spark asks twice"
        return first

    def latest(self, start: Mapping[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:
        return _kept(self.reader.latestOffset(dict(start), limit or self.reader.getDefaultReadLimit()))

    def read(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Rows:
        found: Rows = []
        for partition in self.reader.partitions(dict(start), dict(end)):
            for batch in self.reader.read(partition):
                found += batch.to_pylist()
        return found

    def values(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[bytes]:
        return [row["value"] for row in self.read(start, end)]


def all_of(stream: Stream, start: Mapping[str, Any], limit: ReadLimit | None = None) -> Iterator[list[bytes]]:
    """Micro-batch after micro-batch, until there is nothing more."""
    while (end := stream.latest(start, limit or ReadAllAvailable())) != start:
        yield stream.values(start, end)
        start = end


def offsets_of(said: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """The topics of an offset of Spark's, without what proves them."""
    return {topic: by_partition for topic, by_partition in said.items() if topic != "@"}


def _kept(said: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(json.dumps(said))
    return kept
