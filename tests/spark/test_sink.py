"""Writing topics from Spark, where nothing fails: what is written, where it goes, and what is refused.

Failures and exactly-once are proven elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

import trunkline
from tests.sync.shim import wait_until
from trunkline import Client, ClientSettings
from trunkline.engine.routing import partition_of_key
from trunkline.errors import InvalidArgument, NotFound
from trunkline.spark.database import Identity, database
from trunkline.spark.options import sink_options
from trunkline.spark.sink import TopicWriter, check_schema
from trunkline.spark.staging import Stager

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


# -- columns --


@pytest.mark.parametrize(
    "schema",
    [
        of(value=StringType()),
        of(value=BinaryType(), key=StringType()),
        of(VALUE=StringType(), Key=BinaryType()),
        of(value=StringType(), key=NullType()),
        of(value=StringType(), partition=IntegerType(), topic=StringType(), headers=HEADERS),
    ],
)
def test_columns_of_kafkas_sink_are_taken(schema: StructType) -> None:
    check_schema(schema, "orders")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (of(value=LongType()), "column value must be STRING or BINARY, not bigint"),
        (of(value=StructType([])), "column value must be STRING or BINARY"),
        (of(value=StringType(), key=IntegerType()), "column key must be STRING or BINARY, not int"),
        (of(value=StringType(), partition=LongType()), "column partition must be INT, not bigint"),
        (of(value=StringType(), topic=BinaryType()), "column topic must be STRING"),
        (of(value=StringType(), headers=MapType(StringType(), BinaryType())), "column headers must be ARRAY<STRUCT"),
        (of(value=StringType(), offset=LongType()), "a record has no column 'offset'.*Select value"),
        (of(vale=StringType()), "no column 'vale'; did you mean 'value'"),
        (of(key=StringType()), "a record needs a column value: select one"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(schema: StructType, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check_schema(schema, "orders")


def test_without_a_topic_the_next_step_is_named() -> None:
    with pytest.raises(InvalidArgument, match="set option topic, or add a column topic"):
        check_schema(of(value=StringType()), None)


def test_a_log_is_appended_to(db_url: str) -> None:
    with pytest.raises(InvalidArgument, match="use mode\\('append'\\)"):
        TopicWriter(sink_options({"url": db_url, "topic": "orders"}), of(value=StringType()), overwrite=True)


# -- staging, without Spark --


def put(url: str, *batches: dict[str, Any], **options: str) -> None:
    """Stage batches as one task does, and publish them."""
    stager = Stager(sink_options({"url": url, **options}), database(url), 0)
    schema = pa.schema([(name, _KINDS[name]) for name in batches[0]])
    stages = stager.stage(iter([pa.RecordBatch.from_pydict(each, schema=schema) for each in batches]))
    database(url).publish(
        Identity(uuid4().hex, "sink", 0, "run"),
        stage_nos=[stage.stage_no for stage in stages],
        record_counts=[stage.record_count for stage in stages],
        topic_ids={stage.topic.topic_id for stage in stages},
    )


_KINDS = {
    "value": pa.binary(),
    "key": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def test_records_go_where_the_client_would_send_them_and_keep_their_order(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=5)
    keys = [f"k{i % 17}" for i in range(300)]
    values = [b"%d" % i for i in range(300)]
    batches = [{"value": values[i : i + 60], "key": keys[i : i + 60]} for i in range(0, 300, 60)]
    put(db_url, *batches, topic="orders", batchRecords="25")
    for partition in range(5):
        expected = [
            (k.encode(), v) for k, v in zip(keys, values, strict=True) if partition_of_key(k.encode(), 5) == partition
        ]
        assert [(r.key, r.payload) for r in tl.read("orders", partition=partition, max_records=1000)] == expected


def test_a_group_that_waits_is_woken_by_a_write(db_url: str) -> None:
    """It would not look by itself for an hour."""
    with trunkline.connect(db_url, settings=ClientSettings(poll_max_s=3600)) as tl:
        one = f"trunkline_t{tl.create_topic('orders', partitions=2).topic_id}_1"
        with tl.consumer("orders", group="g", create=True) as consumer:
            # Whoever begins to listen looks once more: the first may be found without a ring.
            wait_until(lambda: consumer.poll() == [] and one in consumer._rooms.watch._listening)
            for number in range(3):
                put(db_url, {"value": [b"%d" % number], "partition": [number % 2]}, topic="orders")
                assert [record.payload for record in consumer.poll(wait_s=60)] == [b"%d" % number]
                consumer.commit()


def test_headers_empty_values_and_missing_keys_come_back_as_they_were(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": b""}], None, []]
    put(db_url, {"value": [b"", b"x", b"y"], "key": ["k", None, ""], "headers": headers}, topic="orders")
    assert [(r.payload, r.key, r.headers) for r in tl.read("orders")] == [
        (b"", b"k", (("a", b"1"), ("a", b""))),
        (b"x", None, ()),
        (b"y", b"", ()),
    ]


def test_topic_and_partition_may_be_columns_and_the_option_wins(tl: Client, db_url: str) -> None:
    tl.create_topic("a", partitions=3)
    tl.create_topic("b", partitions=3)
    rows = {"value": [b"1", b"2", b"3"], "topic": ["a", "b", "a"], "partition": [2, 0, None], "key": [None, None, "k"]}
    put(db_url, rows)
    assert next(r.payload for r in tl.read("a", partition=2)) == b"1"
    assert [r.payload for r in tl.read("b", partition=0)] == [b"2"]
    assert b"3" in [r.payload for r in tl.read("a", partition=partition_of_key(b"k", 3))]
    put(db_url, {"value": [b"4"], "topic": ["a"], "partition": [1]}, topic="b")
    assert [r.payload for r in tl.read("b", partition=1)] == [b"4"]


@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        ({"value": [b"x", None]}, {"topic": "orders"}, InvalidArgument, "a null value.*filter such rows"),
        ({"value": [b"x"], "topic": [None]}, {}, InvalidArgument, "no topic: set option topic"),
        ({"value": [b"x"], "topic": ["ordres"]}, {}, NotFound, "topic ordres does not exist; create it"),
        ({"value": [b"x"], "topic": ["a b"]}, {}, InvalidArgument, "topic name"),
        ({"value": [b"x"], "partition": [7]}, {"topic": "orders"}, NotFound, "has the partitions 0 to 1"),
        ({"value": [b"x"], "partition": [-1]}, {"topic": "orders"}, NotFound, "has the partitions 0 to 1"),
        (
            {"value": [b"x"], "headers": [[{"key": None, "value": b"x"}]]},
            {"topic": "orders"},
            InvalidArgument,
            "no name or no value",
        ),
    ],
)
def test_rows_that_cannot_be_written_are_refused_and_nothing_is(
    tl: Client, db_url: str, rows: dict[str, Any], options: dict[str, str], error: type[Exception], message: str
) -> None:
    tl.create_topic("orders", partitions=2)
    before = {name: {"value": [b"fine"], "topic": ["orders"]}.get(name, [None]) for name in rows}
    with pytest.raises(error, match=message):
        put(db_url, before, rows, **options)
    assert [r.end for r in tl.offsets("orders")] == [1, 1]


# -- in Spark --


def test_a_batch_and_a_stream_write_what_is_read_again(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path
) -> None:
    tl.create_topic("orders", partitions=3)
    tl.create_topic("copy", partitions=3)
    frame = spark.range(500).selectExpr("CAST(id % 9 AS STRING) AS key", "CAST(id AS STRING) AS value")
    frame.write.format("trunkline").options(url=db_url, topic="orders").mode("append").save()
    stream = spark.readStream.format("trunkline").options(url=db_url, subscribe="orders", startingOffsets="earliest")
    query = (
        stream.load()
        .select("key", "value", "partition")
        .writeStream.format("trunkline")
        .options(url=db_url, topic="copy", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = 0
    for partition in range(3):
        written = tl.read("orders", partition=partition, max_records=1000)
        assert all(partition_of_key(record.key or b"", 3) == partition for record in written)
        copied = [(r.key, r.payload) for r in tl.read("copy", partition=partition, max_records=1000)]
        assert copied == [(r.key, r.payload) for r in written]
        found += len(copied)
    assert found == 500


def test_a_write_that_fails_in_spark_says_so_and_writes_nothing(spark: SparkSession, tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    for expression, options, said in [
        ("CAST(id AS INT) AS value", {"topic": "orders"}, "InvalidArgument: column value must be STRING or BINARY"),
        ("nullif(CAST(id AS STRING), '2') AS value", {"topic": "orders"}, "InvalidArgument: a row has a null value"),
    ]:
        writer = (
            spark.range(3).coalesce(1).selectExpr(expression).write.format("trunkline").options(url=db_url, **options)
        )
        with pytest.raises(PySparkException) as caught:
            writer.mode("append").save()
        assert f"trunkline.errors.{said}" in str(caught.value)
        assert db_url not in str(caught.value)
    assert tl.offsets("orders")[0].end == 1
