"""Batch reads: exactly the records of the range that was asked for, or an error that says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

import trunkline
from tests.spark.reading import (
    Rows,
    a_reader,
    in_order,
    planned,
    rows_narrowed,
    rows_of_spark,
    rows_of_sql,
    rows_read,
    without_headers,
)
from trunkline import Client, Message
from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange
from trunkline.records import Headers

ODD_HEADERS: Headers = [("a", b"1"), ("a", b"\xff\x00"), ("ä €", b"")]


def roll(url: str, topic: str) -> None:
    """Begin a new segment; partitions move to it with their next publish."""
    with psycopg.connect(url, autocommit=True) as connection:
        statement = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic where name = %s"
        connection.execute(statement, [topic])


def fill(tl: Client, url: str) -> None:
    """Topics with everything that a log can hold: keys and none, headers, batches, runs of single records, segments."""
    tl.create_topic("orders", partitions=3)
    tl.create_topic("clicks", partitions=2)
    tl.create_topic("other")
    tl.publish_many("orders", [Message(b"o%d" % i, key=f"k{i % 7}") for i in range(50)])
    tl.publish_many("orders", [Message(b"n%d" % i, key=None if i % 2 else b"", partition=1) for i in range(9)])
    for i in range(140):
        tl.publish("orders", b"single %d" % i, partition=2, key=f"s{i}" if i % 3 else None)
    tl.publish_many(
        "clicks", [Message(b"c%d" % i, headers=ODD_HEADERS if i % 2 else None, partition=1) for i in range(10)]
    )
    roll(url, "orders")
    tl.publish("orders", b"", key=b"\x00\xff", headers={"x": "y"}, partition=0)
    for i in range(70):
        tl.publish("orders", b"bare %d" % i, partition=1)
    for i in range(70):
        tl.publish("clicks", b"head %d" % i, partition=0, headers={"n": str(i)} if i % 2 else None)
    roll(url, "orders")
    tl.publish_many("orders", [b"x" * 70_000, b"last"])
    tl.publish("other", b"not asked for")


@pytest.fixture
def filled(tl: Client, db_url: str) -> str:
    fill(tl, db_url)
    return db_url


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("trunkline").options(url=url, **options).load()


# -- SP-01 --


def test_SP_01_a_batch_read_is_what_sql_shows_row_by_row(spark: SparkSession, filled: str) -> None:
    expected = rows_of_sql(filled, "clicks", "orders")
    assert len(expected) == 50 + 9 + 140 + 1 + 70 + 2 + 10 + 70
    options = {"subscribe": "orders,clicks", "includeHeaders": "true", "minPartitions": "4"}
    frame = load(spark, filled, **options)
    assert frame.rdd.getNumPartitions() == 5
    assert rows_of_spark(frame) == expected
    # With less a task and less a read, and without headers.
    options = {"subscribePattern": "(ord|click).*s", "maxRecordsPerPartition": "100", "readBytes": "3000"}
    assert rows_of_spark(load(spark, filled, **options)) == without_headers(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "orders,clicks"},
        {"subscribePattern": "orders|clicks"},
        {"assign": '{"clicks":[1,0],"orders":[0,1,2]}'},
        {"subscribe": "clicks,orders", "minPartitions": "20"},
        {"subscribe": "clicks,orders", "maxRecordsPerPartition": "1"},
        {"subscribe": "clicks,orders", "readBytes": "1"},
        {"subscribe": "clicks,orders", "maxRecordsPerPartition": "13", "minPartitions": "3", "readBytes": "500"},
    ],
)
def test_SP_01_however_a_read_is_cut_it_has_the_same_rows(filled: str, options: dict[str, str]) -> None:
    reader = a_reader(filled, includeHeaders="true", **options)
    assert in_order(rows_read(reader)) == rows_of_sql(filled, "clicks", "orders")
    pieces = planned(reader)
    assert len(pieces) >= int(options.get("minPartitions", 0))
    assert all(len(piece) <= int(options.get("maxRecordsPerPartition", 10**9)) for piece in pieces)


def test_SP_01_records_of_a_task_come_in_order(filled: str) -> None:
    for piece in a_reader(filled, subscribe="orders", minPartitions="9").partitions():
        reader = a_reader(filled, subscribe="orders")
        offsets = [row["offset"] for batch in reader.read(piece) for row in batch.to_pylist()]  # type: ignore[union-attr]
        (read,) = piece.value
        assert offsets == list(range(read.start, read.end))


def test_SP_01_some_partitions_alone(filled: str) -> None:
    expected = [row for row in rows_of_sql(filled, "orders", "clicks") if (row["topic"], row["partition"]) in CHOSEN]
    reader = a_reader(filled, assign='{"orders":[2,0],"clicks":[1]}', includeHeaders="true")
    assert in_order(rows_read(reader)) == expected


CHOSEN = {("orders", 0), ("orders", 2), ("clicks", 1)}


def test_SP_01_from_and_to_given_offsets(filled: str) -> None:
    options = {
        "subscribe": "orders",
        "startingOffsets": '{"orders":{"0":3,"1":-2,"2":101}}',
        "endingOffsets": '{"orders":{"0":-1,"1":12,"2":130}}',
    }
    ends = {0: (3, 10**9), 1: (1, 12), 2: (101, 130)}
    expected = [row for row in rows_of_sql(filled, "orders") if _within(row["offset"], ends[row["partition"]])]
    assert in_order(rows_read(a_reader(filled, **options))) == without_headers(expected)


def _within(offset: int, ends: tuple[int, int]) -> bool:
    return ends[0] <= offset < ends[1]


@pytest.fixture
def timed(tl: Client, db_url: str) -> tuple[str, list[int]]:
    """A topic with records of given times: four a second apart, in milliseconds."""
    base = datetime(2026, 5, 1, tzinfo=UTC)
    tl.create_topic("orders", partitions=2)
    times = []
    with psycopg.connect(db_url, autocommit=True) as connection:
        for i in range(4):
            time = base + timedelta(seconds=i)
            connection.execute(
                "create or replace function trunkline.clock_now() returns timestamptz language sql volatile "
                f"as $$ select '{time.isoformat()}'::timestamptz $$"
            )
            for partition in (0, 1):
                tl.publish_many("orders", [Message(b"%d" % i, partition=partition)] * 2)
            times.append(int(time.timestamp() * 1000))
    return db_url, times


def test_SP_01_from_and_to_given_times(timed: tuple[str, list[int]]) -> None:
    url, times = timed
    everything = without_headers(rows_of_sql(url, "orders"))

    def between(start: int, end: int, partition: int | None = None) -> Rows:
        found = [row for row in everything if start <= row["timestamp"].timestamp() * 1000 < end]
        return [row for row in found if partition in (None, row["partition"])]

    for all_at_once in [
        {"startingTimestamp": str(times[1]), "endingTimestamp": str(times[3])},
        {
            "startingOffsetsByTimestamp": json.dumps({"orders": {"0": times[1], "1": times[1]}}),
            "endingOffsetsByTimestamp": json.dumps({"orders": {"0": times[3], "1": times[3]}}),
        },
    ]:
        assert in_order(rows_read(a_reader(url, subscribe="orders", **all_at_once))) == between(times[1], times[3])
    by_partition = {
        "startingOffsetsByTimestamp": json.dumps({"orders": {"0": times[0] + 1, "1": times[2]}}),
        "endingOffsetsByTimestamp": json.dumps({"orders": {"0": times[2] - 1, "1": times[3] + 10**6}}),
    }
    found = in_order(rows_read(a_reader(url, subscribe="orders", **by_partition)))
    assert found == between(times[1], times[2], 0) + between(times[2], times[3] + 1, 1)


def test_a_time_after_the_last_record_is_an_error_or_the_end_by_option(timed: tuple[str, list[int]]) -> None:
    url, times = timed
    late = {"subscribe": "orders", "startingTimestamp": str(times[3] + 1)}
    with pytest.raises(OffsetOutOfRange, match="startingOffsetsByTimestampStrategy=latest"):
        a_reader(url, **late).partitions()
    assert rows_read(a_reader(url, startingOffsetsByTimestampStrategy="latest", **late)) == []


def test_SP_01_a_schema_is_a_projection(spark: SparkSession, filled: str) -> None:
    frame = spark.read.format("trunkline").options(url=filled, subscribe="orders").schema("value BINARY").load()
    found = sorted(bytes(row.value) for row in frame.collect())
    assert found == sorted(row["value"] for row in rows_of_sql(filled, "orders"))
    reader = (
        spark.read.format("trunkline").options(url=filled, subscribe="orders").schema("offset BIGINT, topic STRING")
    )
    assert reader.load().distinct().count() == len({row["offset"] for row in rows_of_sql(filled, "orders")})


def test_an_empty_topic_has_no_rows(spark: SparkSession, tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    frame = load(spark, db_url, subscribe="orders")
    assert frame.collect() == []
    assert a_reader(db_url, subscribePattern="nothing.*").read(a_reader(db_url, subscribe="orders").partitions()[0])


# -- filters --

FILTERS: list[tuple[list[Filter], str]] = [
    ([EqualTo(("topic",), "clicks")], "topic = 'clicks'"),
    ([In(("topic",), ("clicks", "nothing"))], "topic in ('clicks', 'nothing')"),
    ([EqualTo(("partition",), 1)], "partition = 1"),
    ([In(("partition",), (0, 2))], "partition in (0, 2)"),
    ([GreaterThan(("partition",), 0), LessThanOrEqual(("partition",), 1)], "partition > 0 and partition <= 1"),
    ([GreaterThanOrEqual(("offset",), 30), LessThan(("offset",), 50)], "offset >= 30 and offset < 50"),
    ([GreaterThan(("offset",), 139)], "offset > 139"),
    ([EqualTo(("offset",), 7), EqualTo(("topic",), "orders")], "offset = 7 and topic = 'orders'"),
    ([In(("offset",), (5, 60, 10**6))], "offset in (5, 60, 1000000)"),
    ([LessThan(("offset",), -5)], "offset < -5"),
    ([GreaterThan(("offset",), 10), LessThan(("offset",), 5)], "offset > 10 and offset < 5"),
    ([EqualTo(("value",), b"o1")], "value = 'o1'"),
]


@pytest.mark.parametrize(("filters", "condition"), FILTERS, ids=[condition for _, condition in FILTERS])
def test_SP_01_filters_leave_out_only_what_cannot_pass(filled: str, filters: list[Filter], condition: str) -> None:
    everything = without_headers(rows_of_sql(filled, "clicks", "orders"))
    ranges, read = rows_narrowed(filled, filters, subscribe="clicks,orders")
    passing = [row for row in everything if _passes(row, filters)]
    assert in_order([row for row in read if _passes(row, filters)]) == passing
    assert sum(map(len, ranges)) == len(read)
    if "value" not in condition:
        assert len(read) < len(everything)


def _passes(row: dict[str, object], filters: list[Filter]) -> bool:
    return all(_TESTS[type(each)](row[each.attribute[0]], each.value) for each in filters)  # type: ignore[attr-defined]


_TESTS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda found, value: found == value,
    In: lambda found, value: found in value,
    GreaterThan: lambda found, value: found > value,
    GreaterThanOrEqual: lambda found, value: found >= value,
    LessThan: lambda found, value: found < value,
    LessThanOrEqual: lambda found, value: found <= value,
}


@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
def test_SP_01_filters_on_the_time_read_less(timed: tuple[str, list[int]], kind: type[Filter]) -> None:
    url, _ = timed
    everything = without_headers(rows_of_sql(url, "orders"))
    filters = [kind(("timestamp",), everything[3]["timestamp"])]  # type: ignore[call-arg]
    ranges, read = rows_narrowed(url, filters, subscribe="orders")
    assert in_order([row for row in read if _passes(row, filters)]) == [r for r in everything if _passes(r, filters)]
    assert sum(map(len, ranges)) < len(everything)


@pytest.mark.parametrize(
    "condition",
    [
        "topic = 'orders' and partition = 2 and offset between 20 and 90",
        "timestamp >= timestamp'2026-05-01 00:00:01' and timestamp < timestamp'2026-05-01 00:00:03' and partition = 1",
    ],
)
def test_SP_01_filters_that_spark_pushes_down_read_fewer_ranges(
    spark: SparkSession, timed: tuple[str, list[int]], tl: Client, condition: str
) -> None:
    url, _ = timed
    tl.add_partitions("orders", 3)
    tl.publish_many("orders", [Message(b"%d" % i, partition=2) for i in range(100)])
    options = {"subscribe": "orders", "maxRecordsPerPartition": "20"}
    whole = load(spark, url, **options)
    pushed = load(spark, url, pushFilters="true", **options).where(condition)
    expected = rows_of_spark(whole.where(condition))
    assert rows_of_spark(pushed) == expected != []
    # Both have been planned: what is counted here are the ranges that were read.
    assert pushed.rdd.getNumPartitions() < whole.rdd.getNumPartitions() == 7


# -- what cannot be read --


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"subscribe": "ordres"}, NotFound, "topic ordres does not exist; create it"),
        ({"assign": '{"orders":[0,3]}'}, NotFound, "no partition 3; it has 0 to 2"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":1,"1":1,"2":1000}}'},
            OffsetOutOfRange,
            r"offset 1000 of orders partition 2 is outside the log, \[1, \d+\); .*failOnDataLoss=false",
        ),
        (
            {"subscribe": "orders", "endingOffsets": '{"orders":{"0":1,"1":1,"2":1000}}'},
            OffsetOutOfRange,
            "endingOffsets: offset 1000",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":1,"1":1}}'},
            InvalidArgument,
            "startingOffsets does not name orders partition 2; name every partition",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":1,"1":1,"2":1,"3":1}}'},
            InvalidArgument,
            "names orders partition 3, which the read does not cover",
        ),
        (
            {
                "subscribe": "orders",
                "startingOffsets": '{"orders":{"0":1,"1":5,"2":1}}',
                "endingOffsets": '{"orders":{"0":1,"1":4,"2":1}}',
            },
            InvalidArgument,
            "orders partition 1 would end at 4, before its start, 5; compare startingOffsets with endingOffsets",
        ),
    ],
)
def test_a_read_that_cannot_be_is_an_error_with_the_next_step(
    filled: str, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        a_reader(filled, **options).partitions()


def test_offsets_outside_the_log_are_moved_into_it_where_data_may_be_lost(filled: str) -> None:
    options = {"subscribe": "orders", "startingOffsets": '{"orders":{"0":1,"1":1,"2":1000}}'}
    found = rows_read(a_reader(filled, failOnDataLoss="false", **options))
    expected = [row for row in rows_of_sql(filled, "orders") if row["partition"] < 2]
    assert in_order(found) == without_headers(expected)


def test_records_dropped_after_the_read_was_planned_are_an_error(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", settings=trunkline.TopicSettings(retention_bytes=0))
    tl.publish_many("orders", [b"a", b"b"])
    reader = a_reader(db_url, subscribe="orders")
    (partition,) = reader.partitions()
    roll(db_url, "orders")
    tl.retention_run()
    with pytest.raises(OffsetOutOfRange, match="retention has dropped it"):
        list(reader.read(partition))


def test_a_topic_deleted_after_the_read_was_planned_is_an_error(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"a")
    reader = a_reader(db_url, subscribe="orders")
    (partition,) = reader.partitions()
    tl.delete_topic("orders")
    tl.create_topic("orders")
    tl.publish("orders", b"another")
    with pytest.raises(NotFound):
        list(reader.read(partition))


def test_errors_in_spark_carry_our_name_and_the_next_step_and_no_password(spark: SparkSession, filled: str) -> None:
    password = str(psycopg.conninfo.conninfo_to_dict(filled)["password"])
    wrong = filled.replace(password, password[::-1])
    for url, options, name, step in [
        (filled, {"subscribe": "ordres"}, "NotFound", "create it"),
        (filled, {"subscibe": "orders"}, "InvalidArgument", "did you mean 'subscribe'?"),
        (wrong, {"subscribe": "orders"}, "PermissionDenied", "check user and password"),
    ]:
        with pytest.raises(AnalysisException) as caught:
            load(spark, url, **options).collect()
        assert f"trunkline.errors.{name}: " in str(caught.value)
        assert step in str(caught.value)
        assert password not in str(caught.value)
        assert password[::-1] not in str(caught.value)


def test_a_schema_of_other_types_is_refused(spark: SparkSession, filled: str) -> None:
    frame = spark.read.format("trunkline").options(url=filled, subscribe="orders").schema("value STRING")
    with pytest.raises(PySparkException, match="InvalidArgument: column value is binary, not string"):
        frame.load().collect()


def test_plans_show_no_url(spark: SparkSession, filled: str, capfd: pytest.CaptureFixture[str]) -> None:
    password = str(psycopg.conninfo.conninfo_to_dict(filled)["password"])
    frame = load(spark, filled, subscribe="orders").where("partition = 1")
    for mode in ("simple", "extended", "formatted", "cost"):
        frame.explain(mode)
    frame.write.format("noop").mode("overwrite").save()
    shown = capfd.readouterr()
    assert "trunkline" in shown.out
    assert password not in shown.out + shown.err
