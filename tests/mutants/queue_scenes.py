"""Short stories of readers of a queue, in forced orders, written down for the checker. Each returns what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import TypeVar

import psycopg

from tests.checker.queue_history import Answer as Answered
from tests.checker.queue_history import Handed, QueueHistory, Settled, Settling
from tests.checker.queue_invariants import queue_violations
from tests.concurrency.sessions import WAIT_S, Session, Sessions, wait_until
from tests.queues.audit import add_rows, keep
from tests.queues.driver import Claim, Clock, Queue, Reader, Settlement

T = TypeVar("T")
DEADLINE_S = 10.0
ANYTIME_S = float("-inf")
"""The clock is moved by hand, so moments say nothing of deadlines."""


class Actor:
    """A reader on a session that stays in its transaction until it is told, and is written down."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.session: Session = stage.sessions.open(name)
        self.reader: Reader = stage.queue.reader(name, session=self.session)

    def claim(self, max_records: int = 100) -> list[Claim]:
        return self.do(lambda: self._claim(max_records))

    def claim_soon(self, max_records: int = 100) -> Future[list[Claim]]:
        return self.session.do(lambda: self._claim(max_records))

    def settle(self, claim: Claim, kind: Settling = "a", *, shortly: bool = False) -> bool:
        return self.do(lambda: self._settle(claim, kind, shortly=shortly))

    def settle_soon(self, claim: Claim, *, shortly: bool = False) -> Future[bool]:
        return self.session.do(lambda: self._settle(claim, "a", shortly=shortly))

    def do(self, work: Callable[[], T]) -> T:
        return self.session.do(work).result(WAIT_S)

    def commit(self) -> None:
        self.session.commit()

    def _claim(self, max_records: int) -> list[Claim]:
        begun = next(self.stage.moments)
        claims = self.reader.claim(max_records).claims
        for claim in claims:
            place = (self.reader.name, claim.partition, claim.claim_no, claim.attempt, frozenset(claim.offsets))
            moments = (begun, next(self.stage.moments))
            handed = Handed(*place, *moments, ANYTIME_S, is_exhausted=claim.is_exhausted)
            self.stage.history.handed.append(handed)
        return claims

    def _settle(self, claim: Claim, kind: Settling, *, shortly: bool) -> bool:
        """``shortly``: as clients acknowledge, by the function of the queue's tables where that can do it."""
        begun = next(self.stage.moments)
        is_done = self.reader.ack_shortly(claim) if shortly else not self.reader.next([Settlement(claim, kind)]).lost
        answer: Answered = "done" if is_done else "lost"
        place = (self.reader.name, claim.partition, claim.claim_no, kind, frozenset(claim.offsets))
        self.stage.history.settled.append(Settled(*place, begun, next(self.stage.moments), answer))
        return is_done


class Stage:
    """A queue, its clock, and what has happened."""

    def __init__(self, sessions: Sessions, max_attempts: int | None = None) -> None:
        self.sessions = sessions
        self.moments = count(1)
        self.wrong: set[str] = set()
        keep(sessions.url)
        letters = "dead" if max_attempts else None
        self.queue = Queue(sessions.url, ack_deadline_s=DEADLINE_S, max_attempts=max_attempts, dead_letter=letters)
        self.clock = Clock(self.queue.admin)
        self.history = QueueHistory(max_attempts=max_attempts)

    def actor(self, name: str) -> Actor:
        return Actor(self, name)

    def meet(self, waiting: Actor, answer: Future[T], holder: Actor) -> bool:
        """Whether one has to wait for the other."""
        watcher = self.sessions.watcher
        wait_until(
            lambda: answer.done() or watcher.blocked_by(waiting.session, holder.session),
            f"{waiting.session.name} goes on, or waits",
        )
        return not answer.done()

    def result(self, answer: Future[T]) -> T | None:
        """What came of it; an error is one more thing that is wrong."""
        try:
            return answer.result(WAIT_S)
        except psycopg.Error as error:
            self.wrong.add(f"error {error.sqlstate}")
            return None

    def judged(self) -> set[str]:
        """Somebody does all that is left to be done, and then the checker looks at it."""
        reader = self.actor("last")
        for _ in range(5):
            self.clock.advance(DEADLINE_S + 1)
            for claim in reader.claim():
                reader.settle(claim)
            reader.commit()
        add_rows(self.queue.admin, self.history)
        self.queue.close()
        return self.wrong | {violation.kind for violation in queue_violations(self.history)}


QueueScene = Callable[[Sessions], set[str]]


def late_ack(sessions: Sessions) -> set[str]:
    """A reader acknowledges after its deadline, while another is about to take its records over."""
    return _late_ack(sessions, shortly=False)


def late_ack_shortly(sessions: Sessions) -> set[str]:
    return _late_ack(sessions, shortly=True)


def _late_ack(sessions: Sessions, *, shortly: bool) -> set[str]:
    stage = Stage(sessions)
    stage.queue.publish(3)
    late, heir = stage.actor("late"), stage.actor("heir")
    (claim,) = late.claim()
    late.commit()
    stage.clock.advance(DEADLINE_S)
    (again,) = heir.claim()
    answer = late.settle_soon(claim, shortly=shortly)
    stage.meet(late, answer, heir)
    heir.commit()
    stage.result(answer)
    late.session.rollback() if "error 23505" in stage.wrong else late.commit()
    heir.settle(again)
    heir.commit()
    return stage.judged()


def slow_ack(sessions: Sessions) -> set[str]:
    """A reader acknowledges in time, in a transaction that goes on past its deadline; another looks for records."""
    return _slow_ack(sessions, shortly=False)


def slow_ack_shortly(sessions: Sessions) -> set[str]:
    return _slow_ack(sessions, shortly=True)


def _slow_ack(sessions: Sessions, *, shortly: bool) -> set[str]:
    stage = Stage(sessions)
    stage.queue.publish(3)
    slow, other = stage.actor("slow"), stage.actor("other")
    (claim,) = slow.claim()
    slow.commit()
    slow.settle(claim, shortly=shortly)
    stage.clock.advance(DEADLINE_S)
    answer = other.claim_soon()
    if stage.meet(other, answer, slow):
        stage.wrong.add("waits")
    slow.commit()
    stage.result(answer)
    other.session.rollback() if "error 23505" in stage.wrong else other.commit()
    return stage.judged()


def nack_and_sweep(sessions: Sessions) -> set[str]:
    """A reader gives back at once, in a transaction that is open for a moment. Meanwhile another looks at all that
    is due, which is later than what was given back."""
    stage = Stage(sessions)
    stage.queue.publish(1)
    stage.queue.publish(1)
    giver, other = stage.actor("giver"), stage.actor("other")
    other.claim(1)
    other.commit()
    stage.clock.advance(DEADLINE_S / 2)
    (claim,) = giver.claim(1)
    giver.commit()
    giver.settle(claim, "n")
    stage.clock.advance(DEADLINE_S / 2)
    answer = other.claim_soon()
    stage.meet(other, answer, giver)
    if answer.done():
        other.commit()
    giver.commit()
    stage.result(answer)
    other.session.rollback() if stage.wrong else other.commit()
    return stage.judged()


def deadly_record(sessions: Sessions) -> set[str]:
    """Whoever claims it dies, and says nothing."""
    stage = Stage(sessions, max_attempts=3)
    stage.queue.publish(1)
    reader = stage.actor("reader")
    for _ in range(6):
        claims = reader.claim()
        reader.commit()
        if any(claim.is_exhausted for claim in claims):
            break
        stage.clock.advance(DEADLINE_S + 1)
    else:
        stage.wrong.add("never ends")
    return stage.judged()


def many_are_due(sessions: Sessions) -> set[str]:
    """Three claims expire, and somebody asks for one record."""
    stage = Stage(sessions)
    reader = stage.actor("reader")
    for _ in range(3):
        stage.queue.publish(1)
        reader.claim(1)
        reader.commit()
        stage.clock.advance(1)
    stage.clock.advance(DEADLINE_S)
    reader.claim(1)
    reader.commit()
    return stage.judged()
