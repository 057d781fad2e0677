# Generated from tests/aio/test_inbox.py by tools/twins.py (make fix). Change the source, not this file.
"""Inboxes: a record that comes twice is dealt with once, and what was not committed was not dealt with."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import trunkline
from tests.sync.shim import at_once
from trunkline import Client, Record, errors

COUNT = "select count(*) from trunkline.inbox_entry"


def connected(url: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.Connection.connect(url, **options)


def a_record(tl: Client, *, topic: str = "orders") -> Record:
    tl.create_topic(topic)
    tl.publish(topic, b"x")
    (record,) = tl.read(topic)
    return record


def test_S4_17_a_record_that_is_delivered_twice_is_dealt_with_once(db_url: str) -> None:
    done: list[int] = []
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=True) as conn:
        tl.create_topic("orders", partitions=3)
        tl.publish_many("orders", [b"%d" % number for number in range(9)], partition=1)
        tl.publish_many("orders", [b"%d" % number for number in range(9)], partition=2)
        inbox = tl.inbox("billing")
        for _ in range(3):
            for partition in (1, 2):
                for record in tl.read("orders", partition=partition):
                    with inbox.once(record, conn=conn) as is_new:
                        if is_new:
                            done.append(record.offset)
        assert sorted(done) == sorted([*range(1, 10)] * 2)
        # Another inbox knows nothing of it.
        with tl.inbox("shipping").once(record, conn=conn) as is_new:
            assert is_new


def test_what_fails_or_is_rolled_back_was_not_dealt_with(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        record, inbox = a_record(tl), tl.inbox("billing")
        assert inbox.add(record, conn=conn)
        assert not inbox.add(record, conn=conn)
        conn.rollback()
        with pytest.raises(ZeroDivisionError):
            fail(inbox, record, conn)
        # The transaction around it goes on, and commits without it.
        conn.commit()
        with inbox.once(record, conn=conn) as is_new:
            assert is_new
        with inbox.once(record, conn=conn) as is_new:
            assert not is_new


def fail(inbox: trunkline.Inbox, record: Record, conn: psycopg.Connection[Any]) -> None:
    with inbox.once(record, conn=conn) as is_new:
        assert is_new
        raise ZeroDivisionError


def test_S4_17_two_that_bring_the_same_record_at_once_deal_with_it_once(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        record, inbox = a_record(tl), tl.inbox("billing")
        done: list[bool] = []

        def deal() -> None:
            with connected(db_url) as conn, inbox.once(record, conn=conn) as is_new:
                conn.execute("select 1")
                done.append(is_new)

        at_once(*[deal] * 8)
        assert sorted(done) == [False] * 7 + [True]


def test_ids_of_the_producers_own_may_be_anything(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        inbox = tl.inbox("billing")
        ids: list[str | bytes] = ["", "order-1", b"\x00\xff", "ä", "\udcff", b"x" * 200, b"x" * 201, b"x" * 100_000]
        assert [inbox.add(each, conn=conn) for each in ids] == [True] * len(ids)
        assert [inbox.add(each, conn=conn) for each in ids] == [False] * len(ids)
        assert not inbox.add(b"order-1", conn=conn)
        for wrong in (None, 1, ["x"]):
            with pytest.raises(errors.InvalidArgument, match="a record, or an id"):
                inbox.add(wrong, conn=conn)  # type: ignore[arg-type]


def test_a_record_has_an_id_that_it_does_not_share_with_a_topic_of_the_same_name(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=True) as conn:
        record, inbox = a_record(tl), tl.inbox("billing")
        first = inbox.id_of(record)
        assert first == inbox.id_of(record)
        with inbox.once(record, conn=conn) as is_new:
            assert is_new
        tl.delete_topic("orders")
        with pytest.raises(errors.NotFound):
            inbox.id_of(record)
        again = a_record(tl)
        assert inbox.id_of(again) != first
        with inbox.once(again, conn=conn) as is_new:
            assert is_new


def test_what_is_old_is_forgotten_and_the_rest_is_not(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=True) as conn:
        short, long = tl.inbox("short", keep_s=60), tl.inbox("long", keep_s=7200)
        with conn.transaction():
            for number in range(5):
                short.add(f"{number}", conn=conn)
                long.add(f"{number}", conn=conn)
        assert short.sweep() == 0
        conn.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as"
            " $$ select clock_timestamp() + interval '1 hour' $$"
        )
        with conn.transaction():
            short.add("new", conn=conn)
        tl.retention_run()
        assert conn.execute(COUNT).fetchall() == [(6,)]
        tl.inbox("long", keep_s=600).sweep()
        with conn.transaction():
            assert not short.add("new", conn=conn)
            assert short.add("0", conn=conn)
            assert tl.inbox("long", keep_s=600).add("x", conn=conn)
        assert long.sweep() == 5


def test_what_cannot_be_an_inbox_or_its_connection_is_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url, autocommit=True) as conn:
        for name in ("", "a b", "..", None):
            with pytest.raises(errors.InvalidArgument):
                tl.inbox(name)  # type: ignore[arg-type]
        for keep_s in (0, -1, 1.5, True):
            with pytest.raises(errors.InvalidArgument, match="keep_s"):
                tl.inbox("billing", keep_s=keep_s)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="autocommit"):
            tl.inbox("billing").add("x", conn=conn)
        with pytest.raises(errors.InvalidArgument, match="conn must be"):
            tl.inbox("billing").add("x", conn=object())  # type: ignore[arg-type]
        with pytest.raises(psycopg.Error, match="does not exist"):
            conn.execute("select trunkline.inbox_add('nowhere', 'x')")
