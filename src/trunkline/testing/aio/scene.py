"""A topic and subscriptions of the driver under test, opened and closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

import trunkline.aio
from trunkline.errors import DeadlineExceeded
from trunkline.portable.aio.received import AsyncReceivedMessage
from trunkline.portable.aio.subscription import AsyncSubscription
from trunkline.portable.aio.topic import AsyncTopic
from trunkline.portable.plan import plan_topic
from trunkline.testing.aio.shim import at_once
from trunkline.testing.harness import Harness


class Scene:
    """One topic, its subscriptions, and what tests do with them."""

    def __init__(self, harness: Harness, topic: AsyncTopic, urls: list[str], stack: AsyncExitStack) -> None:
        self.harness = harness
        self.topic = topic
        self.urls = urls
        self._stack = stack

    async def subscribe(self, number: int = 0, **options: Any) -> AsyncSubscription:
        """Open a subscription, one more time if it is open already; closed at the end at the latest."""
        opened = await trunkline.aio.open_subscription(self.urls[number], **options)
        return await self._stack.enter_async_context(opened)

    async def send_many(self, count: int, first: int = 0) -> None:
        """Send so many numbers, ten senders at a time, so that they share batches; in no order."""

        async def send(start: int) -> None:
            for number in range(first + start, first + count, 10):
                await self.topic.send(b"%d" % number)

        await at_once(self.harness.patience_s, *(partial(send, start) for start in range(10)))

    async def receive(self, subscription: AsyncSubscription) -> AsyncReceivedMessage:
        """A message that must come."""
        return await subscription.receive(wait_s=self.harness.patience_s)

    async def drain(self, subscription: AsyncSubscription, count: int) -> list[AsyncReceivedMessage]:
        """So many messages, each acknowledged, and none more."""
        found = []
        for _ in range(count):
            found.append(await self.receive(subscription))
            await found[-1].ack()
        await self.stays_empty(subscription)
        return found

    async def stays_empty(self, subscription: AsyncSubscription) -> None:
        """Nothing comes."""
        try:
            message = await subscription.receive(wait_s=self.harness.quiet_s)
        except DeadlineExceeded:
            return
        pytest.fail(f"nothing should come, and there is {message!r}")

    async def pass_deadline(self, times: float = 1.0) -> None:
        """Let the ack deadline pass, and a little more."""
        self.harness.pass_time(self.harness.ack_deadline_s * times * 1.01)


@asynccontextmanager
async def scene(harness: Harness, *, subscriptions: int = 1, ordered: bool = False) -> AsyncIterator[Scene]:
    """A new topic with so many new subscriptions, opened for sending."""
    topic_url = harness.create_topic()
    if ordered and plan_topic(topic_url, {}, ()).driver.capabilities.lacks("ordering"):
        pytest.skip("the driver has no ordering")
    urls = [harness.create_subscription(topic_url, ordered=ordered) for _ in range(subscriptions)]
    async with AsyncExitStack() as stack:
        topic = await stack.enter_async_context(trunkline.aio.open_topic(topic_url))
        yield Scene(harness, topic, urls, stack)


def needs(subscription: AsyncSubscription, *capabilities: str) -> None:
    """Leave the test where the driver does not claim what it is about."""
    for name in capabilities:
        if subscription.capabilities.lacks(name):
            pytest.skip(f"the driver has no {name}")
