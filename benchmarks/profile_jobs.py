"""Subscribers whose messages come, and are handled, in different ways; beside them the same tasks on one queue.

That queue is what nobody can share better: whoever is free takes the next message, and nothing is taken ahead. So a
subscription that starves, or keeps messages from others that are free, takes longer than it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from zlib import crc32

from benchmarks.payloads import Tally, made
from benchmarks.port_jobs import PAYLOADS, bodies
from benchmarks.ports import SUBSCRIPTION, TOPIC, PortableMemory
from trunkline import aio
from trunkline.drivers.memory.broker import MemoryBroker, find_broker
from trunkline.portable import AsyncSubscription

SUBSCRIBERS = 4
TASKS = 10
SAMPLE_S = 0.005
END_S = 120.0


@dataclass(frozen=True)
class Profile:
    """``bursts`` times ``burst`` messages come, ``pause_s`` apart. Each takes ``handle_s`` of its task's time, one of
    ``slow_s`` with the first subscriber."""

    name: str
    bursts: int
    burst: int
    pause_s: float
    handle_s: float
    slow_s: float

    @property
    def messages(self) -> int:
        return self.bursts * self.burst

    def scaled(self, part: float) -> Profile:
        return Profile(
            self.name, max(2, round(self.bursts * part)), self.burst, self.pause_s, self.handle_s, self.slow_s
        )


@dataclass(frozen=True)
class Profiled:
    """Messages a second from the first to the last; and how much lay in memory ahead of receivers at the most, in
    seconds of the work of all of them."""

    rate: float
    ahead_s: float
    tally: Tally


@dataclass(frozen=True)
class ProfileJob:
    """One run. ``shared``: on one queue in memory instead."""

    profile: Profile
    shared: bool

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Profiled]]:
        made(PAYLOADS)
        with PortableMemory().there("", 0):
            yield lambda: asyncio.run(self._run())

    async def _run(self) -> Profiled:
        async with AsyncExitStack() as stack:
            crowd = Shared(self.profile) if self.shared else await Subscribed.opened(self.profile, stack)
            began = perf_counter()
            async with asyncio.timeout(END_S), asyncio.TaskGroup() as group:
                workers = [group.create_task(crowd.work(number)) for number in range(SUBSCRIBERS) for _ in range(TASKS)]
                looking = group.create_task(crowd.look())
                await crowd.feed()
                await crowd.done.wait()
                lasted = perf_counter() - began
                for task in (looking, *workers):
                    task.cancel()
        rate = crowd.tally.records / lasted
        return Profiled(rate, crowd.most / rate, crowd.tally)


class Crowd:
    """Tasks of some subscribers, and what they have handled. ``most`` is how many messages were taken and not handed
    out, at the most."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._in_hand = 0
        self.done = asyncio.Event()
        self.tally = Tally()
        self.most = 0

    async def feed(self) -> None:
        for _ in range(self._profile.bursts):
            self._send(bodies(self._profile.burst))
            await asyncio.sleep(self._profile.pause_s)

    async def work(self, subscriber: int) -> None:
        handle_s = self._profile.slow_s if subscriber == 0 else self._profile.handle_s
        while True:
            body, ack = await self._receive(subscriber)
            self._in_hand += 1
            await asyncio.sleep(handle_s)
            await ack()
            self._in_hand -= 1
            self.tally += Tally(1, len(body), crc32(body))
            if self.tally.records == self._profile.messages:
                self.done.set()

    async def look(self) -> None:
        while True:
            self.most = max(self.most, self._held() - self._in_hand)
            await asyncio.sleep(SAMPLE_S)

    def _held(self) -> int:
        raise NotImplementedError

    def _send(self, given: Sequence[bytes]) -> None:
        raise NotImplementedError

    async def _receive(self, subscriber: int) -> tuple[bytes, Callable[[], Awaitable[None]]]:
        raise NotImplementedError


class Subscribed(Crowd):
    """Of one subscription, by the portable API."""

    def __init__(self, profile: Profile, broker: MemoryBroker, subscriptions: list[AsyncSubscription]) -> None:
        super().__init__(profile)
        self._broker = broker
        self._subscriptions = subscriptions

    @classmethod
    async def opened(cls, profile: Profile, stack: AsyncExitStack) -> Subscribed:
        broker = find_broker("")
        url = broker.subscription_url(TOPIC, SUBSCRIPTION)
        opened = [await stack.enter_async_context(aio.open_subscription(url)) for _ in range(SUBSCRIBERS)]
        return cls(profile, broker, opened)

    def _held(self) -> int:
        return self._broker.held(TOPIC, SUBSCRIPTION)

    def _send(self, given: Sequence[bytes]) -> None:
        PortableMemory().fill("", 0, given)

    async def _receive(self, subscriber: int) -> tuple[bytes, Callable[[], Awaitable[None]]]:
        message = await self._subscriptions[subscriber].receive()
        return message.body, message.ack


class Shared(Crowd):
    """On one queue, which all of them share."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()

    def _held(self) -> int:
        return self._in_hand

    def _send(self, given: Sequence[bytes]) -> None:
        for body in given:
            self._queue.put_nowait(body)

    async def _receive(self, subscriber: int) -> tuple[bytes, Callable[[], Awaitable[None]]]:  # noqa: ARG002
        return await self._queue.get(), _nothing


async def _nothing() -> None:
    return None
