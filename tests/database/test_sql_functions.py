"""The SQL functions as any language calls them: what they refuse, and idempotent producers step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import trunkline

APPEND = (
    "select first_offsets from trunkline.log_append(%(topic)s, %(expected)s, %(partitions)s, %(counts)s, %(keys)s, "
    "%(payloads)s::bytea[], %(header_counts)s, %(header_names)s, %(header_values)s, "
    "%(producer)s, %(epoch)s, %(sequences)s)"
)
FINE: dict[str, Any] = {
    "topic": 1, "expected": None, "partitions": [0], "counts": [2], "keys": None, "payloads": [b"a", b"b"],
    "header_counts": None, "header_names": None, "header_values": None,
    "producer": None, "epoch": None, "sequences": None,
}  # fmt: skip


@pytest.fixture
def connection(db_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db_url, autocommit=True) as opened:
        opened.execute("select trunkline.topic_create('orders', 3)")
        yield opened


def append(connection: psycopg.Connection[Any], **changes: Any) -> list[int]:
    row = connection.execute(APPEND, {**FINE, **changes}).fetchone()
    assert row is not None
    return list(row[0])


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"counts": [3]}, "TL001"),
        ({"counts": [1]}, "TL001"),
        ({"counts": [0]}, "TL001"),
        ({"counts": None}, "TL001"),
        ({"counts": [1, 1]}, "TL001"),
        ({"partitions": []}, "TL001"),
        ({"partitions": [1, 0], "counts": [1, 1]}, "TL001"),
        ({"partitions": [1, 1], "counts": [1, 1]}, "TL001"),
        ({"partitions": [3]}, "TL002"),
        ({"partitions": [-1]}, "TL002"),
        ({"partitions": [None]}, "TL002"),
        ({"topic": 99}, "TL002"),
        ({"topic": None}, "TL002"),
        ({"payloads": [b"a", None]}, "TL001"),
        ({"payloads": None}, "TL001"),
        ({"payloads": []}, "TL001"),
        ({"keys": [b"k"]}, "TL001"),
        ({"keys": [b"k" * 8193, None]}, "TL004"),
        ({"header_counts": [1, 0]}, "TL001"),
        ({"header_counts": [1], "header_names": ["a"], "header_values": [b"b"]}, "TL001"),
        ({"header_counts": [2, -1], "header_names": ["a"], "header_values": [b"b"]}, "TL001"),
        ({"header_counts": [1, 1], "header_names": ["a"], "header_values": [b"b"]}, "TL001"),
        ({"header_counts": [1, 0], "header_names": ["a"], "header_values": [None]}, "TL001"),
        ({"header_names": ["a"], "header_values": [b"b"]}, "TL001"),
        ({"header_counts": [1, 0], "header_names": ["a"], "header_values": [b"b" * 8193]}, "TL004"),
        ({"header_counts": [65, 0], "header_names": ["a"] * 65, "header_values": [b""] * 65}, "TL004"),
        ({"expected": 4, "keys": [b"k", b"k"]}, "TL012"),
        ({"producer": uuid4()}, "TL001"),
        ({"producer": uuid4(), "epoch": 0}, "TL001"),
        ({"producer": uuid4(), "epoch": 0, "sequences": [1, 2]}, "TL001"),
        ({"producer": uuid4(), "epoch": -1, "sequences": [1]}, "TL001"),
        ({"producer": uuid4(), "epoch": 0, "sequences": [0]}, "TL001"),
        ({"producer": uuid4(), "epoch": 0, "sequences": [2]}, "TL009"),
        ({"counts": [10_001], "payloads": [b""] * 10_001}, "TL004"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)
def test_S0_06_a_wrong_append_is_an_error_that_leaves_no_gap(
    connection: psycopg.Connection[Any], changes: dict[str, Any], state: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        append(connection, **changes)
    assert caught.value.sqlstate == state
    assert append(connection) == [1]
    assert append(connection, keys=[b"k", None], header_counts=[0, 1], header_names=["a"], header_values=[b"b"]) == [3]


def test_S0_06_the_hard_limit_of_a_batch_holds_in_sql(connection: psycopg.Connection[Any]) -> None:
    """The records are made in the server: 64 MiB in one batch are fine, a mebibyte more is not."""

    def appended(count: int, mebibytes: int) -> list[int]:
        query = (
            "select first_offsets from trunkline.log_append(1, null, array[0], array[%s::int], null, "
            "array_fill(convert_to(repeat('x', %s * 1048576), 'UTF8'), array[%s::int]), "
            "null, null, null, null, null, null)"
        )
        row = connection.execute(query, [count, mebibytes, count]).fetchone()
        assert row is not None
        return list(row[0])

    for count, mebibytes in ((65, 1), (1, 17)):
        with pytest.raises(psycopg.Error) as caught:
            appended(count, mebibytes)
        assert caught.value.sqlstate == "TL004"
    assert appended(64, 1) == [1]
    assert appended(1, 16) == [65]


def test_publishing_from_psql(connection: psycopg.Connection[Any]) -> None:
    def publish(arguments: str) -> tuple[Any, ...] | None:
        return connection.execute(f"select * from trunkline.log_publish({arguments})".encode()).fetchone()

    assert publish("'orders', 'hello', partition => 2") == (2, 1)
    keyed = publish("'orders', 'hello', key => '42'")
    assert keyed is not None
    assert publish("'orders', 'again', '42', '{\"a\": \"b\"}'") == (keyed[0], keyed[1] + 1)
    assert publish('\'orders\', \'p\', headers => \'[["a", "1"], ["a", "2"]]\', partition => 2') == (2, 2)
    for arguments, state in [
        ("'nobody', 'x'", "TL002"),
        ("'orders', null", "TL001"),
        ("null, 'x'", "TL001"),
        ("'orders', 'x', partition => 3", "TL002"),
        ("'orders', 'x', headers => '5'", "TL001"),
        ("'orders', 'x', headers => '{\"a\": 1}'", "TL001"),
        ("'orders', 'x', headers => '[[\"a\"]]'", "TL001"),
    ]:
        with pytest.raises(psycopg.Error) as caught:
            publish(arguments)
        assert caught.value.sqlstate == state, arguments
    rows = connection.execute("select headers from trunkline.records('orders', 2)").fetchall()
    assert rows == [([],), ([["a", "1"], ["a", "2"]],)]


def test_a_retry_is_answered_with_the_first_offset_over_rolls_and_seals(connection: psycopg.Connection[Any]) -> None:
    """The same sequence again: in the open segment, after a roll, after a seal, after the segment was dropped."""
    producer = uuid4()

    def send(sequence: int, epoch: int = 0, **changes: Any) -> list[int]:
        return append(connection, producer=producer, epoch=epoch, sequences=[sequence], **changes)

    def refused(sequence: int, epoch: int = 0, **changes: Any) -> str | None:
        with pytest.raises(psycopg.Error) as caught:
            send(sequence, epoch, **changes)
        return caught.value.sqlstate

    roll = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic"
    assert (send(1), send(2), send(2), send(1)) == ([1], [3], [3], [1])
    assert refused(4) == "TL008"
    connection.execute(roll)
    assert (send(2), send(1)) == ([3], [1])
    assert (send(3), send(3), send(2)) == ([5], [5], [3])
    assert refused(3, counts=[1], payloads=[b"a"]) == "TL001"
    connection.execute("select trunkline.segment_seal(1)")
    assert (send(3), send(2)) == ([5], [3])
    assert refused(1) == "TL008"
    connection.execute(roll)
    connection.execute("select trunkline.segment_seal(2)")
    connection.execute("update trunkline.segment set released_at = now() where segment_id < 3")
    connection.execute("select trunkline.segment_drop(1), trunkline.segment_drop(2)")
    assert (send(3), send(4), send(3)) == ([5], [7], [5])
    assert refused(2) == "TL008"
    assert send(1, epoch=1) == [9]
    assert refused(5) == "TL007"
    assert refused(3, epoch=1) == "TL008"
    assert send(2, epoch=1) == [11]


def test_producers_do_not_meet_each_other(connection: psycopg.Connection[Any]) -> None:
    producers = [uuid4() for _ in range(5)]
    expected = 1
    for sequence in range(1, 6):
        for producer in producers:
            assert append(connection, producer=producer, epoch=0, sequences=[sequence]) == [expected]
            expected += 2
    for producer in producers:
        assert append(connection, partitions=[1], producer=producer, epoch=0, sequences=[1])[0] > 0


def test_a_transaction_that_appends_twice_counts_on(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        append(connection)
        append(connection, partitions=[0, 1], counts=[1, 1])
        connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        append(connection)
    append(connection)
    rows = connection.execute(
        "select transaction_ordinal, transaction_count, dense_rank() over (order by transaction_id) "
        "from trunkline.log_read(1, 0, 1, 100, 1000000) order by first_offset"
    ).fetchall()
    assert rows == [(0, 2, 1), (2, 3, 1), (3, 5, 1), (0, 2, 2)]


def test_a_read_that_leaves_a_batch_for_its_size_says_so_where_it_is_asked_to(
    connection: psycopg.Connection[Any],
) -> None:
    """By default only where small batches are merged; and never where it came to the end of the log."""
    append(connection)
    append(connection)

    def counts(arguments: str) -> list[int]:
        rows = connection.execute(f"select record_count from trunkline.log_read(1, 0, {arguments})").fetchall()
        return [count for (count,) in rows]

    for told, arguments in [
        (False, ""),
        (False, ", false"),
        (False, ", true, false"),
        (True, ", true"),
        (True, ", false, true"),
        (True, ", null, true"),
    ]:
        assert counts(f"1, 100, 1{arguments}") == ([2, 0] if told else [2]), arguments
        assert counts(f"1, 100, 1000000{arguments}") == [2, 2]
        assert counts(f"5, 100, 1{arguments}") == []


def test_a_wrong_number_is_an_error_in_sql_too(connection: psycopg.Connection[Any]) -> None:
    append(connection)
    for statement, state in [
        ("select * from trunkline.log_read(1, 0, 1, 0, 1)", "TL001"),
        ("select * from trunkline.log_read(1, 0, 1, 1, null)", "TL001"),
        ("select * from trunkline.log_read(1, 0, null, 1, 1)", "TL001"),
        ("select * from trunkline.log_read(1, 7, 1, 1, 1)", "TL002"),
        ("select * from trunkline.log_read(9, 0, 1, 1, 1)", "TL002"),
        ("select * from trunkline.log_range(9)", "TL002"),
        ("select * from trunkline.log_range(1, 5)", "TL002"),
        ("select trunkline.log_offset_at(1, 0, null)", "TL001"),
        ("select trunkline.log_pin(1, 0, 99)", "TL005"),
        ("select trunkline.log_pin(1, 0, null)", "TL005"),
        ("select trunkline.topic_create('x', 0)", "TL001"),
        ("select trunkline.topic_create('x', 1025)", "TL001"),
        ("select trunkline.topic_create(null)", "TL001"),
        ("select trunkline.topic_create('x', 1, '[]')", "TL001"),
        ("select trunkline.topic_create('x', 1, '{\"nothing\": 1}')", "TL001"),
        ("select trunkline.topic_alter('orders', '{\"segment_bytes\": 1.5}')", "TL001"),
        ("select trunkline.topic_alter('orders', null)", "TL001"),
        ("select trunkline.segment_roll(99)", "TL002"),
        ("select trunkline.segment_seal(99)", "TL002"),
        ("select trunkline.segment_drop(1)", "TL001"),
        ("select * from trunkline.records('orders', max_records => 0)", "TL001"),
        ("select * from trunkline.records('orders', start => 1, since => now())", "TL001"),
        ("select * from trunkline.records('orders', start => 99)", "TL005"),
    ]:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement.encode())
        assert caught.value.sqlstate == state, statement


def test_a_batch_that_was_published_elsewhere_is_read_by_the_client(
    connection: psycopg.Connection[Any], db_url: str
) -> None:
    append(connection, keys=[b"k", None], header_counts=[0, 2], header_names=["a", "a"], header_values=[b"1", b"2"])
    with trunkline.connect(db_url) as tl:
        first, second = tl.read("orders")
        assert (first.key, first.headers) == (b"k", ())
        assert (second.key, second.headers) == (None, (("a", b"1"), ("a", b"2")))
