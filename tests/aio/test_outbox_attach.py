"""A table that the application writes already, attached to a topic: each row is published by the transaction that
inserts it, those that were there first where that is asked for, and what cannot be attached is refused."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import trunkline.aio
from trunkline import OutboxColumns, Record, TopicSettings, errors
from trunkline.aio import AsyncClient

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


async def connected(url: str, **options: Any) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await psycopg.AsyncConnection.connect(url, **{"autocommit": True, **options})


async def records(tl: AsyncClient, topic: str = "orders") -> list[Record]:
    """All records of a topic, partition by partition."""
    found: list[Record] = []
    for log in await tl.offsets(topic):
        found += await tl.read(topic, partition=log.partition, max_records=100_000, bytes_max=1 << 28)
    return found


async def payloads(tl: AsyncClient, topic: str = "orders") -> list[bytes]:
    return [record.payload for record in await records(tl, topic)]


async def test_a_row_is_published_by_the_transaction_that_inserts_it(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=False) as conn:
        await tl.create_topic("orders", partitions=4)
        await conn.execute(TABLE)
        await conn.commit()
        assert await tl.outbox_attach("outbox_message_t", "orders", COLUMNS) == 0
        await conn.execute(INSERT, [HOST, "u1", '{"n": 0}'])
        await conn.rollback()
        await conn.execute(INSERT, [HOST, "u1", '{"n": 1}'])
        await conn.execute(INSERT, [HOST, None, '{"n": 2}'])
        await conn.execute("savepoint here")
        await conn.execute(INSERT, [HOST, None, '{"n": 3}'])
        await conn.execute("rollback to here")
        assert await payloads(tl) == []
        await conn.commit()
        found = await records(tl)
    assert [record.payload for record in found] == [b'{"n": 1}', b'{"n": 2}']
    assert {record.key for record in found} == {HOST.encode()}
    assert [record.headers for record in found] == [(("trunkline-group-key", b"u1"),), ()]


async def test_S4_04_rows_of_one_statement_go_to_the_partitions_of_their_keys_in_its_order(db_url: str) -> None:
    """More than one batch of each partition, and the same partition that a client would choose."""
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", partitions=3, settings=TopicSettings(batch_records_max=100))
        await tl.create_topic("compared", partitions=3)
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", OutboxColumns(payload="payload", key="host_id"))
        await conn.execute(NUMBERED, [1, 2500])
        found = await records(tl)
        assert sorted(int(record.payload) for record in found) == list(range(1, 2501))
        for key in {record.key for record in found}:
            of_key = [record for record in found if record.key == key]
            numbers = [int(record.payload) for record in of_key]
            assert numbers == sorted(numbers)
            at = await tl.publish("compared", b"x", key=key)
            assert {record.partition for record in of_key} == {at.partition}


async def test_rows_larger_than_a_batch_together_are_published_as_several(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", settings=TopicSettings(batch_bytes_max=1000, record_bytes_max=1000))
        await conn.execute("create table public.t (id integer, body bytea)")
        await tl.outbox_attach("t", "orders", OutboxColumns(payload="body"))
        await conn.execute(
            "insert into t select i, convert_to(repeat(i::text, 300), 'UTF8') from generate_series(0, 9) i"
        )
        assert await payloads(tl) == [str(number).encode() * 300 for number in range(10)]
        with pytest.raises(psycopg.Error, match="over record_bytes_max"):
            await conn.execute("insert into t values (1, convert_to(repeat('x', 1001), 'UTF8'))")
        await conn.execute("insert into t select 1, 'x' where false")
        assert len(await payloads(tl)) == 10


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
async def test_a_payload_is_bytes_or_text_or_json(db_url: str, kind: str, value: str, payload: bytes) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute("create domain public.short as varchar(5)")
        await conn.execute(f"create table public.t (body {kind})".encode())
        await tl.outbox_attach("t", "orders", OutboxColumns(payload="body"))
        await conn.execute(f"insert into t values ({value})".encode())
        assert await payloads(tl) == [payload]


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
async def test_a_key_is_text_or_its_text(db_url: str, kind: str, value: str, key: bytes | None) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", partitions=2)
        await conn.execute(f"create table public.t (k {kind}, body text)".encode())
        await tl.outbox_attach("t", "orders", OutboxColumns(payload="body", key="k"))
        await conn.execute(f"insert into t values ({value}, 'x')".encode())
        assert [record.key for record in await records(tl)] == [key]


async def test_headers_are_an_object_or_pairs_and_the_group_key_is_one_of_them(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute(
            "insert into outbox_message_t (user_id, payload, headers) values"
            """ ('u', '1', '{"a": "x"}'), (null, '2', null),"""
            """ (null, '3', '[["b", "y"], ["b", "z"]]'), ('v', '4', '{}')"""
        )
        assert [record.headers for record in await records(tl)] == [
            (("a", b"x"), ("trunkline-group-key", b"u")),
            (),
            (("b", b"y"), ("b", b"z")),
            (("trunkline-group-key", b"v"),),
        ]
        with pytest.raises(psycopg.Error, match="headers must be an object of strings"):
            await conn.execute("""insert into outbox_message_t (payload, headers) values ('1', '{"a": 1}')""")


async def test_existing_rows_come_first_in_order_and_once(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.execute("alter table outbox_message_t add rank integer")
        await conn.execute("insert into outbox_message_t (payload, rank) values ('3', 30), ('1', 10), ('2', 20)")
        await conn.execute(
            "insert into outbox_message_t (payload, rank) select to_jsonb(i), i * 10 from generate_series(4, 5000) i"
        )
        seen: list[int] = []
        columns = OutboxColumns(payload="payload")
        assert (
            await tl.outbox_attach("outbox_message_t", "orders", columns, order_by="rank", progress=seen.append) == 5000
        )
        await conn.execute(INSERT, [None, None, "5001"])
        assert [int(payload) for payload in await payloads(tl)] == list(range(1, 5002))
        assert seen == [1000, 2000, 3000, 4000]


async def test_while_existing_rows_are_relayed_nobody_writes_and_who_was_writing_is_waited_for(db_url: str) -> None:
    """A transaction that inserted before is either seen, or its rows would be lost: so attaching waits for it."""
    columns = OutboxColumns(payload="payload")
    settings = trunkline.ClientSettings(lock_timeout_s=0.1)
    async with (
        trunkline.aio.connect(db_url, settings=settings) as tl,
        await connected(db_url, autocommit=False) as conn,
        await connected(db_url, autocommit=False) as attaching,
    ):
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.commit()
        await conn.execute(INSERT, [None, None, "1"])
        with pytest.raises(errors.Conflict):
            await tl.outbox_attach("outbox_message_t", "orders", columns, order_by="id")
        assert await tl.outbox_sources() == []
        await conn.commit()
        await attaching.execute(
            "select trunkline.outbox_attach('outbox_message_t', 'orders', 'payload', order_by => 'id')"
        )
        await conn.execute("set local lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await conn.execute(INSERT, [None, None, "2"])
        await conn.rollback()
        await attaching.commit()
        await conn.execute(INSERT, [None, None, "2"])
        await conn.commit()
        assert await payloads(tl) == [b"1", b"2"]


async def test_who_inserts_needs_no_grant_of_ours(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute("create role app_writer")
        try:
            await conn.execute("grant insert on outbox_message_t to app_writer")
            async with conn.transaction():
                await conn.execute("set local role app_writer")
                await conn.execute(INSERT, [HOST, "u", "1"])
            assert await payloads(tl) == [b"1"]
        finally:
            await conn.execute("drop owned by app_writer")
            await conn.execute("drop role app_writer")


async def test_detached_rows_are_not_published_and_the_table_can_be_attached_again(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        for topic in ("orders", "other"):
            await tl.create_topic(topic)
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        for topic in ("orders", "other"):
            with pytest.raises(errors.AlreadyExists, match="attached to topic orders already; detach it first"):
                await tl.outbox_attach("public.outbox_message_t", topic, COLUMNS)
        assert await tl.outbox_detach("outbox_message_t") == "orders"
        await conn.execute(INSERT, [HOST, "u", "1"])
        with pytest.raises(errors.NotFound, match="is not attached; see which are: trunkline outbox status"):
            await tl.outbox_detach("outbox_message_t")
        await tl.outbox_attach("outbox_message_t", "other", COLUMNS)
        await conn.execute(INSERT, [HOST, "u", "2"])
        assert (await payloads(tl), await payloads(tl, "other")) == ([], [b"2"])


async def test_names_with_capitals_quotes_and_schemas_are_right_names(db_url: str) -> None:
    name = '''"My Shop"."Out""box; drop table x"'''
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute('create schema "My Shop"')
        await conn.execute(f'create table {name} ("Pay""load" text, "select" integer)'.encode())
        await conn.execute(f"insert into {name} values ('old', 1)".encode())
        columns = OutboxColumns(payload='Pay"load', key="select")
        await tl.outbox_attach(name, "orders", columns, order_by="select")
        await conn.execute(f"insert into {name} values ('new', 2)".encode())
        assert await payloads(tl) == [b"old", b"new"]
        (source,) = await tl.outbox_sources()
        assert (source.table, source.payload, source.key, source.problem) == (name, 'Pay"load', "select", None)
        assert await tl.outbox_detach(source.table) == "orders"
        with pytest.raises(errors.NotFound, match="in double quotes where it has capitals"):
            await tl.outbox_attach("My Shop.Outbox", "orders", columns)


async def test_a_table_that_is_renamed_or_moved_stays_attached(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute("alter table outbox_message_t rename to events")
        await conn.execute("create schema later")
        await conn.execute("alter table events set schema later")
        await conn.execute("insert into later.events (payload) values ('1')")
        assert await payloads(tl) == [b"1"]
        assert [(source.table, source.problem) for source in await tl.outbox_sources()] == [("later.events", None)]
        assert await tl.outbox_detach("later.events") == "orders"


async def test_a_table_that_was_dropped_is_shown_and_can_be_detached(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute("drop table outbox_message_t")
        (source,) = await tl.outbox_sources()
        assert (source.table, source.problem) == ("public.outbox_message_t", "the table was dropped: detach it")
        assert await tl.outbox_detach("outbox_message_t") == "orders"
        assert await tl.outbox_sources() == []
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute(INSERT, [HOST, "u", "1"])
        assert await payloads(tl) == [b"1"]


async def test_a_topic_that_was_deleted_fails_the_insert_and_says_the_way_out(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await tl.delete_topic("orders")
        await tl.create_topic("orders")  # another one, under the old name
        with pytest.raises(psycopg.Error, match="attached to topic orders, which was deleted") as caught:
            await conn.execute(INSERT, [HOST, "u", "1"])
        assert "run: trunkline outbox detach 'public.outbox_message_t'" in str(caught.value.diag.message_hint)
        (source,) = await tl.outbox_sources()
        assert "its topic was deleted, and inserts fail" in str(source.problem)
        await tl.outbox_detach("outbox_message_t")
        await conn.execute(INSERT, [HOST, "u", "1"])


async def test_a_column_that_no_longer_fits_fails_the_insert_and_shows_in_the_list(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute("alter table outbox_message_t alter payload type text")
        await conn.execute(INSERT, [HOST, "u", "text is fine too"])
        assert await payloads(tl) == [b"text is fine too"]
        await conn.execute("alter table outbox_message_t rename user_id to account")
        with pytest.raises(psycopg.Error, match="has no column user_id for the group key"):
            await conn.execute("insert into outbox_message_t (payload) values ('1')")
        (source,) = await tl.outbox_sources()
        assert "inserts fail: table public.outbox_message_t has no column user_id" in str(source.problem)


async def test_a_trigger_that_was_disabled_or_dropped_shows_in_the_list(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        await conn.execute("alter table outbox_message_t disable trigger trunkline_outbox")
        (source,) = await tl.outbox_sources()
        assert "enable trigger trunkline_outbox" in str(source.problem)
        await conn.execute("drop trigger trunkline_outbox on outbox_message_t")
        (source,) = await tl.outbox_sources()
        assert "its trigger was dropped" in str(source.problem)
        assert await tl.outbox_detach("outbox_message_t") == "orders"


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
async def test_what_is_no_plain_table_is_refused(db_url: str, made: str, name: str, said: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(made.encode())
        with pytest.raises(errors.InvalidArgument, match=said):
            await tl.outbox_attach(name, "orders", OutboxColumns(payload="payload"))
        assert await tl.outbox_sources() == []


@pytest.mark.direct("a temporary table belongs to a session")
async def test_a_temporary_table_is_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute("create temp table t (payload text)")
        with pytest.raises(psycopg.Error, match="is temporary: it ends with its session"):
            await conn.execute("select trunkline.outbox_attach('t', 'orders', 'payload')")
        with pytest.raises(errors.NotFound, match="there is no table t"):
            await tl.outbox_attach("t", "orders", OutboxColumns(payload="payload"))


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
async def test_columns_that_are_not_there_or_do_not_fit_are_refused(
    db_url: str, columns: OutboxColumns, order_by: str | None, kind: type[errors.TrunklineError], said: str
) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.execute("create type public.pair as (a text, b text)")
        await conn.execute("alter table outbox_message_t add pair public.pair")
        with pytest.raises(kind, match=said):
            await tl.outbox_attach("outbox_message_t", "orders", columns, order_by=order_by)
        assert await tl.outbox_sources() == []
        await conn.execute(INSERT, [HOST, "u", "1"])
        assert await payloads(tl) == []


async def test_names_that_can_never_work_are_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        columns: Any = OutboxColumns(payload="payload")
        for table in ("", " ", "a\0b", 5, None, "x" * 1001):
            with pytest.raises(errors.InvalidArgument):
                await tl.outbox_attach(table, "orders", columns)  # type: ignore[arg-type]
        for name in ("no_such_table", "a.b.c.d", '"', "--", "nowhere.t"):
            with pytest.raises(errors.NotFound):
                await tl.outbox_attach(name, "orders", columns)
            with pytest.raises(errors.NotFound):
                await tl.outbox_detach(name)
        with pytest.raises(errors.InvalidArgument):
            await tl.outbox_attach("t", "orders", "payload")  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument):
            await tl.outbox_attach("t", "orders", columns, order_by="")
        for bad in ("", 5, "a\0b"):
            with pytest.raises(errors.InvalidArgument):
                OutboxColumns(payload=bad)  # type: ignore[arg-type]


async def test_a_topic_that_is_missing_is_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await conn.execute(TABLE)
        with pytest.raises(errors.NotFound, match="topic orders does not exist; create it: trunkline topic create"):
            await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)


async def test_a_row_without_a_payload_is_refused_with_its_column(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.execute("insert into outbox_message_t (user_id) values ('u')")
        with pytest.raises(errors.InvalidArgument, match=r"column payload of a row of .* is null"):
            await tl.outbox_attach("outbox_message_t", "orders", COLUMNS, order_by="id")
        await tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        with pytest.raises(psycopg.Error, match=r"column payload of a new row of .* is null"):
            await conn.execute("insert into outbox_message_t (user_id) values ('u')")


async def test_in_a_transaction_with_an_old_snapshot_rows_are_published_or_it_is_run_again(db_url: str) -> None:
    columns = OutboxColumns(payload="payload")
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=False) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.commit()
        repeatable = "set transaction isolation level repeatable read"
        await conn.execute(repeatable)
        await conn.execute("select 1 from pg_class limit 1")
        await tl.outbox_attach("outbox_message_t", "orders", columns)
        with pytest.raises(psycopg.errors.SerializationFailure, match="attached to a topic after this transaction"):
            await conn.execute(INSERT, [None, None, "1"])
        await conn.rollback()
        await conn.execute(repeatable)
        await conn.execute(INSERT, [None, None, "1"])
        await conn.commit()
        assert await payloads(tl) == [b"1"]
        await tl.outbox_detach("outbox_message_t")
        await conn.execute(repeatable)
        with pytest.raises(psycopg.Error, match="attached in a READ COMMITTED transaction"):
            await conn.execute(
                "select trunkline.outbox_attach('outbox_message_t', 'orders', 'payload', order_by => 'id')"
            )
