"""Inboxes: a record that comes twice is dealt with once, and what was not committed was not dealt with."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import trunkline.aio
from tests.aio.shim import at_once
from trunkline import Record, errors
from trunkline.aio import AsyncClient

COUNT = "select count(*) from trunkline.inbox_entry"


async def connected(url: str, **options: Any) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await psycopg.AsyncConnection.connect(url, **options)


async def a_record(tl: AsyncClient, *, topic: str = "orders") -> Record:
    await tl.create_topic(topic)
    await tl.publish(topic, b"x")
    (record,) = await tl.read(topic)
    return record


async def test_S4_17_a_record_that_is_delivered_twice_is_dealt_with_once(db_url: str) -> None:
    done: list[int] = []
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=True) as conn:
        await tl.create_topic("orders", partitions=3)
        await tl.publish_many("orders", [b"%d" % number for number in range(9)], partition=1)
        await tl.publish_many("orders", [b"%d" % number for number in range(9)], partition=2)
        inbox = tl.inbox("billing")
        for _ in range(3):
            for partition in (1, 2):
                for record in await tl.read("orders", partition=partition):
                    async with inbox.once(record, conn=conn) as is_new:
                        if is_new:
                            done.append(record.offset)
        assert sorted(done) == sorted([*range(1, 10)] * 2)
        # Another inbox knows nothing of it.
        async with tl.inbox("shipping").once(record, conn=conn) as is_new:
            assert is_new


async def test_what_fails_or_is_rolled_back_was_not_dealt_with(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        record, inbox = await a_record(tl), tl.inbox("billing")
        assert await inbox.add(record, conn=conn)
        assert not await inbox.add(record, conn=conn)
        await conn.rollback()
        with pytest.raises(ZeroDivisionError):
            await fail(inbox, record, conn)
        # The transaction around it goes on, and commits without it.
        await conn.commit()
        async with inbox.once(record, conn=conn) as is_new:
            assert is_new
        async with inbox.once(record, conn=conn) as is_new:
            assert not is_new


async def fail(inbox: trunkline.aio.AsyncInbox, record: Record, conn: psycopg.AsyncConnection[Any]) -> None:
    async with inbox.once(record, conn=conn) as is_new:
        assert is_new
        raise ZeroDivisionError


async def test_S4_17_two_that_bring_the_same_record_at_once_deal_with_it_once(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        record, inbox = await a_record(tl), tl.inbox("billing")
        done: list[bool] = []

        async def deal() -> None:
            async with await connected(db_url) as conn, inbox.once(record, conn=conn) as is_new:
                await conn.execute("select 1")
                done.append(is_new)

        await at_once(*[deal] * 8)
        assert sorted(done) == [False] * 7 + [True]


async def test_ids_of_the_producers_own_may_be_anything(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        inbox = tl.inbox("billing")
        ids: list[str | bytes] = ["", "order-1", b"\x00\xff", "ä", "\udcff", b"x" * 200, b"x" * 201, b"x" * 100_000]
        assert [await inbox.add(each, conn=conn) for each in ids] == [True] * len(ids)
        assert [await inbox.add(each, conn=conn) for each in ids] == [False] * len(ids)
        assert not await inbox.add(b"order-1", conn=conn)
        for wrong in (None, 1, ["x"]):
            with pytest.raises(errors.InvalidArgument, match="a record, or an id"):
                await inbox.add(wrong, conn=conn)  # type: ignore[arg-type]


async def test_a_record_has_an_id_that_it_does_not_share_with_a_topic_of_the_same_name(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=True) as conn:
        record, inbox = await a_record(tl), tl.inbox("billing")
        first = await inbox.id_of(record)
        assert first == await inbox.id_of(record)
        async with inbox.once(record, conn=conn) as is_new:
            assert is_new
        await tl.delete_topic("orders")
        with pytest.raises(errors.NotFound):
            await inbox.id_of(record)
        again = await a_record(tl)
        assert await inbox.id_of(again) != first
        async with inbox.once(again, conn=conn) as is_new:
            assert is_new


async def test_what_is_old_is_forgotten_and_the_rest_is_not(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=True) as conn:
        short, long = tl.inbox("short", keep_s=60), tl.inbox("long", keep_s=7200)
        async with conn.transaction():
            for number in range(5):
                await short.add(f"{number}", conn=conn)
                await long.add(f"{number}", conn=conn)
        assert await short.sweep() == 0
        await conn.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as"
            " $$ select clock_timestamp() + interval '1 hour' $$"
        )
        async with conn.transaction():
            await short.add("new", conn=conn)
        await tl.retention_run()
        assert await (await conn.execute(COUNT)).fetchall() == [(6,)]
        await tl.inbox("long", keep_s=600).sweep()
        async with conn.transaction():
            assert not await short.add("new", conn=conn)
            assert await short.add("0", conn=conn)
            assert await tl.inbox("long", keep_s=600).add("x", conn=conn)
        assert await long.sweep() == 5


async def test_what_cannot_be_an_inbox_or_its_connection_is_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url, autocommit=True) as conn:
        for name in ("", "a b", "..", None):
            with pytest.raises(errors.InvalidArgument):
                tl.inbox(name)  # type: ignore[arg-type]
        for keep_s in (0, -1, 1.5, True):
            with pytest.raises(errors.InvalidArgument, match="keep_s"):
                tl.inbox("billing", keep_s=keep_s)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="autocommit"):
            await tl.inbox("billing").add("x", conn=conn)
        with pytest.raises(errors.InvalidArgument, match="conn must be"):
            await tl.inbox("billing").add("x", conn=object())  # type: ignore[arg-type]
        with pytest.raises(psycopg.Error, match="does not exist"):
            await conn.execute("select trunkline.inbox_add('nowhere', 'x')")
