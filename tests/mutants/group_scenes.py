"""Short plays on a group, each around one trap, in plain SQL. They record a history, and do not know whether the
group is sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import psycopg

from tests.checker.group_history import KINDS, Answer, Commit, Entry, GroupHistory, Handed
from tests.checker.group_invariants import group_violations
from tests.checker.history import Recorder
from tests.concurrency.sessions import WAIT_S, Session, Sessions, wait_until
from trunkline.settings import Delivery

GroupScene = Callable[["GroupStage"], None]
Answered = Future[list[tuple[Any, ...]]]

TAKE = "select epoch, next_offset from trunkline.group_take(%s, array[%s])"
COMMIT = "select trunkline.group_commit(%s, array[%s], array[%s], array[%s::int8], %s::int8[])"
CLAIM = "select claimed_start, claimed_end from trunkline.group_claim(%s, %s)"
JOIN = "select trunkline.member_join(%s, %s, null, array[%s], %s, %s)"
LEDGER = "select seq, epoch, next_offset, member_id, kind::text from trunkline.group_ledger order by seq"
REFUSED = {"TL001", "TL013"}
"""What a sound group says to a commit that it does not take."""


class Member:
    """A member of the group: a session by which it lives, and one in which it works."""

    def __init__(self, stage: GroupStage, name: str) -> None:
        self.name = name
        self.living = stage.sessions.open(f"{name} lives", autocommit=True)
        self.working = stage.sessions.open(name)
        ((session_no,),) = self.living.run("select trunkline.member_session()")
        ((self.id,),) = stage.admin.run(JOIN, [stage.group_id, session_no, stage.topic_id, name, session_no])
        self.epoch = 0
        self.at = 0


class GroupStage:
    """A group that reads one partition, its members, and what they do, written down. Errors that nobody gets from a
    sound group are kept as findings."""

    def __init__(self, sessions: Sessions, delivery: Delivery) -> None:
        self.sessions = sessions
        self.admin = sessions.open("admin", autocommit=True)
        self.errors: set[str] = set()
        self.history = GroupHistory(delivery, dead=set())
        self.tick = Recorder().tick
        self.topic_id = int(self.admin.run("select trunkline.topic_create('t', 1)")[0][0])
        self.group_id = int(self.admin.run("select trunkline.group_create('g', array['t'])")[0][0])
        self.cursor_id = int(self.admin.run("select cursor_id from trunkline.group_cursor")[0][0])
        self.admin.run('create table effect ("offset" bigint)')

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.admin.run("select trunkline.log_publish('t', 'x')")

    def die(self, member: Member) -> None:
        """Its session ends; what it was about to do may still come."""
        self.sessions.end(member.living)
        self.history.dead = {*(self.history.dead or ()), member.id}

    # -- what members do --

    def begin_take(self, member: Member) -> Answered:
        return self._begun(member.working, TAKE, [member.id, self.cursor_id])

    def end_take(self, member: Member, answer: Answered) -> bool:
        """Whether it got the partition."""
        rows = answer.result(WAIT_S)
        member.working.commit()
        for epoch, next_offset in rows:
            member.epoch, member.at = epoch, next_offset
        return bool(rows)

    def take(self, member: Member) -> bool:
        return self.end_take(member, self.begin_take(member))

    def hand_out(self, member: Member, end: int) -> None:
        self.history.handed.append(Handed(member.id, 0, member.epoch, member.at, end, self.tick()))
        member.at = end

    def begin_commit(
        self, member: Member, next_offset: int, *, epoch: int | None = None, since: int | None = None
    ) -> Answered:
        """Begin to commit, in an epoch of its own choice; with ``since`` as the end of a transaction with effects."""
        if since is not None:
            places = [list(range(since, next_offset))]
            member.working.run('insert into effect ("offset") select unnest(%s::int8[])', places)
        parameters = [
            member.id,
            self.cursor_id,
            member.epoch if epoch is None else epoch,
            next_offset,
            None if since is None else [since],
        ]
        return self._begun(member.working, COMMIT, parameters)

    def end_commit(self, member: Member, answer: Answered, next_offset: int, *, epoch: int | None = None) -> None:
        invoked = self.tick()
        answered: Answer = "acknowledged"
        try:
            answer.result(WAIT_S)
            member.working.commit()
        except psycopg.Error as error:
            member.working.rollback()
            answered = "refused"
            if error.sqlstate not in REFUSED:
                self.errors.add(f"error {error.sqlstate}")
        asked = member.epoch if epoch is None else epoch
        self.history.commits.append(Commit(member.id, 0, asked, next_offset, invoked, self.tick(), answered))

    def commit(self, member: Member, next_offset: int, *, epoch: int | None = None, since: int | None = None) -> None:
        answer = self.begin_commit(member, next_offset, epoch=epoch, since=since)
        self.end_commit(member, answer, next_offset, epoch=epoch)

    def begin_claim(self, session: Session, count: int) -> Answered:
        return self._begun(session, CLAIM, [self.cursor_id, count])

    def end_claim(self, session: Session, answer: Answered) -> None:
        """Record what a reader at most once got, in a transaction that goes on."""
        try:
            ((start, end),) = answer.result(WAIT_S)
        except psycopg.Error as error:
            session.rollback()
            self.errors.add(f"error {error.sqlstate}")
            return
        if end > start:
            self.history.handed.append(Handed(0, 0, 0, start, end, self.tick()))

    def _begun(self, session: Session, statement: str, parameters: Sequence[Any]) -> Answered:
        """A statement that is done, or waits for somebody."""
        answer = session.start(statement, parameters)
        watcher = self.sessions.watcher
        wait_until(lambda: answer.done() or watcher.is_waiting(session), f"{session.name} is done or waits")
        return answer


def group_findings(scene: GroupScene, sessions: Sessions, delivery: Delivery) -> set[str]:
    """Play a scene; the kinds of what is wrong with what it recorded. Nothing: the group is sound."""
    stage = GroupStage(sessions, delivery)
    scene(stage)
    history = stage.history
    for seq, epoch, next_offset, member, kind in stage.admin.run(LEDGER):
        history.ledger.append(Entry(0, seq, epoch, next_offset, member, KINDS[kind]))
    history.ends = dict(stage.admin.run('select partition, "end" from trunkline.log_range(%s)', [stage.topic_id]))
    history.effects = [(0, offset) for (offset,) in stage.admin.run('select "offset" from effect')]
    found = group_violations(history)
    print("; ".join(map(str, [*found, *stage.errors])) or "clean")
    return {violation.kind for violation in found} | stage.errors


def late_commit(stage: GroupStage) -> None:
    """A has records in hand and is taken for dead. While B takes the partition, A commits, and has to wait for B."""
    stage.publish(3)
    a, b = Member(stage, "a"), Member(stage, "b")
    stage.take(a)
    stage.hand_out(a, 4)
    stage.die(a)
    taking = stage.begin_take(b)
    committing = stage.begin_commit(a, 3)
    stage.end_take(b, taking)
    stage.end_commit(a, committing, 3)
    stage.hand_out(b, 4)
    stage.commit(b, 4)


def takeover(stage: GroupStage) -> None:
    """A dies with records in hand. B gets them."""
    stage.publish(3)
    a, b = Member(stage, "a"), Member(stage, "b")
    stage.take(a)
    stage.hand_out(a, 4)
    stage.die(a)
    if stage.take(b):
        stage.hand_out(b, 4)
        stage.commit(b, 4)


def standby(stage: GroupStage) -> None:
    """A holds the partition and lives; B tries to take it, and stands by."""
    stage.publish(3)
    a, b = Member(stage, "a"), Member(stage, "b")
    stage.take(a)
    stage.hand_out(a, 4)
    if stage.take(b):
        stage.hand_out(b, 4)
    stage.commit(a, 4)
    stage.commit(b, 4)


def late_copy(stage: GroupStage) -> None:
    """Of a transaction with effects a copy arrives late, after the first one was done."""
    stage.publish(3)
    a = Member(stage, "a")
    stage.take(a)
    stage.hand_out(a, 4)
    stage.commit(a, 4, since=1)
    stage.commit(a, 4, since=1)


def old_epoch(stage: GroupStage) -> None:
    """A goes back to the start. What it had read before arrives as a late commit."""
    stage.publish(3)
    a = Member(stage, "a")
    stage.take(a)
    stage.hand_out(a, 4)
    before = a.epoch
    ((a.epoch,),) = stage.admin.run(
        "select epoch from trunkline.group_move(%s, array[%s], array[%s], array[1::int8])",
        [a.id, stage.cursor_id, before],
    )
    a.at = 1
    stage.commit(a, 4, epoch=before)
    stage.hand_out(a, 4)
    stage.commit(a, 4)


def late_step(stage: GroupStage) -> None:
    """A commits, and what it had committed before arrives once more."""
    stage.publish(3)
    a = Member(stage, "a")
    stage.take(a)
    stage.hand_out(a, 4)
    stage.commit(a, 4)
    stage.commit(a, 2)


def one_batch_waits(stage: GroupStage) -> None:
    """A reader claims as many records as there are, and then finds none."""
    stage.publish(4)
    reader = stage.sessions.open("reader")
    for _ in range(2):
        stage.end_claim(reader, stage.begin_claim(reader, 4))
        reader.commit()


def claims_meet(stage: GroupStage) -> None:
    """B waits for A, who claims, and claims what was published meanwhile too."""
    stage.publish(4)
    a, b = stage.sessions.open("a"), stage.sessions.open("b")
    stage.end_claim(a, stage.begin_claim(a, 2))
    claiming = stage.begin_claim(b, 10)
    stage.publish(4)
    stage.end_claim(a, stage.begin_claim(a, 10))
    a.commit()
    stage.end_claim(b, claiming)
    b.commit()
