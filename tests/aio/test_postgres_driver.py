"""The Postgres driver: what it promises beyond every driver, on queues and on groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import trunkline.aio
from tests.aio.orders import EVERYTHING_S, receive_all, send_all, set_up
from tests.aio.shim import at_once
from tests.concurrency.proxy import Fault, Proxy, as_if_direct
from tests.portable.places import place
from trunkline import Message, errors
from trunkline.aio import AsyncClient, AsyncConsumer, AsyncDelivery, AsyncQueue
from trunkline.records import Record


@pytest.fixture
def proxied(direct_url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database, and the URL through it."""
    port = urlsplit(direct_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy, proxy.url(direct_url)


# -- topics --


async def test_a_message_goes_through_the_log_and_back(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.open_topic(place(db_url, "orders")) as topic:
        sent = await topic.send(Message(b"12.50", key="ann", attributes={"source": "web"}))
        assert sent == "orders/0/1"
        (record,) = await topic.as_(AsyncClient).read("orders")
        assert (record.payload, record.key, record.headers) == (b"12.50", b"ann", (("source", b"web"),))
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        assert subscription.as_(AsyncQueue) is not None
        message = await subscription.receive(wait_s=EVERYTHING_S)
        assert (message.id, message.body, message.key, message.attempt) == (sent, b"12.50", b"ann", 1)
        assert message.attributes == {"source": "web"}
        assert message.as_(AsyncDelivery).offset == 1
        await message.ack()


async def test_S2_18_a_message_that_is_refused_fails_alone(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.connect(db_url) as tl:
        await tl.alter_topic("orders", record_bytes_max=100)
    async with trunkline.aio.open_topic(place(db_url, "orders"), send_wait_s=0.2) as topic:

        async def send(size: int) -> str | errors.TrunklineError:
            try:
                return await topic.send(b"x" * size)
            except errors.TooLarge as error:
                return error

        calls = [lambda size=size: send(size) for size in (1, 101, 2, 200, 3)]
        answers = await at_once(*calls)
        assert [isinstance(each, errors.TooLarge) for each in answers] == [False, True, False, True, False]
        assert len({each for each in answers if isinstance(each, str)}) == 3
    async with trunkline.aio.connect(db_url) as tl:
        assert sorted(len(each.payload) for each in await tl.read("orders")) == [1, 2, 3]


async def test_a_limit_that_was_lowered_meanwhile_refuses_one_message_and_not_its_batch(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.connect(db_url) as tl, trunkline.aio.connect(db_url) as other:
        assert len(await tl.publish_each("orders", [b"x" * 200])) == 1
        await other.alter_topic("orders", record_bytes_max=100)
        answers = await tl.publish_each("orders", [b"a", b"x" * 200, b"b"])
        assert [getattr(each, "offset", None) for each in answers] == [2, None, 3]
        assert isinstance(answers[1], errors.TooLarge)


async def test_more_than_a_batch_is_split_and_each_message_has_its_answer(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.connect(db_url) as tl:
        sizes = [1, 70_000, 2, 3, 200_000, 17_000_000, 4]
        answers = await tl.publish_each("orders", [b"x" * size for size in sizes])
        assert [getattr(each, "offset", None) for each in answers] == [1, 2, 3, 4, 5, None, 6]
        assert await tl.publish_each("orders", []) == []


async def test_topics_and_subscriptions_of_one_server_share_its_connections(direct_url: str) -> None:
    """Goal: a hundred of them take no more connections than one. Method: the server counts."""
    await set_up(direct_url)
    urls = [place(direct_url, "orders", application_name="counted")] * 20
    topics = [await trunkline.aio.open_topic(url) for url in urls]
    await at_once(*[lambda topic=topic: topic.send(b"x") for topic in topics])
    queue = place(direct_url, "orders", queue="emails", application_name="counted")
    subscriptions = [await trunkline.aio.open_subscription(queue) for _ in range(5)]
    with psycopg.connect(direct_url, autocommit=True) as connection:
        count = "select count(*) from pg_stat_activity where application_name = 'counted'"
        row = connection.execute(count).fetchone()
        assert row is not None
        assert row[0] <= 6
        for topic in topics:
            await topic.close()
        for subscription in subscriptions:
            await subscription.close()
        left = "select pid from pg_stat_activity where application_name = 'counted'"
        while connection.execute(left, prepare=False).fetchone() is not None:
            pass


async def test_a_receive_goes_on_where_it_is_an_acknowledgement_whose_outcome_is_unknown(db_url: str) -> None:
    """Goal: who shares a call of the server with others has no part in what is unknown of theirs: nothing that is
    received is. Method: the call in which they are together has no outcome."""
    await set_up(db_url)
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        calls = subscription.as_(AsyncQueue)._known().calls
        whole = calls.next
        unknown = [errors.OutcomeUnknown("records may or may not have been settled")]

        async def answer(*args: Any) -> Any:
            if unknown:
                raise unknown.pop()
            return await whole(*args)

        calls.next = answer  # type: ignore[method-assign, assignment]
        await send_all(place(db_url, "orders"), b"1")
        assert (await subscription.receive(wait_s=EVERYTHING_S)).body == b"1"
        assert not unknown


# -- attributes --


async def test_headers_of_ordinary_records_are_received(db_url: str) -> None:
    await set_up(db_url)
    headers: list[tuple[str, str | bytes]] = [
        ("text", "é"),
        ("twice", b"1"),
        ("twice", b"2"),
        ("raw", b"\xff\x00"),
        ("nul", b"a\0b"),
    ]
    async with trunkline.aio.connect(db_url) as tl:
        await tl.publish("orders", b"x", headers=headers, group_key="ann")
    for kind in ({"queue": "emails"}, {"group": "billing"}):
        async with trunkline.aio.open_subscription(place(db_url, "orders", **kind)) as subscription:
            message = await subscription.receive(wait_s=EVERYTHING_S)
            assert message.attributes == {
                "text": "é",
                "twice": "2",
                "trunkline-binary:raw": "/wA=",
                "nul": "a\0b",
                "trunkline-group-key": "ann",
            }
            assert message.as_(Record).headers[3] == ("raw", b"\xff\x00")
            await message.ack()


async def test_no_attribute_delays_a_message(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.open_topic(place(db_url, "orders")) as topic:
        await topic.send(Message(b"x", attributes={"trunkline-deliver-after": "3600"}))
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        message = await subscription.receive(wait_s=EVERYTHING_S)
        assert message.attributes == {"trunkline-deliver-after": "3600"}


# -- queues --


async def test_the_capabilities_of_a_queue_are_those_that_it_is_set_to(db_url: str) -> None:
    await set_up(db_url, ordered_by_key=True, dead_letter="dead", ack_deadline_s=60)
    async with trunkline.aio.connect(db_url) as tl, tl.queue("orders", "plain"):
        pass
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as ordered:
        assert (ordered.capabilities.ordering, ordered.capabilities.dead_letter) == ("key", True)
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="plain")) as plain:
        assert (plain.capabilities.ordering, plain.capabilities.dead_letter) == ("none", False)
    with pytest.raises(errors.NotSupported) as refused:
        await trunkline.aio.open_subscription(place(db_url, "orders", queue="plain"), require=["dead_letter"])
    assert (refused.value.driver, refused.value.capability) == ("trunkline", "dead_letter")


async def test_a_deadline_is_the_queue_s_and_another_one_is_refused(db_url: str) -> None:
    await set_up(db_url, ack_deadline_s=60)
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails", ack_deadline_s="1m")):
        pass
    with pytest.raises(errors.InvalidArgument, match="trunkline queue alter"):
        await trunkline.aio.open_subscription(place(db_url, "orders", queue="emails"), ack_deadline_s=5)


async def test_what_fails_too_often_goes_to_the_dead_letters_of_the_queue(db_url: str) -> None:
    await set_up(db_url, dead_letter="dead", max_attempts=2)
    await send_all(place(db_url, "orders"), b"bad")
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        for attempt in (1, 2):
            message = await subscription.receive(wait_s=EVERYTHING_S)
            assert message.attempt == attempt
            await message.nack()
    async with trunkline.aio.connect(db_url) as tl:
        assert [each.payload for each in await tl.read("dead")] == [b"bad"]


async def test_in_an_ordered_queue_what_is_given_back_comes_before_its_successors(db_url: str) -> None:
    await set_up(db_url, ordered_by_key=True)
    await send_all(place(db_url, "orders"), b"1", b"2", b"3", key="ann")
    async with trunkline.aio.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        first, second = await receive_all(subscription, 2)
        await first.nack()
        with pytest.raises(errors.ClaimLost):
            await second.ack()
        again = await subscription.receive(wait_s=EVERYTHING_S)
        assert (again.body, again.attempt) == (b"1", 2)
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
        await again.ack()
        rest = await receive_all(subscription, 2)
        assert [(each.body, each.attempt) for each in rest] == [(b"2", 1), (b"3", 1)]


async def test_what_is_released_is_not_counted(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.connect(db_url) as tl:
        await tl.publish_many("orders", [b"1", b"2"])
        async with tl.queue("orders", "emails", prefetch=0) as queue:
            with pytest.raises(errors.InvalidArgument):
                await queue.release([b"1"])  # type: ignore[list-item]
            first, second = await queue.receive(2)
            await queue.release([first])
            (again,) = await queue.receive(5)
            assert (again.offset, again.attempt, second.attempt) == (1, 1, 1)
            with pytest.raises(errors.InvalidArgument):
                await first.ack()


async def test_a_queue_that_was_not_opened_knows_no_settings(db_url: str) -> None:
    await set_up(db_url)
    async with trunkline.aio.connect(db_url) as tl:
        with pytest.raises(errors.FailedPrecondition):
            print(tl.queue("orders", "emails").settings)


# -- groups --


async def test_a_group_commits_when_all_before_it_are_acknowledged(db_url: str) -> None:
    await set_up(db_url)
    await send_all(place(db_url, "orders"), b"1", b"2", b"3", b"4")
    url = place(db_url, "orders", group="billing")
    async with trunkline.aio.open_subscription(url) as subscription, trunkline.aio.connect(db_url) as tl:
        assert subscription.as_(AsyncConsumer) is not None

        async def cursor() -> int:
            return (await tl.describe_group("billing")).partitions[0].cursor

        first, second, third = await receive_all(subscription, 3)
        assert first.attempt is None
        await second.ack()
        assert await cursor() == 1
        await first.ack()
        assert await cursor() == 3
        await third.ack()
        assert await cursor() == 4
    async with trunkline.aio.open_subscription(url) as subscription:
        assert (await subscription.receive(wait_s=EVERYTHING_S)).body == b"4"


async def test_in_a_group_what_is_given_back_comes_before_its_successors(db_url: str) -> None:
    await set_up(db_url)
    await send_all(place(db_url, "orders"), b"1", b"2", b"3", b"4", b"5", key="ann")
    async with trunkline.aio.open_subscription(place(db_url, "orders", group="billing")) as subscription:
        first, second, third, fourth = await receive_all(subscription, 4)
        await fourth.ack()
        await second.nack()
        with pytest.raises(errors.ClaimLost):
            await third.ack()
        with pytest.raises(errors.ClaimLost):
            await third.nack()
        await first.ack()
        with pytest.raises(errors.AckNotSupported):
            await first.nack(delay_s=1)
        again = await receive_all(subscription, 3)
        assert [each.body for each in again] == [b"2", b"3", b"5"], "the fourth is done"
        for each in again:
            await each.ack()
    async with trunkline.aio.connect(db_url) as tl:
        assert (await tl.describe_group("billing")).lag == 0


async def test_an_acknowledgement_does_not_wait_for_a_receiver_that_waits(db_url: str) -> None:
    await set_up(db_url, partitions=2)
    await send_all(place(db_url, "orders"), b"1")
    async with trunkline.aio.open_subscription(place(db_url, "orders", group="billing")) as subscription:
        message = await subscription.receive(wait_s=EVERYTHING_S)

        async def receive() -> bytes:
            return (await subscription.receive(wait_s=EVERYTHING_S)).body

        async def settle() -> bytes:
            await message.ack()
            await send_all(place(db_url, "orders"), b"2")
            return b""

        assert await at_once(receive, settle) == [b"2", b""]


async def test_a_partition_that_goes_to_another_reader_takes_its_messages_along(db_url: str) -> None:
    """Two partitions, one reader that has both in hand; a second one comes, and gets one of them when what is in hand
    of it is acknowledged. Nothing is lost."""
    await set_up(db_url, partitions=2)
    async with trunkline.aio.connect(db_url) as tl:
        for partition in (0, 1):
            await tl.publish_many("orders", [b"%d" % partition] * 10, partition=partition)
    url = place(db_url, "orders", group="billing")
    done: list[str] = []
    async with trunkline.aio.open_subscription(url, prefetch_max=20) as first:
        held = await receive_all(first, 20)
        async with trunkline.aio.open_subscription(url) as second:
            while True:
                # The group is seen to while somebody receives.
                with pytest.raises(errors.DeadlineExceeded):
                    await first.receive(wait_s=0)
                if first.as_(AsyncConsumer).leaving:
                    break
            for message in held:
                await message.ack()
                done.append(message.id)
            await send_all(place(db_url, "orders"), *[b"more"] * 5, key="a")
            await send_all(place(db_url, "orders"), *[b"more"] * 5, key="b")
            while len(done) < 30:
                for subscription in (first, second):
                    try:
                        message = await subscription.receive(wait_s=0)
                    except errors.DeadlineExceeded:
                        continue
                    await message.ack()
                    done.append(message.id)
            assert len(first.as_(AsyncConsumer).assignment) == len(second.as_(AsyncConsumer).assignment) == 1
    assert len(set(done)) == 30


async def test_who_lost_its_partition_cannot_acknowledge(db_url: str) -> None:
    await set_up(db_url)
    await send_all(place(db_url, "orders"), b"1", b"2")
    async with (
        trunkline.aio.open_subscription(place(db_url, "orders", group="billing")) as subscription,
        trunkline.aio.connect(db_url) as tl,
    ):
        first, second = await receive_all(subscription, 2)
        await tl.seek_group("billing", "orders", "start", execute=True)
        with pytest.raises(errors.ClaimLost):
            await first.ack()
        with pytest.raises(errors.ClaimLost):
            await second.ack()
        assert [each.body for each in await receive_all(subscription, 2)] == [b"1", b"2"]


async def test_a_group_has_no_deadline(db_url: str) -> None:
    await set_up(db_url)
    url = place(db_url, "orders", group="billing")
    with pytest.raises(errors.AckNotSupported) as refused:
        await trunkline.aio.open_subscription(url, ack_deadline_s=5)
    assert refused.value.capability == "ack_deadline"
    async with trunkline.aio.open_subscription(url) as subscription:
        assert (subscription.capabilities.attempts, subscription.capabilities.seek) == (False, True)


# -- a server that is away --


@pytest.mark.parametrize("kind", [{"queue": "emails"}, {"group": "billing"}], ids=["queue", "group"])
@pytest.mark.direct("the proxy stands before the server")
async def test_S2_25_a_server_that_comes_back_is_gone_on_with(
    direct_url: str, proxied: tuple[Proxy, str], kind: dict[str, str]
) -> None:
    """Every connection is cut in the middle of a call, again and again: sends and acknowledgements are done once."""
    proxy, url = proxied
    await set_up(direct_url, ack_deadline_s=60)
    async with (
        trunkline.aio.open_topic(place(url, "orders")) as topic,
        trunkline.aio.open_subscription(place(url, "orders", **kind)) as subscription,
    ):
        for fault in (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.REPLY_TORN):
            proxy.arm(fault)
            await topic.send(fault.name.encode())
            message = await subscription.receive(wait_s=EVERYTHING_S)
            assert message.body == fault.name.encode()
            proxy.arm(fault)
            await message.ack()
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
    assert len(proxy.hits) >= 6


@pytest.mark.direct("the proxy stands before the server")
async def test_what_a_group_does_not_know_of_one_partition_loses_nothing_of_the_others(
    direct_url: str, proxied: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a commit of two partitions is lost, and before it is sent again one of them is another's."""
    proxy, url = proxied
    as_if_direct(proxy, monkeypatch)
    await set_up(direct_url, partitions=2)
    async with trunkline.aio.connect(direct_url) as tl:
        for partition in (0, 1):
            await tl.publish_many("orders", [b"%d-%d" % (partition, each) for each in range(3)], partition=partition)
    seek = "select trunkline.group_seek('billing', 'orders', 0, 'start', execute => true)"
    async with trunkline.aio.open_subscription(place(url, "orders", group="billing")) as subscription:
        with psycopg.connect(direct_url, autocommit=True) as admin:
            messages = await receive_all(subscription, 6)
            proxy.after_answer = lambda: admin.execute(seek)
            proxy.arm(Fault.REPLY_LOST, naming=b"commit_cursors")
            for message in messages:
                message.ack_soon()
            again: list[bytes] = []
            while len(again) < 3:
                with suppress(errors.OutcomeUnknown, errors.ClaimLost):
                    message = await subscription.receive(wait_s=EVERYTHING_S)
                    again.append(message.body)
                    await message.ack()
        assert again == [b"0-0", b"0-1", b"0-2"]
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
    assert proxy.hits == [Fault.REPLY_LOST]
    async with trunkline.aio.connect(direct_url) as tl:
        assert (await tl.describe_group("billing")).lag == 0


@pytest.mark.parametrize("kind", [{"queue": "emails"}, {"group": "billing"}], ids=["queue", "group"])
@pytest.mark.direct("the proxy stands before the server")
async def test_a_server_that_swallows_everything_ends_each_call_by_its_deadline(
    direct_url: str, proxied: tuple[Proxy, str], kind: dict[str, str]
) -> None:
    """A test only guards against hanging: each call comes back, with an error that says no more than is known. Which
    one it is depends on whose clock is first, the driver's or the library's."""
    proxy, url = proxied
    await set_up(direct_url, ack_deadline_s=60)
    await send_all(place(direct_url, "orders"), b"1")
    topic = await trunkline.aio.open_topic(place(url, "orders", deadline_s="2s", close_timeout_s="1s"))
    subscription = await trunkline.aio.open_subscription(
        place(url, "orders", **kind, deadline_s="2s", close_timeout_s="1s")
    )
    message = await subscription.receive(wait_s=EVERYTHING_S)
    proxy.darken()
    away = errors.OutcomeUnknown, errors.DeadlineExceeded, errors.Unavailable
    with pytest.raises(away):
        await topic.send(b"2")
    with pytest.raises(away):
        await message.ack()
    with pytest.raises(away):
        await subscription.receive(wait_s=1)
    with pytest.raises(away):
        await trunkline.aio.open_topic(place(url, "orders", deadline_s="1s"))
    await topic.close()
    await subscription.close()
