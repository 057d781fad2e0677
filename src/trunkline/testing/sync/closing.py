# Generated from src/trunkline/testing/aio/closing.py by tools/twins.py (make fix). Change the source, not this file.
"""Coming and going: what is closed, cancelled, or does not exist."""

from __future__ import annotations

import pytest

import trunkline
from trunkline import errors
from trunkline.records import Message
from trunkline.testing.harness import Harness
from trunkline.testing.sync.scene import Scene, needs, scene
from trunkline.testing.sync.shim import Running, runs_by_itself


@runs_by_itself
class Closing:
    """Every driver, without exception."""

    def test_S2_07_a_closed_topic_refuses_to_send(self, harness: Harness) -> None:
        with scene(harness) as on:
            on.topic.close()
            on.topic.close()
            with pytest.raises(errors.Closed):
                on.topic.send(b"late")

    def test_S2_08_a_closed_subscription_refuses_to_receive(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.topic.send(b"one")
            message = on.receive(subscription)
            subscription.close()
            subscription.close()
            with pytest.raises(errors.Closed):
                subscription.receive()
            with pytest.raises(errors.Closed):
                message.ack()

    def test_S2_09_what_a_send_has_acknowledged_is_there_whatever_is_cancelled(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            acknowledged = set()
            for number in range(10):
                if _sent_or_cancelled(on, b"%d" % number):
                    acknowledged.add(b"%d" % number)
            on.topic.send(b"last")
            found: set[bytes] = set()
            while not acknowledged | {b"last"} <= found:
                message = on.receive(subscription)
                found.add(message.body)
                message.ack()

    def test_S2_10_a_receive_that_is_given_up_loses_nothing(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            for number in range(3):
                _give_up_receiving(on)
                on.stays_empty(subscription)
                on.topic.send(b"%d" % number)
                message = on.receive(subscription)
                assert message.body == b"%d" % number
                message.ack()

    def test_S2_11_a_topic_that_does_not_exist_is_not_found(self, harness: Harness) -> None:
        """When it is opened, or, where the driver says that it cannot know then, by the first send."""
        url = harness.missing_topic()
        try:
            topic = trunkline.open_topic(url)
        except errors.NotFound:
            return
        with topic:
            assert not topic.capabilities.checks_at_open
            with pytest.raises(errors.NotFound):
                topic.send(b"nowhere")

    def test_S2_12_a_subscription_that_does_not_exist_is_not_found(self, harness: Harness) -> None:
        """When it is opened, or, where the driver says that it cannot know then, by the first receive."""
        url = harness.missing_subscription(harness.create_topic())
        try:
            subscription = trunkline.open_subscription(url)
        except errors.NotFound:
            return
        with subscription:
            assert not subscription.capabilities.checks_at_open
            with pytest.raises(errors.NotFound):
                subscription.receive(wait_s=harness.patience_s)

    def test_S2_20_closing_ends_receivers_that_wait(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            waiting = [Running(subscription.receive) for _ in range(3)]
            for each in waiting:
                each.begin()
            Running(subscription.close).result(harness.patience_s)
            for each in waiting:
                with pytest.raises(errors.Closed):
                    each.result(harness.patience_s)

    def test_S2_20_closing_ends_a_loop(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.send_many(5)
            found = []
            for message in subscription:
                found.append(message.body)
                message.ack()
                if len(found) == 5:
                    subscription.close()
            assert len(set(found)) == 5

    def test_S2_20_what_was_prefetched_goes_to_others_at_once(self, harness: Harness) -> None:
        """Method: the first takes one of many, handles them quickly so that more is prefetched, and goes; nobody lets
        time pass."""
        with scene(harness) as on:
            first = on.subscribe()
            needs(first, "acks")
            on.send_many(100)
            found = []
            for _ in range(30):
                message = on.receive(first)
                found.append(int(message.body))
                message.ack()
            first.close()
            second = on.subscribe()
            for _ in range(70):
                message = on.receive(second)
                assert message.attempt in (None, 1)
                found.append(int(message.body))
                message.ack()
            assert sorted(found) == list(range(100))
            on.stays_empty(second)

    def test_S2_24_errors_have_the_codes_of_their_kinds(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            for bad in (None, "text", 5, Message("text"), Message(b"", attributes={"a": b"b"})):  # type: ignore[arg-type, dict-item]
                with pytest.raises(errors.InvalidArgument):
                    on.topic.send(bad)  # type: ignore[arg-type]
            with pytest.raises(errors.DeadlineExceeded):
                subscription.receive(wait_s=0)
            subscription.close()
            with pytest.raises(errors.FailedPrecondition):
                subscription.receive()
        denied = harness.denied_topic()
        if denied is not None:
            with pytest.raises(errors.PermissionDenied):
                with trunkline.open_topic(denied) as topic:
                    topic.send(b"x")

    def test_S2_23_an_unknown_parameter_is_refused(self, harness: Harness) -> None:
        topic_url = harness.create_topic()
        joint = "&" if "?" in topic_url else "?"
        with pytest.raises(errors.InvalidArgument):
            trunkline.open_topic(f"{topic_url}{joint}no_such_parameter=1")


def _sent_or_cancelled(on: Scene, body: bytes) -> bool:
    """Whether the send was acknowledged; every other one is cancelled, where that can be done."""
    return bool(on.topic.send(body))


def _give_up_receiving(on: Scene) -> None:
    """Come and go without having received anything."""
    subscription = on.subscribe()
    on.stays_empty(subscription)
    subscription.close()
