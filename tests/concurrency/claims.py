"""Readers that share one cursor, step by step: what each of them must get, and whether it got that."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.concurrency.groups import CLAIM, Group
from tests.concurrency.sessions import WAIT_S, Session, Sessions

Window = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """A turn of one reader: it claims up to ``max_records``, or, where it has claimed, ends its transaction. Before
    that, ``published`` records are appended."""

    reader: int
    max_records: int
    commits: bool
    published: int


@dataclass
class Play:
    """Claims of readers on one cursor, one transaction each, and the windows that were committed.

    The cursor's lock is given in the order in which it was asked for, so the model knows who gets what: from the last
    committed end on, up to the tip at that moment.
    """

    sessions: Sessions
    topic_id: int
    group: Group
    tip: int
    cursor: int
    faults: list[str] = field(default_factory=list)
    committed: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._writer = self.sessions.open("writer", autocommit=True)
        self._readers = [self.sessions.open(f"reader {number}") for number in range(3)]
        self._line: list[int] = []
        self._asked: dict[int, tuple[int, Future[list[tuple[Any, ...]]]]] = {}
        self._held: Window = (0, 0)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._publish(step.published)
            if step.reader not in self._line:
                self._claim(step.reader, step.max_records)
            elif step.reader == self._line[0]:
                self._end(commits=step.commits)
        while self._line:
            self._end(commits=True)

    def drain(self, max_records: int) -> None:
        """Claim what is left, each window in a transaction of its own, until there is nothing."""
        for _ in range(self.tip + 2):
            self._claim(0, max_records)
            window = self._held
            self._end(commits=True)
            if window[0] == window[1]:
                return
        self.faults.append("the claims do not come to an end")

    def _publish(self, count: int) -> None:
        if count:
            self._writer.append(self.topic_id, {0: [b"x"] * count}).result(WAIT_S)
            self.tip += count

    def _claim(self, reader: int, max_records: int) -> None:
        session = self._readers[reader]
        asked = session.start(CLAIM, [self.group.cursor_ids[0], max_records])
        self._line.append(reader)
        self._asked[reader] = (max_records, asked)
        if len(self._line) == 1:
            self._receive()
        else:
            self.sessions.watcher.wait_blocked(session, self._readers[self._line[0]])

    def _receive(self) -> None:
        """The first in line gets its window."""
        max_records, asked = self._asked.pop(self._line[0])
        expected = (self.cursor, min(self.tip + 1, self.cursor + max_records))
        try:
            ((start, end),) = asked.result(WAIT_S)
        except psycopg.Error as error:
            self.faults.append(f"error {error.sqlstate}")
            start, end = self.cursor, self.cursor
        if (start, end) != expected:
            self.faults.append(f"got [{start}, {end}), not [{expected[0]}, {expected[1]})")
        self._held = (start, end)

    def _end(self, *, commits: bool) -> None:
        reader = self._line.pop(0)
        session: Session = self._readers[reader]
        session.commit() if commits else session.rollback()
        if commits:
            self.cursor = self._held[1]
            self.committed.append(self._held)
        if self._line:
            self._receive()


def handed_out(windows: Sequence[Window]) -> list[int]:
    """Every offset that the windows hold, in the order in which they were committed."""
    return [offset for start, end in windows for offset in range(start, end)]
