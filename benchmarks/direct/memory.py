"""A memory broker without the library: its driver's batches, filled by hand.

The driver takes batches, and an application has single messages, in as many tasks as it likes. So whoever uses it
directly writes what is here: what comes while a call is under way goes with the next one, each gets its own answer or
error, no call takes for ever, and whoever was cancelled is passed over. Nothing is tried again, nothing is checked, and
nothing knows how to close; messages are asked for in batches of one size, whoever may wait for them elsewhere.

``Bare`` is less than that: one task, one message a call, and no deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from trunkline.drivers.memory.aio.driver import AsyncMemorySubscription, AsyncMemoryTopic
from trunkline.portable.driver import Incoming, Outgoing

BATCH_MAX = 1_000
PREFETCH = 100
DEADLINE_S = 30.0
WAIT_S = 5.0

Call = Callable[[list[Any]], Awaitable[Sequence[Any] | None]]


class Gathered:
    """Calls with one item each, of which those at the same time go together."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._busy = False
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def one(self, item: Any) -> Any:
        if self._busy:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            return await future
        self._busy = True
        try:
            async with asyncio.timeout(DEADLINE_S):
                answers = await self._call([item])
        finally:
            if self._waiting:
                self._task = asyncio.create_task(self._rest())
            else:
                self._busy = False
        answer = answers[0] if answers is not None else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _rest(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
            answers: Sequence[Any] | None
            try:
                async with asyncio.timeout(DEADLINE_S):
                    answers = await self._call([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - each of those who wait gets it
                answers = [error] * len(batch)
            if answers is None:
                answers = [None] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._busy = False


class Sender:
    """One publisher, for many tasks."""

    def __init__(self, driver: AsyncMemoryTopic) -> None:
        self._sends = Gathered(driver.send_batch)

    async def send(self, body: bytes) -> str:
        found: str = await self._sends.one(Outgoing(body, None, {}))
        return found


class Receiver:
    """One subscriber, for many tasks."""

    def __init__(self, driver: AsyncMemorySubscription) -> None:
        self._driver = driver
        self._acks = Gathered(driver.ack)
        self._here: deque[Incoming] = deque()
        self._asks = asyncio.Lock()

    async def receive(self) -> Incoming:
        while not self._here:
            async with self._asks:
                if not self._here:
                    self._here.extend(await self._driver.receive_batch(PREFETCH, WAIT_S))
        return self._here.popleft()

    async def ack(self, message: Incoming) -> None:
        await self._acks.one(message.ack_id)


class BareSender:
    """One publisher with one task, which needs to gather nothing."""

    def __init__(self, driver: AsyncMemoryTopic) -> None:
        self._driver = driver

    async def send(self, body: bytes) -> str:
        (found,) = await self._driver.send_batch([Outgoing(body, None, {})])
        if isinstance(found, Exception):
            raise found
        return found


class BareReceiver(Receiver):
    """One subscriber with one task."""

    async def ack(self, message: Incoming) -> None:
        failed = await self._driver.ack([message.ack_id])
        if failed is not None and failed[0] is not None:
            raise failed[0]
