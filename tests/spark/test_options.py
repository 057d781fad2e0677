"""Options of format("trunkline"): what is taken, what is refused, and what the refusal says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from trunkline.errors import InvalidArgument, NotConfigured
from trunkline.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    SinkOptions,
    SourceOptions,
    sink_options,
    source_options,
)

URL = "postgresql://spark:geheim@db.example:5432/shop"


def read(**given: Any) -> SourceOptions:
    return source_options({"url": URL, "subscribe": "orders", **given}, streaming=False)


def stream(**given: Any) -> SourceOptions:
    return source_options({"url": URL, "subscribe": "orders", **given}, streaming=True)


def without_topic(**given: Any) -> SourceOptions:
    return source_options({"url": URL, **given}, streaming=False)


def write(**given: Any) -> SinkOptions:
    return sink_options({"url": URL, "topic": "orders", **given})


def test_what_is_not_said_is_as_with_kafka() -> None:
    batch, streamed = read(), stream()
    assert (batch.starting, batch.ending) == (Bound(everywhere=EARLIEST), Bound(everywhere=LATEST))
    assert streamed.starting == Bound(everywhere=LATEST)
    assert streamed.fail_on_data_loss
    assert not streamed.include_headers
    assert streamed.max_offsets is None
    assert streamed.max_delay_s == 900
    assert streamed.read_url == URL


def test_names_of_options_are_taken_in_any_case() -> None:
    assert read(FAILONDATALOSS="False", startingoffsets="Earliest").starting == Bound(everywhere=EARLIEST)


def test_several_topics_a_pattern_or_partitions() -> None:
    assert read(subscribe="a, b,c").topics == ("a", "b", "c")
    assert without_topic(subscribePattern="a.*").pattern == "a.*"
    assert without_topic(assign='{"b":[1,0],"a":[2]}').assigned == {"b": (0, 1), "a": (2,)}


def test_offsets_and_times_by_partition() -> None:
    assert read(startingOffsets='{"orders":{"0":23,"1":-2}}').starting.offsets == {"orders": {0: 23, 1: -2}}
    assert read(endingOffsets='{"orders":{"0":23,"1":-1}}').ending.offsets == {"orders": {0: 23, 1: -1}}
    times = read(startingOffsetsByTimestamp='{"orders":{"0":1000}}', endingOffsetsByTimestamp='{"orders":{"0":2000}}')
    assert (times.starting.times_ms, times.ending.times_ms) == ({"orders": {0: 1000}}, {"orders": {0: 2000}})


def test_one_time_for_all_wins_over_times_by_partition_and_those_over_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders":{"0":1}}', "startingOffsets": "earliest"}
    assert read(startingTimestamp="5", **by_partition).starting == Bound(time_ms=5)
    assert read(**by_partition).starting == Bound(times_ms={"orders": {0: 1}})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("30s", 30), ("500ms", 0.5), ("2", 0.002), ("1h", 3600), ("1 min", 60), ("2d", 172800)],
)
def test_times_are_written_as_spark_writes_them(text: str, seconds: float) -> None:
    assert stream(maxTriggerDelay=text).max_delay_s == seconds


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "kafka.group.id", "kafkaConsumer.pollTimeoutMs"])
def test_what_only_kafka_knows_is_ignored_with_a_warning(name: str) -> None:
    with pytest.warns(UserWarning, match=re.escape(f"option {name} means something to Kafka only")):
        read(**{name: "x"})
    with pytest.warns(UserWarning, match=re.escape(name)):
        write(**{name: "x"})


def test_what_spark_adds_by_itself_is_let_through() -> None:
    stream(path="x", checkpointLocation="y", queryName="z")
    write(checkpointLocation="y", path="x")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("subscibe", "subscribe"), ("startingOffset", "startingOffsets"), ("maxOffsetPerTrigger", "maxOffsetsPerTrigger")],
)
def test_an_unknown_option_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no option '{name}'; did you mean '{nearest}'"):
        read(**{name: "x"})


def test_options_of_the_source_are_not_those_of_the_sink() -> None:
    with pytest.raises(InvalidArgument, match="no option 'subscribe'"):
        write(subscribe="orders")
    with pytest.raises(InvalidArgument, match="no option 'sinkId'"):
        read(sinkId="x")


MALFORMED_OFFSETS = [
    "",
    "first",
    "23",
    "null",
    "[]",
    "{}",
    '{"orders":23}',
    '{"orders":{}}',
    '{"orders":{"0":"x"}}',
    '{"orders":{"0":1.5}}',
    '{"orders":{"0":null}}',
    '{"orders":{"0":true}}',
    '{"orders":{"-1":5}}',
    '{"orders":{"x":5}}',
    '{"orders":{"0":0}}',
    '{"orders":{"0":-3}}',
    '{"orders":{"0":9223372036854775808}}',
    '{"orders":{"0":5}',
    '{"..":{"0":5}}',
    "{'orders':{'0':5}}",
    '{"orders":{"0":5}} x',
    "\ud800",
]


@pytest.mark.parametrize("text", MALFORMED_OFFSETS)
@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_malformed_offsets_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}|topic name"):
        read(**{name: text})


@pytest.mark.parametrize("text", ['{"orders":{"0":-2}}', '{"orders":{"0":-1}}', "yesterday", '{"orders":[5]}', "5"])
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="startingOffsetsByTimestamp"):
        read(startingOffsetsByTimestamp=text)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"orders":[]}', '{"orders":[-1]}', '{"orders":[0,0]}', '{"orders":0}', "["]
)
def test_malformed_partitions_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="assign"):
        without_topic(assign=text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets cannot be latest"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
        ({"includeHeaders": "1"}, "includeHeaders must be true or false"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number from 1"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be a whole number"),
        ({"minPartitions": "ten"}, "minPartitions must be a whole number"),
        ({"readBytes": "1e9"}, "readBytes must be a whole number"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "must be error or latest"),
        ({"groupId": "a b"}, "group"),
        ({"subscribe": ""}, "topic name"),
        ({"subscribe": "orders,,x"}, "topic name"),
        ({"subscribe": "orders", "assign": '{"orders":[0]}'}, "there is subscribe and assign"),
    ],
)
def test_a_batch_read_that_cannot_work_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads"),
        ({"endingTimestamp": "5"}, "endingTimestamp is for batch reads"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "minOffsetsPerTrigger, 6, is over"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a time like 15m"),
    ],
)
def test_a_stream_that_cannot_work_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        stream(**given)


def test_no_topic_and_a_pattern_that_is_none_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="give one of the options subscribe, subscribePattern and assign"):
        without_topic()
    with pytest.raises(InvalidArgument, match="subscribePattern is not a regular expression"):
        without_topic(subscribePattern="(")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "a b"}, "topic name"),
        ({"sinkId": ""}, "sinkId must have 1 to 150 characters"),
        ({"writeId": "x" * 151}, "writeId must have 1 to 150"),
        ({"batchRecords": "10001"}, "batchRecords must be a whole number from 1 to 10000"),
        ({"batchBytes": "0"}, "batchBytes must be"),
        ({"includeHeaders": "yes"}, "includeHeaders must be"),
    ],
)
def test_a_write_that_cannot_work_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        write(**given)


def test_without_a_server_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUNKLINE_URL", raising=False)
    with pytest.raises(NotConfigured, match="set option url"):
        source_options({"subscribe": "orders"}, streaming=False)
    monkeypatch.setenv("TRUNKLINE_URL", URL)
    assert source_options({"subscribe": "orders"}, streaming=False).url == URL


@pytest.mark.parametrize("name", ["url", "readUrl"])
@pytest.mark.parametrize("wrong", ["postgresql://spark:geheim@[::/shop", "orders geheim", "http://x:geheim@y/"])
def test_a_url_that_is_none_is_refused_without_being_repeated(name: str, wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name}: .*looks like postgresql://") as caught:
        read(**{name: wrong})
    assert "geheim" not in str(caught.value)


def test_what_is_shown_of_options_holds_no_password() -> None:
    assert "geheim" not in repr(read(readUrl=URL)) + repr(write())
