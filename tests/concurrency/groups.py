"""Groups in plain SQL: members that live by a session, and the newest row of a cursor as anybody sees it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.concurrency.sessions import WAIT_S, Session, Sessions

CLAIM = "select claimed_start, claimed_end from trunkline.group_claim(%s::int4, %s::int4)"
TAKE = "select cursor_id, epoch, next_offset from trunkline.group_take(%s::int4, %s::int4[]) order by 1"
RELEASE = "select trunkline.group_release(%s::int4, %s::int4[])"
COMMIT = "select trunkline.group_commit(%s::int4, %s::int4[], %s::int4[], %s::int8[], %s::int8[])"
MOVE = "select cursor_id, epoch from trunkline.group_move(%s::int4, %s::int4[], %s::int4[], %s::int8[]) order by 1"
SEEK = "select * from trunkline.group_seek('g', 't', null, 'offset', %s, execute => true)"
VIEW = "select * from trunkline.group_view(%s::int4, %s::int4)"

_tokens = count(1)


class Newest(NamedTuple):
    """The row of the ledger that counts, without its time."""

    seq: int
    epoch: int
    next_offset: int
    member_id: int | None
    kind: str


@dataclass(frozen=True)
class Member:
    """A member; it is alive while its process's session is."""

    member_id: int
    process: Session
    session_no: int


class Group:
    """A group that reads one topic, with one cursor a partition, in that order."""

    def __init__(self, sessions: Sessions, topic_id: int, name: str = "g", *, at_offset: int = 1) -> None:
        self._sessions = sessions
        self._admin = sessions.open(f"admin of {name}", autocommit=True)
        self.topic_id = topic_id
        self.group_id = int(
            self.ask("select trunkline.group_enter(%s, %s, true, 'offset', %s)", [name, [topic_id], at_offset])
        )
        rows = self._admin.run("select cursor_id from trunkline.group_cursors(%s) order by partition", [self.group_id])
        self.cursor_ids = [int(row[0]) for row in rows]

    def ask(self, statement: str, parameters: Any = None) -> Any:
        """The single value that a statement of its own transaction answers."""
        return self._admin.run(statement, parameters)[0][0]

    def join(self, name: str) -> Member:
        """A new member in a new process."""
        process = self._sessions.open(f"process of {name}", autocommit=True)
        session_no = process.run("select trunkline.member_session()")[0][0]
        parameters = [self.group_id, session_no, [self.topic_id], name, next(_tokens)]
        return Member(
            self.ask("select trunkline.member_join(%s, %s, null, %s, %s, %s)", parameters), process, session_no
        )

    def take(self, member: Member, *partitions: int) -> list[int]:
        """Let a member take partitions, all of them if none is named; the epochs."""
        rows = self._admin.run(TAKE, [member.member_id, self.ids(partitions)])
        return [epoch for _, epoch, _ in rows]

    def ids(self, partitions: Sequence[int]) -> list[int]:
        return [self.cursor_ids[partition] for partition in partitions] or self.cursor_ids

    def newest(self, partition: int = 0) -> Newest:
        rows = self._admin.run(
            "select seq, epoch, next_offset, member_id, kind::text from trunkline.group_ledger"
            " where cursor_id = %s order by seq desc limit 1",
            [self.cursor_ids[partition]],
        )
        return Newest(*rows[0])

    def row_count(self) -> int:
        """How much was ever written of this group."""
        return int(
            self.ask("select count(*) from trunkline.group_ledger where cursor_id = any (%s)", [self.cursor_ids])
        )

    def cursors(self) -> list[int]:
        return [self.newest(partition).next_offset for partition in range(len(self.cursor_ids))]


def commit(
    session: Session,
    member: Member,
    places: dict[int, tuple[int, int]],
    *,
    from_offsets: Sequence[int] | None = None,
) -> Future[list[tuple[Any, ...]]]:
    """Begin group_commit in the session's transaction. ``places``: cursor to its epoch and its next offset."""
    epochs, next_offsets = zip(*places.values(), strict=True)
    offsets = None if from_offsets is None else list(from_offsets)
    return session.start(COMMIT, [member.member_id, list(places), list(epochs), list(next_offsets), offsets])


def refused(waiting: Future[Any]) -> psycopg.Error:
    """The error in which it ends."""
    with pytest.raises(psycopg.Error) as caught:
        waiting.result(WAIT_S)
    return caught.value
