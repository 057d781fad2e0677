# Generated from tests/aio/test_memory_driver.py by tools/twins.py (make fix). Change the source, not this file.
"""The memory broker: what it promises beyond every driver, and its clock that only a test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import trunkline
from trunkline import Message, errors
from trunkline.drivers.memory import MemoryBroker


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as made:
        made.create_topic("orders")
        made.create_topic("orders.dead")
        yield made


EMAILS = "memory://orders?subscription=emails"


def test_a_deadline_passes_when_the_clock_is_moved_and_not_before(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ack_deadline_s=30)
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(b"one")
    with trunkline.open_subscription(EMAILS) as subscription:
        first = subscription.receive()
        broker.advance(29)
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
        broker.advance(1)
        again = subscription.receive()
        assert (first.attempt, again.attempt, again.body, again.id) == (1, 2, b"one", first.id)
        with pytest.raises(errors.ClaimLost):
            first.ack()
        again.ack()
    assert (broker.waiting("orders", "emails"), broker.held("orders", "emails")) == (0, 0)


def test_a_reader_may_choose_its_own_deadline(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ack_deadline_s=30)
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(b"one")
    with trunkline.open_subscription(f"{EMAILS}&ack_deadline_s=90") as subscription:
        message = subscription.receive()
        broker.advance(89)
        message.ack()


def test_a_delay_is_kept_until_the_clock_says_so(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails")
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(b"one")
    with trunkline.open_subscription(EMAILS) as subscription:
        subscription.receive().nack(delay_s=5)
        broker.advance(4.9)
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
        broker.advance(0.1)
        assert subscription.receive().attempt == 2


@pytest.mark.parametrize("how", ["nack", "deadline"])
def test_what_fails_too_often_goes_to_the_dead_letters(broker: MemoryBroker, how: str) -> None:
    broker.create_subscription("orders", "emails", max_attempts=2, dead_letter="orders.dead")
    broker.create_subscription("orders.dead", "all")
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(Message(b"bad", key="k", attributes={"own": "1"}))
    with trunkline.open_subscription(EMAILS) as subscription:
        for _ in range(2):
            message = subscription.receive()
            if how == "nack":
                message.nack()
            else:
                broker.advance(31)
    with trunkline.open_subscription("memory://orders.dead?subscription=all") as letters:
        letter = letters.receive()
        assert (letter.body, letter.key, letter.attributes["own"]) == (b"bad", b"k", "1")
        assert letter.attributes["trunkline-dl-topic"] == "orders"
        assert letter.attributes["trunkline-dl-attempts"] == "2"
        letter.ack()
    assert broker.waiting("orders", "emails") == 0


def test_in_order_one_message_of_a_key_is_out_at_a_time(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails", ordered=True)
    with trunkline.open_topic("memory://orders") as topic:
        for body in (b"a1", b"a2", b"b1", b"a3"):
            topic.send(Message(body, key=body[:1]))
    with trunkline.open_subscription(EMAILS, prefetch_max=0) as subscription:
        assert subscription.capabilities.ordering == "key"
        first, other = subscription.receive(), subscription.receive()
        assert (first.body, other.body) == (b"a1", b"b1")
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
        first.nack(delay_s=5)
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
        broker.advance(5)
        for body in (b"a1", b"a2", b"a3"):
            message = subscription.receive()
            assert message.body == body
            message.ack()


def test_a_subscription_gets_what_is_sent_after_it_was_created(broker: MemoryBroker) -> None:
    with trunkline.open_topic("memory://orders") as topic:
        topic.send(b"early")
        broker.create_subscription("orders", "emails")
        topic.send(b"late")
    with trunkline.open_subscription(EMAILS) as subscription:
        assert subscription.receive().body == b"late"


def test_brokers_are_apart_by_name(broker: MemoryBroker) -> None:
    with MemoryBroker("other") as other:
        other.create_topic("orders")
        other.create_subscription("orders", "emails")
        broker.create_subscription("orders", "emails")
        with trunkline.open_topic(other.topic_url("orders")) as topic:
            topic.send(b"one")
        assert (broker.waiting("orders", "emails"), other.waiting("orders", "emails")) == (0, 1)
        assert other.subscription_url("orders", "emails") == f"{EMAILS}&broker=other"


def test_a_topic_that_is_deleted_is_not_found(broker: MemoryBroker) -> None:
    broker.create_subscription("orders", "emails")
    with (
        trunkline.open_topic("memory://orders") as topic,
        trunkline.open_subscription(EMAILS) as subscription,
    ):
        broker.delete_topic("orders")
        with pytest.raises(errors.NotFound):
            topic.send(b"one")
        with pytest.raises(errors.NotFound):
            subscription.receive()


def test_names_and_settings_that_cannot_be_are_refused(broker: MemoryBroker) -> None:
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
        trunkline.open_topic("memory://orders?broker=none")
    for url in ("memory://orders:5", "memory://user@orders", "memory://orders?subscription="):
        with pytest.raises(errors.InvalidArgument):
            trunkline.open_subscription(url)


def test_a_closed_broker_is_a_failed_precondition() -> None:
    with MemoryBroker("gone") as gone:
        gone.create_topic("orders")
        topic = trunkline.open_topic(gone.topic_url("orders"))
    with pytest.raises(errors.FailedPrecondition):
        topic.send(b"one")
    topic.close()
