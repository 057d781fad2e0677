"""What forced interleavings of a queue have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.concurrency.sessions import WAIT_S, Session, Sessions
from tests.queues.driver import Claim, Queue, Reader

T = TypeVar("T")


Ack = Callable[[Reader, Claim], bool]


ACKS = pytest.mark.parametrize("ack", [Reader.ack, Reader.ack_shortly], ids=["queue_next", "step"])


class Party:
    """A reader on a session that stays in its transaction until it is told."""

    def __init__(self, queue: Queue, sessions: Sessions, name: str) -> None:
        self.session: Session = sessions.open(name)
        self.reader = queue.reader(name, session=self.session)

    def do(self, work: Callable[[], T]) -> T:
        return self.session.do(work).result(WAIT_S)

    def commit(self) -> None:
        self.session.commit()

    def rollback(self) -> None:
        self.session.rollback()


MakeParty = Callable[[str], Party]
