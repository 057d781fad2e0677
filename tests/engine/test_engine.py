"""What the client decides: routing, batching, sequence numbers, back-off. Pure, so property tests do most of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.client.arrays import (
    Times,
    bytea_array,
    integer_array,
    offset_array,
    payload_array,
    register,
    register_times,
    text_array,
)
from trunkline.engine.backoff import backoff_s
from trunkline.engine.batching import BatchLimits, Parcel, merge, route, split, take
from trunkline.engine.producing import SEQUENCE_MAX, ProducerState
from trunkline.engine.routing import murmur2, partition_of_key
from trunkline.records import HeaderPairs
from trunkline.server import Server

# Kafka's own test vectors for murmur2, as signed 32-bit numbers.
GOLDEN = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), GOLDEN)
def test_S4_03_the_hash_of_keys_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@settings(max_examples=200, deadline=None)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=50), partitions=st.integers(1, 1024))
def test_S4_03_python_and_sql_send_every_key_to_the_same_partition(
    sql_connection: psycopg.Connection[Any], keys: list[bytes], partitions: int
) -> None:
    query = "select trunkline.partition_of_key(k, %s) from unnest(%s::bytea[]) with ordinality u(k, n) order by n"
    found = [row[0] for row in sql_connection.execute(query, [partitions, keys]).fetchall()]
    assert found == [partition_of_key(key, partitions) for key in keys]
    assert all(0 <= partition < partitions for partition in found)


@pytest.fixture(scope="module")
def sql_connection(server: Server, template: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create database engine template {template}".encode())
        with psycopg.connect(server.database_url("engine"), autocommit=True) as opened:
            yield opened
        connection.execute("drop database engine with (force)")


headers = st.just(()) | st.just((("h", b"v" * 30),))
records = st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=8), headers, st.none() | st.integers(0, 3))
limits = st.builds(BatchLimits, st.integers(1, 20), st.integers(1, 2000), st.integers(40, 220))
Given = tuple[bytes, bytes | None, HeaderPairs, int | None]


def parcel_of(given_records: list[Given]) -> Parcel:
    payloads, keys, pairs, partitions = (list(column) for column in zip(*given_records, strict=True))
    return Parcel(payloads, keys, pairs, partitions)


def records_of(parcel: Parcel) -> list[Given]:
    count = len(parcel)
    keys = parcel.keys or [None] * count
    pairs = parcel.headers or [()] * count
    partitions = parcel.partitions if isinstance(parcel.partitions, list) else [parcel.partitions] * count
    return list(zip(parcel.payloads, keys, pairs, partitions, strict=True))


@given(given_records=st.lists(records, min_size=1, max_size=60), bounds=limits)
def test_splitting_keeps_every_record_in_order_and_every_piece_in_its_limits(
    given_records: list[Given], bounds: BatchLimits
) -> None:
    pieces = list(split(parcel_of(given_records), bounds))
    assert [record for piece in pieces for record in records_of(piece)] == given_records
    assert records_of(merge(pieces)) == given_records
    for piece in pieces:
        assert piece.size == sum(piece.sizes())
        assert piece.largest == max(piece.sizes())
        assert len(piece) <= bounds.records_max
        assert len(piece) == 1 or piece.size <= bounds.bytes_max
        assert len(piece) == 1 or piece.largest <= bounds.alone_bytes


@given(payloads=st.lists(st.binary(max_size=200), max_size=60), bounds=limits, chosen=st.none() | st.integers(0, 9))
def test_plain_payloads_are_split_as_any_others(payloads: list[bytes], bounds: BatchLimits, chosen: int | None) -> None:
    pieces = list(split(Parcel(payloads, partitions=chosen), bounds))
    assert [payload for piece in pieces for payload in piece.payloads] == payloads
    assert all(piece.size == sum(piece.sizes()) and piece.partitions == chosen for piece in pieces)
    assert all(
        len(piece) == 1 or (piece.size <= bounds.bytes_max and len(piece) <= bounds.records_max) for piece in pieces
    )


class Caller:
    def __init__(self, payload: bytes) -> None:
        self.parcel = Parcel([payload])
        self.size = self.parcel.size


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40), bounds=limits)
def test_taking_keeps_the_order_and_takes_as_much_as_fits(sizes: list[int], bounds: BatchLimits) -> None:
    entries = [Caller(b"x" * size) for size in sizes]
    pending = deque(entries)
    taken = []
    while pending:
        batch = take(pending, bounds)
        assert batch
        assert len(batch) <= bounds.records_max
        total = sum(entry.size for entry in batch)
        assert len(batch) == 1 or total <= bounds.bytes_max
        if pending and len(batch) < bounds.records_max and total + pending[0].size <= bounds.bytes_max:
            assert batch[-1].size > bounds.alone_bytes or pending[0].size > bounds.alone_bytes
        taken += batch
    assert taken == entries


@given(given_records=st.lists(records, min_size=1, max_size=60), partitions=st.integers(4, 9), sticky=st.integers(0, 3))
def test_routing_sends_each_record_once_in_order(given_records: list[Given], partitions: int, sticky: int) -> None:
    parcel = parcel_of(given_records)
    routed = route(parcel, partitions, sticky)
    assert list(routed) == sorted(routed)
    assert sorted(index for indexes in routed.values() for index in indexes) == list(range(len(given_records)))
    for partition, indexes in routed.items():
        assert list(indexes) == sorted(indexes)
        for index in indexes:
            _, key, _, chosen = given_records[index]
            expected = partition_of_key(key, partitions) if key is not None else sticky
            assert partition == (expected if chosen is None else chosen)
    plain = Parcel(parcel.payloads)
    assert route(plain, partitions, sticky) == {sticky: range(len(plain))}
    assert route(Parcel(parcel.payloads, parcel.keys, None, 2), partitions, sticky) == {2: range(len(plain))}


def test_sequences_count_per_partition_and_start_anew_in_a_new_epoch() -> None:
    producer = ProducerState(uuid4())
    assert producer.next_of([0, 2]) == [1, 1]
    assert producer.next_of([0, 2]) == [1, 1]
    producer.done([0, 2])
    assert producer.next_of([0, 1]) == [2, 1]
    producer.next_epoch()
    assert (producer.epoch, producer.next_of([0, 1])) == (1, [1, 1])


def test_sequences_that_reach_their_end_go_on_in_a_new_epoch() -> None:
    producer = ProducerState(uuid4())
    producer._last[0] = SEQUENCE_MAX - 1
    assert (producer.next_of([0]), producer.epoch) == ([SEQUENCE_MAX], 0)
    producer.done([0])
    assert (producer.next_of([0]), producer.epoch) == ([1], 1)


@given(attempt=st.integers(0, 10_000), chance=st.floats(0, 1, exclude_max=True))
def test_back_off_grows_to_its_bound_and_never_past_it(attempt: int, chance: float) -> None:
    delay = backoff_s(attempt, first_s=0.02, max_s=1.0, chance=chance)
    assert 0.01 <= delay <= 1.0
    assert delay <= 0.02 * 2**attempt if attempt < 6 else delay >= 0.5


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.none() | st.binary(max_size=5000), max_size=20),
    texts=st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=20
    ),
    numbers=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20),
    offsets=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20),
)
def test_arrays_arrive_as_they_were_sent(
    sql_connection: psycopg.Connection[Any],
    values: list[bytes | None],
    texts: list[str],
    numbers: list[int],
    offsets: list[int],
) -> None:
    register(sql_connection)
    sent = [bytea_array(values), text_array(texts), integer_array(numbers), offset_array(offsets)]
    row = sql_connection.execute("select %s, %s, %s, %s", sent).fetchone()
    assert row == (values, texts, numbers, offsets)


@given(payloads=st.lists(st.binary(max_size=5000), min_size=1, max_size=4))
def test_payloads_are_encoded_as_any_array_is(payloads: list[bytes]) -> None:
    assert payload_array(payloads, list(map(len, payloads))).data == bytea_array(payloads).data


TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC))


@settings(max_examples=100, deadline=None)
@given(times=st.lists(TIMES, max_size=20))
def test_times_are_a_sequence_of_what_the_server_sent(
    sql_connection: psycopg.Connection[Any], times: list[datetime]
) -> None:
    """Whatever the zone of the session is, and whether one of them is asked for or all of them."""
    sql_connection.execute("set timezone to 'Asia/Kathmandu'")
    cursor = sql_connection.cursor(binary=True)
    register_times(cursor)

    def arrived() -> Times:
        row = cursor.execute("select %s::timestamptz[]", [times]).fetchone()
        assert row is not None
        assert isinstance(row[0], Times)
        return row[0]

    assert len(arrived()) == len(times)
    assert list(arrived()) == times == arrived()
    assert arrived() == arrived()
    assert arrived() != [*times, datetime(2026, 1, 1, tzinfo=UTC)]
    assert arrived()[1:3] == times[1:3]
    assert repr(arrived()) == repr(list(arrived()))
    assert all(each.tzinfo is UTC for each in arrived())
    if times:
        assert arrived()[-1] == times[-1]
