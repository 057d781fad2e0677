"""The program of one application process: `python -m tests.outbox.application '<task as JSON>'`.

One business transaction after the other: it moves the rows of some keys on, inserts a row of its own, and publishes an
event for each key, on a connection of its own. Each is written down in a file before its COMMIT, and how that was
answered after it. A line is one write, so whatever kills the process tears nothing. Where the answer is lost, the
application looks its row up. SIGTERM ends it after the transaction in hand.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import psycopg

import trunkline
from tests.checker.history import Outcome
from tests.groups.worker import Notes
from trunkline import Client, ClientSettings
from trunkline.errors import Conflict, TrunklineError, Unavailable

T = TypeVar("T")

NAME = "business"
"""By which the server knows the sessions of applications."""
TABLES = (
    "create table public.business (id bigint primary key)",
    "create table public.account (key text primary key, version bigint not null)",
    "insert into public.account select 'k' || n, 0 from generate_series(0, 9) n",
)
KEYS = [f"k{number}" for number in range(10)]
TOPICS = ("orders", "audit")
MOVE = "update public.account set version = version + 1 where key = %s returning version"
INSERT = "insert into public.business values (%s)"
LOOK_UP = "select exists (select from public.business where id = %s)"
PATIENT = ClientSettings(deadline_s=90, connect_timeout_s=5, connections_max=1)
CUT = (psycopg.OperationalError, Unavailable)
"""What says that the connection is gone, and with it the transaction, unless it was being committed."""


class Task(msgspec.Struct, frozen=True):
    """What one process is to do. Its rows have numbers from ``first_row`` on."""

    url: str
    log: str
    seed: int
    first_row: int


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is written down: topic, key, payload, version of the key."""

    topic: str
    key: str
    payload: str
    version: int


class Application:
    """One client, one connection, transactions."""

    def __init__(self, task: Task, tl: Client, notes: Notes) -> None:
        self.ended = threading.Event()
        self._task = task
        self._tl = tl
        self._notes = notes
        self._chance = random.Random(task.seed)
        self._conn = self._connected()

    def run(self) -> None:
        row = self._task.first_row
        while not self.ended.is_set():
            self._transaction(row)
            row += 1
        self._conn.close()

    def _transaction(self, row: int) -> None:
        begun = time.monotonic_ns()
        events: list[Note] = []
        undone: list[Note] = []
        is_committing = False
        try:
            transaction_id = self._work(row, events, undone)
            self._notes.write(
                "transaction", row=row, begun=begun, events=events, undone=undone, transaction_id=transaction_id
            )
            if self._chance.random() < 0.05:
                self._conn.rollback()
                self._end(row, "failed")
                return
            is_committing = True
            self._conn.commit()
            self._end(row, "acknowledged")
        except (*CUT, Conflict) as error:
            if self._conn.broken:
                self._conn = self._connected()
                is_there = is_committing and self._is_there(row)
                self._notes.write("cut", row=row, is_committing=is_committing, is_there=is_there)
                self._end(row, "acknowledged" if is_there else "failed")
            else:
                self._conn.rollback()
                self._notes.write("refused", error=repr(error.__cause__ or error))
                self._end(row, "failed")

    def _end(self, row: int, outcome: Outcome) -> None:
        self._notes.write("ended", row=row, outcome=outcome)

    def _work(self, row: int, events: list[Note], undone: list[Note]) -> int:
        """What is done before the commit, in random order and number, with savepoints that are kept or not."""
        chance, conn = self._chance, self._conn
        keys = sorted(chance.sample(KEYS, chance.choice([1, 1, 1, 2, 3])))
        versions = {}
        for key in keys:
            (versions[key],) = conn.execute(MOVE, [key]).fetchone() or (0,)
        conn.execute(INSERT, [row])
        transaction_id = 0
        for key in chance.sample(keys, len(keys)):
            kind = chance.choice(["plain", "plain", "plain", "released", "undone"])
            if kind != "plain":
                conn.execute("savepoint s")
            if kind == "undone":
                undone.append(self._publish(row, key, versions[key], len(events) + len(undone))[0])
                conn.execute("rollback to s")
            note, transaction_id = self._publish(row, key, versions[key], len(events) + len(undone))
            events.append(note)
            if kind == "released":
                conn.execute("release s")
        if chance.random() < 0.05:
            conn.execute("set constraints all immediate")
        return transaction_id

    def _publish(self, row: int, key: str, version: int, number: int) -> tuple[Note, int]:
        note = Note(topic=self._chance.choice(TOPICS), key=key, payload=f"{row}-{number}", version=version)
        at = self._tl.publish(note.topic, note.payload.encode(), key=key, conn=self._conn)
        return note, at.transaction_id

    def _is_there(self, row: int) -> bool:
        """A crash has ended whatever was under way: what is not there now never will be."""
        while True:
            try:
                found = self._conn.execute(LOOK_UP, [row]).fetchone()
                self._conn.rollback()
                return found == (True,)
            except psycopg.OperationalError:
                self._conn = self._connected()

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        return patiently(lambda: psycopg.connect(self._task.url, application_name=NAME, connect_timeout=5))


def patiently(connect: Callable[[], T]) -> T:
    """A connection, as soon as the server is back."""
    deadline = time.monotonic() + PATIENT.deadline_s
    while True:
        try:
            return connect()
        except CUT:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def run(task: Task) -> None:
    notes = Notes(task.log)
    try:
        with patiently(lambda: trunkline.connect(task.url, settings=PATIENT)) as tl:
            application = Application(task, tl, notes)
            signal.signal(signal.SIGTERM, lambda *_: application.ended.set())
            notes.write("ready")
            application.run()
    except (TrunklineError, psycopg.Error, AssertionError):
        notes.write("failure", error=traceback.format_exc())
        raise


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Task))
