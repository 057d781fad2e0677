"""Short plays around the commit of transactions that have published. Each returns what went wrong; they do not know
whether they play on our outbox or on a mutant of it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import psycopg

from tests.concurrency.sessions import WAIT_S, Session, Sessions, wait_until

PUBLISH = "select trunkline.outbox_publish('t', %s, partition => %s)"
KEY = 77
"""Of the lock that the application's check waits for."""
HELD = (
    "select count(*) from pg_locks l join trunkline.topic_partition p on l.objid = p.partition_id"
    " where l.pid = %s and l.locktype = 'advisory' and l.granted and l.classid = trunkline.lock_class()::bigint::oid"
)
LEFT = "select count(*) from trunkline.outbox_stage"


class Stage:
    """Sessions, a topic ``t`` of two partitions, and a table whose deferred check waits for a lock."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.admin = sessions.open("admin", autocommit=True)
        self.topic_id = self.admin.run("select trunkline.topic_create('t', 2)")[0][0]
        self.admin.run("create table checked (id integer)")
        self.admin.run(
            "create function check_slowly() returns trigger language plpgsql as $$ begin"
            f" perform pg_advisory_xact_lock({KEY}, new.id); return null; end $$"
        )
        self.admin.run(
            "create constraint trigger slowly after insert on checked deferrable initially deferred"
            " for each row execute function check_slowly()"
        )

    def session(self, name: str) -> Session:
        return self.sessions.open(name)

    def payloads(self, partition: int) -> list[bytes]:
        return [payload for _, payload in self.admin.read(self.topic_id, partition=partition)]

    def partitions_held(self, session: Session) -> int:
        return int(self.sessions.watcher.ask(HELD, [session.pid]))

    def left_behind(self) -> int:
        """Rows of transactions that have ended, or of others."""
        return int(self.sessions.watcher.ask(LEFT))

    def commit(self, session: Session) -> Future[None]:
        """Begin to commit, and return once that is done or waits."""
        committed = session.do(session.connection.commit)
        wait_until(
            lambda: committed.done() or self.sessions.watcher.is_waiting(session), f"{session.name} is done or waits"
        )
        return committed


def slow_check(stage: Stage, *, publish_first: bool = True) -> set[str]:
    """A deferred check of the application's waits; another transaction publishes to the same partition."""
    holder, slow, other = (stage.session(name) for name in ("holder", "slow", "other"))
    holder.run(f"select pg_advisory_xact_lock({KEY}, 1)")
    steps: list[tuple[str, Any]] = [(PUBLISH, [b"slow", 0]), ("insert into checked values (1)", None)]
    for statement, parameters in steps if publish_first else reversed(steps):
        slow.run(statement, parameters)
    committed = stage.commit(slow)
    found: set[str] = set()
    if stage.partitions_held(slow):
        found.add("a partition is held")
    other.run(PUBLISH, [b"other", 0])
    passed = stage.commit(other)
    if not passed.done():
        found.add("another publisher waits")
    holder.commit()
    found |= ended(committed) | ended(passed)
    if not found and stage.payloads(0) != [b"other", b"slow"]:
        found.add("lost")
    return found


def stuck_check(stage: Stage) -> set[str]:
    """One transaction holds what the check of the other waits for, and both publish to one partition."""
    one, two = stage.session("one"), stage.session("two")
    one.run(f"select pg_advisory_xact_lock({KEY}, 1)")
    one.run(PUBLISH, [b"one", 0])
    two.run(PUBLISH, [b"two", 0])
    two.run("insert into checked values (1)")
    waiting = stage.commit(two)
    first = stage.commit(one)
    return ended(first) | ended(waiting)


def opposite_orders(stage: Stage) -> set[str]:
    """Two transactions publish to two partitions, each in its own order, and both commit while somebody has the second
    partition."""
    holder, one, two = (stage.session(name) for name in ("holder", "one", "two"))
    found: set[str] = set()
    # Both have begun before either goes on.
    for session, partition in ((one, 1), (two, 0)):
        session.run(PUBLISH, [session.name.encode(), partition])
    puts = [(one, 0), (two, 1)]
    answers = [session.start(PUBLISH, [session.name.encode(), partition]) for session, partition in puts]
    for answer in answers:
        found |= ended(answer)
    if found:
        return found
    holder.run("select trunkline.lock_partition(max(partition_id)) from trunkline.topic_partition")
    committed = [stage.commit(one), stage.commit(two)]
    holder.commit()
    for end in committed:
        found |= ended(end)
    if stage.payloads(0) != stage.payloads(1):
        found.add("order")
    return found


def one_after_the_other(stage: Stage) -> set[str]:
    """One transaction has its place in a partition, and is not committed yet, when another commits."""
    one, two = stage.session("one"), stage.session("two")
    stage.admin.run(PUBLISH, [b"before", 0])
    one.run(PUBLISH, [b"one", 0])
    one.run("set constraints all immediate")
    two.run(PUBLISH, [b"two", 0])
    committed = stage.commit(two)
    one.commit()
    found = ended(committed)
    if not found and stage.payloads(0) != [b"before", b"one", b"two"]:
        found.add("order")
    return found


def made_immediate(stage: Stage) -> set[str]:
    """Constraints are checked in the middle of a transaction, as Django's tests do it."""
    caller = stage.session("caller")
    caller.run(PUBLISH, [b"a", 0])
    caller.run("set constraints all immediate")
    caller.run("set constraints all deferred")
    caller.run(PUBLISH, [b"b", 0])
    caller.commit()
    return set() if stage.payloads(0) == [b"a", b"b"] else {"lost"}


def ended(answer: Future[Any]) -> set[str]:
    """The error that a statement ended with, as a finding."""
    try:
        answer.result(WAIT_S)
    except psycopg.Error as error:
        return {f"error {error.sqlstate}"}
    return set()
