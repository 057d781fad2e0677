"""Queues: each record acknowledged by itself, delivered again where it was not."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline.aio
from tests.aio.queued import advance_clock, all_of, numbered, sql
from tests.aio.shim import Gate, at_once
from trunkline import ClientSettings, Message, TopicSettings, errors


async def test_S2_15_what_was_not_acknowledged_is_delivered_again_after_its_deadline(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(3))
        async with (
            tl.queue("orders", "billing", ack_deadline_s=30, prefetch=0) as dies,
            tl.queue("orders", "billing", prefetch=0) as other,
        ):
            first = await dies.receive(10)
            assert [(each.offset, each.attempt) for each in first] == [(1, 1), (2, 1), (3, 1)]
            advance_clock(db_url, 15)
            assert await other.receive(10) == []
            advance_clock(db_url, 31)
            again = await other.receive(10)
            assert [(each.offset, each.attempt, each.payload) for each in again] == [
                (1, 2, b"0"), (2, 2, b"1"), (3, 2, b"2"),
            ]  # fmt: skip
            with pytest.raises(errors.ClaimLost, match="partition 0") as caught:
                await dies.ack(first)
            assert caught.value.offsets == [1, 2, 3]
            assert caught.value.places == [(0, 1), (0, 2), (0, 3)]
            await other.ack(again)
            with pytest.raises(errors.ClaimLost):
                await first[0].extend(10)


async def test_S2_16_what_was_acknowledged_is_not_delivered_again(db_url: str) -> None:
    """Method: everything is acknowledged, in lists and one by one; then twice the deadline passes, and more."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=3)
        await tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(50)])
        async with tl.queue("orders", "billing", ack_deadline_s=30) as queue:
            got = await all_of(queue, 50)
            assert sorted(int(each.payload) for each in got) == list(range(50))
            await queue.ack(got[:25])
            for each in got[25:]:
                await each.ack()
        for seconds in (61, 3600):
            advance_clock(db_url, seconds)
            async with tl.queue("orders", "billing") as queue:
                assert await queue.receive(100) == []


async def test_some_of_a_claim_are_acknowledged_and_the_rest_comes_again(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", [Message(payload, key="k", headers={"h": payload}) for payload in numbered(10)])
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            got = await queue.receive(10)
            await queue.ack([got[1], got[9], got[4]])
            await queue.ack([got[0]])
            await at_once(*(each.ack for each in got[2:4]))
            advance_clock(db_url, 31)
            again = await queue.receive(10)
            assert [(each.offset, each.attempt) for each in again] == [(6, 2), (7, 2), (8, 2), (9, 2)]
            assert [(each.payload, each.key, each.headers) for each in again] == [
                (b"%d" % number, b"k", (("h", b"%d" % number),)) for number in range(5, 9)
            ]
            assert [each.append_time for each in again] == [got[0].append_time] * 4


async def test_a_record_that_is_given_back_comes_again_after_its_delay(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(3))
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            first, second, third = await queue.receive(3)
            await first.nack()
            (again,) = await queue.receive(3)
            assert (again.offset, again.attempt) == (1, 2)
            await second.nack(delay_s=20)
            await queue.nack([third, again], delay_s=300)
            assert await queue.receive(3) == []
            advance_clock(db_url, 21)
            assert [(each.offset, each.attempt) for each in await queue.receive(3)] == [(2, 2)]
            advance_clock(db_url, 301)
            assert sorted((each.offset, each.attempt) for each in await queue.receive(3)) == [(1, 3), (2, 3), (3, 2)]


async def test_what_is_extended_is_held_for_longer_and_never_for_less(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(3))
        async with tl.queue("orders", "billing", ack_deadline_s=30, prefetch=0) as queue:
            got = await queue.receive(3)
            await got[0].extend(100)
            await queue.extend(got, 1)
            advance_clock(db_url, 60)
            assert await queue.receive(3) == []
            await queue.ack(got[:2])
            advance_clock(db_url, 101)
            assert [each.offset for each in await queue.receive(3)] == [3]
            with pytest.raises(errors.ClaimLost):
                await got[2].extend(100)


async def test_two_queues_on_one_topic_are_independent(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("other")
        await tl.publish_many("orders", numbered(5))
        await tl.publish("other", b"other")
        async with (
            tl.queue("orders", "billing") as billing,
            tl.queue("orders", "shipping") as shipping,
            tl.queue("orders", "late", start="latest") as late,
            tl.queue("other", "billing") as other,
        ):
            await billing.ack(await all_of(billing, 5))
            assert [each.payload for each in await all_of(shipping, 5)] == numbered(5)
            assert await late.receive(5) == []
            assert [each.payload for each in await other.receive(5)] == [b"other"]
            await tl.publish("orders", b"new")
            assert [each.payload for each in await late.receive(5)] == [b"new"]


async def test_a_queue_is_opened_by_its_first_call_and_keeps_its_settings(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        queue = tl.queue("orders", "billing", ack_deadline_s=7)
        with pytest.raises(errors.NotFound, match="topic orders does not exist"):
            await queue.receive()
        await tl.create_topic("orders")
        with pytest.raises(errors.NotFound, match="queue billing"):
            await tl.queue("orders", "billing", create=False).receive()
        assert sql(db_url, "select count(*) from trunkline.queue") == 0
        assert await queue.receive() == []
        assert sql(db_url, "select ack_deadline_s from trunkline.queue") == 7
        assert await tl.queue("orders", "billing", create=False).receive() == []
        with pytest.raises(errors.InvalidArgument, match="queue alter"):
            await tl.queue("orders", "billing", ack_deadline_s=8).receive()
        await tl.publish("orders", b"x")
        (delivery,) = await queue.receive()
        assert repr(delivery) == "Delivery(topic='orders', partition=0, offset=1, key=None, attempt=1)"
        assert repr(queue) == "<trunkline queue billing of orders>"


async def test_delayed_publish_is_for_queues_alone(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", settings=TopicSettings(retention_age_s=3600))
        await tl.publish("orders", b"0")
        await tl.publish("orders", b"1", deliver_after_s=60, headers={"trunkline-deliver-after": "5", "own": "x"})
        await tl.publish_many("orders", [Message(b"2", deliver_after_s=30), b"3", Message(b"4", deliver_after_s=1800)])
        assert [record.payload for record in await tl.read("orders")] == numbered(5)
        assert (await tl.read("orders", offset=2))[0].headers == (("own", b"x"), ("trunkline-deliver-after", b"60"))
        async with tl.queue("orders", "billing") as queue:
            assert [each.payload for each in await all_of(queue, 2)] == [b"0", b"3"]
            assert await queue.receive(5) == []
            for seconds, expected in ((31, b"2"), (61, b"1"), (1801, b"4")):
                advance_clock(db_url, seconds)
                (found,) = [each for each in await queue.receive(5) if each.attempt == 1]
                assert (found.payload, found.attempt) == (expected, 1)
                await found.ack()
        with pytest.raises(errors.InvalidArgument, match="retention_age_s = 3600"):
            await tl.publish("orders", b"x", deliver_after_s=3601)
        for wrong in (-1, float("inf"), float("nan"), "5", True, 10**9):
            with pytest.raises(errors.InvalidArgument):
                await tl.publish("orders", b"x", deliver_after_s=wrong)  # type: ignore[arg-type]
            with pytest.raises(errors.InvalidArgument):
                await tl.publish_many("orders", [b"fine", Message(b"x", deliver_after_s=wrong)])  # type: ignore[arg-type]
        assert len(await tl.read("orders")) == 5


async def test_a_wait_ends_when_something_is_published_given_back_or_due(db_url: str) -> None:
    """Method: each wait is for 30 s, and would return nothing at its end."""
    async with trunkline.aio.connect(db_url) as tl, trunkline.aio.connect(db_url) as publisher:
        await tl.create_topic("orders", partitions=2)
        async with (
            tl.queue("orders", "billing", prefetch=0) as queue,
            tl.queue("orders", "forgetting", ack_deadline_s=1, prefetch=0) as forgetting,
        ):
            gate = Gate()

            async def wait() -> list[trunkline.aio.AsyncDelivery]:
                gate.open()
                return await queue.receive(5, wait_s=30)

            async def publish() -> list[trunkline.aio.AsyncDelivery]:
                await gate.wait()
                await publisher.publish("orders", b"x", partition=1)
                return []

            ((delivery,), _) = await at_once(wait, publish)
            await delivery.nack(delay_s=0.2)
            (again,) = await queue.receive(5, wait_s=30)
            assert again.attempt == 2
            for attempt in (1, 2):
                (expiring,) = await forgetting.receive(5, wait_s=30)
                assert expiring.attempt >= attempt
            await publisher.publish("orders", b"y", deliver_after_s=0.2)
            await again.ack()
            (delayed,) = await queue.receive(5, wait_s=30)
            assert (delayed.payload, delayed.attempt) == (b"y", 1)
            await delayed.ack()
            assert await queue.receive(5, wait_s=0.01) == []


async def test_without_rings_a_wait_finds_what_was_published(db_url: str) -> None:
    settings = ClientSettings(ring=False, doorbell=False, poll_max_s=0.1)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("orders")
        async with tl.queue("orders", "billing") as queue:

            async def publish() -> list[trunkline.aio.AsyncDelivery]:
                await tl.publish("orders", b"x")
                return []

            async def wait() -> list[trunkline.aio.AsyncDelivery]:
                return await queue.receive(5, wait_s=30)

            found = await at_once(wait, publish)
            assert [each.payload for each in found[0]] == [b"x"]


@pytest.mark.direct("there every heartbeat is a row")
async def test_empty_receives_and_waits_write_nothing(db_url: str, direct_url: str, still_server: None) -> None:
    """Method: the next transaction id before and after many of them."""
    async with trunkline.aio.connect(db_url, settings=ClientSettings(ring=False)) as tl:
        await tl.create_topic("orders", partitions=2)
        await tl.publish_many("orders", numbered(3), partition=1)
        async with tl.queue("orders", "billing") as queue:
            await queue.ack(await all_of(queue, 3))
            assert await queue.receive(wait_s=0.01) == []
            counter = "select txid_snapshot_xmax(txid_current_snapshot())"
            before = sql(direct_url, counter)
            for _ in range(20):
                assert await queue.receive(5) == []
                assert await queue.receive(5, wait_s=0.005) == []
            assert sql(direct_url, counter) == before


async def test_iterating_hands_out_one_after_the_other_until_the_queue_is_closed(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(20))
        seen = []
        async with tl.queue("orders", "billing", prefetch=7) as queue:
            async for delivery in queue:
                seen.append(delivery.payload)
                await delivery.ack()
                if len(seen) == 20:
                    await queue.close()
        assert seen == numbered(20)


async def test_close_gives_back_what_was_claimed_ahead_and_does_not_count_it_as_an_attempt(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=2)
        for partition in range(2):
            await tl.publish_many("orders", numbered(10), partition=partition)
        queue = tl.queue("orders", "billing", prefetch=100)
        (held,) = await queue.receive(1)
        async with tl.queue("orders", "billing") as other:
            assert await other.receive(100) == []
            await queue.close()
            await queue.close()
            got = await all_of(other, 19)
            assert {each.attempt for each in got} == {1}
            assert (held.partition, held.offset) not in {(each.partition, each.offset) for each in got}
            await other.ack(got)
        for call in (held.ack, held.nack, queue.receive, lambda: held.extend(5), lambda: held.reject("x")):
            with pytest.raises(errors.Closed):
                await call()


async def test_who_was_overtaken_looks_again_instead_of_waiting_for_new_records(db_url: str) -> None:
    """Goal: with a backlog nobody sleeps, whoever takes what was claimed for him. Method: what comes back from the
    claim of one is taken by another each time, three times; nothing is published afterwards, and nothing else wakes."""
    settings = ClientSettings(heartbeat_s=60, poll_max_s=60, session_timeout_s=600)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(8))
        async with tl.queue("orders", "billing", ack_deadline_s=600, prefetch=0) as queue:
            claim = queue._claim
            overtaken: list[int] = []

            async def claimed(*args: Any) -> bool:
                had_records = await claim(*args)
                if len(overtaken) < 3 and had_records:
                    overtaken.append((await queue.receive())[0].offset)
                return had_records

            queue._claim = claimed  # type: ignore[method-assign, assignment]
            (found,) = await queue.receive(wait_s=60)
            assert (overtaken, found.offset) == ([1, 2, 3], 4)


async def test_one_delivery_of_another_queue_is_refused_as_several_are(db_url: str) -> None:
    """Its claim is untouched: who has received it settles it."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"1")
        async with tl.queue("orders", "billing") as queue, tl.queue("orders", "mail") as other:
            (delivery,) = await queue.receive()
            with pytest.raises(errors.InvalidArgument, match="another queue"):
                await other.ack_one(delivery)
            await queue.ack_one(delivery)


async def test_close_ends_a_wait_and_a_loop(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        queue = tl.queue("orders", "billing")
        await queue.receive()
        gate = Gate()

        async def wait() -> str:
            gate.open()
            with pytest.raises(errors.Closed):
                await queue.receive(wait_s=60)
            return "ended"

        async def loop() -> str:
            await gate.wait()
            async for _ in queue:
                raise AssertionError
            return "ended"

        async def close() -> str:
            await gate.wait()
            await queue.close()
            return "closed"

        assert await at_once(wait, loop, close) == ["ended", "ended", "closed"]


async def test_one_record_that_is_asked_for_without_prefetch_leaves_the_next_to_others(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(3))
        for prefetch in (0, 1):
            async with (
                tl.queue("orders", f"billing{prefetch}", prefetch=prefetch) as queue,
                tl.queue("orders", f"billing{prefetch}", prefetch=prefetch) as other,
            ):
                assert [each.offset for each in await queue.receive()] == [1]
                assert [each.offset for each in await other.receive()] == [2]
                assert [each.offset for each in await queue.receive(5)] == [3]
