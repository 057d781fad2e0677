"""The program of one member process: `python -m tests.groups.worker '<settings as JSON>'`.

It writes down what it does in a file of its own, a line each, before it goes on: what it was handed before it commits
it, and how the commit was answered. A line is one write, so whatever kills the process tears nothing.

Left alone it reads on until it is asked to end with SIGTERM; with ``is_told`` it does what it reads from its input: a
line ``poll``, ``commit`` or ``exit`` each.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import msgspec
import psycopg

import trunkline
from trunkline.client.sync.consumer import Consumer
from trunkline.errors import Conflict, DeadlineExceeded, Fenced, OutcomeUnknown, Unavailable
from trunkline.records import Record
from trunkline.settings import ClientSettings, ConsumerSettings, Delivery

PASSING = (Conflict, DeadlineExceeded, Unavailable, psycopg.OperationalError, psycopg.InternalError)
"""What a transaction may end with when its session was ended: nothing was written, and its records come again."""
EFFECT = 'insert into public.effect (partition, "offset") values (%s, %s)'


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one process is to do. ``is_loop``: iterate over the consumer instead of polling it."""

    url: str
    number: int
    log: str
    seed: int
    topic: str = "t"
    group: str = "g"
    delivery: Delivery = "at_least_once"
    is_loop: bool = False
    is_told: bool = False
    heartbeat_s: float = 0.1
    session_timeout_s: float = 0.5


Range = tuple[int, int, int, int, int]
"""Member, partition, epoch, start, end."""


class Notes:
    """The file in which the process writes down what it does."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, **values: Any) -> None:
        os.write(self._file, msgspec.json.encode({"what": what, "at": time.monotonic_ns(), **values}) + b"\n")


class Worker:
    """A consumer that writes down what it does."""

    def __init__(self, task: Task, notes: Notes, consumer: Consumer) -> None:
        self.task = task
        self.notes = notes
        self.consumer = consumer
        self.ended = threading.Event()
        self._chance = random.Random(f"{task.seed} {task.number}")
        self._closing = threading.Thread(target=consumer.close)

    def read_on(self) -> None:
        """Read until asked to end."""
        if self.task.is_loop:
            self._loop()
            return
        step = self._step_once if self.task.delivery == "exactly_once" else self._step
        while not self.ended.is_set():
            step()

    def end(self) -> None:
        self.ended.set()
        if self.task.is_loop:
            # A loop waits however long it takes, and closing ends it. Not in a signal's handler, which may have
            # interrupted whoever holds a lock that closing needs.
            self._closing.start()

    def _loop(self) -> None:
        for record in self.consumer:
            self.hand_out([record])
        self._closing.join()

    def _step(self) -> None:
        try:
            records = self.consumer.poll(max_records=self._chance.choice([1, 7, 50]), wait_s=0.2)
        except OutcomeUnknown:
            # A range may have been claimed for this reader, and is gone.
            if self.task.delivery == "at_most_once":
                return
            raise
        self.hand_out(records)
        if self.task.delivery == "at_least_once" and self._chance.random() < 0.9:
            self.commit()

    def hand_out(self, records: Sequence[Record]) -> list[Range]:
        """Write down what came, by partition."""
        ranges: list[Range] = []
        for partition, group in groupby(records, key=lambda record: record.partition):
            offsets = [record.offset for record in group]
            assert offsets == list(range(offsets[0], offsets[-1] + 1)), offsets
            ranges.append((*self._lease(partition), offsets[0], offsets[-1] + 1))
        if ranges:
            self.notes.write("handed", ranges=ranges)
        return ranges

    def _lease(self, partition: int) -> tuple[int, int, int]:
        """Member, partition and epoch; what is shared has neither."""
        member = self.consumer._member
        if member is None:
            return self.task.number, partition, 0
        (epoch,) = [held.epoch for held in member.holdings.values() if held.partition == partition]
        return member.member_id, partition, epoch

    def in_hand(self) -> list[Range]:
        """What a commit would pass."""
        member = self.consumer._member
        assert member is not None
        return [
            (member.member_id, held.partition, held.epoch, held.committed, held.handed)
            for held in member.holdings.values()
            if held.has_uncommitted
        ]

    def commit(self) -> None:
        with self._answered(self.in_hand()):
            self.consumer.commit()

    def _step_once(self) -> None:
        """One transaction with effects; now and then one whose application fails."""
        handed: list[Range] = []
        try:
            with self._answered(handed), self.consumer.transaction(self._chance.choice([1, 7, 50]), wait_s=0.2) as tx:
                handed += self.hand_out(tx.records)
                places = [[record.partition, record.offset] for record in tx.records]
                tx.conn.cursor().executemany(EFFECT, places)
                if self._chance.random() < 0.05:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return

    @contextmanager
    def _answered(self, moves: list[Range]) -> Iterator[None]:
        """Write down how a commit of these was answered."""
        invoked = time.monotonic_ns()
        answer = "failed"
        try:
            yield
            answer = "acknowledged"
        except (Fenced, ZeroDivisionError) as error:
            answer = "refused"
            if isinstance(error, ZeroDivisionError):
                raise
        except OutcomeUnknown:
            answer = "unknown"
        except PASSING as error:
            answer = "unknown" if self.task.delivery == "at_least_once" else "refused"
            self.notes.write("passing", error=repr(error))
        finally:
            self.notes.write("commit", answer=answer, invoked=invoked, ranges=moves)

    def do_as_told(self) -> None:
        """Poll until something comes, or commit, as the input says; ends with it."""
        for line in sys.stdin:
            if line == "commit\n":
                self.commit()
            elif line == "exit\n":
                os._exit(3)
            elif self.task.delivery == "exactly_once":
                while not self._transaction_as_told():
                    self.notes.write("waiting")
            else:
                while not (records := self.consumer.poll(wait_s=0.2)):
                    self.notes.write("waiting")
                self.hand_out(records)

    def _transaction_as_told(self) -> bool:
        """One transaction, which is left at the next line of the input, where anything came."""
        handed: list[Range] = []
        with self._answered(handed), self.consumer.transaction(wait_s=0.2) as tx:
            handed += self.hand_out(tx.records)
            for record in tx.records:
                tx.conn.execute(EFFECT, [record.partition, record.offset])
            if handed:
                self.notes.write("written")
                sys.stdin.readline()
        return bool(handed)


def run(task: Task) -> None:
    notes = Notes(task.log)
    settings = ClientSettings(heartbeat_s=task.heartbeat_s, session_timeout_s=task.session_timeout_s)
    named = ConsumerSettings(name=str(task.number), commit_interval_s=0.02)
    try:
        with (
            trunkline.connect(task.url, settings=settings) as tl,
            tl.consumer(task.topic, group=task.group, delivery=task.delivery, settings=named) as consumer,
        ):
            worker = Worker(task, notes, consumer)
            signal.signal(signal.SIGTERM, lambda *_: worker.end())
            notes.write("begun")
            work: Callable[[], None] = worker.do_as_told if task.is_told else worker.read_on
            work()
    except BaseException:
        notes.write("failed", error=traceback.format_exc())
        raise
    notes.write("ended")


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Task))
