# Generated from src/trunkline/testing/aio/scene.py by tools/twins.py (make fix). Change the source, not this file.
"""A topic and subscriptions of the driver under test, opened and closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

import trunkline
from trunkline.errors import DeadlineExceeded
from trunkline.portable.plan import plan_topic
from trunkline.portable.sync.received import ReceivedMessage
from trunkline.portable.sync.subscription import Subscription
from trunkline.portable.sync.topic import Topic
from trunkline.testing.harness import Harness
from trunkline.testing.sync.shim import at_once


class Scene:
    """One topic, its subscriptions, and what tests do with them."""

    def __init__(self, harness: Harness, topic: Topic, urls: list[str], stack: ExitStack) -> None:
        self.harness = harness
        self.topic = topic
        self.urls = urls
        self._stack = stack

    def subscribe(self, number: int = 0, **options: Any) -> Subscription:
        """Open a subscription, one more time if it is open already; closed at the end at the latest."""
        opened = trunkline.open_subscription(self.urls[number], **options)
        return self._stack.enter_context(opened)

    def send_many(self, count: int, first: int = 0) -> None:
        """Send so many numbers, ten senders at a time, so that they share batches; in no order."""

        def send(start: int) -> None:
            for number in range(first + start, first + count, 10):
                self.topic.send(b"%d" % number)

        at_once(self.harness.patience_s, *(partial(send, start) for start in range(10)))

    def receive(self, subscription: Subscription) -> ReceivedMessage:
        """A message that must come."""
        return subscription.receive(wait_s=self.harness.patience_s)

    def drain(self, subscription: Subscription, count: int) -> list[ReceivedMessage]:
        """So many messages, each acknowledged, and none more."""
        found = []
        for _ in range(count):
            found.append(self.receive(subscription))
            found[-1].ack()
        self.stays_empty(subscription)
        return found

    def stays_empty(self, subscription: Subscription) -> None:
        """Nothing comes."""
        try:
            message = subscription.receive(wait_s=self.harness.quiet_s)
        except DeadlineExceeded:
            return
        pytest.fail(f"nothing should come, and there is {message!r}")

    def pass_deadline(self, times: float = 1.0) -> None:
        """Let the ack deadline pass, and a little more."""
        self.harness.pass_time(self.harness.ack_deadline_s * times * 1.01)


@contextmanager
def scene(harness: Harness, *, subscriptions: int = 1, ordered: bool = False) -> Iterator[Scene]:
    """A new topic with so many new subscriptions, opened for sending."""
    topic_url = harness.create_topic()
    if ordered and plan_topic(topic_url, {}, ()).driver.capabilities.lacks("ordering"):
        pytest.skip("the driver has no ordering")
    urls = [harness.create_subscription(topic_url, ordered=ordered) for _ in range(subscriptions)]
    with ExitStack() as stack:
        topic = stack.enter_context(trunkline.open_topic(topic_url))
        yield Scene(harness, topic, urls, stack)


def needs(subscription: Subscription, *capabilities: str) -> None:
    """Leave the test where the driver does not claim what it is about."""
    for name in capabilities:
        if subscription.capabilities.lacks(name):
            pytest.skip(f"the driver has no {name}")
