# Generated from src/trunkline/testing/aio/contract.py by tools/twins.py (make fix). Change the source, not this file.
"""The driver by itself, without the library between: what the contract promises, and the library relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, TypeAlias

import pytest

from trunkline import errors
from trunkline.portable.driver import Incoming, Outgoing
from trunkline.portable.plan import plan_subscription, plan_topic
from trunkline.portable.sync.driver import DriverOpener, SubscriptionDriver, TopicDriver
from trunkline.settings import SendSettings
from trunkline.testing.harness import Harness
from trunkline.testing.sync.shim import Running, runs_by_itself

WHOLE = SendSettings().batch_messages_max
"""As many messages as the library gives a driver in one call, unless it is told otherwise."""

Settle: TypeAlias = Callable[[Sequence[Any]], Sequence[errors.TrunklineError | None] | None]

WAIT_S = 0.5
"""How long a driver is told to wait, to see that it does."""


@contextmanager
def drivers(harness: Harness, *, ordered: bool = False) -> Iterator[tuple[TopicDriver, SubscriptionDriver]]:
    """A new topic and a subscription of it, as the driver opens them; the test may close the subscription itself."""
    topic_url = harness.create_topic()
    to_send = plan_topic(topic_url, {}, ())
    if ordered and to_send.driver.capabilities.lacks("ordering"):
        pytest.skip("the driver has no ordering")
    to_receive = plan_subscription(harness.create_subscription(topic_url, ordered=ordered), {}, ())
    sending, receiving = to_send.driver.sync, to_receive.driver.sync
    topic = _opener(sending).open_topic(to_send.target)
    subscription = _opener(receiving).open_subscription(to_receive.target)
    try:
        yield topic, subscription
    finally:
        topic.close()


def _opener(opener: DriverOpener | None) -> DriverOpener:
    if opener is None:
        pytest.skip("the driver has no form for this world")
    return opener


@runs_by_itself
class Contract:
    """Every driver, without exception."""

    def test_a_batch_is_sent_whole_and_every_message_has_its_id(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            messages = [Outgoing(b"%d" % number, b"k%d" % (number % 7), {"n": str(number)}) for number in range(WHOLE)]
            ids = topic.send_batch(messages)
            assert all(isinstance(each, str) for each in ids)
            assert len(set(ids)) == len(messages)
            found = _collect(subscription, len(messages), harness)
            assert sorted(each.body for each in found) == sorted(each.body for each in messages)
            assert {each.id for each in found} == set(ids)
            subscription.close()

    def test_a_batch_keeps_its_order_where_that_is_claimed(self, harness: Harness) -> None:
        with drivers(harness, ordered=True) as (topic, subscription):
            _needs(subscription, "acks", "ordering")
            topic.send_batch([Outgoing(b"%d" % number, b"k%d" % (number % 50), {}) for number in range(WHOLE)])
            found: list[int] = []
            while len(found) < WHOLE:
                batch = subscription.receive_batch(WHOLE - len(found), harness.patience_s)
                assert batch, f"{len(found)} of {WHOLE} messages have come"
                found += [int(each.body) for each in batch]
                _done(subscription.ack, batch)
            if subscription.capabilities.ordering == "topic":
                assert found == list(range(WHOLE))
            for key in range(50):
                assert [number for number in found if number % 50 == key] == list(range(key, WHOLE, 50))
            subscription.close()

    def test_no_more_is_received_than_was_asked_for_and_none_is_no_wait(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            assert list(subscription.receive_batch(5, 0.0)) == []
            topic.send_batch([Outgoing(b"%d" % number, None, {}) for number in range(10)])
            for wanted in (1, 3):
                assert 1 <= len(subscription.receive_batch(wanted, harness.patience_s)) <= wanted
            subscription.close()

    def test_a_receive_waits_as_long_as_it_is_told(self, harness: Harness) -> None:
        """The library calls it again and again: a driver that does not wait would keep a processor busy. Counted, and
        not timed: one call fills the time, or two where clocks differ."""
        with drivers(harness) as (_, subscription):
            calls, deadline = 0, monotonic() + WAIT_S
            while monotonic() < deadline:
                assert list(subscription.receive_batch(1, WAIT_S)) == []
                calls += 1
            assert calls <= 2, f"{calls} receives of {WAIT_S:g} s each have ended within {WAIT_S:g} s"
            subscription.close()

    def test_a_receive_that_waits_gets_what_is_sent_meanwhile(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            for body in (b"1", b"2", b"3"):
                waiting = Running(lambda: subscription.receive_batch(10, harness.patience_s))
                waiting.begin()
                topic.send_batch([Outgoing(body, None, {})])
                found = waiting.result(harness.patience_s * 2)
                assert [each.body for each in found] == [body]
                if subscription.capabilities.acks:
                    _done(subscription.ack, found)
            subscription.close()

    def test_an_ack_is_answered_while_a_receive_waits(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            _needs(subscription, "acks")
            topic.send_batch([Outgoing(b"%d" % number, None, {}) for number in range(5)])
            found = _collect(subscription, 5, harness)
            waiting = Running(lambda: subscription.receive_batch(1, harness.patience_s * 10))
            waiting.begin()
            for each in found:
                Running(partial(_done, subscription.ack, [each])).result(harness.patience_s)
            topic.send_batch([Outgoing(b"last", None, {})])
            assert [each.body for each in waiting.result(harness.patience_s)] == [b"last"]
            subscription.close()

    def test_what_is_released_comes_again_and_is_not_counted(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            _needs(subscription, "acks")
            topic.send_batch([Outgoing(b"x", None, {})])
            for _ in range(3):
                (found,) = _collect(subscription, 1, harness)
                assert found.attempt in (None, 1)
                subscription.release([found.ack_id])
            subscription.close()

    def test_a_whole_batch_is_released(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            _needs(subscription, "acks")
            found = _sent_and_collected(topic, subscription, harness)
            subscription.release([each.ack_id for each in found])
            again = _collect(subscription, WHOLE, harness)
            assert {each.body for each in again} == {each.body for each in found}
            assert {each.attempt for each in again} <= {None, 1}
            subscription.close()

    def test_a_whole_batch_is_given_back(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            _needs(subscription, "acks", "nack")
            found = _sent_and_collected(topic, subscription, harness)
            _done(lambda ack_ids: subscription.nack(ack_ids, 0.0), found)
            again = _collect(subscription, WHOLE, harness)
            assert {each.body for each in again} == {each.body for each in found}
            subscription.close()

    def test_a_whole_batch_is_acknowledged(self, harness: Harness) -> None:
        with drivers(harness) as (topic, subscription):
            _needs(subscription, "acks")
            _done(subscription.ack, _sent_and_collected(topic, subscription, harness))
            harness.pass_time(harness.ack_deadline_s * 2)
            assert list(subscription.receive_batch(5, harness.quiet_s)) == []
            subscription.close()

    def test_S2_19_a_receive_that_waits_ends_at_once_when_it_is_cancelled(self, harness: Harness) -> None:
        """The next one goes on as if nothing had been."""
        with drivers(harness) as (topic, subscription):
            topic.send_batch([Outgoing(b"x", None, {})])
            assert [each.body for each in _collect(subscription, 1, harness)] == [b"x"]
            subscription.close()

    def test_S2_20_a_receive_that_waits_ends_at_once_when_it_is_closed(self, harness: Harness) -> None:
        with drivers(harness) as (_, subscription):
            waiting = Running(lambda: _received_or_closed(subscription, harness.patience_s * 3))
            waiting.begin()
            Running(subscription.close).result(harness.patience_s)
            assert waiting.result(harness.patience_s) == []


def _received_or_closed(subscription: SubscriptionDriver, wait_s: float) -> list[Incoming]:
    try:
        return list(subscription.receive_batch(1, wait_s))
    except errors.Closed:
        return []


def _needs(subscription: SubscriptionDriver, *capabilities: str) -> None:
    for name in capabilities:
        if subscription.capabilities.lacks(name):
            pytest.skip(f"the driver has no {name}")


def _sent_and_collected(topic: TopicDriver, subscription: SubscriptionDriver, harness: Harness) -> list[Incoming]:
    """As many messages as the library settles in one call, in hand."""
    topic.send_batch([Outgoing(b"%d" % number, None, {}) for number in range(WHOLE)])
    return _collect(subscription, WHOLE, harness)


def _collect(subscription: SubscriptionDriver, count: int, harness: Harness) -> list[Incoming]:
    """So many messages, in as many batches as it takes."""
    found: list[Incoming] = []
    while len(found) < count:
        batch = subscription.receive_batch(count - len(found), harness.patience_s)
        assert batch, f"{count} messages were sent, and {len(found)} came within {harness.patience_s:g} s"
        found += batch
    return found


def _done(settle: Settle, messages: Sequence[Incoming]) -> None:
    """Settle them in one call, which must say of each that it is done."""
    answers = settle([each.ack_id for each in messages])
    assert answers is None or list(answers) == [None] * len(messages)
