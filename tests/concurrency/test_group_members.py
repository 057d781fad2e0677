"""Who is alive: sessions, beats, members that come and go; and the sweep, which cleans up behind them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.concurrency.groups import TAKE, Group, Member, commit, refused
from tests.concurrency.sessions import WAIT_S, Session, Sessions, wait_until

IS_ALIVE = "select trunkline.member_is_alive(%s)"
JOIN = "select trunkline.member_join(%s, %s, %s, array[%s::int4], %s, %s)"
LEAVE = "select trunkline.member_leave(%s::int4[], %s)"
COMMITS = "select trunkline.group_commit(%s, %s, %s, array[%s::int8]) from generate_series(1, %s)"
MARK = "select seq from trunkline.group_swept where cursor_id = %s"


def _set_clock(session: Session, at: str) -> None:
    """Let the schema's clock stand at a time of a day in 2026; it goes again after the test."""
    session.run(
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
        f" as $$ select timestamptz '2026-01-{at}+00' $$"
    )


def _beating(group: Group, session_no: int, timeout_s: float, token: int) -> int:
    """A member that lives by its beats."""
    return int(group.ask(JOIN, [group.group_id, session_no, timeout_s, group.topic_id, "beating", token]))


# -- alive by a session --


def test_a_member_is_alive_while_its_session_is(sessions: Sessions, topic_id: int) -> None:
    """From any other session, in a transaction or not; the view of another process and the list say the same."""
    group = Group(sessions, topic_id)
    member, other = group.join("m"), group.join("other")
    group.take(member)
    view = "select member_ids, dead_ids, owner_ids from trunkline.group_view(%s)"
    both = [member.member_id, other.member_id]
    assert group.ask(IS_ALIVE, [member.member_id]) is True
    assert other.process.run(view, [other.session_no]) == [(both, [], [member.member_id] * 2)]
    sessions.end(member.process)
    assert group.ask(IS_ALIVE, [member.member_id]) is False
    assert other.process.run(view, [other.session_no]) == [([other.member_id], [member.member_id], [None, None])]
    listed = "select member_id, is_alive, partitions, by_session from trunkline.member_list('g')"
    asking = sessions.open("asking", autocommit=True)
    assert asking.run(listed) == [(member.member_id, False, 2, True), (other.member_id, True, 0, True)]


@pytest.mark.parametrize("member_id", [None, 0, -1, 2**31 - 1])
def test_who_is_no_member_is_not_alive(sessions: Sessions, topic_id: int, member_id: int | None) -> None:
    assert Group(sessions, topic_id).ask("select trunkline.member_is_alive(%s::int4)", [member_id]) is False


def test_a_silent_session_is_ended_by_the_server_and_its_member_is_dead(sessions: Sessions, topic_id: int) -> None:
    """A stopped process, or one behind a network that swallows everything, says nothing: idle_session_timeout ends its
    session, and others take what it held."""
    group = Group(sessions, topic_id)
    member, other = group.join("m"), group.join("other")
    group.take(member)
    member.process.run("set idle_session_timeout = '20ms'")
    wait_until(lambda: group.ask(IS_ALIVE, [member.member_id]) is False, "the server ends the session")
    assert group.take(other) == [2, 2]


def test_a_process_goes_on_with_its_number_in_a_new_session(sessions: Sessions, topic_id: int) -> None:
    """Where the old session has gone the number is the same, and the member is alive again."""
    group = Group(sessions, topic_id)
    member = group.join("m")
    sessions.end(member.process)
    again = sessions.open("again", autocommit=True)
    assert again.run("select trunkline.member_session(%s)", [member.session_no]) == [(member.session_no,)]
    assert again.run("select trunkline.member_session(%s)", [member.session_no]) == [(member.session_no,)]
    assert group.ask(IS_ALIVE, [member.member_id]) is True


def test_a_process_whose_old_session_is_still_there_moves_to_a_new_number(sessions: Sessions, topic_id: int) -> None:
    """The server has not noticed yet that the old session is dead. The members go with the process; those of another
    process stay; the old session's end does not matter."""
    group = Group(sessions, topic_id)
    member, other = group.join("m"), group.join("other")
    group.take(member)
    again = sessions.open("again", autocommit=True)
    number = again.run("select trunkline.member_session(%s)", [member.session_no])[0][0]
    assert number not in (member.session_no, other.session_no)
    numbers = "select array_agg(session_no order by member_id) from trunkline.group_member"
    assert group.ask(numbers) == [number, other.session_no]
    sessions.end(member.process)
    assert group.ask(IS_ALIVE, [member.member_id]) is True
    assert group.ask("select owner_ids from trunkline.group_view(%s)", [number]) == [member.member_id] * 2


def test_joining_twice_with_one_token_is_joining_once(sessions: Sessions, topic_id: int) -> None:
    """The first attempt is not committed yet when the second comes: it waits for it."""
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b")
    parameters = [group.group_id, 1, 10.0, topic_id, "m", 77]
    for commits in (False, True):
        first = a.run(JOIN, parameters)
        waiting = b.start(JOIN, parameters)
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        assert (waiting.result(WAIT_S) == first) == commits
        b.rollback()
    assert group.ask("select count(*) from trunkline.group_member") == 1


# -- alive by beats --


def test_a_beat_lasts_exactly_as_long_as_the_timeout(sessions: Sessions, topic_id: int) -> None:
    """Until the last microsecond before it; a new beat counts from then on. One that never beat is dead."""
    group, clock = Group(sessions, topic_id), sessions.open("clock", autocommit=True)
    _set_clock(clock, "01 12:00:00")
    number = group.ask("select trunkline.member_beat()")
    member, never = _beating(group, number, 10, 1), _beating(group, 2**31 - 1, 10, 2)
    assert group.ask(IS_ALIVE, [never]) is False
    for at, alive in (("12:00:00", True), ("12:00:09.999999", True), ("12:00:10", False), ("12:00:11", False)):
        _set_clock(clock, f"01 {at}")
        assert group.ask(IS_ALIVE, [member]) is alive, at
    assert group.ask("select trunkline.member_beat(%s)", [number]) == number
    for at, alive in (("12:00:20.999999", True), ("12:00:21", False)):
        _set_clock(clock, f"01 {at}")
        assert group.ask(IS_ALIVE, [member]) is alive, at


def test_members_of_one_process_die_each_by_its_own_timeout(sessions: Sessions, topic_id: int) -> None:
    group, clock = Group(sessions, topic_id), sessions.open("clock", autocommit=True)
    _set_clock(clock, "01 12:00:00")
    number = group.ask("select trunkline.member_beat()")
    members = [_beating(group, number, timeout_s, token) for token, timeout_s in enumerate((0.5, 10, 86400))]
    alive = "select array_agg(trunkline.member_is_alive(m) order by m) from unnest(%s::int4[]) m"
    for at, expected in (("01 12:00:00.5", [False, True, True]), ("02 11:59:59", [False, False, True])):
        _set_clock(clock, at)
        assert group.ask(alive, [members]) == expected
    _set_clock(clock, "02 12:00:00")
    assert group.ask(alive, [members]) == [False] * 3


def test_what_a_member_without_beats_held_is_free_and_a_late_beat_does_not_bring_it_back(
    sessions: Sessions, topic_id: int
) -> None:
    group, clock = Group(sessions, topic_id), sessions.open("clock", autocommit=True)
    _set_clock(clock, "01 12:00:00")
    number = group.ask("select trunkline.member_beat()")
    late, other = _beating(group, number, 10, 1), group.join("other")
    group.ask(TAKE, [late, group.cursor_ids])
    assert group.take(other) == []
    _set_clock(clock, "01 12:00:10")
    assert group.take(other) == [2, 2]
    group.ask("select trunkline.member_beat(%s)", [number])
    assert group.ask(IS_ALIVE, [late]) is True
    places = {group.cursor_ids[0]: (1, 5)}
    assert refused(commit(clock, Member(late, clock, number), places)).sqlstate == "TL013"


# -- leaving --


def test_leaving_gives_everything_back_where_its_cursors_stand(sessions: Sessions, topic_id: int) -> None:
    group, caller = Group(sessions, topic_id), sessions.open("caller", autocommit=True)
    member, other = group.join("m"), group.join("other")
    group.take(member, 0)
    group.take(other, 1)
    commit(caller, member, {group.cursor_ids[0]: (1, 7)}).result(WAIT_S)
    assert caller.run(LEAVE, [[member.member_id, member.member_id, 2**31 - 1], False]) == [(1,)]
    assert group.newest(0)[1:] == (2, 7, None, "r")
    assert group.newest(1)[1:] == (1, 1, other.member_id, "t")
    assert caller.run(LEAVE, [[member.member_id], False]) == [(0,)]
    assert refused(caller.start(TAKE, [member.member_id, group.cursor_ids])).sqlstate == "TL002"


def test_only_the_dead_are_removed_by_others(sessions: Sessions, topic_id: int) -> None:
    group, caller = Group(sessions, topic_id), sessions.open("caller", autocommit=True)
    alive, dead = group.join("alive"), group.join("dead")
    group.take(dead)
    sessions.end(dead.process)
    everybody = [alive.member_id, dead.member_id]
    assert caller.run(LEAVE, [everybody, True]) == [(1,)]
    assert [group.newest(partition).kind for partition in (0, 1)] == ["r", "r"]
    assert group.ask("select array_agg(member_id) from trunkline.group_member") == [alive.member_id]
    assert caller.run(LEAVE, [everybody, None]) == [(1,)]


def test_two_that_remove_one_dead_member_give_its_partitions_back_once(sessions: Sessions, topic_id: int) -> None:
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b", autocommit=True)
    dead = group.join("dead")
    group.take(dead)
    sessions.end(dead.process)
    a.run(LEAVE, [[dead.member_id], True])
    waiting = b.start(LEAVE, [[dead.member_id], True])
    sessions.watcher.wait_blocked(b, a)
    a.commit()
    waiting.result(WAIT_S)
    assert [group.newest(partition)[1:] for partition in (0, 1)] == [(2, 1, None, "r")] * 2


# -- the sweep --


@pytest.fixture
def busy(sessions: Sessions, topic_id: int) -> tuple[Group, Member]:
    """A group whose first partition has had 300 commits."""
    group = Group(sessions, topic_id)
    member = group.join("m")
    group.take(member)
    _commit(group, member, 300)
    return group, member


def _commit(group: Group, member: Member, count: int) -> None:
    group.ask(COMMITS, [member.member_id, group.ids([0]), [1], 9, count])


def _kinds(group: Group) -> str:
    """How the rows of the first partition came, oldest first."""
    statement = "select string_agg(kind::text, '' order by seq) from trunkline.group_ledger where cursor_id = %s"
    return str(group.ask(statement, group.ids([0])))


def test_the_sweep_leaves_the_newest_row_and_who_held_what(sessions: Sessions, busy: tuple[Group, Member]) -> None:
    """All commits but the newest go; a day later the leases go too, and never the row that counts."""
    group, member = busy
    newest, clock = group.newest(), sessions.open("clock", autocommit=True)
    assert group.ask("select trunkline.group_sweep()") == 299
    assert (_kinds(group), group.newest()) == ("btc", newest)
    assert group.ask("select trunkline.group_sweep()") == 0
    for ahead, kinds in (("23:59", "btc"), ("24:01", "c")):
        clock.run(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile"
            f" as $$ select clock_timestamp() + interval '{ahead}' $$"
        )
        group.ask("select trunkline.group_sweep()")
        assert _kinds(group) == kinds
    assert (group.newest(), group.newest(1).kind) == (newest, "t")
    commit(clock, member, {group.cursor_ids[0]: (1, 10)}).result(WAIT_S)


@pytest.mark.parametrize(("max_rows", "mark"), [(1, 3), (7, 21), (250, 250), (1000, 301)])
def test_the_sweep_takes_at_most_what_it_is_told_and_goes_on_there(
    busy: tuple[Group, Member], max_rows: int, mark: int
) -> None:
    """Three times; what is left is not worth a sweep where it is a hundred rows or fewer."""
    group, _ = busy
    swept = [group.ask("select trunkline.group_sweep(%s)", [max_rows]) for _ in range(3)]
    assert max(swept) <= max_rows
    assert (group.ask(MARK, group.ids([0])), sum(swept)) == (mark, mark - 2)
    assert group.newest().seq == 302


def _entries_read(sweeper: Session, index: str) -> int:
    """How many entries of an index a sweep reads, those of deleted rows among them."""
    read = f"select pg_stat_get_xact_tuples_returned('trunkline.{index}'::regclass)"
    before = sweeper.run(read)[0][0]
    sweeper.run("select trunkline.group_sweep()")
    after = sweeper.run(read)[0][0]
    sweeper.commit()
    return int(after - before)


def test_under_a_held_snapshot_the_sweep_does_not_look_at_what_it_has_deleted(
    sessions: Sessions, busy: tuple[Group, Member]
) -> None:
    """What it deleted stays in the index while somebody's snapshot is old. The next sweeps look at what came since,
    and not at that again: index entries are counted in the sweep's own transaction."""
    group, member = busy
    reader, sweeper = sessions.open("reader"), sessions.open("sweeper")
    reader.run("set transaction isolation level repeatable read")
    reader.run("select 1 from trunkline.meta")
    seen = []
    for _ in range(3):
        _commit(group, member, 2000)
        seen.append(_entries_read(sweeper, "group_ledger_pkey"))
    assert seen[0] > 2000
    assert max(seen[1:]) < 2200, seen
    assert reader.run("select count(*) from trunkline.group_ledger where kind = 'c'") == [(300,)]


def test_the_sweep_looks_only_at_leases_that_are_old_enough(sessions: Sessions, busy: tuple[Group, Member]) -> None:
    """Of a thousand takes of today it reads none."""
    group, member = busy
    takes = "select trunkline.group_take(%s, %s) from generate_series(1, 1000)"
    group.ask(takes, [member.member_id, group.ids([0])])
    assert _kinds(group).count("t") == 1001
    assert _entries_read(sessions.open("sweeper"), "group_ledger_lease") < 10


def test_two_sweepers_do_not_wait_for_each_other_and_commits_wait_for_neither(
    sessions: Sessions, busy: tuple[Group, Member]
) -> None:
    """The first has swept and not committed. The second leaves that cursor out; the member commits."""
    group, member = busy
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    assert a.run("select trunkline.group_sweep()") == [(299,)]
    b.run("set lock_timeout = '5s'")
    assert b.run("select trunkline.group_sweep()") == [(0,)]
    commit(b, member, {group.cursor_ids[0]: (1, 10)}).result(WAIT_S)
    a.rollback()
    assert b.run("select trunkline.group_sweep()") == [(300,)]
    assert group.newest().next_offset == 10


def test_the_sweep_waits_for_nobody(sessions: Sessions, busy: tuple[Group, Member], topic_id: int) -> None:
    """A dead member's transaction still holds a cursor, and a group is being deleted: both are left for the next time.
    The sweep runs in the session by which a process lives, which must not stand still."""
    group, member = busy
    zombie, admin = sessions.open("zombie"), sessions.open("admin")
    other = Group(sessions, topic_id, "other")
    admin.run("select trunkline.group_delete('other')")
    commit(zombie, member, {group.cursor_ids[0]: (1, 9)}).result(WAIT_S)
    sessions.end(member.process)
    sweeper = sessions.open("sweeper", autocommit=True)
    sweeper.run("set lock_timeout = '1ms'")
    assert sweeper.run("select trunkline.group_sweep()") == [(299,)]
    assert group.ask("select count(*) from trunkline.group_member") == 1
    zombie.rollback()
    admin.commit()
    sweeper.run("select trunkline.group_sweep()")
    assert group.ask("select count(*) from trunkline.group_member") == 0
    assert [group.newest(partition).kind for partition in (0, 1)] == ["r", "r"]
    assert group.ask("select count(*) from trunkline.group_swept where cursor_id = any (%s)", [other.cursor_ids]) == 0


def test_the_sweep_removes_the_dead_and_nobody_else(sessions: Sessions, topic_id: int) -> None:
    """By session and by beats; and the process that sweeps in its own session says so, as it could not tell."""
    group, clock = Group(sessions, topic_id), sessions.open("clock", autocommit=True)
    _set_clock(clock, "01 12:00:00")
    number = group.ask("select trunkline.member_beat()")
    own, dead = group.join("own"), group.join("dead")
    short, long = _beating(group, number, 10, -1), _beating(group, number, 86400, -2)
    sessions.end(dead.process)
    members = "select array_agg(member_id order by member_id) from trunkline.group_member"
    own.process.run("select trunkline.group_sweep(100, %s)", [own.session_no])
    assert group.ask(members) == [own.member_id, short, long]
    _set_clock(clock, "01 12:00:10")
    own.process.run("select trunkline.group_sweep(100, %s)", [own.session_no])
    assert group.ask(members) == [own.member_id, long]


def test_the_sweep_leaves_the_beat_that_keeps_a_member_alive(sessions: Sessions, topic_id: int) -> None:
    """Of many beats the newest stays while its session has members, however old it is; a stranger's goes after an
    hour."""
    group, clock = Group(sessions, topic_id), sessions.open("clock", autocommit=True)
    _set_clock(clock, "01 12:00:00")
    number, stranger = (group.ask("select trunkline.member_beat()") for _ in range(2))
    for minute in range(5):
        _set_clock(clock, f"01 12:0{minute}:00")
        for each in (number, stranger):
            group.ask("select trunkline.member_beat(%s)", [each])
    member = _beating(group, number, 7200, 1)
    beats: Any = "select array_agg(session_no order by session_no) from trunkline.session_beat"
    group.ask("select trunkline.group_sweep()")
    assert group.ask(beats) == [number, stranger]
    _set_clock(clock, "01 13:30:00")
    group.ask("select trunkline.group_sweep()")
    assert (group.ask(beats), group.ask(IS_ALIVE, [member])) == ([number], True)
    _set_clock(clock, "01 14:30:00")
    for _ in range(2):
        group.ask("select trunkline.group_sweep()")
    assert group.ask(beats) is None
