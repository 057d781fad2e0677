# Generated from tests/aio/test_pooled.py by tools/twins.py (make fix). Change the source, not this file.
"""Behind a pooler in transaction mode: the client notices, shares sessions with others, and leaves nothing in them."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import psycopg
import pytest

import trunkline
from tests.sync.shim import at_once, wait_until
from trunkline import ClientSettings, Message, Position, errors
from trunkline.client import install as installer
from trunkline.client.sync.client import Client
from trunkline.client.sync.connection import ServerConnection

SESSION = """
    select pg_backend_pid(),
           array(select name from pg_prepared_statements),
           array(select name || '=' || setting from pg_settings where source = 'session' order by name),
           array(select pg_listening_channels()),
           (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
"""
WAIT_AT_COMMIT = """
    create function wait_at_commit() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(7); return null; end $$;
    create constraint trigger wait_at_commit after insert on trunkline.segment_1
        deferrable initially deferred for each row execute function wait_at_commit()
"""
END_WHO_WAITS = """
    select pg_terminate_backend(pid) from pg_locks
     where locktype = 'advisory' and objid = 7 and not granted
       and database = (select oid from pg_database where datname = current_database())
"""


def session(pooled_url: str) -> tuple[Any, ...]:
    """What the one session behind the narrow pooler holds: its pid, and all that a client could leave in it."""
    # A name, because the one of the client before stays otherwise: the pooler sets it, and only where there is one.
    with psycopg.connect(pooled_url, application_name="look") as connection:
        (row,) = connection.execute(SESSION).fetchall()
    return row


def is_pooled(tl: Client) -> bool:
    with tl._pool.connection(tl._server.deadline()) as connection:
        return connection.pooled


def use(tl: Client) -> None:
    """A little of everything: one partition, several, an error in the client, one in the server, maintenance."""
    tl.create_topic("orders", partitions=3)
    tl.publish("orders", b"one", partition=0)
    tl.publish_many("orders", [Message(b"many", key=str(n)) for n in range(20)])
    assert sum([len(tl.read("orders", partition=partition)) for partition in range(3)]) == 21
    with pytest.raises(errors.TooLarge):
        tl.publish("orders", b"", key=b"k" * 9000)
    with pytest.raises(errors.OffsetOutOfRange):
        tl.read("orders", offset=10_000)
    tl.check(tl.pin("orders", 0, 1))
    tl.alter_topic("orders", retention_bytes=1)
    tl.retention_run()


def test_the_client_knows_whether_a_pooler_stands_between(db_url: str, through_pooler: bool) -> None:
    with trunkline.connect(db_url) as tl:
        assert is_pooled(tl) is through_pooler


def test_two_clients_at_once_share_one_session(pooled_url: str) -> None:
    """Neither sees the other's answers, and each of its calls finds its way."""
    with trunkline.connect(pooled_url) as one, trunkline.connect(pooled_url) as two:
        assert [is_pooled(one), is_pooled(two)] == [True, True]
        one.create_topic("ones")
        two.create_topic("twos")

        def publish_and_read(tl: Client, topic: str) -> list[bytes]:
            for n in range(25):
                assert tl.publish(topic, b"%s %d" % (topic.encode(), n)).offset == n + 1
            return [record.payload for record in tl.read(topic)]

        read = at_once(lambda: publish_and_read(one, "ones"), lambda: publish_and_read(two, "twos"))
        assert read == [[b"%s %d" % (topic, n) for n in range(25)] for topic in (b"ones", b"twos")]


def test_a_client_leaves_nothing_in_the_session(pooled_url: str) -> None:
    before = session(pooled_url)
    with trunkline.connect(pooled_url) as tl:
        use(tl)
        assert session(pooled_url) == before
    assert session(pooled_url) == before


def test_one_that_did_not_notice_the_pooler_would_be_found_out(
    pooled_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same look at the session, at a client that takes any port for its own."""
    before = session(pooled_url)
    monkeypatch.setattr(ServerConnection, "_own_port", lambda _: ANY)
    with trunkline.connect(pooled_url) as tl:
        assert not is_pooled(tl)
        tl.create_topic("orders")
        tl.publish("orders", b"x")
    pid, prepared, settings, _, _ = session(pooled_url)
    assert pid == before[0]
    assert "append_1" in prepared
    assert {setting.split("=")[0] for setting in settings} >= {"default_transaction_isolation", "lock_timeout"}


def test_what_others_left_in_the_session_does_not_matter(pooled_url: str) -> None:
    """Names that the client would use itself, and settings that would change what its statements mean or how they
    end; they are still there for their owner afterwards."""
    with psycopg.connect(pooled_url, autocommit=True) as other:
        for statement in (
            "prepare append_1 as select 'not yours'",
            "prepare read as select 'not yours'",
            "set default_transaction_isolation = 'serializable'",
            "set lock_timeout = '1ms'",
            "set search_path = ''",
            "set synchronous_commit = off",
        ):
            other.execute(statement)
    left = session(pooled_url)
    assert sorted(left[1]) == ["append_1", "read"]
    with trunkline.connect(pooled_url) as tl:
        use(tl)
    assert session(pooled_url) == left


def test_a_look_at_the_schema_leaves_nothing_in_the_session(pooled_url: str) -> None:
    """It is compared under a search path of its own, and the session goes on to serve others."""
    left = session(pooled_url)
    assert installer.verify(pooled_url) > 0
    assert session(pooled_url) == left


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_session_that_ends_at_commit_leaves_no_false_answer(
    direct_url: str, pooled_url: str, idempotent: bool
) -> None:
    """The server says farewell, and then the pooler. A client that may try again finds out what came of it; one that
    may not says that it does not know."""
    settings = ClientSettings(idempotent=idempotent)
    with trunkline.connect(pooled_url, settings=settings) as tl:
        tl.create_topic("orders")
        with psycopg.connect(direct_url, autocommit=True) as admin, psycopg.connect(direct_url) as blocker:
            admin.execute(WAIT_AT_COMMIT)
            blocker.execute("select pg_advisory_xact_lock(7)")

            def publish() -> Position | errors.OutcomeUnknown:
                try:
                    return tl.publish("orders", b"x")
                except errors.OutcomeUnknown as error:
                    return error

            def end_at_commit() -> None:
                wait_until(lambda: admin.execute(END_WHO_WAITS).rowcount == 1)
                blocker.rollback()

            outcome, _ = at_once(publish, end_at_commit)
        records = tl.read("orders")
        if idempotent:
            assert outcome == Position("orders", 0, 1)
            assert [record.payload for record in records] == [b"x"]
        else:
            assert isinstance(outcome, errors.OutcomeUnknown)
            assert records == []


def test_S4_09_a_group_behind_a_pooler_works_by_polling_and_heartbeats(pooled_url: str) -> None:
    settings = ClientSettings(poll_max_s=0.2)
    with trunkline.connect(pooled_url, settings=settings) as tl:
        tl.create_topic("orders", partitions=2)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            assert not tl._watch.hears
            for number in range(5):
                at = tl.publish("orders", b"%d" % number)
                got = consumer.poll(wait_s=60)
                assert [(record.partition, record.offset) for record in got] == [(at.partition, at.offset)]
                consumer.commit()
            described = tl.describe_group("billing")
            assert [(member.is_alive, member.by_session) for member in described.members] == [(True, False)]
            assert described.lag == 0


def test_S4_09_the_session_that_listens_may_lead_past_the_pooler(pooled_url: str, direct_url: str) -> None:
    settings = ClientSettings(poll_max_s=3600)
    with trunkline.connect(pooled_url, settings=settings, doorbell_url=direct_url) as tl:
        assert is_pooled(tl)
        tl.create_topic("orders", partitions=2)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            assert tl._watch.hears
            assert consumer.poll(wait_s=0.1) == []
            at = tl.publish("orders", b"one")
            got = consumer.poll(wait_s=60)
            assert [(record.partition, record.offset) for record in got] == [(at.partition, at.offset)]
            consumer.commit()
            described = tl.describe_group("billing")
            assert [(member.is_alive, member.by_session) for member in described.members] == [(True, True)]
