"""Who may move a cursor: commits, takes, releases, moves and seeks that meet. That a session waits is proven by
pg_blocking_pids; that nothing was written, by the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.concurrency.conftest import StartServer
from tests.concurrency.groups import CLAIM, COMMIT, MOVE, RELEASE, SEEK, TAKE, Group, Member, commit, refused
from tests.concurrency.sessions import WAIT_S, Session, Sessions, opened

SNAPSHOTS = ["repeatable read", "serializable"]
HINT = "run the transaction again, or commit cursors in READ COMMITTED, which does not meet this"


@dataclass(frozen=True)
class Held:
    """A group on a topic with ten records in each of two partitions, and a member that holds both in epoch 1."""

    group: Group
    member: Member

    @property
    def first(self) -> int:
        return self.group.cursor_ids[0]

    @property
    def second(self) -> int:
        return self.group.cursor_ids[1]

    def call(self, name: str, *, partition: int = 0) -> tuple[str, list[Any]]:
        """A call that writes to a cursor, or would: statement and parameters."""
        member_id, ids = self.member.member_id, [self.group.cursor_ids[partition]]
        calls: dict[str, tuple[str, list[Any]]] = {
            "commit": (COMMIT, [member_id, ids, [1], [5], None]),
            "take": (TAKE, [member_id, ids]),
            "release": (RELEASE, [member_id, ids]),
            "move": (MOVE, [member_id, ids, [1], [3]]),
            "leave": ("select trunkline.member_leave(%s::int4[])", [[member_id]]),
            "seek": (SEEK, [2]),
            "claim": (CLAIM, [ids[0], 10]),
        }
        return calls[name]


def _held(sessions: Sessions, topic_id: int) -> Held:
    writer = sessions.open("writer", autocommit=True)
    writer.append(topic_id, {0: [b"x"] * 10, 1: [b"x"] * 10}).result(WAIT_S)
    group = Group(sessions, topic_id)
    member = group.join("m")
    assert group.take(member) == [1, 1]
    return Held(group, member)


@pytest.fixture
def held(sessions: Sessions, topic_id: int) -> Held:
    return _held(sessions, topic_id)


def _starts(session: Session, call: tuple[str, list[Any]]) -> Future[list[tuple[Any, ...]]]:
    return session.start(*call)


# -- a commit that comes too late --


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("change", ["take", "release", "move", "seek", "leave"])
def test_a_commit_that_waited_while_the_cursor_changed_hands_is_refused(
    sessions: Sessions, held: Held, change: str, *, commits: bool
) -> None:
    """The commit waits for the cursor; when it gets it, the epoch is another one: TL013, nothing written. Where the
    change was rolled back, it is written."""
    other, late = sessions.open("other"), sessions.open("late")
    other.run(*held.call(change))
    waiting = commit(late, held.member, {held.first: (1, 5)})
    sessions.watcher.wait_blocked(late, other)
    other.commit() if commits else other.rollback()
    if commits:
        after = held.group.newest()
        error = refused(waiting)
        assert (error.sqlstate, error.diag.message_detail) == ("TL013", str(held.first))
        late.rollback()
        assert (held.group.newest(), after.kind != "c") == (after, True)
    else:
        waiting.result(WAIT_S)
        late.commit()
        assert held.group.newest()[1:] == (1, 5, held.member.member_id, "c")


@pytest.mark.parametrize("zombie_commits", [True, False], ids=["commit", "rollback"])
def test_a_taker_waits_for_the_transaction_of_a_dead_member_and_goes_on_where_it_ended(
    sessions: Sessions, held: Held, *, zombie_commits: bool
) -> None:
    """The member's process is gone, its transaction with the cursor still open: whoever takes the partition waits for
    its end, begins behind what it committed, or at the old place, and its next commit is refused."""
    new, zombie, taker = held.group.join("new"), sessions.open("zombie"), sessions.open("taker", autocommit=True)
    sessions.end(held.member.process)
    commit(zombie, held.member, {held.first: (1, 7)}).result(WAIT_S)
    taking = taker.start(TAKE, [new.member_id, [held.first]])
    sessions.watcher.wait_blocked(taker, zombie)
    zombie.commit() if zombie_commits else zombie.rollback()
    assert taking.result(WAIT_S) == [(held.first, 2, 7 if zombie_commits else 1)]
    assert refused(commit(zombie, held.member, {held.first: (1, 9)})).sqlstate == "TL013"


def test_one_lost_partition_among_several_writes_nothing_at_all(sessions: Sessions, held: Held) -> None:
    """Also where the lost one is named first or last, and the error names that one alone."""
    caller = sessions.open("caller")
    caller.run("create temp table effects (x int)")
    caller.commit()
    held.group.take(held.member, 1)
    rows = held.group.row_count()
    for places in ({held.first: (1, 5), held.second: (1, 5)}, {held.second: (1, 5), held.first: (1, 5)}):
        caller.run("insert into effects values (1)")
        error = refused(commit(caller, held.member, places))
        assert (error.sqlstate, error.diag.message_detail) == ("TL013", str(held.second))
        caller.rollback()
    assert (held.group.row_count(), caller.run("select count(*) from effects")) == (rows, [(0,)])


def test_who_never_held_it_cannot_commit_it(sessions: Sessions, held: Held) -> None:
    """Another member, a member that does not exist, another epoch, a cursor that does not exist, none: TL013."""
    caller, other = sessions.open("caller", autocommit=True), held.group.join("other")
    nobody = Member(2**31 - 1, other.process, 0)
    for member, cursor_id, epoch in (
        (other, held.first, 1),
        (nobody, held.first, 1),
        (held.member, held.first, 0),
        (held.member, held.first, 2),
        (held.member, 2**31 - 1, 1),
    ):
        assert refused(commit(caller, member, {cursor_id: (epoch, 5)})).sqlstate == "TL013"
    free = Group(sessions, held.group.topic_id, "free")
    assert refused(commit(caller, held.member, {free.cursor_ids[0]: (0, 5)})).sqlstate == "TL013"
    assert held.group.cursors() == [1, 1]


def test_the_same_commit_again_is_accepted_and_an_older_one_is_not(sessions: Sessions, held: Held) -> None:
    """An answer was lost and the commit is sent again: fine. One that would go back is refused, and not as fenced."""
    caller = sessions.open("caller", autocommit=True)
    for _ in range(2):
        commit(caller, held.member, {held.first: (1, 5)}).result(WAIT_S)
    error = refused(commit(caller, held.member, {held.first: (1, 4)}))
    assert (error.sqlstate, error.diag.message_hint) == ("TL001", "seek to go back")
    assert held.group.cursors() == [5, 1]


def test_a_second_copy_of_a_transaction_with_effects_is_refused(sessions: Sessions, held: Held) -> None:
    """Both copies say from where they began. The second waits for the first; after its commit the cursor is not there
    any more, after a rollback it is."""
    a, b = sessions.open("a"), sessions.open("b")
    for commits in (False, True):
        for session in (a, b):
            session.run("select 1")
        commit(a, held.member, {held.first: (1, 5)}, from_offsets=[1]).result(WAIT_S)
        copy = commit(b, held.member, {held.first: (1, 5)}, from_offsets=[1])
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        if commits:
            assert refused(copy).sqlstate == "TL001"
        else:
            copy.result(WAIT_S)
        b.rollback()
    assert held.group.cursors() == [5, 1]
    commit(a, held.member, {held.first: (1, 8)}, from_offsets=[5]).result(WAIT_S)


# -- taking, giving back, moving --


def test_only_what_nobody_alive_holds_is_taken(sessions: Sessions, held: Held) -> None:
    """Another's is left as it is, also when several are asked for; one's own is taken again in a new epoch; what a
    dead member held is free."""
    other, caller = held.group.join("other"), sessions.open("caller", autocommit=True)
    rows = held.group.row_count()
    assert caller.run(TAKE, [other.member_id, held.group.cursor_ids]) == []
    assert held.group.row_count() == rows
    assert caller.run(RELEASE, [held.member.member_id, [held.second]]) == [(1,)]
    assert caller.run(TAKE, [other.member_id, held.group.cursor_ids]) == [(held.second, 3, 1)]
    assert caller.run(TAKE, [held.member.member_id, held.group.cursor_ids]) == [(held.first, 2, 1)]
    sessions.end(held.member.process)
    assert caller.run(TAKE, [other.member_id, held.group.cursor_ids]) == [(held.first, 3, 1), (held.second, 4, 1)]
    assert caller.run(RELEASE, [held.member.member_id, held.group.cursor_ids]) == [(0,)]


def test_two_members_that_want_one_free_partition_get_it_once(sessions: Sessions, held: Held) -> None:
    """B waits for A, who takes it: B gets nothing, and no error. Where A rolled back, B gets it."""
    b_member, a, b = held.group.join("b"), sessions.open("a"), sessions.open("b")
    held.group.ask(RELEASE, [held.member.member_id, [held.first]])
    for commits in (False, True):
        a.run(TAKE, [held.member.member_id, [held.first]])
        taking = b.start(TAKE, [b_member.member_id, [held.first]])
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        assert taking.result(WAIT_S) == ([] if commits else [(held.first, 3, 1)])
        b.rollback()


def test_a_move_sets_cursors_anywhere_and_ends_the_epoch(sessions: Sessions, held: Held) -> None:
    """Back, forward, both or none of several; a commit of what was read before is refused."""
    caller, member_id = sessions.open("caller", autocommit=True), held.member.member_id
    commit(caller, held.member, {held.first: (1, 9)}).result(WAIT_S)
    assert caller.run(MOVE, [member_id, held.group.cursor_ids, [1, 1], [2, 11]]) == [(held.first, 2), (held.second, 2)]
    assert refused(commit(caller, held.member, {held.first: (1, 10)})).sqlstate == "TL013"
    rows = held.group.row_count()
    error = refused(caller.start(MOVE, [member_id, held.group.cursor_ids, [2, 1], [5, 5]]))
    assert (error.sqlstate, error.diag.message_detail) == ("TL013", str(held.second))
    assert (held.group.row_count(), held.group.cursors()) == (rows, [2, 11])


def test_a_seek_says_what_it_would_do_and_takes_the_partition_from_its_member(sessions: Sessions, held: Held) -> None:
    """Without execute nothing is written or locked, also while somebody holds the cursor; with it the member is
    fenced, and takes the partition again at the new place."""
    admin, caller = sessions.open("admin", autocommit=True), sessions.open("caller")
    rows = held.group.row_count()
    commit(caller, held.member, {held.first: (1, 5)}).result(WAIT_S)
    dry = "select * from trunkline.group_seek('g', 't', null, 'end')"
    assert admin.run(dry) == [(0, 1, 11), (1, 1, 11)]
    caller.rollback()
    assert held.group.row_count() == rows
    assert admin.run(f"{dry[:-1]}, execute => true)") == [(0, 1, 11), (1, 1, 11)]
    assert refused(commit(caller, held.member, {held.first: (1, 5)})).sqlstate == "TL013"
    assert admin.run(TAKE, [held.member.member_id, [held.first]]) == [(held.first, 3, 11)]


# -- locks --


def test_cursors_named_in_opposite_orders_do_not_deadlock(sessions: Sessions, held: Held) -> None:
    """H holds the second cursor; A, who names it first, has taken the first one and waits for H; B waits for A and
    not for H. Whatever is named first, locks go up."""
    h, a, b = (sessions.open(name) for name in "hab")
    commit(h, held.member, {held.second: (1, 2)}).result(WAIT_S)
    of_a = commit(a, held.member, {held.second: (1, 3), held.first: (1, 3)})
    sessions.watcher.wait_blocked(a, h)
    of_b = commit(b, held.member, {held.first: (1, 4), held.second: (1, 4)})
    sessions.watcher.wait_blocked(b, a)
    assert not sessions.watcher.blocked_by(b, h)
    h.commit()
    of_a.result(WAIT_S)
    a.commit()
    of_b.result(WAIT_S)
    b.commit()
    assert held.group.cursors() == [4, 4]


@pytest.mark.parametrize("array", ["[0:0]={%s}", "{{%s}}", "{%s}"])
def test_an_array_of_any_shape_locks_its_cursor(sessions: Sessions, held: Held, array: str) -> None:
    """Another language may send an array that begins at 0, or has two dimensions: the commit waits all the same."""
    holder, caller = sessions.open("holder"), sessions.open("caller", autocommit=True)
    commit(holder, held.member, {held.first: (1, 2)}).result(WAIT_S)
    statement = "select trunkline.group_commit(%s, %s::int4[], '{1}', '{5}')"
    waiting = caller.start(statement, [held.member.member_id, array % held.first])
    sessions.watcher.wait_blocked(caller, holder)
    holder.commit()
    waiting.result(WAIT_S)
    assert held.group.newest()[:3] == (4, 1, 5)


@pytest.mark.parametrize("name", ["commit", "take", "release", "move", "leave", "seek", "claim"])
def test_a_wait_for_a_cursor_has_a_bound(sessions: Sessions, held: Held, name: str) -> None:
    """The session's lock_timeout, which is as it was afterwards; nothing was written."""
    holder, caller = sessions.open("holder"), sessions.open("caller", autocommit=True)
    commit(holder, held.member, {held.first: (1, 2)}).result(WAIT_S)
    caller.run("set lock_timeout = '30ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        _starts(caller, held.call(name)).result(WAIT_S)
    holder.rollback()
    assert held.group.newest().seq == 2
    assert caller.run("show lock_timeout") == [("30ms",)]


def test_a_session_without_a_bound_gets_one_for_the_wait_alone(sessions: Sessions, held: Held) -> None:
    holder, caller = sessions.open("holder"), sessions.open("caller")
    commit(holder, held.member, {held.first: (1, 2)}).result(WAIT_S)
    caller.run("set lock_timeout = 0")
    waiting = _starts(caller, held.call("commit"))
    sessions.watcher.wait_blocked(caller, holder)
    holder.commit()
    waiting.result(WAIT_S)
    assert caller.run("show lock_timeout") == [("0",)]


# -- callers' transactions --


def _with_snapshot(sessions: Sessions, isolation: str) -> Session:
    session = sessions.open("caller")
    session.run(f"set transaction isolation level {isolation}")
    session.run("select 1 from trunkline.meta")
    return session


@pytest.mark.parametrize("isolation", SNAPSHOTS)
@pytest.mark.parametrize("name", ["commit", "take", "release", "move", "seek"])
def test_S3_12_a_cursor_that_moved_after_the_snapshot_is_a_serialization_failure(
    sessions: Sessions, held: Held, isolation: str, name: str
) -> None:
    """40001 with what to do, nothing written; the next attempt, with a new snapshot, succeeds."""
    caller, other = _with_snapshot(sessions, isolation), sessions.open("other", autocommit=True)
    commit(other, held.member, {held.first: (1, 4)}).result(WAIT_S)
    rows = held.group.row_count()
    error = refused(_starts(caller, held.call(name)))
    assert (error.sqlstate, error.diag.message_hint) == ("40001", HINT)
    caller.rollback()
    assert held.group.row_count() == rows
    caller.run(f"set transaction isolation level {isolation}")
    _starts(caller, held.call(name)).result(WAIT_S)
    caller.commit()
    assert held.group.row_count() > rows


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_a_cursor_that_changed_hands_after_the_snapshot_is_fenced_at_the_next_attempt(
    sessions: Sessions, held: Held, isolation: str
) -> None:
    caller = _with_snapshot(sessions, isolation)
    held.group.take(held.member, 0)
    assert refused(_starts(caller, held.call("commit"))).sqlstate == "40001"
    caller.rollback()
    assert refused(_starts(caller, held.call("commit"))).sqlstate == "TL013"


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_a_snapshot_with_the_newest_row_commits_with_its_effects(
    sessions: Sessions, held: Held, isolation: str
) -> None:
    """Another cursor of the group, and the log, moved since the snapshot; this one did not. Twice in a transaction."""
    other = sessions.open("other", autocommit=True)
    other.run("create table public.effects (x int)")
    try:
        caller = _with_snapshot(sessions, isolation)
        commit(other, held.member, {held.second: (1, 4)}).result(WAIT_S)
        other.append(held.group.topic_id, {0: [b"more"]}).result(WAIT_S)
        for next_offset in (3, 6):
            caller.run("insert into public.effects values (1)")
            commit(caller, held.member, {held.first: (1, next_offset)}).result(WAIT_S)
        caller.commit()
        assert (held.group.cursors(), other.run("select count(*) from public.effects")) == ([6, 4], [(2,)])
    finally:
        other.run("drop table public.effects")


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_the_cursor_moves_while_the_caller_waits_for_it(sessions: Sessions, held: Held, isolation: str) -> None:
    """The snapshot is taken by the commit itself, which then waits: after the other's rollback it commits, after its
    commit it fails."""
    other = sessions.open("other")
    for commits in (False, True):
        caller = sessions.open("caller")
        caller.run(f"set transaction isolation level {isolation}")
        commit(other, held.member, {held.first: (1, 5)}).result(WAIT_S)
        waiting = commit(caller, held.member, {held.first: (1, 5)})
        sessions.watcher.wait_blocked(caller, other)
        other.commit() if commits else other.rollback()
        if commits:
            assert refused(waiting).sqlstate == "40001"
            caller.rollback()
        else:
            waiting.result(WAIT_S)
            caller.commit()
    assert held.group.cursors() == [5, 1]


def test_a_commit_is_taken_back_with_its_savepoint_and_frees_the_cursor(sessions: Sessions, held: Held) -> None:
    caller, other = sessions.open("caller"), sessions.open("other", autocommit=True)
    caller.run("select 1")
    caller.run("savepoint s")
    commit(caller, held.member, {held.first: (1, 5)}).result(WAIT_S)
    caller.run("rollback to savepoint s")
    commit(other, held.member, {held.first: (1, 3)}).result(WAIT_S)
    caller.commit()
    assert held.group.cursors() == [3, 1]


@pytest.mark.parametrize("name", ["commit", "take", "release", "move", "leave", "seek", "claim"])
def test_what_moves_a_cursor_in_a_session_with_synchronous_commit_off_is_flushed(
    sessions: Sessions, held: Held, name: str
) -> None:
    """When COMMIT returns, the WAL is flushed up to it; in its next transaction the session has its own setting."""
    if name == "claim":
        held.group.ask(RELEASE, [held.member.member_id, [held.first]])
    caller = sessions.open("caller")
    caller.run("set synchronous_commit = off")
    caller.commit()
    _starts(caller, held.call(name)).result(WAIT_S)
    assert caller.run("show synchronous_commit") == [("on",)]
    written = caller.run("select pg_current_wal_insert_lsn()")[0][0]
    caller.commit()
    assert sessions.watcher.ask("select pg_current_wal_flush_lsn() > %s::pg_lsn", [written])
    assert caller.run("show synchronous_commit") == [("off",)]


@pytest.fixture
def preparing(start_server: StartServer) -> Iterator[tuple[Sessions, Held]]:
    """A server that allows prepared transactions."""
    server = start_server({"max_prepared_transactions": "5"})
    with opened(server.url) as sessions:
        admin = sessions.open("admin", autocommit=True)
        yield sessions, _held(sessions, int(admin.run("select trunkline.topic_create('t', 2)")[0][0]))


def test_a_transaction_that_locked_a_cursor_cannot_be_prepared(preparing: tuple[Sessions, Held]) -> None:
    """It would keep the cursor for ever: refused and rolled back, also after a claim that found nothing; the cursor is
    free, and nothing was written."""
    sessions, held = preparing
    caller = sessions.open("caller")
    rows = held.group.row_count()
    for name in ("commit", "take", "release", "move", "leave", "seek"):
        _starts(caller, held.call(name)).result(WAIT_S)
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            caller.run("prepare transaction 'p'")
        caller.rollback()
    assert held.group.row_count() == rows
    sharing = Group(sessions, held.group.topic_id, "sharing", at_offset=11)
    assert caller.run(CLAIM, [sharing.cursor_ids[0], 10]) == [(11, 11)]
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        caller.run("prepare transaction 'p'")
    caller.rollback()
    commit(caller, held.member, {held.first: (1, 5)}).result(WAIT_S)
    assert caller.run("select pg_listening_channels()") == []


@pytest.mark.parametrize("spoil", ["select 1 / 0", "set transaction read only"])
def test_a_transaction_that_cannot_write_is_told_so_and_holds_no_cursor(
    sessions: Sessions, held: Held, spoil: str
) -> None:
    """Neither an aborted nor a read-only transaction moves a cursor; while it is still open, others do. A read-only
    one looks at its group."""
    caller, other = sessions.open("caller"), sessions.open("other", autocommit=True)
    if "0" in spoil:
        assert refused(caller.start(spoil)).sqlstate == "22012"
    else:
        caller.run(spoil)
        assert len(caller.run("select * from trunkline.group_view(%s)", [held.member.session_no])) == 1
        assert len(caller.run("select * from trunkline.group_describe('g')")) == 2
    assert refused(commit(caller, held.member, {held.first: (1, 5)})).sqlstate in ("25P02", "25006")
    commit(other, held.member, {held.first: (1, 6)}).result(WAIT_S)
    caller.rollback()
    assert held.group.cursors() == [6, 1]
