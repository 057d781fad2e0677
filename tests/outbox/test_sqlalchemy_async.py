"""Publishing on async sessions and connections of SQLAlchemy, through psycopg and through asyncpg."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import trunkline.aio
from trunkline import ClientSettings, Message, errors
from trunkline.aio import AsyncClient

pytestmark = [
    pytest.mark.direct("the application's connections prepare statements, and its readers are to hear"),
    pytest.mark.parametrize("driver", ["psycopg", "asyncpg"]),
]

INSERT = text("insert into business values (:id)")
QUIET = ClientSettings(poll_max_s=500.0)
"""Far longer than a test may take: only a ring can end a reader's wait."""


def engine_of(url: str, driver: str, **options: Any) -> AsyncEngine:
    return create_async_engine(
        url.replace("postgresql://", f"postgresql+{driver}://", 1), poolclass=NullPool, **options
    )


@asynccontextmanager
async def opened(url: str, driver: str) -> AsyncIterator[tuple[AsyncClient, AsyncEngine]]:
    """A client with a topic, and an engine with a table."""
    engine = engine_of(url, driver)
    async with trunkline.aio.connect(url) as tl, engine.begin() as conn:
        await conn.execute(text("create table business (id integer primary key)"))
        await tl.create_topic("orders")
        await conn.commit()
        yield tl, engine


async def payloads(tl: AsyncClient) -> list[bytes]:
    return [record.payload for record in await tl.read("orders", max_records=100_000)]


async def test_S4_01_the_row_and_the_record_commit_together_or_not_at_all(db_url: str, driver: str) -> None:
    async with opened(db_url, driver) as (tl, engine):
        async with AsyncSession(engine) as session:
            await session.execute(INSERT, {"id": 1})
            await tl.publish("orders", b"undone", conn=session)
            await session.rollback()
            await session.execute(INSERT, {"id": 2})
            at = await tl.publish("orders", b"two", conn=session)
            assert await payloads(tl) == []
            await session.commit()
        async with engine.begin() as conn:
            await conn.execute(INSERT, {"id": 3})
            await tl.publish("orders", b"three", conn=conn)
        async with engine.connect() as conn:
            await tl.publish("orders", b"undone", conn=conn)
            await conn.rollback()
            rows = (await conn.execute(text("select id from business order by id"))).scalars().all()
        assert (await payloads(tl), rows) == ([b"two", b"three"], [2, 3])
        assert at.transaction_id == (await tl.read_batches("orders"))[0].transaction_id


async def test_savepoints_that_are_rolled_back_publish_nothing(db_url: str, driver: str) -> None:
    async with opened(db_url, driver) as (tl, engine), AsyncSession(engine) as session:
        undone = await session.begin_nested()
        await tl.publish("orders", b"undone", conn=session)
        await undone.rollback()
        await tl.publish("orders", b"a", conn=session)
        async with session.begin_nested():
            await tl.publish("orders", b"b", conn=session)
        await session.commit()
        assert await payloads(tl) == [b"a", b"b"]


async def test_many_records_keep_keys_headers_and_order(db_url: str, driver: str) -> None:
    given: list[Message | bytes] = [
        Message(b"\x00\\'", key=b"\xff\x00", headers=[("h", b"\x00"), ("h", "2")]),
        b"",
        Message(b"empty", headers=[]),
    ]
    async with opened(db_url, driver) as (tl, engine), AsyncSession(engine) as session:
        await tl.publish_many("orders", given, conn=session)
        await tl.publish_many("orders", [b"%05d" % n for n in range(2_500)], conn=session)
        await tl.publish("orders", b"last", headers=[], key="k", conn=session)
        await session.commit()
        records = await tl.read("orders", max_records=10_000)
    assert [(record.key, record.payload, record.headers) for record in records[:3]] == [
        (b"\xff\x00", b"\x00\\'", (("h", b"\x00"), ("h", b"2"))),
        (None, b"", ()),
        (None, b"empty", ()),
    ]
    assert [record.payload for record in records[3:]] == [*(b"%05d" % n for n in range(2_500)), b"last"]


# -- what is refused --


async def test_autocommit_is_refused_wherever_it_was_asked_for(db_url: str, driver: str) -> None:
    async with opened(db_url, driver) as (tl, engine):
        async with engine.connect() as conn:
            await conn.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(errors.InvalidArgument, match=r"autocommit.*begin one"):
                await tl.publish("orders", b"x", conn=conn)
        async with AsyncSession(engine.execution_options(isolation_level="AUTOCOMMIT")) as session:
            with pytest.raises(errors.InvalidArgument, match="autocommit"):
                await tl.publish("orders", b"x", conn=session)
        async with AsyncSession(engine_of(db_url, driver, isolation_level="AUTOCOMMIT")) as session:
            with pytest.raises(errors.InvalidArgument, match="autocommit"):
                await tl.publish("orders", b"x", conn=session)
        assert await payloads(tl) == []


async def test_transactions_that_cannot_write_are_refused(db_url: str, driver: str) -> None:
    async with opened(db_url, driver) as (tl, engine), AsyncSession(engine) as session:
        with pytest.raises(DBAPIError):
            await session.execute(text("select 1 / 0"))
        with pytest.raises(errors.InvalidArgument, match="failed already"):
            await tl.publish("orders", b"x", conn=session)
        await session.rollback()
        await session.execute(text("set transaction read only"))
        with pytest.raises(errors.ReadOnly, match=r"read-only transaction.*connect to the primary"):
            await tl.publish("orders", b"x", conn=session)
        await session.rollback()
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        await session.execute(text("select 1"))
        await tl.publish("orders", b"lost", conn=session)
        await tl.publish("orders", b"a")
        with pytest.raises(DBAPIError, match="written after this transaction's snapshot") as failed:
            await session.commit()
        assert getattr(failed.value.orig, "sqlstate", None) == "40001"
        assert await payloads(tl) == [b"a"]


async def test_a_connection_to_another_database_is_noticed(
    db_url: str, driver: str, make_database: Callable[[], str]
) -> None:
    """The server's words come through both libraries, with their next step, and without the record."""
    elsewhere = make_database()
    async with opened(db_url, driver) as (tl, _):
        async with AsyncSession(engine_of(elsewhere, driver)) as session:
            with pytest.raises(errors.NotFound, match=r"another one.*database of the client") as refused:
                await tl.publish("orders", b"secret", conn=session)
            assert "secret" not in str(refused.value)
            assert "outbox_put" not in str(refused.value)
            await session.rollback()
            await session.execute(text("drop schema trunkline cascade"))
            with pytest.raises(errors.SchemaMissing):
                await tl.publish("orders", b"x", conn=session)
        async with AsyncSession(engine_of("postgresql://nobody@127.0.0.1:1/none", driver)) as session:
            with pytest.raises(errors.Unavailable):
                await tl.publish("orders", b"x", conn=session)


async def test_what_is_closed_or_of_the_other_world_is_refused(db_url: str, driver: str) -> None:
    async with opened(db_url, driver) as (tl, engine):
        conn = await engine.connect()
        await conn.close()
        with pytest.raises(errors.Closed, match="conn is closed"):
            await tl.publish("orders", b"x", conn=conn)
        with pytest.raises(errors.InvalidArgument, match="has not been started"):
            await tl.publish("orders", b"x", conn=engine.connect())
        session = AsyncSession(engine, close_resets_only=False)
        await session.close()
        with pytest.raises(errors.InvalidArgument, match="permanently closed"):
            await tl.publish("orders", b"x", conn=session)
        with pytest.raises(errors.InvalidArgument, match="for the client of `trunkline`"):
            await tl.publish("orders", b"x", conn=Session())
        of_the_other = pytest.raises(errors.InvalidArgument, match=r"for the client of `trunkline\.aio`")
        with trunkline.connect(db_url) as other, of_the_other:
            other.publish("orders", b"x", conn=session)
        lost = AsyncSession(engine)
        pid = (await lost.execute(text("select pg_backend_pid()"))).scalar_one()
        async with engine.connect() as killer:
            await killer.execute(text("select pg_terminate_backend(:pid)"), {"pid": pid})
        with pytest.raises((errors.Unavailable, errors.InvalidArgument)):
            await tl.publish("orders", b"x", conn=lost)
        await lost.close()


# -- who is woken --


async def test_the_commit_of_a_session_wakes_readers_in_every_transaction(db_url: str, driver: str) -> None:
    async with (
        opened(db_url, driver) as (tl, engine),
        trunkline.aio.connect(db_url, settings=QUIET) as listening,
        listening.consumer("orders", group="g", create=True) as consumer,
        AsyncSession(engine) as session,
    ):
        assert await consumer.poll() == []
        for number in range(3):
            await tl.publish("orders", b"%d" % number, conn=session)
            await session.commit()
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"%d" % number]
        await tl.publish("orders", b"undone", conn=session)
        await session.rollback()
        async with session.begin_nested():
            await tl.publish("orders", b"nested", conn=session)
        assert await consumer.poll(wait_s=0.5) == []  # whoever was woken too early has looked by now
        await session.commit()
        assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"nested"]


async def test_scoped_sessions_and_two_clients_wake_readers(db_url: str, driver: str) -> None:
    async with (
        opened(db_url, driver) as (tl, engine),
        trunkline.aio.connect(db_url) as other,
        trunkline.aio.connect(db_url, settings=QUIET) as listening,
    ):
        await tl.create_topic("other")
        registry = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        async with listening.consumer("orders", group="g", create=True) as consumer:
            assert await consumer.poll() == []
            await other.publish("other", b"x", conn=registry)
            await tl.publish("orders", b"a", conn=registry)
            await registry.commit()
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"a"]
            async with engine.begin() as conn:
                await tl.publish("orders", b"b", conn=conn)
            await tl.ring("orders")
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"b"]
        await registry.remove()
