"""trunkline.outbox_publish, for every other language: as it is written in psql, without a client of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from trunkline import Client
from trunkline.server.binaries import locate

pytestmark = pytest.mark.direct("the application's connections prepare statements, and its readers are to hear")


@pytest.fixture
def conn(tl: Client, db_url: str) -> Iterator[psycopg.Connection[Any]]:
    tl.create_topic("many", partitions=4)
    with psycopg.connect(db_url) as opened:
        yield opened
        opened.rollback()


def answer(conn: psycopg.Connection[Any], statement: str) -> Any:
    row = conn.execute(statement.encode()).fetchone()
    assert row is not None
    return row[0]


def published(conn: psycopg.Connection[Any], tl: Client, arguments: str) -> Any:
    """The record that a call becomes, once it is committed."""
    partition = answer(conn, f"select trunkline.outbox_publish('many', {arguments})")
    end = tl.offsets("many")[partition].end
    conn.commit()
    (record,) = tl.read("many", partition=partition, offset=end)
    return record


def test_a_record_has_payload_key_headers_and_the_partition_of_its_key(
    conn: psycopg.Connection[Any], tl: Client
) -> None:
    plain = published(conn, tl, "'hello'")
    assert (plain.payload, plain.key, plain.headers) == (b"hello", None, ())
    keyed = published(conn, tl, "'x', key => '42'")
    same = tl.publish("many", b"x", key="42")
    assert (keyed.key, keyed.partition) == (b"42", same.partition)
    assert published(conn, tl, "'x', partition => 3").partition == 3
    assert published(conn, tl, "'x', key => '42', partition => 2").partition == 2
    assert published(conn, tl, r"'\x00ff', key => '\x00'").payload == b"\x00\xff"
    assert published(conn, tl, "convert_to('grün', 'UTF8')").payload == "grün".encode()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("""'{"source": "web", "b": "ü"}'""", {("source", b"web"), ("b", "ü".encode())}),
        ("""'[["h", "1"], ["h", "2"]]'""", (("h", b"1"), ("h", b"2"))),
        ("'{}'", ()),
        ("'[]'", ()),
        ("null", ()),
    ],
)
def test_headers_are_an_object_or_pairs(conn: psycopg.Connection[Any], tl: Client, headers: str, expected: Any) -> None:
    record = published(conn, tl, f"'x', headers => {headers}")
    assert type(expected)(record.headers) == expected


@pytest.mark.parametrize("headers", ["null", "'{}'", """'{"h": "1"}'"""])
def test_a_group_key_is_a_header_after_the_others(conn: psycopg.Connection[Any], tl: Client, headers: str) -> None:
    record = published(conn, tl, f"'x', key => 'tenant', group_key => 'user', headers => {headers}")
    assert record.headers[-1] == ("trunkline-group-key", b"user")
    assert dict(record.headers[:-1]) == ({"h": b"1"} if "h" in headers else {})


@pytest.mark.parametrize(
    ("arguments", "state", "says"),
    [
        ("'none', 'x'", "TL002", "none"),
        ("null, 'x'", "TL001", "topic"),
        ("'many', null", "TL001", "payload"),
        ("'many', 'x', partition => 4", "TL002", "partition 4"),
        ("'many', 'x', partition => -1", "TL002", "partition -1"),
        ("'many', 'x', headers => '1'", "TL001", "headers must be"),
        ("""'many', 'x', headers => '{"h": 1}'""", "TL001", "headers must be"),
        ("""'many', 'x', headers => '[["h"]]'""", "TL001", "headers must be"),
        ("'many', 'x', key => repeat('k', 8193)::bytea", "TL004", "key"),
        ("'many', repeat('x', 17 * 1024 * 1024)::bytea", "TL004", "record"),
    ],
)
def test_what_cannot_be_appended_is_refused_at_once(
    conn: psycopg.Connection[Any], tl: Client, arguments: str, state: str, says: str
) -> None:
    with pytest.raises(psycopg.Error, match=says) as refused:
        conn.execute(f"select trunkline.outbox_publish({arguments})".encode())
    assert refused.value.sqlstate == state
    conn.rollback()
    assert answer(conn, "select count(*) from trunkline.outbox_stage") == 0


def test_statements_that_commit_by_themselves_publish_one_by_one(conn: psycopg.Connection[Any], tl: Client) -> None:
    conn.rollback()
    conn.autocommit = True
    conn.execute("select trunkline.outbox_publish('orders', 'a')")
    conn.execute("insert into business select 1 from trunkline.outbox_publish('orders', 'b')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.execute("insert into business select 1 from trunkline.outbox_publish('orders', 'undone')")
    assert [record.payload for record in tl.read("orders")] == [b"a", b"b"]


def test_a_trigger_of_the_application_publishes_what_is_written(conn: psycopg.Connection[Any], tl: Client) -> None:
    conn.execute(
        "create function tell() returns trigger language plpgsql as $$ begin"
        " perform trunkline.outbox_publish('orders', convert_to(to_jsonb(new)::text, 'UTF8')); return null; end $$"
    )
    conn.execute("create trigger tell after insert on business for each row execute function tell()")
    conn.execute("insert into business select generate_series(1, 3)")
    conn.commit()
    assert [record.payload for record in tl.read("orders")] == [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']


def test_psql_publishes_in_a_transaction(tl: Client, db_url: str, heard: Callable[[], list[bytes]]) -> None:
    script = (
        "begin; insert into business values (1); select trunkline.outbox_publish('orders', 'undone'); rollback;"
        "begin; insert into business values (2); select trunkline.outbox_publish('orders', 'kept'); commit;"
    )
    psql = locate().directory / "psql"
    if not psql.exists():
        pytest.skip("no psql beside the server's binaries")
    subprocess.run([psql, "-X", "-v", "ON_ERROR_STOP=1", "-d", db_url], input=script, text=True, check=True)
    tl.ring("orders")
    assert heard() == [b"kept"]


def test_a_topic_may_ring_in_the_commit(
    conn: psycopg.Connection[Any], tl: Client, heard: Callable[[], list[bytes]]
) -> None:
    tl.alter_topic("orders", notify_in_commit=True)
    # The first batch of a segment goes another way than those that follow it.
    for payload in (b"a", b"b"):
        conn.execute("select trunkline.outbox_publish('orders', %s)", [payload])
        conn.commit()
        assert heard() == [payload]
