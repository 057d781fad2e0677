"""Subscriptions of one queue in one process: they share its reader, and who leaves strands nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline.aio
from tests.aio.orders import EVERYTHING_S, receive_all, send_all, set_up
from tests.aio.shim import Gate, at_once
from tests.portable.places import place
from trunkline import errors
from trunkline.aio import AsyncQueue
from trunkline.portable import AsyncSubscription

if True:  # ASYNC
    import asyncio


async def test_subscriptions_of_one_queue_share_its_reader(db_url: str) -> None:
    """Goal: they claim and acknowledge in the same calls, unless one reads otherwise. Method: their readers."""
    await set_up(db_url, ack_deadline_s=60)
    url = place(db_url, "orders", queue="emails")

    async def opened(bytes_max: int = 100_000) -> tuple[AsyncSubscription, AsyncQueue]:
        subscription = await trunkline.aio.open_subscription(url, prefetch_max=0, prefetch_bytes_max=bytes_max)
        return subscription, subscription.as_(AsyncQueue)

    (first, one), (second, two), (third, three) = await opened(), await opened(), await opened(1_000)
    assert one is two
    assert one is not three
    async with trunkline.aio.connect(db_url) as tl:
        await tl.publish_many("orders", [b"%d" % number for number in range(6)])
    mine, others = await receive_all(first, 3), await receive_all(second, 3)
    assert sorted(each.body for each in mine + others) == [b"%d" % number for number in range(6)]
    await first.close()
    await at_once(*[each.ack for each in others])
    await second.close()
    fourth, four = await opened()
    assert four is not one
    # What the first had in hand is held until its deadline.
    with pytest.raises(errors.DeadlineExceeded):
        await fourth.receive(wait_s=0)
    await fourth.close()
    await third.close()


async def test_one_that_is_closed_ends_its_own_wait_and_no_other(db_url: str) -> None:
    """Goal: of subscriptions that share a reader each ends for itself. Method: one waits all the time while others
    come, wait and are closed; a message that is sent then is received by it."""
    await set_up(db_url)
    url = place(db_url, "orders", queue="emails")
    stays = await trunkline.aio.open_subscription(url)

    async def waits() -> list[bytes]:
        return [(await stays.receive(wait_s=EVERYTHING_S)).body]

    async def comes_and_goes() -> list[bytes]:
        for _ in range(5):
            leaves = await trunkline.aio.open_subscription(url)

            async def is_ended(leaves: AsyncSubscription = leaves) -> bool:
                try:
                    await leaves.receive(wait_s=EVERYTHING_S)
                except errors.Closed:
                    return True
                return False

            async def close(leaves: AsyncSubscription = leaves) -> bool:
                await leaves.close()
                return True

            assert await at_once(is_ended, close) == [True, True]
        await send_all(place(db_url, "orders"), b"late")
        return []

    assert await at_once(waits, comes_and_goes) == [[b"late"], []]
    await stays.close()


async def test_what_came_for_one_who_left_goes_to_others_at_once(db_url: str) -> None:
    """Goal: who shares a reader and is closed while messages are on their way strands none. Method: the driver's calls
    in the order in which the library makes them then: receive, close, release."""
    await set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    async with (
        trunkline.aio.open_subscription(url) as stays,
        trunkline.aio.open_subscription(url) as leaves,
        trunkline.aio.connect(db_url) as tl,
    ):
        await tl.publish_many("orders", [b"1", b"2"])
        driver = leaves._driver
        came = await driver.receive_batch(10, 0)
        await driver.close()
        await driver.close()
        await driver.release([each.ack_id for each in came])
        got = await receive_all(stays, 2)
        assert [(each.body, each.attempt) for each in got] == [(b"1", 1), (b"2", 1)]


async def test_what_nobody_took_of_one_who_left_goes_to_other_readers_at_once(db_url: str) -> None:
    """Goal: a receive that ended before it had its messages leaves none behind in a reader that others share. Method:
    what it had claimed lies in memory; the others ask for nothing, and a reader of its own gets it after the close."""
    await set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    async with (
        trunkline.aio.open_subscription(url) as stays,
        trunkline.aio.connect(db_url) as tl,
        tl.queue("orders", "emails", prefetch=0) as other,
    ):
        leaves = await trunkline.aio.open_subscription(url)
        await tl.publish_many("orders", [b"1", b"2"])
        shared = stays.as_(AsyncQueue)
        assert await shared._claim(shared._known(), 10)
        await leaves.close()
        assert [(each.payload, each.attempt) for each in await other.receive(10)] == [(b"1", 1), (b"2", 1)]


async def test_a_queue_with_attempts_is_read_by_each_subscription_alone(db_url: str) -> None:
    """A record's last attempt is made alone: others must not stand still while one of them is at it."""
    await set_up(db_url, dead_letter="dead", max_attempts=1)
    url = place(db_url, "orders", queue="emails")
    async with trunkline.aio.open_subscription(url) as one, trunkline.aio.open_subscription(url) as other:
        assert one.as_(AsyncQueue) is not other.as_(AsyncQueue)
        await send_all(place(db_url, "orders"), b"1", b"2")
        first, second = await one.receive(wait_s=EVERYTHING_S), await other.receive(wait_s=EVERYTHING_S)
        assert {first.body, second.body} == {b"1", b"2"}


async def test_a_shared_reader_that_somebody_has_closed_is_not_handed_out_again(db_url: str) -> None:
    await set_up(db_url)
    url = place(db_url, "orders", queue="emails")
    async with trunkline.aio.open_subscription(url) as one:
        await one.as_(AsyncQueue).close()
        async with trunkline.aio.open_subscription(url) as other:
            await send_all(place(db_url, "orders"), b"1")
            await (await other.receive(wait_s=EVERYTHING_S)).ack()


async def test_a_settlement_that_is_refused_takes_nothing_along_that_is_given_back(db_url: str) -> None:
    """Goal: what lies in memory for one who leaves is given back whatever becomes of those who were in the same call.
    Method: the other's delay is beyond what the topic keeps by now, so that the call is refused and each goes alone."""
    await set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    async with (
        trunkline.aio.open_subscription(url) as stays,
        trunkline.aio.connect(db_url) as tl,
        tl.queue("orders", "emails", prefetch=0) as other,
    ):
        leaves = await trunkline.aio.open_subscription(url)
        await tl.publish_many("orders", [b"1", b"2"])
        shared = stays.as_(AsyncQueue)
        (first,) = await shared.receive()
        await tl.publish_many("orders", [b"3"])
        assert await shared._claim(shared._known(), 10)
        await tl.alter_topic("orders", retention_age_s=60)

        async def nack() -> None:
            with pytest.raises(errors.InvalidArgument):
                await first.nack(delay_s=3600)

        await at_once(nack, leaves._driver.close)
        assert sorted(each.payload for each in await other.receive(10)) == [b"2", b"3"]


@pytest.mark.parametrize("published", ["one by one", "together"])
async def test_large_records_are_fetched_once_for_all_who_share_a_reader(db_url: str, published: str) -> None:
    """Goal: a record that does not come with its claim is not fetched by everybody who waits for it. Method: what goes
    over the connection while 20 of them receive 40 records."""
    await set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    bodies = [b"%05d" % number * 20_000 for number in range(40)]
    async with trunkline.aio.connect(db_url) as tl:
        for some in [[each] for each in bodies] if published == "one by one" else [bodies]:
            await tl.publish_many("orders", some)
        subscriptions = [await trunkline.aio.open_subscription(url, prefetch_max=0) for _ in range(20)]
        server = subscriptions[0].as_(AsyncQueue)._rooms.server
        whole = server.read
        moved: list[int] = []

        async def read(*arguments: Any) -> Any:
            rows = await whole(*arguments)
            moved.extend(len(payload) for row in rows for payload in row[5])
            return rows

        server.read = read  # type: ignore[method-assign, assignment]
        found: list[bytes] = []
        for _ in range(2):
            found += [each.body for each in await at_once(*[each.receive for each in subscriptions])]
        assert sorted(found) == bodies
        assert sum(moved) <= 2 * sum(map(len, bodies))
        for each in subscriptions:
            await each.close()


if True:  # ASYNC

    @pytest.mark.parametrize("where", ["look_up", "ranges"])
    async def test_who_has_left_claims_nothing_any_more(db_url: str, where: str) -> None:
        """Goal: a receive that goes on after the close of its subscription, and is cancelled then, leaves nothing in a
        reader that others share. Method: it stands still at a call before its claim until the close is done."""
        await set_up(db_url, ack_deadline_s=600)
        url = place(db_url, "orders", queue="emails")
        async with (
            trunkline.aio.open_subscription(url) as stays,
            trunkline.aio.connect(db_url) as tl,
            tl.queue("orders", "emails", prefetch=0) as other,
        ):
            leaves = await trunkline.aio.open_subscription(url)
            shared = stays.as_(AsyncQueue)
            topics, calls = shared._rooms.topics, shared._known().calls
            looks, goes_on, called, answered = Gate(), Gate(), Gate(), Gate()
            whole, claim = getattr(topics, where), calls.next

            async def slow(*args: Any) -> Any:
                looks.open()
                await goes_on.wait()
                return await whole(*args)

            async def slow_claim(*args: Any) -> Any:
                if goes_on.count:
                    called.open()
                    await answered.wait()
                return await claim(*args)

            shared._look_due = 0.0 if where == "look_up" else shared._look_due
            setattr(topics, where, slow)
            calls.next = slow_claim  # type: ignore[method-assign, assignment]
            receiver = asyncio.create_task(leaves.receive())
            await looks.wait()
            await tl.publish_many("orders", [b"1", b"2"])
            await leaves.close()
            goes_on.open()
            claims = asyncio.create_task(called.wait())
            await asyncio.wait([receiver, claims], return_when=asyncio.FIRST_COMPLETED)
            claims.cancel()
            receiver.cancel()
            answered.open()
            await asyncio.wait([receiver, claims])
            setattr(topics, where, whole)
            assert len(await other.receive(10, wait_s=EVERYTHING_S)) == 2
            assert len(shared._buffer) == 0

    @pytest.mark.parametrize("is_shared", [True, False])
    async def test_what_was_dealt_in_the_moment_of_a_close_is_given_back(db_url: str, is_shared: bool) -> None:
        """Goal: a message that a waiting receiver was given just when its subscription was closed is not held until its
        deadline. Method: the batch for all who wait comes in the turn of the event loop in which the close begins."""
        await set_up(db_url, ack_deadline_s=600)
        url = place(db_url, "orders", queue="emails")
        async with trunkline.aio.connect(db_url) as tl, tl.queue("orders", "emails", prefetch=0) as other:
            stays = await trunkline.aio.open_subscription(url)
            if not is_shared:
                await stays.close()
            subscription = await trunkline.aio.open_subscription(url)
            await tl.publish_many("orders", [b"1", b"2", b"3"])
            gate, came = Gate(), Gate()
            whole = subscription._driver.receive_batch

            async def slow(max_messages: int, wait_s: float) -> Any:
                found = await whole(max_messages, wait_s)
                if max_messages > 1:
                    came.open()
                    await gate.wait()
                return found

            subscription._driver.receive_batch = slow  # type: ignore[method-assign]
            tasks = [asyncio.create_task(subscription.receive()) for _ in range(3)]
            await came.wait()
            gate.open()
            await subscription.close()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            handed = [each.body for each in done if not isinstance(each, BaseException)]
            rest = [each.payload for each in await other.receive(10)]
            await stays.close()
            assert sorted(handed + rest) == [b"1", b"2", b"3"]
