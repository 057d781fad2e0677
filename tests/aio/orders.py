"""The topic, queue and group that tests of the Postgres driver use."""

from __future__ import annotations

import trunkline.aio
from trunkline import Message
from trunkline.portable import AsyncReceivedMessage, AsyncSubscription

EVERYTHING_S = 30.0


async def set_up(db_url: str, *, partitions: int = 1, **queue: object) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=partitions)
        if queue.get("dead_letter"):
            await tl.create_topic(str(queue["dead_letter"]))
        async with tl.queue("orders", "emails", **queue):  # type: ignore[arg-type]
            pass
        await tl.create_group("billing", "orders")


async def send_all(url: str, *bodies: bytes, key: str | None = None) -> list[str]:
    async with trunkline.aio.open_topic(url) as topic:
        return [await topic.send(Message(body, key=key)) for body in bodies]


async def receive_all(subscription: AsyncSubscription, count: int) -> list[AsyncReceivedMessage]:
    return [await subscription.receive(wait_s=EVERYTHING_S) for _ in range(count)]
