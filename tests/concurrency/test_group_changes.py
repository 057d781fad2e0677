"""What changes under a group: it is made and deleted, its topic goes or gets partitions, members come meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.concurrency.groups import SEEK, TAKE, VIEW, Group, commit, refused
from tests.concurrency.sessions import WAIT_S, Session, Sessions

ENTER = "select trunkline.group_enter('g', array[%s::int4], true)"
BEGIN = "select trunkline.group_begin(%s, %s)"
LEFT = (
    "select (select count(*) from trunkline.group_ledger) + (select count(*) from trunkline.group_cursor)"
    " + (select count(*) from trunkline.group_swept)"
)
DELETIONS = ["group_delete('g', cut_off => true)", "topic_delete('t')"]

both_ends = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])


def _end(session: Session, *, commits: bool) -> None:
    session.commit() if commits else session.rollback()


# -- deleting --


@both_ends
@pytest.mark.parametrize("deletion", DELETIONS)
def test_a_deletion_waits_for_a_commit_that_is_under_way_and_leaves_nothing(
    sessions: Sessions, topic_id: int, deletion: str, *, commits: bool
) -> None:
    group, caller, admin = Group(sessions, topic_id), sessions.open("caller"), sessions.open("admin", autocommit=True)
    member = group.join("m")
    group.take(member)
    commit(caller, member, {group.cursor_ids[1]: (1, 5)}).result(WAIT_S)
    deleting = admin.start(f"select trunkline.{deletion}")
    sessions.watcher.wait_blocked(admin, caller)
    _end(caller, commits=commits)
    deleting.result(WAIT_S)
    assert sessions.watcher.ask(LEFT) == 0
    assert refused(commit(caller, member, {group.cursor_ids[1]: (1, 5)})).sqlstate == "TL013"


@both_ends
@pytest.mark.parametrize("deletion", DELETIONS)
def test_who_waits_for_a_cursor_that_is_deleted_is_told_so(
    sessions: Sessions, topic_id: int, deletion: str, *, commits: bool
) -> None:
    """A commit is fenced; a take finds its member gone with the group, or nothing to take; a seek finds no cursor.
    Where the deletion is rolled back, all three are done."""
    group, admin = Group(sessions, topic_id), sessions.open("admin")
    member = group.join("m")
    group.take(member, 0)
    admin.run(f"select trunkline.{deletion}")
    seeking, taking, committing = (sessions.open(name, autocommit=True) for name in ("seek", "take", "commit"))
    waiting = {
        "commit": commit(committing, member, {group.cursor_ids[0]: (1, 5)}),
        "take": taking.start(TAKE, [member.member_id, [group.cursor_ids[1]]]),
        "seek": seeking.start(SEEK.replace("null", "1"), [1]),
    }
    for session in (seeking, taking, committing):
        sessions.watcher.wait_blocked(session, admin)
    _end(admin, commits=commits)
    if not commits:
        for each in waiting.values():
            each.result(WAIT_S)
        assert group.newest(0)[1:] == (1, 5, member.member_id, "c")
        assert {group.newest(1).kind} <= {"s", "t"}
        return
    assert refused(waiting["commit"]).sqlstate == "TL013"
    assert refused(waiting["seek"]).sqlstate == "TL002"
    if "group" in deletion:
        assert refused(waiting["take"]).sqlstate == "TL002"
    else:
        assert waiting["take"].result(WAIT_S) == []
    assert sessions.watcher.ask(LEFT) == 0


@both_ends
def test_a_member_that_joins_while_its_group_is_deleted_is_told_so(
    sessions: Sessions, topic_id: int, *, commits: bool
) -> None:
    group, admin, joining = Group(sessions, topic_id), sessions.open("admin"), sessions.open("joining", autocommit=True)
    admin.run("select trunkline.group_delete('g')")
    waiting = joining.start(
        "select trunkline.member_join(%s, 1, null, array[%s::int4], 'late', -1)", [group.group_id, topic_id]
    )
    sessions.watcher.wait_blocked(joining, admin)
    _end(admin, commits=commits)
    if commits:
        assert refused(waiting).sqlstate == "TL002"
    else:
        assert waiting.result(WAIT_S)[0][0] >= 1


def test_a_group_with_living_members_is_deleted_only_when_they_are_to_be_cut_off(
    sessions: Sessions, topic_id: int
) -> None:
    """A dead member does not keep it. A group made again under the name is another: nothing of the old one fits."""
    group, admin = Group(sessions, topic_id), sessions.open("admin", autocommit=True)
    alive, dead = group.join("alive"), group.join("dead")
    group.take(alive)
    sessions.end(dead.process)
    error = refused(admin.start("select trunkline.group_delete('g')"))
    assert (error.sqlstate, "1 living" in str(error)) == ("TL016", True)
    admin.run("select trunkline.group_delete('g', cut_off => true)")
    assert refused(admin.start("select trunkline.group_delete('g')")).sqlstate == "TL002"
    again = Group(sessions, topic_id)
    assert set(again.cursor_ids).isdisjoint(group.cursor_ids)
    assert refused(commit(admin, alive, {group.cursor_ids[0]: (1, 5)})).sqlstate == "TL013"
    assert refused(admin.start(TAKE, [alive.member_id, again.cursor_ids])).sqlstate == "TL002"
    assert admin.run(VIEW, [alive.session_no, None]) == []


@pytest.mark.parametrize("first", ["the topic is deleted", "the group begins"])
@both_ends
def test_a_group_that_begins_while_its_topic_is_deleted_leaves_nothing_behind(
    sessions: Sessions, topic_id: int, first: str, *, commits: bool
) -> None:
    """Whichever comes first, the other waits for it. In the end there is a topic with its cursors, or neither."""
    other_id = sessions.open("admin", autocommit=True).run("select trunkline.topic_create('other')")[0][0]
    group_id = Group(sessions, other_id).group_id
    left = sessions.watcher.ask(LEFT)
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    calls: list[tuple[str, Any]] = [("select trunkline.topic_delete('t')", None), (BEGIN, [group_id, topic_id])]
    if first == "the group begins":
        calls.reverse()
    a.run(*calls[0])
    waiting = b.start(*calls[1])
    sessions.watcher.wait_blocked(b, a)
    if first == "the group begins":
        # The deletion that waits does not keep publishers waiting.
        sessions.open("writer", autocommit=True).append(topic_id, {0: [b"x"]}).result(WAIT_S)
    _end(a, commits=commits)
    if first == "the topic is deleted" and commits:
        assert refused(waiting).sqlstate == "TL002"
    else:
        waiting.result(WAIT_S)
    is_left = sessions.watcher.ask("select count(*) from trunkline.topic where name = 't'")
    assert sessions.watcher.ask(LEFT) == left + (4 if is_left else 0)


def test_who_forgets_a_cursor_takes_the_sweeps_mark_first(sessions: Sessions, topic_id: int) -> None:
    """The sweep holds its mark while it deletes from the ledger. A deletion that took the ledger's rows first, and
    then waited for the mark, would be in a deadlock with it. Here it is stopped at the ledger: the mark is its own."""
    group, lock, admin = Group(sessions, topic_id), sessions.open("lock"), sessions.open("admin", autocommit=True)
    admin.run("select trunkline.group_sweep()")
    lock.run("lock table trunkline.group_ledger in share mode")
    deleting = admin.start("select trunkline.group_delete('g')")
    sessions.watcher.wait_blocked(admin, lock)
    free = "select count(*) from (select from trunkline.group_swept for update skip locked) s"
    assert sessions.watcher.ask(free) == 0
    lock.rollback()
    deleting.result(WAIT_S)
    assert group.ask(LEFT) == 0


def test_a_list_of_groups_does_not_mind_that_one_is_deleted_meanwhile(sessions: Sessions, topic_id: int) -> None:
    """The list has found two groups and is stopped at the first, by a lock on what they read; the second goes. The list
    shows the first, and is no error."""
    for name in "ab":
        Group(sessions, topic_id, name)
    lock, lister = sessions.open("lock"), sessions.open("lister", autocommit=True)
    lock.run("lock table trunkline.group_cursor in access exclusive mode")
    listing = lister.start("select name, partitions from trunkline.group_list()")
    sessions.watcher.wait_blocked(lister, lock)
    lock.run("select trunkline.group_delete('b')")
    lock.commit()
    assert listing.result(WAIT_S)[0] == ("a", 2)


# -- making --


@both_ends
def test_two_readers_that_may_create_their_group_make_one(sessions: Sessions, topic_id: int, *, commits: bool) -> None:
    """B waits for A, and then finds the group of A, or makes it."""
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    made = a.run(ENTER, [topic_id])[0][0]
    waiting = b.start(ENTER, [topic_id])
    sessions.watcher.wait_blocked(b, a)
    _end(a, commits=commits)
    found = waiting.result(WAIT_S)[0][0]
    assert (found == made) == commits
    assert b.run("select name, partitions from trunkline.group_list()") == [("g", 2)]
    assert sessions.watcher.ask("select count(*) from trunkline.group_ledger") == 2


@both_ends
def test_two_that_create_one_group_are_told_that_it_exists(sessions: Sessions, topic_id: int, *, commits: bool) -> None:
    assert topic_id
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    create = "select trunkline.group_create('g', '{t}')"
    a.run(create)
    waiting = b.start(create)
    sessions.watcher.wait_blocked(b, a)
    _end(a, commits=commits)
    if commits:
        assert refused(waiting).sqlstate == "TL003"
    else:
        waiting.result(WAIT_S)
    assert b.run("select name, partitions from trunkline.group_list()") == [("g", 2)]


@both_ends
def test_two_that_begin_in_one_topic_make_each_cursor_once(sessions: Sessions, topic_id: int, *, commits: bool) -> None:
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    group_id = b.run("select trunkline.group_create('g')")[0][0]
    assert a.run(BEGIN, [group_id, topic_id]) == [(2,)]
    waiting = b.start(BEGIN, [group_id, topic_id])
    sessions.watcher.wait_blocked(b, a)
    _end(a, commits=commits)
    assert waiting.result(WAIT_S) == [(0 if commits else 2,)]
    assert sessions.watcher.ask("select count(*) from trunkline.group_ledger") == 2


def test_partitions_that_are_added_beside_members_begin_at_their_start(sessions: Sessions, topic_id: int) -> None:
    """The members see that the group is not whole, and keep what they hold. Whoever begins first makes the cursors, at
    the start, though the group began at its end: records of the new partitions are new to it."""
    admin = sessions.open("admin", autocommit=True)
    admin.append(topic_id, {0: [b"x"] * 3, 1: [b"x"]}).result(WAIT_S)
    admin.run("select trunkline.group_enter('g', %s, true, 'latest')", [[topic_id]])
    group = Group(sessions, topic_id)
    member = group.join("m")
    group.take(member)
    adding = sessions.open("adding")
    adding.run("select trunkline.topic_add_partitions('t', 4)")
    assert admin.run(VIEW, [member.session_no, None])[0][-1] is True
    commit(admin, member, {group.cursor_ids[0]: (1, 4)}).result(WAIT_S)
    adding.commit()
    admin.append(topic_id, {3: [b"new"]}).result(WAIT_S)
    assert admin.run(VIEW, [member.session_no, None])[0][-1] is False
    assert admin.run("select trunkline.group_begin(%s, %s, 'latest')", [group.group_id, topic_id]) == [(2,)]
    ids, owners, is_whole = admin.run(
        "select partitions, owner_ids, is_whole from trunkline.group_view(%s)", [member.session_no]
    )[0]
    assert (ids, owners, is_whole) == ([0, 1, 2, 3], [member.member_id] * 2 + [None] * 2, True)
    cursors = admin.run("select partition, next_offset from trunkline.group_cursors(%s)", [group.group_id])
    assert cursors == [(0, 4), (1, 2), (2, 1), (3, 1)]


def test_a_member_sees_its_group_without_a_topic_that_was_deleted(sessions: Sessions, topic_id: int) -> None:
    """The cursors of the topic are gone, those of the other stay as they were, and the group is whole."""
    admin = sessions.open("admin", autocommit=True)
    other_id = admin.run("select trunkline.topic_create('other')")[0][0]
    group = Group(sessions, topic_id)
    admin.run(BEGIN, [group.group_id, other_id])
    member = group.join("m")
    group.take(member)
    admin.run("select trunkline.topic_delete('t')")
    view = admin.run(
        "select member_ids, topic_ids, epochs, is_whole from trunkline.group_view(%s)", [member.session_no]
    )
    assert view == [([member.member_id], [other_id], [0], True)]
    assert admin.run("select topic, partition from trunkline.group_describe('g')") == [("other", 0)]
    assert admin.run("select topics from trunkline.member_list('g')") == [([],)]
