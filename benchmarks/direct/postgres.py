"""Trunkline's own client without the portable API: ``publish``, and a queue's ``receive`` and ``ack``.

The client gathers by itself what its tasks publish and acknowledge at the same time, and claims ahead. One client
serves all publishers and subscribers of a process, as it does behind URLs of one server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from trunkline import aio

WAIT_S = 5.0


class Publisher:
    """One publisher, for many tasks."""

    def __init__(self, client: aio.AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    async def send(self, body: bytes) -> object:
        return await self._client.publish(self._topic, body)


@asynccontextmanager
async def publishers(url: str, topic: str, count: int) -> AsyncIterator[list[Publisher]]:
    async with await aio.connect(url) as client:
        yield [Publisher(client, topic) for _ in range(count)]


@asynccontextmanager
async def queues(url: str, topic: str, name: str, count: int) -> AsyncIterator[list[aio.AsyncQueue]]:
    """So many readers of one queue that exists."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await aio.connect(url))
        yield [await stack.enter_async_context(client.queue(topic, name, create=False)) for _ in range(count)]


async def handled(queue: aio.AsyncQueue) -> bytes:
    """Receive one record, acknowledge it, and give its payload."""
    while not (found := await queue.receive(1, wait_s=WAIT_S)):
        pass
    await found[0].ack()
    return found[0].payload
