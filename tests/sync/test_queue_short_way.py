# Generated from tests/aio/test_queue_short_way.py by tools/twins.py (make fix). Change the source, not this file.
"""Queues by the short way: one call acknowledges a claim and makes the next, through the function of its tables."""

from __future__ import annotations

from time import monotonic

import psycopg
import pytest

import trunkline
from tests.sync.shim import at_once
from trunkline import Message, errors
from trunkline.client.sync.connection import ServerConnection


def sql(db_url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(db_url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class Calls:
    """How often the server was asked, by which way; none of the calls is changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        for name in ("queue_step", "queue_next"):
            monkeypatch.setattr(ServerConnection, name, self._counted(name, getattr(ServerConnection, name)))

    def _counted(self, name: str, call):  # type: ignore[no-untyped-def]
        def counted(connection: ServerConnection, *values: object) -> object:
            self.made.append(name)
            return call(connection, *values)

        return counted

    def since(self) -> list[str]:
        made, self.made = self.made, []
        return made


@pytest.mark.direct("through a pooler nothing is prepared, and the long way is gone")
def test_one_call_acknowledges_and_brings_the_next(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.client.sync.queue_calls.LOOK_FURTHER_S", float("inf"))
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for start in range(0, 9, 3):
            tl.publish_many("orders", [b"%d" % number for number in range(start, start + 3)])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            held = queue.receive(3)
            calls = Calls(monkeypatch)
            for start in (3, 6):
                held = queue.receive(3, ack=held)
                assert [each.payload for each in held] == [b"%d" % number for number in range(start, start + 3)]
                assert calls.since() == ["queue_step"]
            assert queue.receive(3, ack=held) == []
        assert sql(db_url, "select floor, in_flight from trunkline.queue_describe('orders', 'billing')") == [(10, 0)]


def test_what_is_lost_is_raised_and_what_was_claimed_comes_next(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1"])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (first,) = queue.receive()
            first.nack(delay_s=1000)
            with pytest.raises(errors.InvalidArgument, match="settled already"):
                queue.receive(ack=[first])
            (second,) = queue.receive()
            sql(
                db_url,
                "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
                "$$ select clock_timestamp() + interval '100 seconds' $$",
            )
            with pytest.raises(errors.ClaimLost) as caught:
                queue.receive(ack=[second])
            assert caught.value.offsets == [2]
            (again,) = queue.receive(wait_s=30)
            assert (again.offset, again.attempt) == (2, 2)
            with pytest.raises(errors.InvalidArgument, match="deliveries are needed"):
                queue.receive(ack=[b"0"])  # type: ignore[list-item]


def test_records_out_of_one_batch_have_their_own_keys_and_headers(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        sent = [Message(b"%d" % n, key=b"k%d" % (n % 2), headers={"n": b"%d" % n} if n % 3 else None) for n in range(7)]
        tl.publish_many("orders", sent)
        with tl.queue("orders", "billing", prefetch=0) as queue:
            held = queue.receive(2)
            found = list(held)
            while held := queue.receive(2, ack=held):
                found += held
        got = [(each.offset, each.payload, each.key, each.headers) for each in found]
        assert got == [(n + 1, b"%d" % n, b"k%d" % (n % 2), (("n", b"%d" % n),) if n % 3 else ()) for n in range(7)]


def test_a_reader_follows_its_queue_to_other_tables(db_url: str) -> None:
    """They are rolled and dropped by somebody else, between any two of its calls."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [b"%d" % n for n in range(40)])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            held = queue.receive(1)
            found = list(held)
            ((queue_id,),) = sql(db_url, "select queue_id from trunkline.queue")
            while len(found) < 40:
                if len(found) % 5 == 0:
                    sql(db_url, f"select trunkline.queue_roll({queue_id})")
                    sql(db_url, f"select trunkline.queue_move_parts({queue_id})")
                    sql(db_url, "select trunkline.queue_drop_old()")
                held = queue.receive(1, ack=held, wait_s=30)
                found += held
            queue.ack(held)
        assert len({(each.partition, each.offset) for each in found}) == 40
        assert {each.attempt for each in found} == {1}
        left = sql(
            db_url, "select sum(\"end\" - floor), sum(in_flight) from trunkline.queue_describe('orders', 'billing')"
        )
        assert left == [(0, 0)]


def test_other_partitions_do_not_wait_for_one_that_always_has_records(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish("orders", b"lonely", partition=1)
        tl.publish("orders", b"0", partition=0)
        with tl.queue("orders", "billing", prefetch=0) as queue:
            held = queue.receive()
            seen = {each.payload for each in held}
            while b"lonely" not in seen:
                tl.publish("orders", b"more", partition=0)
                held = queue.receive(ack=held, wait_s=30)
                seen |= {each.payload for each in held}


def test_a_queue_of_a_deleted_topic_says_so(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"0")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            tl.delete_topic("orders")
            with pytest.raises(errors.NotFound):
                delivery.ack()


@pytest.mark.direct("through a pooler nothing is prepared, and the long way is gone")
def test_a_deadline_that_was_altered_counts_for_readers_that_run(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trunkline.client.sync.queue_calls.LOOK_FURTHER_S", float("inf"))
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1"])
        with tl.queue("orders", "billing", prefetch=0, ack_deadline_s=1000) as queue:
            held = queue.receive()
            sql(db_url, """select trunkline.queue_alter('orders', 'billing', '{"ack_deadline_s": 100.5}')""")
            calls = Calls(monkeypatch)
            (delivery,) = queue.receive(ack=held)
            assert calls.since() == ["queue_step"]
            # Nothing of it is handed out after its deadline, when others get it.
            assert delivery.claim.expires_at <= monotonic() + 100.5
            delivery.ack()


@pytest.mark.direct("through a pooler nothing is prepared, and the long way is gone")
@pytest.mark.parametrize("kind", [errors.FailedPrecondition, errors.OutcomeUnknown])
def test_what_was_acknowledged_stays_so_where_no_more_records_are_to_be_had(
    db_url: str, monkeypatch: pytest.MonkeyPatch, kind: type[errors.TrunklineError]
) -> None:
    """Method: somebody else claims in the partition, so the short way only acknowledges; then the long way fails."""
    monkeypatch.setattr("trunkline.client.sync.queue_calls.LOOK_FURTHER_S", float("inf"))
    refused: list[bool] = []

    def refuse(connection: ServerConnection, *values: object) -> object:
        refused.append(True)
        raise kind("no more records")

    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1", b"2"])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            first, second = queue.receive(2)

            def receive(done: trunkline.Delivery) -> None:
                with pytest.raises(kind, match="no more records"):
                    queue.receive(ack=[done])

            with psycopg.connect(db_url) as other, monkeypatch.context() as patched:
                other.execute("select pg_advisory_xact_lock(trunkline.lock_class() + 6, %s)", [first.claim.part_id])
                patched.setattr(ServerConnection, "queue_next", refuse)
                at_once(lambda: receive(first), lambda: receive(second))
                other.rollback()
            assert refused
            assert sql(db_url, "select offsets from trunkline.queue_claims('orders', 'billing')") == []
            for done in (first, second):
                with pytest.raises(errors.InvalidArgument, match="settled already"):
                    done.ack()
            (third,) = queue.receive()
            assert third.payload == b"2"
            third.ack()
