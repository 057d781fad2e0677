"""What a caller with records in hand may do beside polling: wake a poll, put records back, hear of what was lost."""

from __future__ import annotations

import pytest

import trunkline.aio
from tests.aio.shim import at_once
from trunkline import ClientSettings, Message, Record

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


async def test_a_poll_that_waits_is_woken_and_so_is_the_next_one(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        async with tl.consumer("orders", group="billing", create=True) as consumer:

            async def poll() -> list[Record]:
                return await consumer.poll(wait_s=3600)

            async def wake() -> list[Record]:
                consumer.wake()
                return []

            assert await at_once(poll, wake) == [[], []]
            consumer.wake()
            assert await poll() == []
            # It was used up: this one waits for the record.
            async with trunkline.aio.connect(db_url) as publisher:
                await at_once(lambda: publisher.publish("orders", b"x"), poll)


async def test_what_is_put_back_goes_to_the_member_that_should_have_it(db_url: str) -> None:
    """The first member has everything in hand, and its client is patient; the second gets its share all the same."""
    async with (
        trunkline.aio.connect(db_url, settings=QUICK) as tl,
        trunkline.aio.connect(db_url, settings=QUICK) as other,
    ):
        await tl.create_topic("orders", partitions=2)
        await tl.publish_many("orders", [Message(b"%d" % n, partition=n % 2) for n in range(10)])
        async with (
            tl.consumer("orders", group="billing", create=True) as first,
            other.consumer("orders", group="billing") as second,
        ):
            in_hand: list[Record] = []
            while not in_hand:
                in_hand = await first.poll(wait_s=10)
            moved: list[Record] = []
            while not moved:
                for topic, partition in first.leaving:
                    first.put_back(topic, partition)
                in_hand += await first.poll()
                moved = await second.poll(wait_s=0.1)
            ((topic, partition),) = first.assignment
            assert {(record.topic, record.partition) for record in moved} == {(topic, 1 - partition)}
            assert [record.offset for record in moved] == [1, 2, 3, 4, 5]
            await first.commit()
            await second.commit()
            assert [each.lag for each in [*await first.lag(), *await second.lag()]] == [0, 0]


async def test_what_was_lost_is_said_once_and_does_not_hold_up_a_commit(db_url: str) -> None:
    async with trunkline.aio.connect(db_url, settings=QUICK) as tl:
        await tl.create_topic("orders", partitions=2)
        await tl.publish_many("orders", [Message(b"%d" % n, partition=n % 2) for n in range(4)])
        async with tl.consumer("orders", group="billing", create=True) as consumer:
            in_hand: list[Record] = []
            while len(in_hand) < 4:
                in_hand += await consumer.poll(wait_s=10)
            await tl.seek_group("billing", "orders", 1, partition=1, execute=True)
            again: list[Record] = []
            while not again:
                again = await consumer.poll(wait_s=10)
            assert consumer.take_lost() == [("orders", 1)]
            assert [(record.partition, record.offset) for record in again] == [(1, 1), (1, 2)]
            await consumer.commit()
            assert consumer.take_lost() == []
            assert [each.lag for each in await consumer.lag()] == [0, 0]


async def test_a_connection_reads_and_publishes_on_after_transactions_however_they_ended(db_url: str) -> None:
    """The driver drops every prepared statement after a rollback, also those that it does not know; not otherwise."""
    async with trunkline.aio.connect(db_url, settings=ClientSettings(connections_max=1)) as tl:
        await tl.create_topic("orders")
        async with tl.consumer("orders", group="billing", create=True, delivery="exactly_once") as consumer:

            async def handle(offset: int, *, is_good: bool) -> None:
                async with consumer.transaction(wait_s=10) as tx:
                    assert [record.offset for record in tx.records] == [offset]
                    if not is_good:
                        raise KeyError

            for offset in range(1, 11):
                assert (await tl.publish("orders", b"x")).offset == offset
                with pytest.raises(KeyError):
                    await handle(offset, is_good=False)
                assert [record.offset for record in await tl.read("orders", offset=offset)] == [offset]
                await handle(offset, is_good=True)
                assert [record.offset for record in await tl.read("orders", offset=offset)] == [offset]
