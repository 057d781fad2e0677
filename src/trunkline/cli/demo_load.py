"""The load of the demo: writers that publish orders, a group that bills them, a thread and a client each."""

from __future__ import annotations

import json
import random
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import TracebackType
from uuid import UUID

import trunkline
from trunkline import Client, Message, TopicDescription, TopicSettings
from trunkline.errors import DeadlineExceeded

TOPIC = "orders"
PARTITIONS = 4
BATCH = 50
BATCHES_A_SECOND = 10
SEGMENT_BYTES = 16 * 1024 * 1024
WRITERS = ("web", "app", "shop")
GROUP = "billing"
CONSUMERS = ("first", "second")
SHOP_SPEED = 60
"""The shop's clock runs a minute a second, so that minutes go by while one watches."""
OPENED = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
DRAIN_S = 30.0
_NOTE = "please ring twice, leave it at the door, gift wrap, no plastic, call before delivery, thank you"
_WORDS = tuple(_NOTE.split())
_SKUS = [f"SKU-{number:05d}" for number in range(2_000)]


def new_order(chance: random.Random, at: datetime) -> Message:
    """An order as a shop would publish it, keyed by its user."""
    user = f"user-{chance.randrange(20_000)}"
    order = {
        "id": str(UUID(int=chance.getrandbits(128), version=4)),
        "user": user,
        "amount": round(chance.lognormvariate(3, 1), 2),
        "sku": chance.choice(_SKUS),
        "time": at.isoformat(timespec="milliseconds"),
        "note": " ".join(chance.choices(_WORDS, k=chance.randrange(4, 16))),
    }
    return Message(json.dumps(order).encode(), key=user)


class ShopClock:
    """The time in the shop, whose day begins when the demo does."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()

    def now(self) -> datetime:
        return OPENED + timedelta(seconds=SHOP_SPEED * (time.monotonic() - self._began_at))


class Worker(ABC):
    """A thread with a client of its own, that counts records. What it fails with is raised by ``check``."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.count = 0
        self.stopping = threading.Event()
        self._url = url
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guard, name=f"demo-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _guard(self) -> None:
        try:
            with trunkline.connect(self._url) as client:
                self.work(client)
        except BaseException as error:  # noqa: BLE001 - raised again by check, in the thread that owns this
            self._failure = error

    @abstractmethod
    def work(self, client: Client) -> None:
        """What it does until it is told to stop."""


class Writer(Worker):
    """Publishes batches of orders, ten a second, or as fast as they are acknowledged."""

    def __init__(self, name: str, url: str, clock: ShopClock) -> None:
        super().__init__(name, url)
        self._clock = clock
        self._took_s: deque[float] = deque(maxlen=200)
        self._chance = random.Random(name)

    def work(self, client: Client) -> None:
        due_at = time.monotonic()
        while not self.stopping.wait(max(0.0, due_at - time.monotonic())):
            due_at = max(due_at + 1 / BATCHES_A_SECOND, time.monotonic() - 1)
            orders = [new_order(self._chance, self._clock.now()) for _ in range(BATCH)]
            began = time.perf_counter()
            client.publish_many(TOPIC, orders)
            self._took_s.append(time.perf_counter() - began)
            self.count += BATCH

    @property
    def p50_ms(self) -> float:
        """Median time of the last calls, from publishing a batch to its durable positions."""
        took_s = list(self._took_s)
        return statistics.median(took_s) * 1000 if took_s else 0.0


class Biller(Worker):
    """A consumer of the group that handles the orders; the other one has the other partitions."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name, url)
        self.billed = Decimal(0)

    def work(self, client: Client) -> None:
        with client.consumer(TOPIC, group=GROUP, create=True) as consumer:
            while not self.stopping.is_set():
                records = consumer.poll(max_records=1_000, wait_s=0.2)
                orders = [json.loads(record.payload) for record in records]
                amounts = [Decimal(str(order["amount"])) for order in orders if "amount" in order]
                self.billed += sum(amounts)
                consumer.commit()
                self.count += len(amounts)


class Load:
    """The topic, its writers and the group that handles it, from start to the last record."""

    def __init__(self, url: str) -> None:
        self._client = trunkline.connect(url)
        settings = TopicSettings(segment_bytes=SEGMENT_BYTES)
        self._client.create_topic(TOPIC, partitions=PARTITIONS, settings=settings)
        self._client.create_group(GROUP, TOPIC)
        self.clock = ShopClock()
        self.writers = [Writer(name, url, self.clock) for name in WRITERS]
        self.billers = [Biller(name, url) for name in CONSUMERS]
        self.began_at = time.monotonic()
        self.wrote_s = 0.0

    @property
    def _workers(self) -> list[Worker]:
        return [*self.writers, *self.billers]

    def __enter__(self) -> Load:
        for worker in self._workers:
            worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stopping.set()
        for worker in self._workers:
            worker.join()
        self._client.close()

    def check(self) -> None:
        """Raise what a worker has failed with."""
        for worker in self._workers:
            worker.check()

    def stop_writing(self) -> None:
        """Returns when every writer has its last acknowledgement."""
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            writer.join()
        self.wrote_s = time.monotonic() - self.began_at
        self.check()

    def close_the_day(self) -> None:
        """One order of the next day: with it all minutes of this one are over."""
        self._client.publish(TOPIC, json.dumps({"time": (OPENED + timedelta(days=1)).isoformat()}).encode())

    def drain(self) -> None:
        """Wait until the group has handled everything."""
        gives_up_at = time.monotonic() + DRAIN_S
        while sum(biller.count for biller in self.billers) < self.published:
            self.check()
            if time.monotonic() > gives_up_at:
                raise DeadlineExceeded(f"the group has not handled everything within {DRAIN_S:g} s")
            time.sleep(0.05)

    @property
    def published(self) -> int:
        return sum(writer.count for writer in self.writers)

    def lags(self) -> dict[str, int]:
        """How far each group is behind, the queries of Spark among them."""
        return {group.name: group.lag for group in self._client.groups()}

    def describe(self) -> TopicDescription:
        return self._client.describe_topic(TOPIC)
