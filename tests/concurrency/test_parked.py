"""Blocked keys beside each other: a redrive, the transaction that handles, whoever takes the partition meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.concurrency.groups import TAKE, Group, Member, commit, refused
from tests.concurrency.sessions import WAIT_S, Session, Sessions

ADD = (
    "select trunkline.parked_add(%s::int4, 'a', 'x', 2, 'no', %s::int8, array[%s]::int8[], array['p'::bytea], array[0],"
    " '{}', '{}', array[now()])"
)
BEGIN = "select trunkline.parked_begin(%s::int4, %s::int4[], %s::int4[])"
DUE = "select record_offset from trunkline.parked_due(%s::int4, %s::int4[], %s::int4[], 10)"
FIND = "select first_offset from trunkline.parked_find(%s::int4[], array['a'::bytea], array['x'::bytea])"
DONE = "select trunkline.parked_done(%s::int4, 'a', 'x', %s::int8)"
FAIL = "select trunkline.parked_fail(%s::int4, 'a', 'x', 'still no')"
REDRIVE = "select record_count from trunkline.parked_redrive('g', execute => true)"
DISCARD = "select record_count from trunkline.parked_redrive('g', discard => true, execute => true)"
PARKED = "select record_offset from trunkline.group_parked order by 1"

both_ends = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])


class Scene:
    """Member m holds partition 0 in epoch 1; offset 1 of its key has failed, and 2 waits behind it."""

    def __init__(self, sessions: Sessions, topic_id: int) -> None:
        self.sessions = sessions
        self.group = Group(sessions, topic_id)
        self.cursor_id = self.group.cursor_ids[0]
        self.member = self.group.join("m")
        self.group.take(self.member, 0)
        self.admin = sessions.open("redrive", autocommit=True)
        self.admin.run(ADD, [self.cursor_id, None, 1])
        self.admin.run(ADD, [self.cursor_id, 1, 2])

    def due(self, session: Session, member: Member, epoch: int = 1) -> list[int]:
        rows = session.run(DUE, [member.member_id, [self.cursor_id], [epoch]])
        return [row[0] for row in rows]

    def parked(self) -> list[int]:
        return [row[0] for row in self.admin.run(PARKED)]

    def is_blocked(self, session: Session) -> bool:
        return bool(session.run(FIND, [[self.cursor_id]]))

    def end(self, session: Session, *, commits: bool) -> None:
        session.commit() if commits else session.rollback()


@pytest.fixture
def scene(sessions: Sessions, topic_id: int) -> Scene:
    return Scene(sessions, topic_id)


def test_nothing_is_due_before_a_redrive_is_asked_for_and_asking_twice_is_asking_once(scene: Scene) -> None:
    handler = scene.sessions.open("handler")
    assert scene.due(handler, scene.member) == []
    handler.rollback()
    assert scene.admin.run(REDRIVE) == [(2,)]
    assert scene.admin.run(REDRIVE) == [(2,)]
    assert scene.due(handler, scene.member) == [1, 2]
    assert scene.is_blocked(handler)
    handler.run(DONE, [scene.cursor_id, 2])
    assert not scene.is_blocked(handler)


@both_ends
def test_S4_16_while_a_key_is_redriven_nobody_takes_its_partition(scene: Scene, *, commits: bool) -> None:
    """And when it is over the next holder finds what became of it."""
    handler, other = scene.sessions.open("handler"), scene.group.join("other")
    scene.admin.run(REDRIVE)
    assert scene.due(handler, scene.member) == [1, 2]
    handler.run(DONE, [scene.cursor_id, 2])
    scene.sessions.end(scene.member.process)
    taker = scene.sessions.open("taker", autocommit=True)
    taking = taker.start(TAKE, [other.member_id, [scene.cursor_id]])
    scene.sessions.watcher.wait_blocked(taker, handler)
    scene.end(handler, commits=commits)
    assert taking.result(WAIT_S) == [(scene.cursor_id, 2, 1)]
    second = scene.sessions.open("second")
    assert scene.due(second, other, 2) == ([] if commits else [1, 2])
    assert scene.is_blocked(second) is not commits


def test_S4_16_who_has_lost_the_partition_redrives_nothing(scene: Scene) -> None:
    late, other = scene.sessions.open("late"), scene.group.join("other")
    scene.admin.run(REDRIVE)
    scene.sessions.end(scene.member.process)
    scene.group.take(other, 0)
    waiting = late.start(DUE, [scene.member.member_id, [scene.cursor_id], [1]])
    assert refused(waiting).sqlstate == "TL013"
    assert scene.parked() == [1, 2]


@both_ends
def test_S4_16_what_is_parked_beside_a_redrive_that_is_asked_for_stays_behind(scene: Scene, *, commits: bool) -> None:
    """The handler has seen that the key is blocked; the redrive is asked for before it commits what it parks."""
    handler = scene.sessions.open("handler")
    assert scene.is_blocked(handler)
    handler.run(BEGIN, [scene.member.member_id, [scene.cursor_id], [1]])
    handler.run(ADD, [scene.cursor_id, 1, 3])
    asked = scene.admin.start(REDRIVE)
    scene.sessions.watcher.wait_blocked(scene.admin, handler)
    commit(handler, scene.member, {scene.cursor_id: (1, 4)}).result(WAIT_S)
    scene.end(handler, commits=commits)
    asked.result(WAIT_S)
    again = scene.sessions.open("again")
    assert scene.due(again, scene.member) == ([1, 2, 3] if commits else [1, 2])


@pytest.mark.parametrize(("statement", "left"), [(REDRIVE, [1, 2]), (DISCARD, [2])], ids=["redrive", "discard"])
@pytest.mark.parametrize("succeeds", [True, False], ids=["handled", "failed"])
def test_S4_16_who_asks_while_a_redrive_is_under_way_waits_for_its_end(
    scene: Scene, statement: str, left: list[int], *, succeeds: bool
) -> None:
    handler = scene.sessions.open("handler")
    scene.admin.run(REDRIVE)
    assert scene.due(handler, scene.member) == [1, 2]
    asking = scene.sessions.open("asking", autocommit=True)
    asked = asking.start(statement)
    scene.sessions.watcher.wait_blocked(asking, handler)
    handler.run(DONE, [scene.cursor_id, 2]) if succeeds else handler.run(FAIL, [scene.cursor_id])
    handler.commit()
    asked.result(WAIT_S)
    assert scene.parked() == ([] if succeeds else left)
    again = scene.sessions.open("again")
    assert scene.due(again, scene.member) == ([] if succeeds else left)


def test_a_group_or_topic_that_is_deleted_takes_what_was_parked_with_it(scene: Scene) -> None:
    scene.admin.run("select trunkline.failure_add(%s, 1, 1, 'a', 'x', 2, 'no')", [scene.cursor_id])
    scene.admin.run("select trunkline.group_delete('g', cut_off => true)")
    counts: Any = scene.admin.run(
        "select (select count(*) from trunkline.group_parked), (select count(*) from trunkline.group_blocked),"
        " (select count(*) from trunkline.group_failure)"
    )
    assert counts == [(0, 0, 0)]
