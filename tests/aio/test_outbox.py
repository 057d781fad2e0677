"""Publishing in the caller's transaction, on a connection of psycopg: together with what the caller writes or not at
all, in its order, without holding up others, and refused where it would mean something else."""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

import trunkline.aio
from trunkline import ConsumerSettings, Message, PendingPosition, TopicSettings, errors
from trunkline.aio import AsyncClient, AsyncConsumer

TABLE = "create table public.business (id integer primary key)"
INSERT = "insert into public.business values (%s)"


async def connected(url: str, **options: Any) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await psycopg.AsyncConnection.connect(url, **options)


async def payloads(tl: AsyncClient, topic: str = "orders", partition: int = 0) -> list[bytes]:
    return [record.payload for record in await tl.read(topic, partition=partition, max_records=100_000)]


async def test_S4_01_the_row_and_the_record_commit_together_or_not_at_all(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute(TABLE)
        await conn.commit()
        await conn.execute(INSERT, [1])
        at = await tl.publish("orders", b"one", conn=conn)
        assert await payloads(tl) == []
        await conn.rollback()
        assert await payloads(tl) == []
        await conn.execute(INSERT, [2])
        await tl.publish("orders", b"two", conn=conn)
        await conn.commit()
        assert await payloads(tl) == [b"two"]
        rows = await (await conn.execute("select id from public.business")).fetchall()
        assert rows == [(2,)]
    assert (at.topic, at.partition, isinstance(at, PendingPosition)) == ("orders", 0, True)


async def test_all_that_a_transaction_publishes_stands_together_and_carries_its_id_ordinal_and_count(
    db_url: str,
) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", partitions=3)
        await tl.create_topic("other")
        await tl.publish("orders", b"before", partition=1)
        at = await tl.publish("orders", b"a", partition=1, conn=conn)
        await tl.publish("orders", b"between", partition=1)  # others do not wait
        many: list[Message | bytes] = [
            Message(b"b", key="k", headers={"n": "1"}, partition=1),
            b"c",
            Message(b"d", partition=2),
        ]
        pending = await tl.publish_many("orders", many, partition=1, conn=conn)
        await tl.publish("other", b"e", key="x", conn=conn)
        await conn.commit()
        batches = await tl.read_batches("orders", partition=1)
        assert [batch.payloads for batch in batches] == [[b"before"], [b"between"], [b"a", b"b", b"c"]]
        last = batches[-1]
        assert (last.transaction_id, last.transaction_ordinal, last.transaction_count) == (at.transaction_id, 0, 3)
        assert (last.keys, last.headers) == ([None, b"k", None], [(), (("n", b"1"),), ()])
        assert await payloads(tl, "orders", 2) == [b"d"]
        assert await payloads(tl, "other") == [b"e"]
        assert [position.partition for position in pending] == [1, 1, 2]
        assert {position.transaction_id for position in pending} == {at.transaction_id}


async def test_savepoints_that_are_rolled_back_publish_nothing(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        async with conn.transaction():
            async with conn.transaction(force_rollback=True):
                await tl.publish("orders", b"undone", conn=conn)
            await tl.publish("orders", b"a", conn=conn)
            async with conn.transaction():
                await tl.publish("orders", b"b", conn=conn)
            await conn.execute("savepoint s")
            await tl.publish("orders", b"undone", conn=conn)
            await conn.execute("rollback to s")
        assert await payloads(tl) == [b"a", b"b"]


async def test_a_commit_of_many_records_becomes_several_batches_within_the_limits(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", settings=TopicSettings(batch_records_max=10, batch_bytes_max=1_000))
        given = [b"%03d" % n for n in range(25)] + [b"x" * 400] * 4
        for payload in given:
            await tl.publish("orders", payload, conn=conn)
        await conn.commit()
        batches = await tl.read_batches("orders")
        assert [payload for batch in batches for payload in batch.payloads] == given
        assert max(map(len, batches)) == 10
        assert len({batch.transaction_id for batch in batches}) == 1
        ends = [(batch.transaction_ordinal, batch.transaction_count) for batch in batches]
        assert [end for _, end in ends][-1] == len(given)
        assert [start for start, _ in ends][1:] == [end for _, end in ends][:-1]


async def test_constraints_that_are_made_immediate_lose_nothing(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await tl.publish("orders", b"a", conn=conn)
        await conn.execute("set constraints all immediate")
        await tl.publish("orders", b"b", conn=conn)
        await conn.execute("set constraints all deferred")
        await tl.publish("orders", b"c", conn=conn)
        await conn.commit()
        assert await payloads(tl) == [b"a", b"b", b"c"]
        batches = await tl.read_batches("orders")
        assert len({batch.transaction_id for batch in batches if batch.transaction_id is not None}) == 1


async def test_full_segments_are_rolled_and_nobody_waits_for_himself(
    db_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once constraints were made immediate the transaction has its partition, and sealing would wait for it."""
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", settings=TopicSettings(segment_bytes=1024 * 1024))
        for immediate in (True, False):
            before = len((await tl.describe_topic("orders")).segments)
            for _ in range(150):
                await tl.publish("orders", os.urandom(20_000), conn=conn)
                await conn.execute("set constraints all immediate") if immediate else await conn.commit()
            await conn.commit()
            assert (len((await tl.describe_topic("orders")).segments) > before) is not immediate
        assert [record.message for record in caplog.records if "could not be rolled" in record.message] == []
        assert len(await payloads(tl)) == 300


async def test_a_session_that_replays_for_others_publishes_too(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await conn.execute("set session_replication_role = replica")
        await tl.publish("orders", b"a", conn=conn)
        await conn.commit()
        assert await payloads(tl) == [b"a"]


async def test_a_transaction_that_is_left_open_holds_up_nobody(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await tl.publish("orders", b"late", conn=conn)
        async with await connected(db_url) as other:
            await tl.publish("orders", b"a", conn=other)
            await other.commit()
        await tl.publish("orders", b"b")
        await conn.commit()
        assert await payloads(tl) == [b"a", b"b", b"late"]


# -- what is refused --


async def test_connections_that_are_in_no_state_to_publish_are_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        alone = await connected(db_url, autocommit=True)
        with pytest.raises(errors.InvalidArgument, match=r"autocommit.*begin one"):
            await tl.publish("orders", b"x", conn=alone)
        async with alone.transaction():
            await tl.publish("orders", b"in a block", conn=alone)
        await alone.close()
        with pytest.raises(errors.Closed, match="conn is closed"):
            await tl.publish("orders", b"x", conn=alone)

        async with await connected(db_url) as conn:
            with pytest.raises(psycopg.errors.DivisionByZero):
                await conn.execute("select 1 / 0")
            with pytest.raises(errors.InvalidArgument, match="failed already"):
                await tl.publish("orders", b"x", conn=conn)
            await conn.rollback()
            await conn.set_read_only(True)
            with pytest.raises(errors.ReadOnly, match="read-only transaction"):
                await tl.publish("orders", b"x", conn=conn)
            await conn.rollback()
        for nothing in (object(), db_url, 1):
            with pytest.raises(errors.InvalidArgument, match="conn must be a connection"):
                await tl.publish("orders", b"x", conn=nothing)  # type: ignore[call-overload]
        assert await payloads(tl) == [b"in a block"]


async def test_a_snapshot_that_is_older_than_the_log_fails_at_the_commit_and_says_what_to_do(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await tl.publish("orders", b"a")
        await conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await tl.publish("orders", b"b", conn=conn)
        await conn.commit()
        await conn.execute("select 1")
        await tl.publish("orders", b"lost", conn=conn)
        await tl.publish("orders", b"c")
        with pytest.raises(psycopg.errors.SerializationFailure) as failed:
            await conn.commit()
        assert "READ COMMITTED" in str(failed.value.diag.message_hint)
        assert await payloads(tl) == [b"a", b"b", b"c"]


async def test_a_connection_to_another_database_is_noticed(db_url: str, make_database: Any) -> None:
    elsewhere = make_database()
    async with trunkline.aio.connect(db_url) as tl, trunkline.aio.connect(elsewhere) as other:
        await tl.create_topic("orders")
        await other.create_topic("orders")
        async with await connected(elsewhere) as conn:
            with pytest.raises(errors.NotFound, match=r"another one.*database of the client"):
                await tl.publish("orders", b"x", conn=conn)
        async with await connected(make_database()) as conn:
            await conn.execute("drop schema trunkline cascade")
            with pytest.raises(errors.SchemaMissing):
                await tl.publish("orders", b"x", conn=conn)
        assert await payloads(other) == []


async def test_records_that_do_not_fit_are_refused_before_the_commit(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", settings=TopicSettings(record_bytes_max=10))
        with pytest.raises(errors.TooLarge):
            await tl.publish("orders", b"x" * 11, conn=conn)
        with pytest.raises(errors.NotFound, match="partition 7"):
            await tl.publish("orders", b"x", partition=7, conn=conn)
        with pytest.raises(errors.NotFound):
            await tl.publish("none", b"x", conn=conn)
        with pytest.raises(errors.InvalidArgument):
            await tl.publish("orders", "text", conn=conn)  # type: ignore[call-overload]
        await tl.publish("orders", b"fits", conn=conn)  # none of them has reached the transaction
        await conn.commit()
        assert await payloads(tl) == [b"fits"]


async def test_a_topic_that_goes_before_the_commit_takes_the_transaction_with_it(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await tl.publish("orders", b"x", conn=conn)
        await tl.delete_topic("orders")
        with pytest.raises(psycopg.Error, match="was deleted") as failed:
            await conn.commit()
        assert failed.value.sqlstate == "TL002"


# -- who is woken --


@pytest.mark.direct("through a pooler nobody hears rings")
async def test_readers_are_woken_when_a_transaction_of_ours_on_their_connection_has_committed(db_url: str) -> None:
    """The poll interval is far longer than the test may take: only a ring can end the wait."""
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    async with (
        trunkline.aio.connect(db_url, settings=settings) as tl,
        trunkline.aio.connect(db_url) as publisher,
        await connected(db_url) as conn,
    ):
        await tl.create_topic("orders")
        async with tl.consumer("orders", group="g", create=True) as consumer:
            assert await consumer.poll() == []
            async with publisher.transaction(conn), publisher.transaction(conn):
                await publisher.publish("orders", b"a", conn=conn)
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"a"]
        with pytest.raises(errors.InvalidArgument, match=r"for a connection of psycopg|conn must be"):
            async with publisher.transaction(object()):  # type: ignore[arg-type]
                pass


async def publish_and_fail(worker: AsyncClient, copier: AsyncConsumer) -> None:
    async with copier.transaction() as tx:
        await worker.publish("out", b"undone", conn=tx.conn)
        raise ZeroDivisionError


@pytest.mark.direct("through a pooler nobody hears rings")
async def test_what_a_handler_publishes_with_its_effects_is_there_once_and_wakes_readers(db_url: str) -> None:
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    async with trunkline.aio.connect(db_url, settings=settings) as tl, trunkline.aio.connect(db_url) as worker:
        await tl.create_topic("in")
        await tl.create_topic("out")
        await tl.publish("in", b"a")
        copier = worker.consumer("in", group="copy", create=True, delivery="exactly_once", settings=ConsumerSettings())
        async with copier, tl.consumer("out", group="g", create=True) as reader:
            assert await reader.poll() == []
            with pytest.raises(ZeroDivisionError):
                await publish_and_fail(worker, copier)
            async with copier.transaction() as tx:
                for record in tx.records:
                    await worker.publish("out", record.payload + b"!", conn=tx.conn)
            assert [record.payload for record in await reader.poll(wait_s=60.0)] == [b"a!"]
        assert await payloads(tl, "out") == [b"a!"]


async def test_a_transaction_cannot_be_prepared(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders")
        await tl.publish("orders", b"x", conn=conn)
        with pytest.raises(psycopg.Error, match=r"cannot be prepared|prepared transactions are disabled") as failed:
            await conn.execute("prepare transaction 'p'")
        assert failed.value.sqlstate in ("TL001", "55000")
        assert await payloads(tl) == []


# -- topics that give out offsets after the commit --

LOOSE = TopicSettings(loose_commit_order=True)


async def test_a_loose_commit_waits_for_nobody_and_its_records_get_their_place_when_a_group_polls(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn, await connected(db_url) as writer:
        await tl.create_topic("orders", settings=LOOSE)
        await writer.execute("select trunkline.log_publish('orders', 'held')")  # holds the partition
        await tl.publish_many("orders", [Message(b"a", key="k", headers={"n": "1"}), b"b"], conn=conn)
        await conn.commit()
        assert await payloads(tl) == []
        await writer.commit()
        async with tl.consumer("orders", group="g", create=True) as consumer:
            seen: list[bytes] = []
            while len(seen) < 3:
                seen += [record.payload for record in await consumer.poll(wait_s=60.0)]
        assert seen == [b"held", b"a", b"b"]
        (record,) = await tl.read("orders", offset=2, max_records=1)
        assert (record.key, record.headers) == (b"k", (("n", b"1"),))


async def test_loose_records_of_one_transaction_stand_together_and_those_of_a_rollback_nowhere(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as one, await connected(db_url) as two:
        await tl.create_topic("orders", settings=LOOSE)
        for payload in (b"1a", b"1b"):
            await tl.publish("orders", payload, conn=one)
            await tl.publish("orders", payload.replace(b"1", b"2"), conn=two)
        await two.commit()
        await one.commit()
        await tl.publish("orders", b"undone", conn=one)
        await one.rollback()
        await tl.retention_run()
        # One pass has met both: the order is that in which they began to publish, not that of the commits.
        assert await payloads(tl) == [b"1a", b"1b", b"2a", b"2b"]
        await tl.retention_run()
        assert len(await payloads(tl)) == 4


async def test_a_ring_after_a_loose_commit_gives_the_records_their_place_first(db_url: str) -> None:
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    async with (
        trunkline.aio.connect(db_url, settings=settings) as tl,
        trunkline.aio.connect(db_url) as publisher,
        await connected(db_url) as conn,
    ):
        await tl.create_topic("orders", settings=LOOSE)
        async with tl.consumer("orders", group="g", create=True) as consumer:
            assert await consumer.poll() == []
            async with publisher.transaction(conn):
                await publisher.publish("orders", b"a", conn=conn)
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"a"]
            await publisher.publish("orders", b"b", conn=conn)
            await conn.commit()
            await publisher.ring("orders")
            assert [record.payload for record in await consumer.poll(wait_s=60.0)] == [b"b"]


async def test_a_loose_topic_that_is_deleted_takes_what_waits_with_it(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await connected(db_url) as conn:
        await tl.create_topic("orders", settings=LOOSE)
        await tl.publish("orders", b"a", conn=conn)
        await conn.commit()
        await tl.publish("orders", b"late", conn=conn)
        await tl.delete_topic("orders")
        await conn.commit()
        await tl.retention_run()
        left = await (await conn.execute("select count(*) from trunkline.outbox_pending")).fetchall()
        assert left == [(0,)]
