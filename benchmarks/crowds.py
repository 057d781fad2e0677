"""Many readers in one process that wait for records, on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

import psycopg

from benchmarks.baselines.claims import Claims, kept_to_the_index, look_statement
from benchmarks.consumers import Consumers, group_name
from benchmarks.members import GroupSide, Seat
from benchmarks.sides import topic_name
from benchmarks.stamps import moments
from trunkline import aio
from trunkline.client.aio.consumer import AsyncConsumer

SETTLE_S = 300.0
LOOK_S = 0.05
WAIT_S = 600.0

Ways = list[float]
"""How long each record was under way to each reader, in seconds, in the order in which they came."""


class Crowd(Protocol):
    """Groups with a reader for each partition."""

    @property
    def side(self) -> GroupSide: ...

    @property
    def groups(self) -> tuple[str, ...]: ...

    def gathered(self, url: str, log: int) -> AbstractAsyncContextManager[Ways]:
        """All of them wait in this block; it gives the list to which they add what they receive."""


def names(count: int) -> tuple[str, ...]:
    return tuple(f"crowd-{number}" for number in range(count))


@dataclass(frozen=True)
class ConsumerCrowd:
    """Trunkline's consumers, all of them on one client with its default settings."""

    groups: tuple[str, ...]
    partitions: int

    @property
    def side(self) -> GroupSide:
        return Consumers()

    @asynccontextmanager
    async def gathered(self, url: str, log: int) -> AsyncIterator[Ways]:
        ways: Ways = []
        async with await aio.connect(url) as client:
            consumers = [
                client.consumer(topic_name(log), group=group_name(log, group))
                for group in self.groups
                for _ in range(self.partitions)
            ]
            async with _running(_receive(consumer, ways) for consumer in consumers):
                await _settled(consumers)
                yield ways
            await asyncio.gather(*(consumer.close() for consumer in consumers))


async def _receive(consumer: AsyncConsumer, ways: Ways) -> None:
    while True:
        found = await consumer.poll(wait_s=WAIT_S)
        now = monotonic()
        ways += [now - published for record in found for published, _ in moments([record.payload])]
        if found:
            await consumer.commit()


async def _settled(consumers: list[AsyncConsumer]) -> None:
    deadline = monotonic() + SETTLE_S
    while not all(len(consumer.assignment) == 1 for consumer in consumers):
        await asyncio.sleep(LOOK_S)
        if monotonic() > deadline:
            raise TimeoutError(f"not every consumer has its partition after {SETTLE_S:g} s")


@dataclass(frozen=True)
class PollingCrowd:
    """The baseline's readers, which look whether there is something every ``poll_s``, on so many connections."""

    groups: tuple[str, ...]
    partitions: int
    connections: int
    poll_s: float

    @property
    def side(self) -> GroupSide:
        return Claims()

    @asynccontextmanager
    async def gathered(self, url: str, log: int) -> AsyncIterator[Ways]:
        seats = [Seat(group, partition, 1, 200) for group in self.groups for partition in range(self.partitions)]
        async with AsyncExitStack() as stack:
            cursors = []
            for _ in range(self.connections):
                connection = await psycopg.AsyncConnection.connect(kept_to_the_index(url), autocommit=True)
                await stack.enter_async_context(connection)
                cursors.append(connection.cursor(binary=True))
            looks = (
                self._look(cursors[number % len(cursors)], log, seat, self.poll_s * number / len(seats))
                for number, seat in enumerate(seats)
            )
            async with _running(looks):
                await asyncio.sleep(2 * self.poll_s)
                yield []

    async def _look(self, cursor: psycopg.AsyncCursor[Any], log: int, seat: Seat, phase_s: float) -> None:
        statement = look_statement(log, seat)
        await asyncio.sleep(phase_s)
        while True:
            await cursor.execute(statement, prepare=True)
            await asyncio.sleep(self.poll_s)


@asynccontextmanager
async def _running(works: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """All of them run while the block does; one that fails ends it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()
