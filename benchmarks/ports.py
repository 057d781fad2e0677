"""The two sides of the portable API's benchmark, for each broker: a topic or subscription that a URL opened, and the
broker's own client used directly (benchmarks/direct/).

A side gives one function to each publisher and each subscriber, which their tasks call: send one body, or receive one,
acknowledge it, and give its body. Both are the last call before the library's own, so that nothing of the benchmark's
stands between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict

import trunkline
from benchmarks.direct import memory, postgres
from benchmarks.payloads import Tally
from benchmarks.sides import topic_name
from trunkline import aio
from trunkline.drivers.memory import MemoryBroker
from trunkline.drivers.memory.aio.driver import AsyncMemorySubscription, AsyncMemoryTopic
from trunkline.drivers.memory.broker import find_broker
from trunkline.portable import AsyncSubscription
from trunkline.portable.driver import Outgoing

Send = Callable[[bytes], Awaitable[object]]
Handle = Callable[[], Awaitable[bytes]]
"""Receives one message, acknowledges it, and gives its body."""

TOPIC, SUBSCRIPTION = "bench", "readers"
FILL_RECORDS = 100
LEFT_RECORDS = 1_000
LEFT_WAIT_S = 0.2


class Port(Protocol):
    """A broker, by one of its two ways. Topics are told apart by the number of their log."""

    @property
    def name(self) -> str: ...

    def create(self, url: str, log: int, partitions: int) -> None: ...

    def drop(self, url: str, log: int) -> None: ...

    def there(self, url: str, log: int) -> AbstractContextManager[None]:
        """The broker is there, for this process."""

    def fill(self, url: str, log: int, bodies: Sequence[bytes]) -> None:
        """Put messages into the topic."""

    def left(self, url: str, log: int) -> Tally:
        """What was sent and nobody has acknowledged; it may be taken out for that."""

    def senders(self, url: str, log: int, count: int) -> AbstractAsyncContextManager[list[Send]]:
        """So many publishers."""

    def handlers(self, url: str, log: int, count: int) -> AbstractAsyncContextManager[list[Handle]]:
        """So many subscribers, of one subscription."""


class Memory:
    """A broker in the process that measures; it is gone afterwards."""

    def create(self, url: str, log: int, partitions: int) -> None:
        """Nothing: it must be in the other process."""

    def drop(self, url: str, log: int) -> None:
        """Nothing."""

    @contextmanager
    def there(self, url: str, log: int) -> Iterator[None]:  # noqa: ARG002 - one in each process
        with MemoryBroker() as broker:
            broker.create_topic(TOPIC)
            broker.create_subscription(TOPIC, SUBSCRIPTION)
            yield

    def fill(self, url: str, log: int, bodies: Sequence[bytes]) -> None:  # noqa: ARG002
        find_broker("").send(TOPIC, [Outgoing(body, None, {}) for body in bodies])

    def left(self, url: str, log: int) -> Tally:  # noqa: ARG002
        broker = find_broker("")
        holding = broker.find_subscription(TOPIC, SUBSCRIPTION)
        tally = Tally(records=broker.held(TOPIC, SUBSCRIPTION))
        return tally.after([each.body for each in holding.take(broker.waiting(TOPIC, SUBSCRIPTION), 60.0, 0.0, None)])


@dataclass(frozen=True)
class PortableMemory(Memory):
    name: str = "portable, memory"

    @asynccontextmanager
    async def senders(self, url: str, log: int, count: int) -> AsyncIterator[list[Send]]:  # noqa: ARG002
        async with portable_senders([find_broker("").topic_url(TOPIC)] * count) as senders:
            yield senders

    @asynccontextmanager
    async def handlers(self, url: str, log: int, count: int) -> AsyncIterator[list[Handle]]:  # noqa: ARG002
        opened = find_broker("").subscription_url(TOPIC, SUBSCRIPTION)
        async with portable_handlers([opened] * count) as handlers:
            yield handlers


@dataclass(frozen=True)
class DirectMemory(Memory):
    """``bare``: without gathering and without deadlines, which does for one task only."""

    name: str = "direct, memory"
    bare: bool = False

    @asynccontextmanager
    async def senders(self, url: str, log: int, count: int) -> AsyncIterator[list[Send]]:  # noqa: ARG002
        kind = memory.BareSender if self.bare else memory.Sender
        yield [kind(AsyncMemoryTopic(find_broker(""), TOPIC)).send for _ in range(count)]

    @asynccontextmanager
    async def handlers(self, url: str, log: int, count: int) -> AsyncIterator[list[Handle]]:  # noqa: ARG002
        kind = memory.BareReceiver if self.bare else memory.Receiver
        broker = find_broker("")
        holding = broker.find_subscription(TOPIC, SUBSCRIPTION)
        yield [_memory_handle(kind(AsyncMemorySubscription(broker, holding, None))) for _ in range(count)]


def _memory_handle(receiver: memory.Receiver) -> Handle:
    async def handle() -> bytes:
        message = await receiver.receive()
        await receiver.ack(message)
        return message.body

    return handle


class Postgres:
    """A topic in the run's database, with a queue. The broker is there for everybody."""

    def create(self, url: str, log: int, partitions: int) -> None:
        with trunkline.connect(url) as client:
            client.create_topic(topic_name(log), partitions=partitions)
            with client.queue(topic_name(log), SUBSCRIPTION):
                pass

    def drop(self, url: str, log: int) -> None:
        with trunkline.connect(url) as client:
            client.delete_topic(topic_name(log))

    @contextmanager
    def there(self, url: str, log: int) -> Iterator[None]:  # noqa: ARG002 - it is
        yield

    def fill(self, url: str, log: int, bodies: Sequence[bytes]) -> None:
        with trunkline.connect(url) as client:
            for start in range(0, len(bodies), FILL_RECORDS):
                client.publish_many(topic_name(log), list(bodies[start : start + FILL_RECORDS]))

    def left(self, url: str, log: int) -> Tally:
        tally = Tally()
        with (
            trunkline.connect(url) as client,
            client.queue(topic_name(log), SUBSCRIPTION, create=False, prefetch=0) as queue,
        ):
            while found := queue.receive(LEFT_RECORDS, wait_s=LEFT_WAIT_S):
                tally = tally.after([delivery.payload for delivery in found])
                queue.ack(found)
        return tally


@dataclass(frozen=True)
class PortablePostgres(Postgres):
    name: str = "portable, postgres"

    @asynccontextmanager
    async def senders(self, url: str, log: int, count: int) -> AsyncIterator[list[Send]]:
        async with portable_senders([trunkline_url(url, topic_name(log))] * count) as senders:
            yield senders

    @asynccontextmanager
    async def handlers(self, url: str, log: int, count: int) -> AsyncIterator[list[Handle]]:
        opened = trunkline_url(url, topic_name(log), queue=SUBSCRIPTION)
        async with portable_handlers([opened] * count) as handlers:
            yield handlers


@dataclass(frozen=True)
class DirectPostgres(Postgres):
    name: str = "direct, postgres"

    @asynccontextmanager
    async def senders(self, url: str, log: int, count: int) -> AsyncIterator[list[Send]]:
        async with postgres.publishers(url, topic_name(log), count) as publishers:
            yield [each.send for each in publishers]

    @asynccontextmanager
    async def handlers(self, url: str, log: int, count: int) -> AsyncIterator[list[Handle]]:
        async with postgres.queues(url, topic_name(log), SUBSCRIPTION, count) as queues:
            yield [partial(postgres.handled, queue) for queue in queues]


def trunkline_url(url: str, topic: str, **parameters: str) -> str:
    """``trunkline://…/database/topic?…`` of a topic in a database, whose own URL may be in libpq's other form."""
    known = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    user, password = (quote(known.pop(name, ""), safe="") for name in ("user", "password"))
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    # The host stands among the parameters, where a socket's folder may stand as well.
    return f"trunkline://{login}/{topic}?{urlencode({**known, **parameters})}"


@asynccontextmanager
async def portable_senders(urls: Sequence[str]) -> AsyncIterator[list[Send]]:
    async with AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(aio.open_topic(url))).send for url in urls]


@asynccontextmanager
async def portable_handlers(urls: Sequence[str]) -> AsyncIterator[list[Handle]]:
    async with AsyncExitStack() as stack:
        yield [_handle(await stack.enter_async_context(aio.open_subscription(url))) for url in urls]


def _handle(subscription: AsyncSubscription) -> Handle:
    async def handle() -> bytes:
        message = await subscription.receive()
        await message.ack()
        return message.body

    return handle
