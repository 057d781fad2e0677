"""Kafka's own test of exactly once, in our terms: records are copied from topic to topic while copiers and the server
are killed. The output is the input, and nobody who reads meanwhile sees a part of a transaction."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

import trunkline
from tests.checker.outbox_history import OutboxHistory, Stood
from tests.checker.outbox_invariants import (
    assert_outbox_clean,
    commit_order,
    duplicate,
    gap,
    inconsistent_offsets,
    runs_of_the_log,
    torn_read,
)
from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import wait_until
from tests.outbox.applications import WAIT_S, Process, read_from, stood_in
from tests.outbox.copier import Task
from trunkline import Message

PARTITIONS = 4
COPIERS = 2
CHECKS = (duplicate, gap, inconsistent_offsets, runs_of_the_log, torn_read, commit_order)


class Copiers:
    """The processes that copy, and how far they are."""

    def __init__(self, url: str, folder: Path, records: int) -> None:
        self.url = url
        self.every: list[Process] = []
        self._folder = folder
        self._records = records
        self._numbers = count(1)

    def start(self) -> None:
        log = self._folder / f"{next(self._numbers)}.jsonl"
        self.every.append(Process("tests.outbox.copier", log, Task(self.url, str(log), self._records)))

    @property
    def living(self) -> list[Process]:
        return [process for process in self.every if process.lives]

    def begun(self) -> int:
        """How many transactions were begun so far."""
        assert self.living, "no copier is left"
        return sum(process.count("copying") for process in self.every)

    def wait_for(self, more: int, has_ended: Callable[[], bool]) -> bool:
        """True as soon as so many more were begun; False where everything was copied before."""
        target = self.begun() + more
        wait_until(lambda: self.begun() >= target or has_ended(), f"{more} more transactions", deadline_s=WAIT_S)
        return not has_ended()

    def kill(self) -> None:
        for process in self.every:
            process.kill()


@contextmanager
def copiers(url: str, folder: Path, records: int) -> Iterator[Copiers]:
    made = Copiers(url, folder, records)
    try:
        yield made
    finally:
        made.kill()


class Watcher:
    """Reads topic ``out`` again and again, all partitions in one snapshot, and keeps what each added."""

    def __init__(self, url: str) -> None:
        self.snapshots: list[list[Stood]] = []
        self._url = url
        self._next = dict.fromkeys(range(PARTITIONS), 1)
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def watching(self) -> Iterator[Watcher]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._thread.join(WAIT_S)
        assert not self._failures, self._failures

    def seen(self) -> int:
        return sum(offset - 1 for offset in self._next.values())

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._session()
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            self._failures.append(error)

    def _session(self) -> None:
        """Read until told to end, or until the server is gone."""
        try:
            with psycopg.connect(self._url, connect_timeout=5) as connection:
                connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
                while not self._ended.wait(0.01):
                    self._look(connection)
        except psycopg.OperationalError:
            time.sleep(0.02)

    def _look(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """One snapshot. It counts when it was read as a whole."""
        row = connection.execute("select topic_id from trunkline.topic where name = 'out'").fetchone()
        assert row is not None
        found = [
            stood
            for partition, start in self._next.items()
            for stood in read_from(connection, row[0], "out", partition, start)
        ]
        connection.commit()
        for stood in found:
            self._next[stood.partition] = stood.offset + 1
        if found:
            self.snapshots.append(found)


def publish_input(url: str, records: int) -> list[list[bytes]]:
    """So many records in all, by partition, each with a payload of its own."""
    payloads = [[b"%d-%d" % (partition, n) for n in range(records // PARTITIONS)] for partition in range(PARTITIONS)]
    with trunkline.connect(url) as tl:
        tl.create_topic("in", partitions=PARTITIONS)
        tl.create_topic("out", partitions=PARTITIONS)
        tl.create_group("copy", "in")
        for partition, each in enumerate(payloads):
            for start in range(0, len(each), 100):
                messages = [Message(payload, key=b"k") for payload in each[start : start + 100]]
                tl.publish_many("in", messages, partition=partition)
    return payloads


@pytest.mark.parametrize(
    ("records", "each", "kills"),
    [
        pytest.param(5_000, 75, 6, id="short"),
        pytest.param(100_000, 750, 40, id="long", marks=pytest.mark.chaos),
    ],
)
def test_a_copy_under_kills_is_the_original_and_never_seen_in_part(
    start_server: StartServer, tmp_path: Path, seed: int, records: int, each: int, kills: int
) -> None:
    """Two copiers, each of whose transactions holds what it published and how far it read. Killed at random moments,
    with the server now and then: the output equals the input, in order, without duplicates, and every snapshot that a
    reader took meanwhile has whole transactions over all partitions."""
    chance = random.Random(seed)
    server = start_server()
    given = publish_input(server.url, records)
    pace = max(2, records * 6 // 5 // each // kills)
    with copiers(server.url, tmp_path, each) as copying, Watcher(server.url).watching() as watcher:
        for _ in range(COPIERS):
            copying.start()
        killed = 0
        while killed < kills and copying.wait_for(chance.randint(1, pace), lambda: watcher.seen() >= records):
            time.sleep(chance.random() * 0.01)  # for nothing but chance
            if killed % 3 == 1:
                server.kill()
                server.restart()
            else:
                chance.choice(copying.living).kill()
                copying.start()
            killed += 1
        print(f"{killed} kills, {copying.begun()} transactions begun")
        wait_until(lambda: copying.begun() and watcher.seen() >= records, "everything is copied", deadline_s=WAIT_S)
    copied = stood_in(server.url, "out")
    history = OutboxHistory(log=copied, snapshots=watcher.snapshots)
    assert_outbox_clean(history, CHECKS)
    found = [[stood.payload for stood in copied if stood.partition == partition] for partition in range(PARTITIONS)]
    assert found == given
    assert killed > 2
    assert max(stood.count for stood in copied) > 1
