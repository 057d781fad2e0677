# Generated from tests/aio/orders.py by tools/twins.py (make fix). Change the source, not this file.
"""The topic, queue and group that tests of the Postgres driver use."""

from __future__ import annotations

import trunkline
from trunkline import Message
from trunkline.portable import ReceivedMessage, Subscription

EVERYTHING_S = 30.0


def set_up(db_url: str, *, partitions: int = 1, **queue: object) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=partitions)
        if queue.get("dead_letter"):
            tl.create_topic(str(queue["dead_letter"]))
        with tl.queue("orders", "emails", **queue):  # type: ignore[arg-type]
            pass
        tl.create_group("billing", "orders")


def send_all(url: str, *bodies: bytes, key: str | None = None) -> list[str]:
    with trunkline.open_topic(url) as topic:
        return [topic.send(Message(body, key=key)) for body in bodies]


def receive_all(subscription: Subscription, count: int) -> list[ReceivedMessage]:
    return [subscription.receive(wait_s=EVERYTHING_S) for _ in range(count)]
