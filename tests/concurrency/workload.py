"""Writers and readers that run at the same time and write everything down for the checker.

Each is a thread. What it may meet under the test's faults it records as an outcome; anything else ends the test.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import psycopg

import trunkline
from tests.checker.history import History, Partition, Place, Recorder, Seen, Sent
from tests.concurrency.sessions import APPEND, append_parameters, wait_until
from trunkline.client.sync.client import Client
from trunkline.errors import (
    Conflict,
    DeadlineExceeded,
    OffsetOutOfRange,
    OutcomeUnknown,
    Unavailable,
)
from trunkline.records import Batch, Message

READ_RECORDS = 500
NOT_WRITTEN = (Conflict, DeadlineExceeded, Unavailable)
"""What a publish may raise when the server was away or busy for too long; all of them say that nothing was written."""


class Load:
    """What the threads of one test share: the topic, the recorder, chance, and when to stop."""

    def __init__(self, url: str, topic: str, seed: int, *, partitions: int) -> None:
        self.url = url
        self.topic = topic
        self.partitions = partitions
        self.recorder = Recorder()
        self.stopped = threading.Event()
        self.failures: list[BaseException] = []
        self._seed = seed
        self._threads: list[threading.Thread] = []
        self._names = count(1)

    def start(self, work: Callable[[Load, str, random.Random], None], *, times: int = 1) -> None:
        """Run so many threads of this kind, each with a name and a chance of its own."""
        for _ in range(times):
            name = f"{work.__name__}{next(self._names)}"
            chance = random.Random(f"{self._seed} {name}")
            thread = threading.Thread(target=self._guard, args=(work, name, chance), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guard(self, work: Callable[[Load, str, random.Random], None], name: str, chance: random.Random) -> None:
        try:
            work(self, name, chance)
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            self.failures.append(error)
            self.stopped.set()

    def acknowledged(self) -> int:
        """How many publishes were acknowledged so far."""
        return sum(1 for event in self.recorder.history.publishes() if event.outcome == "acknowledged")

    def wait_for_progress(self, publishes: int, *, deadline_s: float = 60.0) -> None:
        """Return once so many more publishes were acknowledged, or a thread has failed."""
        target = self.acknowledged() + publishes
        wait_until(
            lambda: self.failures or self.acknowledged() >= target,
            f"{publishes} more acknowledged publishes",
            deadline_s=deadline_s,
        )

    def wait_for_everyone(self, *, deadline_s: float = 60.0) -> None:
        """Return once each of the writers and readers that were started has done something, or one has failed: nobody
        connects any more, which only an application can try again."""
        names = {thread.name for thread in self._threads}
        wait_until(
            lambda: self.failures or names <= self._active(),
            "every writer and reader is at work",
            deadline_s=deadline_s,
        )

    def _active(self) -> set[str]:
        history = self.recorder.history
        return {event.session for event in history.publishes()} | {event.reader for event in history.reads()}

    def run_for(self, duration_s: float) -> None:
        """Let the threads work; returns early when one of them fails."""
        self.stopped.wait(duration_s)

    def finish(self, url: str | None = None) -> History:
        """Stop the threads, read the whole log, and return the history. Raises what a thread failed with."""
        self.stopped.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), f"{thread.name} did not stop"
        if self.failures:
            raise self.failures[0]
        return self.recorder.finish(whole_log(url or self.url, self.topic))


@contextmanager
def running(url: str, topic: str, seed: int, *, partitions: int = 4) -> Iterator[Load]:
    """A load on a topic; its threads end with the block."""
    load = Load(url, topic, seed, partitions=partitions)
    try:
        yield load
    finally:
        load.stopped.set()


def whole_log(url: str, topic: str) -> dict[int, Partition]:
    """Everything that a topic holds, read through a client of its own."""
    final: dict[int, Partition] = {}
    with trunkline.connect(url) as tl:
        for held in tl.offsets(topic):
            records: list[Seen] = []
            at = held.start
            while batches := tl.read_batches(topic, partition=held.partition, offset=at):
                records += seen(batches)
                at = batches[-1].end
            final[held.partition] = Partition(held.start, held.end, tuple(records))
    return final


def seen(batches: Iterable[Batch], start: int = 0) -> list[Seen]:
    """What batches hold from an offset on, as the checker wants it."""
    records = (record for batch in batches for record in batch)
    return [
        Seen(record.offset, record.payload, record.append_time, record.key)
        for record in records
        if record.offset >= start
    ]


def publish(load: Load, tl: Client, session: str, messages: Sequence[Message], *, many: bool | None = None) -> None:
    """Publish messages as one batch and record what came of it."""
    sent = [Sent(message.body, _bytes(message.key), message.partition) for message in messages]
    invoked = load.recorder.tick()
    try:
        if len(messages) == 1 and not many:
            (one,) = messages
            places = [tl.publish(load.topic, one.body, key=one.key, partition=one.partition)]
        else:
            places = tl.publish_many(load.topic, messages)
    except OutcomeUnknown as error:
        print(f"{session}: {error}")
        load.recorder.unknown(session, sent, invoked)
    except NOT_WRITTEN as error:
        print(f"{session}: {error}")
        load.recorder.failed(session, sent, invoked)
    else:
        load.recorder.published(session, sent, invoked, [(at.partition, at.offset) for at in places])


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key


def some_messages(load: Load, session: str, numbers: Iterator[int], chance: random.Random) -> list[Message]:
    """One to a few messages, each with a payload of its own: keyed, to chosen partitions, or to any."""
    kind = chance.choice(["key", "keys", "partition", "any"])
    filling = b"." * chance.choice([0, 10, 300])
    size = 1 if chance.random() < 0.5 else chance.randint(2, 12)
    made: list[Message] = []
    for _ in range(size):
        payload = f"{session}-{next(numbers)}".encode() + filling
        key = f"key {chance.randrange(12)}" if kind in ("key", "keys") else None
        partition = chance.randrange(load.partitions) if kind == "partition" else None
        made.append(Message(payload, key=key, partition=partition))
    return made


def client_writer(load: Load, name: str, chance: random.Random, *, tl: Client | None = None) -> None:
    """Publishes through a client of its own, or a shared one, until the load stops."""
    numbers = count(1)
    if tl is not None:
        while not load.stopped.is_set():
            publish(load, tl, name, some_messages(load, name, numbers, chance))
        return
    with trunkline.connect(load.url) as own:
        client_writer(load, name, chance, tl=own)


def sql_writer(load: Load, name: str, chance: random.Random) -> None:
    """Appends to random sets of partitions in transactions of plain SQL, some of them rolled back."""
    numbers = count(1)
    with psycopg.connect(load.url) as connection:
        connection.execute("set lock_timeout = '30s'")
        row = connection.execute("select topic_id from trunkline.topic where name = %s", [load.topic]).fetchone()
        connection.commit()
        assert row is not None
        while not load.stopped.is_set():
            chosen = sorted(chance.sample(range(load.partitions), chance.randint(1, load.partitions)))
            records = {
                partition: [f"{name}-{next(numbers)}".encode() for _ in range(chance.randint(1, 4))]
                for partition in chosen
            }
            sent = [Sent(payload, None, number) for number, payloads in records.items() for payload in payloads]
            invoked = load.recorder.tick()
            answer = connection.execute(APPEND, append_parameters(row[0], records)).fetchone()
            assert answer is not None
            if chance.random() < 0.1:
                connection.rollback()
                load.recorder.failed(name, sent, invoked)
            else:
                connection.commit()
                load.recorder.published(name, sent, invoked, _places(records, answer[0]))


def _places(records: dict[int, list[bytes]], firsts: Sequence[int]) -> list[Place]:
    return [
        (partition, first + ordinal)
        for (partition, payloads), first in zip(records.items(), firsts, strict=True)
        for ordinal in range(len(payloads))
    ]


def reader(load: Load, name: str, chance: random.Random) -> None:
    """Polls every partition from the start on. Sent to the start of the log when retention has passed it."""
    cursors = dict.fromkeys(range(load.partitions), 1)
    with trunkline.connect(load.url) as tl:
        done = False
        while not done:
            # One more round after the load has stopped: by then everything can be seen.
            done = load.stopped.is_set()
            for partition in cursors:
                # Now and then it begins anew, and may find the log's start moved.
                start = 1 if chance.random() < 0.02 else cursors[partition]
                cursors[partition] = poll(load, tl, name, partition, start, chance)


def poll(load: Load, tl: Client, name: str, partition: int, start: int, chance: random.Random) -> int:
    """One read of one partition, recorded; where to go on."""
    limit = chance.choice([1, 7, READ_RECORDS])
    invoked = load.recorder.tick()
    try:
        batches = tl.read_batches(load.topic, partition=partition, offset=start, max_records=limit)
    except OffsetOutOfRange as error:
        return load.recorder.out_of_range(name, partition, start, invoked, _valid_range(error)).valid_start
    except (Unavailable, DeadlineExceeded):
        return start
    got = seen(batches, start)
    return load.recorder.read(name, partition, start, invoked, got, cut=len(got) >= limit).end


def _valid_range(error: OffsetOutOfRange) -> tuple[int, int]:
    assert error.start is not None, "it always says which range is valid"
    assert error.end is not None
    return error.start, error.end


def assert_no_deadlock(url: str, before: int) -> None:
    """The server has counted no deadlock since."""
    assert deadlocks(url) == before


def deadlocks(url: str) -> int:
    """How many deadlocks the server has resolved in this database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_clear_snapshot()")
        row = connection.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])
