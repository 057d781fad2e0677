# Generated from tests/aio/test_consumer_in_hand.py by tools/twins.py (make fix). Change the source, not this file.
"""What a caller with records in hand may do beside polling: wake a poll, put records back, hear of what was lost."""

from __future__ import annotations

import pytest

import trunkline
from tests.sync.shim import at_once
from trunkline import ClientSettings, Message, Record

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


def test_a_poll_that_waits_is_woken_and_so_is_the_next_one(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with tl.consumer("orders", group="billing", create=True) as consumer:

            def poll() -> list[Record]:
                return consumer.poll(wait_s=3600)

            def wake() -> list[Record]:
                consumer.wake()
                return []

            assert at_once(poll, wake) == [[], []]
            consumer.wake()
            assert poll() == []
            # It was used up: this one waits for the record.
            with trunkline.connect(db_url) as publisher:
                at_once(lambda: publisher.publish("orders", b"x"), poll)


def test_what_is_put_back_goes_to_the_member_that_should_have_it(db_url: str) -> None:
    """The first member has everything in hand, and its client is patient; the second gets its share all the same."""
    with (
        trunkline.connect(db_url, settings=QUICK) as tl,
        trunkline.connect(db_url, settings=QUICK) as other,
    ):
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(b"%d" % n, partition=n % 2) for n in range(10)])
        with (
            tl.consumer("orders", group="billing", create=True) as first,
            other.consumer("orders", group="billing") as second,
        ):
            in_hand: list[Record] = []
            while not in_hand:
                in_hand = first.poll(wait_s=10)
            moved: list[Record] = []
            while not moved:
                for topic, partition in first.leaving:
                    first.put_back(topic, partition)
                in_hand += first.poll()
                moved = second.poll(wait_s=0.1)
            ((topic, partition),) = first.assignment
            assert {(record.topic, record.partition) for record in moved} == {(topic, 1 - partition)}
            assert [record.offset for record in moved] == [1, 2, 3, 4, 5]
            first.commit()
            second.commit()
            assert [each.lag for each in [*first.lag(), *second.lag()]] == [0, 0]


def test_what_was_lost_is_said_once_and_does_not_hold_up_a_commit(db_url: str) -> None:
    with trunkline.connect(db_url, settings=QUICK) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(b"%d" % n, partition=n % 2) for n in range(4)])
        with tl.consumer("orders", group="billing", create=True) as consumer:
            in_hand: list[Record] = []
            while len(in_hand) < 4:
                in_hand += consumer.poll(wait_s=10)
            tl.seek_group("billing", "orders", 1, partition=1, execute=True)
            again: list[Record] = []
            while not again:
                again = consumer.poll(wait_s=10)
            assert consumer.take_lost() == [("orders", 1)]
            assert [(record.partition, record.offset) for record in again] == [(1, 1), (1, 2)]
            consumer.commit()
            assert consumer.take_lost() == []
            assert [each.lag for each in consumer.lag()] == [0, 0]


def test_a_connection_reads_and_publishes_on_after_transactions_however_they_ended(db_url: str) -> None:
    """The driver drops every prepared statement after a rollback, also those that it does not know; not otherwise."""
    with trunkline.connect(db_url, settings=ClientSettings(connections_max=1)) as tl:
        tl.create_topic("orders")
        with tl.consumer("orders", group="billing", create=True, delivery="exactly_once") as consumer:

            def handle(offset: int, *, is_good: bool) -> None:
                with consumer.transaction(wait_s=10) as tx:
                    assert [record.offset for record in tx.records] == [offset]
                    if not is_good:
                        raise KeyError

            for offset in range(1, 11):
                assert tl.publish("orders", b"x").offset == offset
                with pytest.raises(KeyError):
                    handle(offset, is_good=False)
                assert [record.offset for record in tl.read("orders", offset=offset)] == [offset]
                handle(offset, is_good=True)
                assert [record.offset for record in tl.read("orders", offset=offset)] == [offset]
