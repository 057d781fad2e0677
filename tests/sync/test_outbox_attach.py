# Generated from tests/aio/test_outbox_attach.py by tools/twins.py (make fix). Change the source, not this file.
"""A table that the application writes already, attached to a topic: each row is published by the transaction that
inserts it, those that were there first where that is asked for, and what cannot be attached is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import trunkline
from trunkline import Client, OutboxColumns, Record, TopicSettings, errors

TABLE = """
create table public.outbox_message_t (
    id bigint generated always as identity primary key, host_id uuid, user_id text, payload jsonb, headers jsonb)
"""
COLUMNS = OutboxColumns(payload="payload", key="host_id", group_key="user_id", headers="headers")
HOST = "00000000-0000-0000-0000-00000000000a"
OTHER = "00000000-0000-0000-0000-00000000000b"
INSERT = "insert into public.outbox_message_t (host_id, user_id, payload) values (%s, %s, %s)"
NUMBERED = """
insert into public.outbox_message_t (host_id, payload)
select ('00000000-0000-0000-0000-00000000000' || i %% 7)::uuid, to_jsonb(i) from generate_series(%s::integer, %s) i
"""


def connected(url: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.Connection.connect(url, **{"autocommit": True, **options})


def records(tl: Client, topic: str = "orders") -> list[Record]:
    """All records of a topic, partition by partition."""
    found: list[Record] = []
    for log in tl.offsets(topic):
        found += tl.read(topic, partition=log.partition, max_records=100_000, bytes_max=1 << 28)
    return found


def payloads(tl: Client, topic: str = "orders") -> list[bytes]:
    return [record.payload for record in records(tl, topic)]


def test_a_row_is_published_by_the_transaction_that_inserts_it(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=False) as conn:
        tl.create_topic("orders", partitions=4)
        conn.execute(TABLE)
        conn.commit()
        assert tl.outbox_attach("outbox_message_t", "orders", COLUMNS) == 0
        conn.execute(INSERT, [HOST, "u1", '{"n": 0}'])
        conn.rollback()
        conn.execute(INSERT, [HOST, "u1", '{"n": 1}'])
        conn.execute(INSERT, [HOST, None, '{"n": 2}'])
        conn.execute("savepoint here")
        conn.execute(INSERT, [HOST, None, '{"n": 3}'])
        conn.execute("rollback to here")
        assert payloads(tl) == []
        conn.commit()
        found = records(tl)
    assert [record.payload for record in found] == [b'{"n": 1}', b'{"n": 2}']
    assert {record.key for record in found} == {HOST.encode()}
    assert [record.headers for record in found] == [(("trunkline-group-key", b"u1"),), ()]


def test_S4_04_rows_of_one_statement_go_to_the_partitions_of_their_keys_in_its_order(db_url: str) -> None:
    """More than one batch of each partition, and the same partition that a client would choose."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=3, settings=TopicSettings(batch_records_max=100))
        tl.create_topic("compared", partitions=3)
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", OutboxColumns(payload="payload", key="host_id"))
        conn.execute(NUMBERED, [1, 2500])
        found = records(tl)
        assert sorted(int(record.payload) for record in found) == list(range(1, 2501))
        for key in {record.key for record in found}:
            of_key = [record for record in found if record.key == key]
            numbers = [int(record.payload) for record in of_key]
            assert numbers == sorted(numbers)
            at = tl.publish("compared", b"x", key=key)
            assert {record.partition for record in of_key} == {at.partition}


def test_rows_larger_than_a_batch_together_are_published_as_several(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=TopicSettings(batch_bytes_max=1000, record_bytes_max=1000))
        conn.execute("create table public.t (id integer, body bytea)")
        tl.outbox_attach("t", "orders", OutboxColumns(payload="body"))
        conn.execute("insert into t select i, convert_to(repeat(i::text, 300), 'UTF8') from generate_series(0, 9) i")
        assert payloads(tl) == [str(number).encode() * 300 for number in range(10)]
        with pytest.raises(psycopg.Error, match="over record_bytes_max"):
            conn.execute("insert into t values (1, convert_to(repeat('x', 1001), 'UTF8'))")
        conn.execute("insert into t select 1, 'x' where false")
        assert len(payloads(tl)) == 10


@pytest.mark.parametrize(
    ("kind", "value", "payload"),
    [
        ("bytea", r"'\x00ff'", b"\x00\xff"),
        ("text", "'ä'", "ä".encode()),
        ("varchar(10)", "'a'", b"a"),
        ("json", """'{"b":  1, "a": 2}'""", b'{"b":  1, "a": 2}'),
        ("jsonb", """'{"b":  1}'""", b'{"b": 1}'),
        ("integer", "5", b"5"),
        ("numeric", "1.50", b"1.50"),
        ("timestamp", "'2026-01-02 03:04:05'", b'"2026-01-02T03:04:05"'),
        ("text[]", "array['a', 'b']", b'["a","b"]'),
        ("public.short", "'a'", b"a"),
        ("text", "''", b""),
    ],
)
def test_a_payload_is_bytes_or_text_or_json(db_url: str, kind: str, value: str, payload: bytes) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute("create domain public.short as varchar(5)")
        conn.execute(f"create table public.t (body {kind})".encode())
        tl.outbox_attach("t", "orders", OutboxColumns(payload="body"))
        conn.execute(f"insert into t values ({value})".encode())
        assert payloads(tl) == [payload]


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("text", "'k'", b"k"),
        ("uuid", f"'{HOST}'", HOST.encode()),
        ("smallint", "7", b"7"),
        ("bigint", "-7", b"-7"),
        ("bytea", r"'\x00'", b"\x00"),
        ("text", "null", None),
    ],
)
def test_a_key_is_text_or_its_text(db_url: str, kind: str, value: str, key: bytes | None) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=2)
        conn.execute(f"create table public.t (k {kind}, body text)".encode())
        tl.outbox_attach("t", "orders", OutboxColumns(payload="body", key="k"))
        conn.execute(f"insert into t values ({value}, 'x')".encode())
        assert [record.key for record in records(tl)] == [key]


def test_headers_are_an_object_or_pairs_and_the_group_key_is_one_of_them(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute(
            "insert into outbox_message_t (user_id, payload, headers) values"
            """ ('u', '1', '{"a": "x"}'), (null, '2', null),"""
            """ (null, '3', '[["b", "y"], ["b", "z"]]'), ('v', '4', '{}')"""
        )
        assert [record.headers for record in records(tl)] == [
            (("a", b"x"), ("trunkline-group-key", b"u")),
            (),
            (("b", b"y"), ("b", b"z")),
            (("trunkline-group-key", b"v"),),
        ]
        with pytest.raises(psycopg.Error, match="headers must be an object of strings"):
            conn.execute("""insert into outbox_message_t (payload, headers) values ('1', '{"a": 1}')""")


def test_existing_rows_come_first_in_order_and_once(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.execute("alter table outbox_message_t add rank integer")
        conn.execute("insert into outbox_message_t (payload, rank) values ('3', 30), ('1', 10), ('2', 20)")
        conn.execute(
            "insert into outbox_message_t (payload, rank) select to_jsonb(i), i * 10 from generate_series(4, 5000) i"
        )
        seen: list[int] = []
        columns = OutboxColumns(payload="payload")
        assert tl.outbox_attach("outbox_message_t", "orders", columns, order_by="rank", progress=seen.append) == 5000
        conn.execute(INSERT, [None, None, "5001"])
        assert [int(payload) for payload in payloads(tl)] == list(range(1, 5002))
        assert seen == [1000, 2000, 3000, 4000]


def test_while_existing_rows_are_relayed_nobody_writes_and_who_was_writing_is_waited_for(db_url: str) -> None:
    """A transaction that inserted before is either seen, or its rows would be lost: so attaching waits for it."""
    columns = OutboxColumns(payload="payload")
    settings = trunkline.ClientSettings(lock_timeout_s=0.1)
    with (
        trunkline.connect(db_url, settings=settings) as tl,
        connected(db_url, autocommit=False) as conn,
        connected(db_url, autocommit=False) as attaching,
    ):
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.commit()
        conn.execute(INSERT, [None, None, "1"])
        with pytest.raises(errors.Conflict):
            tl.outbox_attach("outbox_message_t", "orders", columns, order_by="id")
        assert tl.outbox_sources() == []
        conn.commit()
        attaching.execute("select trunkline.outbox_attach('outbox_message_t', 'orders', 'payload', order_by => 'id')")
        conn.execute("set local lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            conn.execute(INSERT, [None, None, "2"])
        conn.rollback()
        attaching.commit()
        conn.execute(INSERT, [None, None, "2"])
        conn.commit()
        assert payloads(tl) == [b"1", b"2"]


def test_who_inserts_needs_no_grant_of_ours(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute("create role app_writer")
        try:
            conn.execute("grant insert on outbox_message_t to app_writer")
            with conn.transaction():
                conn.execute("set local role app_writer")
                conn.execute(INSERT, [HOST, "u", "1"])
            assert payloads(tl) == [b"1"]
        finally:
            conn.execute("drop owned by app_writer")
            conn.execute("drop role app_writer")


def test_detached_rows_are_not_published_and_the_table_can_be_attached_again(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        for topic in ("orders", "other"):
            tl.create_topic(topic)
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        for topic in ("orders", "other"):
            with pytest.raises(errors.AlreadyExists, match="attached to topic orders already; detach it first"):
                tl.outbox_attach("public.outbox_message_t", topic, COLUMNS)
        assert tl.outbox_detach("outbox_message_t") == "orders"
        conn.execute(INSERT, [HOST, "u", "1"])
        with pytest.raises(errors.NotFound, match="is not attached; see which are: trunkline outbox status"):
            tl.outbox_detach("outbox_message_t")
        tl.outbox_attach("outbox_message_t", "other", COLUMNS)
        conn.execute(INSERT, [HOST, "u", "2"])
        assert (payloads(tl), payloads(tl, "other")) == ([], [b"2"])


def test_names_with_capitals_quotes_and_schemas_are_right_names(db_url: str) -> None:
    name = '''"My Shop"."Out""box; drop table x"'''
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute('create schema "My Shop"')
        conn.execute(f'create table {name} ("Pay""load" text, "select" integer)'.encode())
        conn.execute(f"insert into {name} values ('old', 1)".encode())
        columns = OutboxColumns(payload='Pay"load', key="select")
        tl.outbox_attach(name, "orders", columns, order_by="select")
        conn.execute(f"insert into {name} values ('new', 2)".encode())
        assert payloads(tl) == [b"old", b"new"]
        (source,) = tl.outbox_sources()
        assert (source.table, source.payload, source.key, source.problem) == (name, 'Pay"load', "select", None)
        assert tl.outbox_detach(source.table) == "orders"
        with pytest.raises(errors.NotFound, match="in double quotes where it has capitals"):
            tl.outbox_attach("My Shop.Outbox", "orders", columns)


def test_a_table_that_is_renamed_or_moved_stays_attached(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute("alter table outbox_message_t rename to events")
        conn.execute("create schema later")
        conn.execute("alter table events set schema later")
        conn.execute("insert into later.events (payload) values ('1')")
        assert payloads(tl) == [b"1"]
        assert [(source.table, source.problem) for source in tl.outbox_sources()] == [("later.events", None)]
        assert tl.outbox_detach("later.events") == "orders"


def test_a_table_that_was_dropped_is_shown_and_can_be_detached(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute("drop table outbox_message_t")
        (source,) = tl.outbox_sources()
        assert (source.table, source.problem) == ("public.outbox_message_t", "the table was dropped: detach it")
        assert tl.outbox_detach("outbox_message_t") == "orders"
        assert tl.outbox_sources() == []
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute(INSERT, [HOST, "u", "1"])
        assert payloads(tl) == [b"1"]


def test_a_topic_that_was_deleted_fails_the_insert_and_says_the_way_out(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        tl.delete_topic("orders")
        tl.create_topic("orders")  # another one, under the old name
        with pytest.raises(psycopg.Error, match="attached to topic orders, which was deleted") as caught:
            conn.execute(INSERT, [HOST, "u", "1"])
        assert "run: trunkline outbox detach 'public.outbox_message_t'" in str(caught.value.diag.message_hint)
        (source,) = tl.outbox_sources()
        assert "its topic was deleted, and inserts fail" in str(source.problem)
        tl.outbox_detach("outbox_message_t")
        conn.execute(INSERT, [HOST, "u", "1"])


def test_a_column_that_no_longer_fits_fails_the_insert_and_shows_in_the_list(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute("alter table outbox_message_t alter payload type text")
        conn.execute(INSERT, [HOST, "u", "text is fine too"])
        assert payloads(tl) == [b"text is fine too"]
        conn.execute("alter table outbox_message_t rename user_id to account")
        with pytest.raises(psycopg.Error, match="has no column user_id for the group key"):
            conn.execute("insert into outbox_message_t (payload) values ('1')")
        (source,) = tl.outbox_sources()
        assert "inserts fail: table public.outbox_message_t has no column user_id" in str(source.problem)


def test_a_trigger_that_was_disabled_or_dropped_shows_in_the_list(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        conn.execute("alter table outbox_message_t disable trigger trunkline_outbox")
        (source,) = tl.outbox_sources()
        assert "enable trigger trunkline_outbox" in str(source.problem)
        conn.execute("drop trigger trunkline_outbox on outbox_message_t")
        (source,) = tl.outbox_sources()
        assert "its trigger was dropped" in str(source.problem)
        assert tl.outbox_detach("outbox_message_t") == "orders"


@pytest.mark.parametrize(
    ("made", "name", "said"),
    [
        ("create view public.v as select 'x'::text as payload", "v", "is a view: attach the table that is written"),
        ("create materialized view public.v as select 'x'::text as payload", "v", "is a view"),
        ("create table public.p (payload text) partition by list (payload)", "p", "is partitioned, or a partition"),
        (
            """create table public.p (payload text) partition by list (payload);
            create table public.q partition of p for values in ('x')""",
            "q",
            "is partitioned, or a partition",
        ),
        ("create sequence public.s", "s", "is no plain table"),
        ("", "trunkline.topic", "is not a table of an application"),
        ("", "pg_catalog.pg_class", "is not a table of an application"),
    ],
)
def test_what_is_no_plain_table_is_refused(db_url: str, made: str, name: str, said: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(made.encode())
        with pytest.raises(errors.InvalidArgument, match=said):
            tl.outbox_attach(name, "orders", OutboxColumns(payload="payload"))
        assert tl.outbox_sources() == []


@pytest.mark.direct("a temporary table belongs to a session")
def test_a_temporary_table_is_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute("create temp table t (payload text)")
        with pytest.raises(psycopg.Error, match="is temporary: it ends with its session"):
            conn.execute("select trunkline.outbox_attach('t', 'orders', 'payload')")
        with pytest.raises(errors.NotFound, match="there is no table t"):
            tl.outbox_attach("t", "orders", OutboxColumns(payload="payload"))


@pytest.mark.parametrize(
    ("columns", "order_by", "kind", "said"),
    [
        (
            OutboxColumns(payload="paylod"),
            None,
            errors.NotFound,
            "no column paylod for the payload; its columns are id,",
        ),
        (OutboxColumns(payload="payload", key="hosts"), None, errors.NotFound, "no column hosts for the key"),
        (
            OutboxColumns(payload="payload", key="payload"),
            None,
            errors.InvalidArgument,
            "is jsonb, which cannot be the key",
        ),
        (
            OutboxColumns(payload="payload", headers="user_id"),
            None,
            errors.InvalidArgument,
            "headers are json or jsonb",
        ),
        (OutboxColumns(payload="payload"), "rank", errors.NotFound, "no column rank to order by"),
        (OutboxColumns(payload="pair"), None, errors.InvalidArgument, "is public.pair, which cannot be the payload"),
        (OutboxColumns(payload="ctid"), None, errors.NotFound, "no column ctid"),
    ],
)
def test_columns_that_are_not_there_or_do_not_fit_are_refused(
    db_url: str, columns: OutboxColumns, order_by: str | None, kind: type[errors.TrunklineError], said: str
) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.execute("create type public.pair as (a text, b text)")
        conn.execute("alter table outbox_message_t add pair public.pair")
        with pytest.raises(kind, match=said):
            tl.outbox_attach("outbox_message_t", "orders", columns, order_by=order_by)
        assert tl.outbox_sources() == []
        conn.execute(INSERT, [HOST, "u", "1"])
        assert payloads(tl) == []


def test_names_that_can_never_work_are_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        columns: Any = OutboxColumns(payload="payload")
        for table in ("", " ", "a\0b", 5, None, "x" * 1001):
            with pytest.raises(errors.InvalidArgument):
                tl.outbox_attach(table, "orders", columns)  # type: ignore[arg-type]
        for name in ("no_such_table", "a.b.c.d", '"', "--", "nowhere.t"):
            with pytest.raises(errors.NotFound):
                tl.outbox_attach(name, "orders", columns)
            with pytest.raises(errors.NotFound):
                tl.outbox_detach(name)
        with pytest.raises(errors.InvalidArgument):
            tl.outbox_attach("t", "orders", "payload")  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument):
            tl.outbox_attach("t", "orders", columns, order_by="")
        for bad in ("", 5, "a\0b"):
            with pytest.raises(errors.InvalidArgument):
                OutboxColumns(payload=bad)  # type: ignore[arg-type]


def test_a_topic_that_is_missing_is_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        conn.execute(TABLE)
        with pytest.raises(errors.NotFound, match="topic orders does not exist; create it: trunkline topic create"):
            tl.outbox_attach("outbox_message_t", "orders", COLUMNS)


def test_a_row_without_a_payload_is_refused_with_its_column(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.execute("insert into outbox_message_t (user_id) values ('u')")
        with pytest.raises(errors.InvalidArgument, match=r"column payload of a row of .* is null"):
            tl.outbox_attach("outbox_message_t", "orders", COLUMNS, order_by="id")
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        with pytest.raises(psycopg.Error, match=r"column payload of a new row of .* is null"):
            conn.execute("insert into outbox_message_t (user_id) values ('u')")


def test_in_a_transaction_with_an_old_snapshot_rows_are_published_or_it_is_run_again(db_url: str) -> None:
    columns = OutboxColumns(payload="payload")
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=False) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.commit()
        repeatable = "set transaction isolation level repeatable read"
        conn.execute(repeatable)
        conn.execute("select 1 from pg_class limit 1")
        tl.outbox_attach("outbox_message_t", "orders", columns)
        with pytest.raises(psycopg.errors.SerializationFailure, match="attached to a topic after this transaction"):
            conn.execute(INSERT, [None, None, "1"])
        conn.rollback()
        conn.execute(repeatable)
        conn.execute(INSERT, [None, None, "1"])
        conn.commit()
        assert payloads(tl) == [b"1"]
        tl.outbox_detach("outbox_message_t")
        conn.execute(repeatable)
        with pytest.raises(psycopg.Error, match="attached in a READ COMMITTED transaction"):
            conn.execute("select trunkline.outbox_attach('outbox_message_t', 'orders', 'payload', order_by => 'id')")
