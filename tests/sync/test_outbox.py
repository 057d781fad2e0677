# Generated from tests/aio/test_outbox.py by tools/twins.py (make fix). Change the source, not this file.
"""Publishing in the caller's transaction, on a connection of psycopg: together with what the caller writes or not at
all, in its order, without holding up others, and refused where it would mean something else."""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

import trunkline
from trunkline import Client, Consumer, ConsumerSettings, Message, PendingPosition, TopicSettings, errors

TABLE = "create table public.business (id integer primary key)"
INSERT = "insert into public.business values (%s)"


def connected(url: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.Connection.connect(url, **options)


def payloads(tl: Client, topic: str = "orders", partition: int = 0) -> list[bytes]:
    return [record.payload for record in tl.read(topic, partition=partition, max_records=100_000)]


def test_S4_01_the_row_and_the_record_commit_together_or_not_at_all(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute(TABLE)
        conn.commit()
        conn.execute(INSERT, [1])
        at = tl.publish("orders", b"one", conn=conn)
        assert payloads(tl) == []
        conn.rollback()
        assert payloads(tl) == []
        conn.execute(INSERT, [2])
        tl.publish("orders", b"two", conn=conn)
        conn.commit()
        assert payloads(tl) == [b"two"]
        rows = conn.execute("select id from public.business").fetchall()
        assert rows == [(2,)]
    assert (at.topic, at.partition, isinstance(at, PendingPosition)) == ("orders", 0, True)


def test_all_that_a_transaction_publishes_stands_together_and_carries_its_id_ordinal_and_count(
    db_url: str,
) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=3)
        tl.create_topic("other")
        tl.publish("orders", b"before", partition=1)
        at = tl.publish("orders", b"a", partition=1, conn=conn)
        tl.publish("orders", b"between", partition=1)  # others do not wait
        many: list[Message | bytes] = [
            Message(b"b", key="k", headers={"n": "1"}, partition=1),
            b"c",
            Message(b"d", partition=2),
        ]
        pending = tl.publish_many("orders", many, partition=1, conn=conn)
        tl.publish("other", b"e", key="x", conn=conn)
        conn.commit()
        batches = tl.read_batches("orders", partition=1)
        assert [batch.payloads for batch in batches] == [[b"before"], [b"between"], [b"a", b"b", b"c"]]
        last = batches[-1]
        assert (last.transaction_id, last.transaction_ordinal, last.transaction_count) == (at.transaction_id, 0, 3)
        assert (last.keys, last.headers) == ([None, b"k", None], [(), (("n", b"1"),), ()])
        assert payloads(tl, "orders", 2) == [b"d"]
        assert payloads(tl, "other") == [b"e"]
        assert [position.partition for position in pending] == [1, 1, 2]
        assert {position.transaction_id for position in pending} == {at.transaction_id}


def test_savepoints_that_are_rolled_back_publish_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        with conn.transaction():
            with conn.transaction(force_rollback=True):
                tl.publish("orders", b"undone", conn=conn)
            tl.publish("orders", b"a", conn=conn)
            with conn.transaction():
                tl.publish("orders", b"b", conn=conn)
            conn.execute("savepoint s")
            tl.publish("orders", b"undone", conn=conn)
            conn.execute("rollback to s")
        assert payloads(tl) == [b"a", b"b"]


def test_a_commit_of_many_records_becomes_several_batches_within_the_limits(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=TopicSettings(batch_records_max=10, batch_bytes_max=1_000))
        given = [b"%03d" % n for n in range(25)] + [b"x" * 400] * 4
        for payload in given:
            tl.publish("orders", payload, conn=conn)
        conn.commit()
        batches = tl.read_batches("orders")
        assert [payload for batch in batches for payload in batch.payloads] == given
        assert max(map(len, batches)) == 10
        assert len({batch.transaction_id for batch in batches}) == 1
        ends = [(batch.transaction_ordinal, batch.transaction_count) for batch in batches]
        assert [end for _, end in ends][-1] == len(given)
        assert [start for start, _ in ends][1:] == [end for _, end in ends][:-1]


def test_constraints_that_are_made_immediate_lose_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        tl.publish("orders", b"a", conn=conn)
        conn.execute("set constraints all immediate")
        tl.publish("orders", b"b", conn=conn)
        conn.execute("set constraints all deferred")
        tl.publish("orders", b"c", conn=conn)
        conn.commit()
        assert payloads(tl) == [b"a", b"b", b"c"]
        batches = tl.read_batches("orders")
        assert len({batch.transaction_id for batch in batches if batch.transaction_id is not None}) == 1


def test_full_segments_are_rolled_and_nobody_waits_for_himself(db_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Once constraints were made immediate the transaction has its partition, and sealing would wait for it."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=TopicSettings(segment_bytes=1024 * 1024))
        for immediate in (True, False):
            before = len(tl.describe_topic("orders").segments)
            for _ in range(150):
                tl.publish("orders", os.urandom(20_000), conn=conn)
                conn.execute("set constraints all immediate") if immediate else conn.commit()
            conn.commit()
            assert (len(tl.describe_topic("orders").segments) > before) is not immediate
        assert [record.message for record in caplog.records if "could not be rolled" in record.message] == []
        assert len(payloads(tl)) == 300


def test_a_session_that_replays_for_others_publishes_too(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute("set session_replication_role = replica")
        tl.publish("orders", b"a", conn=conn)
        conn.commit()
        assert payloads(tl) == [b"a"]


def test_a_transaction_that_is_left_open_holds_up_nobody(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        tl.publish("orders", b"late", conn=conn)
        with connected(db_url) as other:
            tl.publish("orders", b"a", conn=other)
            other.commit()
        tl.publish("orders", b"b")
        conn.commit()
        assert payloads(tl) == [b"a", b"b", b"late"]


# -- what is refused --


def test_connections_that_are_in_no_state_to_publish_are_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        alone = connected(db_url, autocommit=True)
        with pytest.raises(errors.InvalidArgument, match=r"autocommit.*begin one"):
            tl.publish("orders", b"x", conn=alone)
        with alone.transaction():
            tl.publish("orders", b"in a block", conn=alone)
        alone.close()
        with pytest.raises(errors.Closed, match="conn is closed"):
            tl.publish("orders", b"x", conn=alone)

        with connected(db_url) as conn:
            with pytest.raises(psycopg.errors.DivisionByZero):
                conn.execute("select 1 / 0")
            with pytest.raises(errors.InvalidArgument, match="failed already"):
                tl.publish("orders", b"x", conn=conn)
            conn.rollback()
            conn.set_read_only(True)
            with pytest.raises(errors.ReadOnly, match="read-only transaction"):
                tl.publish("orders", b"x", conn=conn)
            conn.rollback()
        for nothing in (object(), db_url, 1):
            with pytest.raises(errors.InvalidArgument, match="conn must be a connection"):
                tl.publish("orders", b"x", conn=nothing)  # type: ignore[call-overload]
        assert payloads(tl) == [b"in a block"]


def test_a_snapshot_that_is_older_than_the_log_fails_at_the_commit_and_says_what_to_do(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        tl.publish("orders", b"b", conn=conn)
        conn.commit()
        conn.execute("select 1")
        tl.publish("orders", b"lost", conn=conn)
        tl.publish("orders", b"c")
        with pytest.raises(psycopg.errors.SerializationFailure) as failed:
            conn.commit()
        assert "READ COMMITTED" in str(failed.value.diag.message_hint)
        assert payloads(tl) == [b"a", b"b", b"c"]


def test_a_connection_to_another_database_is_noticed(db_url: str, make_database: Any) -> None:
    elsewhere = make_database()
    with trunkline.connect(db_url) as tl, trunkline.connect(elsewhere) as other:
        tl.create_topic("orders")
        other.create_topic("orders")
        with connected(elsewhere) as conn:
            with pytest.raises(errors.NotFound, match=r"another one.*database of the client"):
                tl.publish("orders", b"x", conn=conn)
        with connected(make_database()) as conn:
            conn.execute("drop schema trunkline cascade")
            with pytest.raises(errors.SchemaMissing):
                tl.publish("orders", b"x", conn=conn)
        assert payloads(other) == []


def test_records_that_do_not_fit_are_refused_before_the_commit(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=TopicSettings(record_bytes_max=10))
        with pytest.raises(errors.TooLarge):
            tl.publish("orders", b"x" * 11, conn=conn)
        with pytest.raises(errors.NotFound, match="partition 7"):
            tl.publish("orders", b"x", partition=7, conn=conn)
        with pytest.raises(errors.NotFound):
            tl.publish("none", b"x", conn=conn)
        with pytest.raises(errors.InvalidArgument):
            tl.publish("orders", "text", conn=conn)  # type: ignore[call-overload]
        tl.publish("orders", b"fits", conn=conn)  # none of them has reached the transaction
        conn.commit()
        assert payloads(tl) == [b"fits"]


def test_a_topic_that_goes_before_the_commit_takes_the_transaction_with_it(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        tl.publish("orders", b"x", conn=conn)
        tl.delete_topic("orders")
        with pytest.raises(psycopg.Error, match="was deleted") as failed:
            conn.commit()
        assert failed.value.sqlstate == "TL002"


# -- who is woken --


@pytest.mark.direct("through a pooler nobody hears rings")
def test_readers_are_woken_when_a_transaction_of_ours_on_their_connection_has_committed(db_url: str) -> None:
    """The poll interval is far longer than the test may take: only a ring can end the wait."""
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    with (
        trunkline.connect(db_url, settings=settings) as tl,
        trunkline.connect(db_url) as publisher,
        connected(db_url) as conn,
    ):
        tl.create_topic("orders")
        with tl.consumer("orders", group="g", create=True) as consumer:
            assert consumer.poll() == []
            with publisher.transaction(conn), publisher.transaction(conn):
                publisher.publish("orders", b"a", conn=conn)
            assert [record.payload for record in consumer.poll(wait_s=60.0)] == [b"a"]
        with pytest.raises(errors.InvalidArgument, match=r"for a connection of psycopg|conn must be"):
            with publisher.transaction(object()):  # type: ignore[arg-type]
                pass


def publish_and_fail(worker: Client, copier: Consumer) -> None:
    with copier.transaction() as tx:
        worker.publish("out", b"undone", conn=tx.conn)
        raise ZeroDivisionError


@pytest.mark.direct("through a pooler nobody hears rings")
def test_what_a_handler_publishes_with_its_effects_is_there_once_and_wakes_readers(db_url: str) -> None:
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    with trunkline.connect(db_url, settings=settings) as tl, trunkline.connect(db_url) as worker:
        tl.create_topic("in")
        tl.create_topic("out")
        tl.publish("in", b"a")
        copier = worker.consumer("in", group="copy", create=True, delivery="exactly_once", settings=ConsumerSettings())
        with copier, tl.consumer("out", group="g", create=True) as reader:
            assert reader.poll() == []
            with pytest.raises(ZeroDivisionError):
                publish_and_fail(worker, copier)
            with copier.transaction() as tx:
                for record in tx.records:
                    worker.publish("out", record.payload + b"!", conn=tx.conn)
            assert [record.payload for record in reader.poll(wait_s=60.0)] == [b"a!"]
        assert payloads(tl, "out") == [b"a!"]


def test_a_transaction_cannot_be_prepared(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        tl.publish("orders", b"x", conn=conn)
        with pytest.raises(psycopg.Error, match=r"cannot be prepared|prepared transactions are disabled") as failed:
            conn.execute("prepare transaction 'p'")
        assert failed.value.sqlstate in ("TL001", "55000")
        assert payloads(tl) == []


# -- topics that give out offsets after the commit --

LOOSE = TopicSettings(loose_commit_order=True)


def test_a_loose_commit_waits_for_nobody_and_its_records_get_their_place_when_a_group_polls(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn, connected(db_url) as writer:
        tl.create_topic("orders", settings=LOOSE)
        writer.execute("select trunkline.log_publish('orders', 'held')")  # holds the partition
        tl.publish_many("orders", [Message(b"a", key="k", headers={"n": "1"}), b"b"], conn=conn)
        conn.commit()
        assert payloads(tl) == []
        writer.commit()
        with tl.consumer("orders", group="g", create=True) as consumer:
            seen: list[bytes] = []
            while len(seen) < 3:
                seen += [record.payload for record in consumer.poll(wait_s=60.0)]
        assert seen == [b"held", b"a", b"b"]
        (record,) = tl.read("orders", offset=2, max_records=1)
        assert (record.key, record.headers) == (b"k", (("n", b"1"),))


def test_loose_records_of_one_transaction_stand_together_and_those_of_a_rollback_nowhere(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as one, connected(db_url) as two:
        tl.create_topic("orders", settings=LOOSE)
        for payload in (b"1a", b"1b"):
            tl.publish("orders", payload, conn=one)
            tl.publish("orders", payload.replace(b"1", b"2"), conn=two)
        two.commit()
        one.commit()
        tl.publish("orders", b"undone", conn=one)
        one.rollback()
        tl.retention_run()
        # One pass has met both: the order is that in which they began to publish, not that of the commits.
        assert payloads(tl) == [b"1a", b"1b", b"2a", b"2b"]
        tl.retention_run()
        assert len(payloads(tl)) == 4


def test_a_ring_after_a_loose_commit_gives_the_records_their_place_first(db_url: str) -> None:
    settings = trunkline.ClientSettings(poll_max_s=500.0)
    with (
        trunkline.connect(db_url, settings=settings) as tl,
        trunkline.connect(db_url) as publisher,
        connected(db_url) as conn,
    ):
        tl.create_topic("orders", settings=LOOSE)
        with tl.consumer("orders", group="g", create=True) as consumer:
            assert consumer.poll() == []
            with publisher.transaction(conn):
                publisher.publish("orders", b"a", conn=conn)
            assert [record.payload for record in consumer.poll(wait_s=60.0)] == [b"a"]
            publisher.publish("orders", b"b", conn=conn)
            conn.commit()
            publisher.ring("orders")
            assert [record.payload for record in consumer.poll(wait_s=60.0)] == [b"b"]


def test_a_loose_topic_that_is_deleted_takes_what_waits_with_it(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=LOOSE)
        tl.publish("orders", b"a", conn=conn)
        conn.commit()
        tl.publish("orders", b"late", conn=conn)
        tl.delete_topic("orders")
        conn.commit()
        tl.retention_run()
        left = conn.execute("select count(*) from trunkline.outbox_pending").fetchall()
        assert left == [(0,)]
