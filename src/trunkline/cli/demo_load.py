"""The load of the demo: writers that publish orders, readers that follow partitions, a thread and a client each."""

from __future__ import annotations

import json
import random
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import UTC, datetime
from types import TracebackType
from uuid import UUID

import trunkline
from trunkline import Client, Message, TopicDescription, TopicSettings
from trunkline.engine.backoff import backoff_s
from trunkline.errors import DeadlineExceeded, LogBroken

TOPIC = "orders"
PARTITIONS = 4
BATCH = 100
SEGMENT_BYTES = 16 * 1024 * 1024
READERS = {"first half": (0, 1), "second half": (2, 3), "whole topic": (0, 1, 2, 3)}
WRITERS = ("web", "app", "shop")
READ_AT_ONCE = 5_000
DRAIN_S = 30.0
_NOTE = "please ring twice, leave it at the door, gift wrap, no plastic, call before delivery, thank you"
_WORDS = tuple(_NOTE.split())
_SKUS = [f"SKU-{number:05d}" for number in range(2_000)]


def new_order(chance: random.Random) -> Message:
    """An order as a shop would publish it, keyed by its user."""
    user = f"user-{chance.randrange(20_000)}"
    order = {
        "id": str(UUID(int=chance.getrandbits(128), version=4)),
        "user": user,
        "amount": round(chance.lognormvariate(3, 1), 2),
        "sku": chance.choice(_SKUS),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "note": " ".join(chance.choices(_WORDS, k=chance.randrange(4, 16))),
    }
    return Message(json.dumps(order).encode(), key=user)


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
    """Publishes batches of orders as fast as they are acknowledged."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name, url)
        self._took_s: deque[float] = deque(maxlen=200)
        self._chance = random.Random(name)

    def work(self, client: Client) -> None:
        while not self.stopping.is_set():
            orders = [new_order(self._chance) for _ in range(BATCH)]
            began = time.perf_counter()
            client.publish_many(TOPIC, orders)
            self._took_s.append(time.perf_counter() - began)
            self.count += BATCH

    @property
    def p50_ms(self) -> float:
        """Median time of the last calls, from publishing a batch to its durable positions."""
        took_s = list(self._took_s)
        return statistics.median(took_s) * 1000 if took_s else 0.0


class Reader(Worker):
    """Follows partitions from their start, and makes sure that no offset is missing or comes twice."""

    def __init__(self, name: str, url: str, partitions: tuple[int, ...]) -> None:
        super().__init__(name, url)
        self.next_offsets = dict.fromkeys(partitions, 1)

    def work(self, client: Client) -> None:
        idle = 0
        while not self.stopping.is_set():
            found = [self._read(client, partition) for partition in self.next_offsets]
            idle = 0 if any(found) else idle + 1
            if idle:
                self.stopping.wait(backoff_s(idle - 1, first_s=0.01, max_s=0.25, chance=0.5))

    def _read(self, client: Client, partition: int) -> bool:
        here = self.next_offsets[partition]
        batches = client.read_batches(TOPIC, partition=partition, offset=here, max_records=READ_AT_ONCE)
        for batch in batches:
            if batch.first_offset != here:
                raise LogBroken(f"partition {partition}: offset {here} was due, {batch.first_offset} came")
            here = batch.end
            self.count += len(batch)
        self.next_offsets[partition] = here
        return bool(batches)


class Load:
    """The topic, its writers and readers, from start to the last record read."""

    def __init__(self, url: str) -> None:
        self._client = trunkline.connect(url)
        settings = TopicSettings(segment_bytes=SEGMENT_BYTES)
        self._client.create_topic(TOPIC, partitions=PARTITIONS, settings=settings)
        self.writers = [Writer(name, url) for name in WRITERS]
        self.readers = [Reader(name, url, partitions) for name, partitions in READERS.items()]
        self.began_at = time.monotonic()
        self.wrote_s = 0.0

    @property
    def _workers(self) -> list[Worker]:
        return [*self.writers, *self.readers]

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

    def drain(self) -> None:
        """Wait until every reader has reached the end of its partitions."""
        gives_up_at = time.monotonic() + DRAIN_S
        while any(self.lag(reader) for reader in self.readers):
            self.check()
            if time.monotonic() > gives_up_at:
                raise DeadlineExceeded(f"a reader has not reached the end within {DRAIN_S:g} s")
            time.sleep(0.05)

    @property
    def published(self) -> int:
        return sum(writer.count for writer in self.writers)

    def ends(self) -> dict[int, int]:
        return {log.partition: log.end for log in self._client.offsets(TOPIC)}

    def lag(self, reader: Reader, ends: dict[int, int] | None = None) -> int:
        """How many records of its partitions a reader has still to read."""
        ends = ends or self.ends()
        return sum(max(0, ends[part] - at) for part, at in reader.next_offsets.items())

    def describe(self) -> TopicDescription:
        return self._client.describe_topic(TOPIC)
