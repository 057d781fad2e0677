"""What an application does with an outbox, written down for the checker; and outboxes that everybody writes first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import psycopg

import trunkline
from tests.checker.history import Outcome
from tests.checker.outbox_history import NEVER, Event, OutboxHistory, Transaction
from tests.outbox.applications import stood_in
from trunkline import Client

INSERT = "insert into public.business values (%s) on conflict do nothing"
LOOK_UP = "select exists (select from public.business where id = %s)"


class Killed(Exception):
    """The application ends here, without a word."""


class Outbox:
    """Ours: events are published in the transaction of the application's connection."""

    def __init__(self, tl: Client, conn: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.tl = tl
        self.conn = conn

    def publish(self, payload: bytes) -> None:
        self.tl.publish("t", payload, partition=0, conn=self.conn)

    def commit(self, *, is_killed: bool = False) -> None:
        """``is_killed``: the application is, as soon as the server has committed."""
        self.conn.commit()
        if is_killed:
            raise Killed

    def is_done(self, row: int) -> bool:
        """Whether a commit whose answer was lost was done."""
        found = self.conn.execute(LOOK_UP, [row]).fetchone()
        self.conn.rollback()
        return found == (True,)


class SecondConnection(Outbox):
    """Publishes on a connection of its own, before the application commits."""

    def publish(self, payload: bytes) -> None:
        self.tl.publish("t", payload, partition=0)


class ClientBuffer(Outbox):
    """Keeps events in memory until the commit, and sends them right before it."""

    def __init__(self, tl: Client, conn: psycopg.Connection[tuple[Any, ...]]) -> None:
        super().__init__(tl, conn)
        self.kept: list[bytes] = []

    def publish(self, payload: bytes) -> None:
        self.kept.append(payload)

    def commit(self, *, is_killed: bool = False) -> None:
        for payload in self.kept:
            super().publish(payload)
        super().commit(is_killed=is_killed)


class AfterCommit(ClientBuffer):
    """Sends them right after it."""

    def commit(self, *, is_killed: bool = False) -> None:
        Outbox.commit(self, is_killed=is_killed)
        for payload in self.kept:
            self.tl.publish("t", payload, partition=0)


class Again(Outbox):
    """Takes a lost answer for a failure, and does everything again. The row has a key, the event has none."""

    def is_done(self, row: int) -> bool:
        return False


class Application:
    """Does transactions with an outbox, one after the other, and writes them down."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.history = OutboxHistory()
        self._moments = count(1)
        self._begin(1)

    def _begin(self, row: int) -> None:
        self.row = row
        self._begun = next(self._moments)
        self._events: list[Event] = []
        self._undone: list[Event] = []

    def insert(self) -> None:
        self.sql(INSERT, [self.row])

    def publish(self, payload: bytes, *, is_undone: bool = False) -> None:
        self.outbox.publish(payload)
        self.expect(payload, is_undone=is_undone)

    def expect(self, payload: bytes, *, is_undone: bool = False) -> None:
        """Write down what is published, by whomever."""
        (self._undone if is_undone else self._events).append(Event("t", payload))

    def sql(self, statement: str, parameters: list[int] | None = None) -> None:
        self.outbox.conn.execute(statement.encode(), parameters)

    def commit(self, *, is_killed: bool = False) -> None:
        try:
            self.outbox.commit(is_killed=is_killed)
        except Killed:
            self._end("unknown", NEVER)
        else:
            self._end("acknowledged", next(self._moments))

    def rollback(self) -> None:
        self.outbox.conn.rollback()
        self._end("failed", next(self._moments))

    def _end(self, outcome: Outcome, ended: int) -> None:
        done = (tuple(self._events), self._begun, ended, outcome, tuple(self._undone))
        self.history.transactions.append(Transaction("s", self.row, *done))
        self._begin(self.row + 1)


Scene = Callable[[Application], None]


def rolled_back(application: Application) -> None:
    application.insert()
    application.publish(b"a")
    application.rollback()


def savepoints(application: Application) -> None:
    """One that is released, one that is rolled back, by hand."""
    application.insert()
    application.publish(b"a")
    application.sql("savepoint s")
    application.publish(b"b")
    application.sql("release s")
    application.sql("savepoint s")
    application.publish(b"x", is_undone=True)
    application.sql("rollback to s")
    application.publish(b"c")
    application.commit()


def fired_early(application: Application) -> None:
    """Constraints are checked in the middle of it, as Django's tests do, and deferred again."""
    application.insert()
    application.publish(b"a")
    application.sql("set constraints all immediate")
    application.sql("set constraints all deferred")
    application.publish(b"b")
    application.commit()


def published_between_the_turns(application: Application) -> None:
    """A deferred trigger of the application's publishes too, after our first turn."""
    application.sql(
        "create function tell() returns trigger language plpgsql as $$ begin"
        " perform trunkline.outbox_publish('t', 'told', partition => 0); return null; end $$"
    )
    application.sql(
        "create constraint trigger tell after insert on public.business deferrable initially deferred"
        " for each row execute function tell()"
    )
    application.publish(b"a")
    application.insert()
    application.expect(b"told")
    application.commit()


def killed_after_the_commit(application: Application) -> None:
    application.insert()
    application.publish(b"a")
    application.commit(is_killed=True)


def answer_lost(application: Application) -> None:
    """The commit was done, and nobody said so: the application finds out, or begins again."""
    application.insert()
    application.publish(b"a")
    application.outbox.commit()
    if not application.outbox.is_done(application.row):
        application.insert()
        application.outbox.publish(b"a")
    application.commit()


def played(url: str, scene: Scene, kind: type[Outbox] = Outbox) -> OutboxHistory:
    """What the scene leaves behind, with an outbox of this kind."""
    with trunkline.connect(url) as tl, psycopg.connect(url) as conn:
        tl.create_topic("t")
        conn.execute("create table public.business (id bigint primary key)")
        conn.commit()
        application = Application(kind(tl, conn))
        scene(application)
        conn.rollback()
        history = application.history
        history.rows = [row for (row,) in conn.execute("select id from public.business")]
    history.log = stood_in(url, "t")
    return history
