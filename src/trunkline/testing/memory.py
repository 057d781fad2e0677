"""The harness of the memory driver, which is also an example of one."""

from __future__ import annotations

from itertools import count
from urllib.parse import parse_qs, urlsplit

from trunkline.drivers.memory.broker import MemoryBroker
from trunkline.testing.harness import Harness


class MemoryHarness(Harness):
    """Topics and subscriptions of one memory broker."""

    quiet_s = 0.0

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self._numbers = count(1)

    def create_topic(self) -> str:
        name = f"topic-{next(self._numbers)}"
        self.broker.create_topic(name)
        return self.broker.topic_url(name)

    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        topic, name = self._topic(topic_url), f"subscription-{next(self._numbers)}"
        self.broker.create_subscription(topic, name, ack_deadline_s=self.ack_deadline_s, ordered=ordered)
        return self.broker.subscription_url(topic, name)

    def missing_topic(self) -> str:
        return self.broker.topic_url("missing")

    def missing_subscription(self, topic_url: str) -> str:
        return self.broker.subscription_url(self._topic(topic_url), "missing")

    def pass_time(self, seconds: float) -> None:
        self.broker.advance(seconds)

    def _topic(self, url: str) -> str:
        parts = urlsplit(url)
        assert parse_qs(parts.query).get("broker", [""]) == [self.broker.name]
        return parts.netloc
