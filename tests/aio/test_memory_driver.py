"""The memory broker: what it promises beyond every driver, and its clock that only a test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import trunkline.aio
from trunkline import Message, errors
from trunkline.drivers.memory import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as made:
        made.create_topic("orders")
        made.create_topic("orders.dead")
        yield made


EMAILS = "memory://orders?subscription=emails"


async def test_a_deadline_passes_when_the_clock_is_moved_and_not_before(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ack_deadline_s=30)
    async with trunkline.aio.open_topic("memory://orders") as topic:
        await topic.send(b"one")
    async with trunkline.aio.open_subscription(EMAILS) as subscription:
        first = await subscription.receive()
        broker.advance(29)
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
        broker.advance(1)
        again = await subscription.receive()
        assert (first.attempt, again.attempt, again.body, again.id) == (1, 2, b"one", first.id)
        with pytest.raises(errors.ClaimLost):
            await first.ack()
        await again.ack()
    assert (broker.waiting("orders", "emails"), broker.held("orders", "emails")) == (0, 0)


async def test_a_reader_may_choose_its_own_deadline(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ack_deadline_s=30)
    async with trunkline.aio.open_topic("memory://orders") as topic:
        await topic.send(b"one")
    async with trunkline.aio.open_subscription(f"{EMAILS}&ack_deadline_s=90") as subscription:
        message = await subscription.receive()
        broker.advance(89)
        await message.ack()


async def test_a_delay_is_kept_until_the_clock_says_so(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails")
    async with trunkline.aio.open_topic("memory://orders") as topic:
        await topic.send(b"one")
    async with trunkline.aio.open_subscription(EMAILS) as subscription:
        await (await subscription.receive()).nack(delay_s=5)
        broker.advance(4.9)
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
        broker.advance(0.1)
        assert (await subscription.receive()).attempt == 2


@pytest.mark.parametrize("how", ["nack", "deadline"])
async def test_what_fails_too_often_goes_to_the_dead_letters(broker: MemoryBroker, how: str) -> None:
    broker.create_subscription("orders", "emails", max_attempts=2, dead_letter="orders.dead")
    broker.create_subscription("orders.dead", "all")
    async with trunkline.aio.open_topic("memory://orders") as topic:
        await topic.send(Message(b"bad", key="k", attributes={"own": "1"}))
    async with trunkline.aio.open_subscription(EMAILS) as subscription:
        for _ in range(2):
            message = await subscription.receive()
            if how == "nack":
                await message.nack()
            else:
                broker.advance(31)
    async with trunkline.aio.open_subscription("memory://orders.dead?subscription=all") as letters:
        letter = await letters.receive()
        assert (letter.body, letter.key, letter.attributes["own"]) == (b"bad", b"k", "1")
        assert letter.attributes["trunkline-dl-topic"] == "orders"
        assert letter.attributes["trunkline-dl-attempts"] == "2"
        await letter.ack()
    assert broker.waiting("orders", "emails") == 0


async def test_in_order_one_message_of_a_key_is_out_at_a_time(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ordered=True)
    async with trunkline.aio.open_topic("memory://orders") as topic:
        for body in (b"a1", b"a2", b"b1", b"a3"):
            await topic.send(Message(body, key=body[:1]))
    async with trunkline.aio.open_subscription(EMAILS, prefetch_max=0) as subscription:
        assert subscription.capabilities.ordering == "key"
        first, other = await subscription.receive(), await subscription.receive()
        assert (first.body, other.body) == (b"a1", b"b1")
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
        await first.nack(delay_s=5)
        with pytest.raises(errors.DeadlineExceeded):
            await subscription.receive(wait_s=0)
        broker.advance(5)
        for body in (b"a1", b"a2", b"a3"):
            message = await subscription.receive()
            assert message.body == body
            await message.ack()


async def test_a_subscription_gets_what_is_sent_after_it_was_created(broker: MemoryBroker) -> None:
    async with trunkline.aio.open_topic("memory://orders") as topic:
        await topic.send(b"early")
        broker.create_subscription("orders", "emails")
        await topic.send(b"late")
    async with trunkline.aio.open_subscription(EMAILS) as subscription:
        assert (await subscription.receive()).body == b"late"


async def test_brokers_are_apart_by_name(broker: MemoryBroker) -> None:
    with MemoryBroker("other") as other:
        other.create_topic("orders")
        other.create_subscription("orders", "emails")
        broker.create_subscription("orders", "emails")
        async with trunkline.aio.open_topic(other.topic_url("orders")) as topic:
            await topic.send(b"one")
        assert (broker.waiting("orders", "emails"), other.waiting("orders", "emails")) == (0, 1)
        assert other.subscription_url("orders", "emails") == f"{EMAILS}&broker=other"


async def test_a_topic_that_is_deleted_is_not_found(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails")
    async with (
        trunkline.aio.open_topic("memory://orders") as topic,
        trunkline.aio.open_subscription(EMAILS) as subscription,
    ):
        broker.delete_topic("orders")
        with pytest.raises(errors.NotFound):
            await topic.send(b"one")
        with pytest.raises(errors.NotFound):
            await subscription.receive()


async def test_names_and_settings_that_cannot_be_are_refused(broker: MemoryBroker) -> None:
    with pytest.raises(errors.AlreadyExists):
        MemoryBroker()
    with pytest.raises(errors.AlreadyExists):
        broker.create_topic("orders")
    with pytest.raises(errors.InvalidArgument):
        broker.create_topic("..")
    with pytest.raises(errors.NotFound):
        broker.create_subscription("no-such", "emails")
    with pytest.raises(errors.InvalidArgument):
        broker.create_subscription("orders", "emails", max_attempts=3)
    with pytest.raises(errors.InvalidArgument):
        broker.create_subscription("orders", "emails", ack_deadline_s=0)
    with pytest.raises(errors.NotFound):
        await trunkline.aio.open_topic("memory://orders?broker=none")
    for url in ("memory://orders:5", "memory://user@orders", "memory://orders?subscription="):
        with pytest.raises(errors.InvalidArgument):
            await trunkline.aio.open_subscription(url)


async def test_a_closed_broker_is_a_failed_precondition() -> None:
    with MemoryBroker("gone") as gone:
        gone.create_topic("orders")
        topic = await trunkline.aio.open_topic(gone.topic_url("orders"))
    with pytest.raises(errors.FailedPrecondition):
        await topic.send(b"one")
    await topic.close()
