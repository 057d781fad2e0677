"""At most once: readers that share a cursor. The windows of the older draft, by their numbers, and what it got wrong.

Windows are half-open here, as everywhere: 1..B is [1, B + 1).
"""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.concurrency.claims import Play, Step, handed_out
from tests.concurrency.groups import CLAIM, Group, commit, refused
from tests.concurrency.sessions import WAIT_S, Session, Sessions, opened

READ = "select count(*) from trunkline.log_records(%s::int4, 0, %s::int8, %s::int4)"


def _claims(session: Session, group: Group, max_records: int) -> tuple[int, int]:
    """A claim in the session's transaction, which it must not wait for."""
    return session.run(CLAIM, [group.cursor_ids[0], max_records])[0]


def _published(sessions: Sessions, topic_id: int, count: int) -> Session:
    """A writer that has published so many records."""
    writer = sessions.open("writer", autocommit=True)
    if count:
        writer.append(topic_id, {0: [b"x"] * count}).result(WAIT_S)
    return writer


@pytest.mark.parametrize("max_records", [1, 100])
def test_S3_01_a_claim_of_exactly_what_there_is_gets_all_of_it(
    sessions: Sessions, topic_id: int, max_records: int
) -> None:
    _published(sessions, topic_id, max_records)
    group, reader = Group(sessions, topic_id), sessions.open("reader", autocommit=True)
    assert _claims(reader, group, max_records) == (1, max_records + 1)
    assert _claims(reader, group, max_records) == (max_records + 1, max_records + 1)


def test_S3_02_a_claim_of_more_than_there_is_begins_at_the_cursor(sessions: Sessions, topic_id: int) -> None:
    """next = 101, tip = 150, B = 100: 101..150. The older draft answers 52..150, which others have had."""
    _published(sessions, topic_id, 150)
    group, reader = Group(sessions, topic_id), sessions.open("reader", autocommit=True)
    assert _claims(reader, group, 100) == (1, 101)
    assert _claims(reader, group, 100) == (101, 151)


def test_S3_03_at_the_end_every_claim_is_empty_and_writes_nothing(sessions: Sessions, topic_id: int) -> None:
    """next = tip + 1: empty again and again, no row, no transaction id. The older draft hands out 99 each time."""
    _published(sessions, topic_id, 100)
    group, reader = Group(sessions, topic_id), sessions.open("reader")
    assert _claims(reader, group, 100) == (1, 101)
    reader.commit()
    rows = group.row_count()
    for _ in range(5):
        assert _claims(reader, group, 100) == (101, 101)
        assert reader.run("select pg_current_xact_id_if_assigned()") == [(None,)]
        reader.commit()
    assert group.row_count() == rows


def test_S3_04_claims_on_an_empty_log_are_empty_and_never_negative(sessions: Sessions, topic_id: int) -> None:
    group, reader = Group(sessions, topic_id), sessions.open("reader", autocommit=True)
    rows = group.row_count()
    for max_records in (1, 100, 2**31 - 1):
        assert _claims(reader, group, max_records) == (1, 1)
    assert group.row_count() == rows
    _published(sessions, topic_id, 3)
    assert _claims(reader, group, 2**31 - 1) == (1, 4)


steps = st.lists(
    st.builds(Step, st.integers(0, 2), st.integers(1, 8), st.booleans(), st.sampled_from([0, 0, 0, 1, 5])), max_size=12
)


def test_S3_05_windows_are_disjoint_and_leave_nothing_out_whatever_the_order(db_url: str, seed: int) -> None:
    """Random cursor, tip and size; three readers in random order, some waiting for others, committing or rolling back,
    while records come in. Every window is the one that a model predicts; together they are everything, once, in
    order."""
    number = iter(range(10_000))

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=25,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40), steps)
    def play(read: int, unread: int, max_records: int, steps: list[Step]) -> None:
        with opened(db_url) as sessions:
            name = f"t{next(number)}"
            topic_id = sessions.open("admin", autocommit=True).run("select trunkline.topic_create(%s)", [name])[0][0]
            _published(sessions, topic_id, read + unread)
            group = Group(sessions, topic_id, name, at_offset=read + 1)
            played = Play(sessions, topic_id, group, tip=read + unread, cursor=read + 1)
            played.run(steps)
            played.drain(max_records)
            assert played.faults == []
            assert handed_out(played.committed) == list(range(read + 1, played.tip + 1))

    play()


@pytest.mark.parametrize("first_commits", [True, False], ids=["commit", "rollback"])
def test_S3_06_a_claimer_that_waited_gets_the_next_range_or_the_same(
    sessions: Sessions, topic_id: int, *, first_commits: bool
) -> None:
    """A has claimed 1..10 and not committed, B waits for it: after A's commit B gets 11..20, after a rollback 1..10."""
    _published(sessions, topic_id, 15)
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b")
    assert _claims(a, group, 10) == (1, 11)
    waiting = b.start(CLAIM, [group.cursor_ids[0], 10])
    sessions.watcher.wait_blocked(b, a)
    a.commit() if first_commits else a.rollback()
    assert waiting.result(WAIT_S) == [(11, 16) if first_commits else (1, 11)]
    b.commit()
    assert group.cursors()[0] == (16 if first_commits else 11)


def test_S3_06_a_claimer_that_was_killed_gives_its_range_to_the_next(sessions: Sessions, topic_id: int) -> None:
    """The backend of A is terminated with its claim open: B, who waited, gets the same range."""
    _published(sessions, topic_id, 5)
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b")
    _claims(a, group, 10)
    waiting = b.start(CLAIM, [group.cursor_ids[0], 10])
    sessions.watcher.wait_blocked(b, a)
    assert sessions.watcher.ask("select pg_terminate_backend(%s)", [a.pid])
    assert waiting.result(WAIT_S) == [(1, 6)]


def test_S3_07_what_is_published_while_a_claimer_waits_is_claimed_and_can_be_read(
    sessions: Sessions, topic_id: int
) -> None:
    """B waits for A; meanwhile five more records are committed, and five appended and not committed. B claims up to
    the committed tip, and reads every record of its window at once."""
    writer = _published(sessions, topic_id, 3)
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b")
    assert _claims(a, group, 10) == (1, 4)
    waiting = b.start(CLAIM, [group.cursor_ids[0], 100])
    sessions.watcher.wait_blocked(b, a)
    writer.append(topic_id, {0: [b"late"] * 5}).result(WAIT_S)
    open_writer = sessions.open("open writer")
    open_writer.append(topic_id, {0: [b"open"] * 5}).result(WAIT_S)
    a.commit()
    assert waiting.result(WAIT_S) == [(4, 9)]
    assert b.run(READ, [topic_id, 4, 5]) == [(5,)]
    b.commit()
    open_writer.commit()
    assert _claims(b, group, 100) == (9, 14)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_S3_07_a_claimer_with_an_old_snapshot_never_claims_what_it_cannot_see(
    sessions: Sessions, topic_id: int, isolation: str
) -> None:
    """Records that were committed after its snapshot are not in its window; a cursor that was moved after it is a
    serialization failure, and nothing is handed out twice."""
    writer = _published(sessions, topic_id, 3)
    group, a, b = Group(sessions, topic_id), sessions.open("a"), sessions.open("b")
    for session in (a, b):
        session.run(f"set transaction isolation level {isolation}")
        session.run("select 1 from trunkline.meta")
    writer.append(topic_id, {0: [b"late"] * 5}).result(WAIT_S)
    assert _claims(a, group, 100) == (1, 4)
    waiting = b.start(CLAIM, [group.cursor_ids[0], 100])
    sessions.watcher.wait_blocked(b, a)
    a.commit()
    assert refused(waiting).sqlstate == "40001"
    b.rollback()
    assert _claims(b, group, 100) == (4, 9)


def test_S0_08_readers_of_one_group_at_once_never_overlap_and_never_skip(sessions: Sessions, topic_id: int) -> None:
    """Four readers claim from one cursor as fast as they can while a writer publishes 300 batches."""
    group, batches = Group(sessions, topic_id), 300
    writer = sessions.open("writer", autocommit=True)
    readers = [sessions.open(f"reader {number}", autocommit=True) for number in range(4)]
    total = batches * 3

    def publish() -> None:
        for _ in range(batches):
            writer.connection.execute(
                "select trunkline.log_append(%s, null, '{0}', '{3}', null, array_fill('x'::bytea, '{3}'),"
                " null, null, null, null, null, null)",
                [topic_id],
            )

    def read(reader: Session) -> list[tuple[int, int]]:
        windows: list[tuple[int, int]] = []
        while not windows or windows[-1][1] <= total:
            window: Any = reader.connection.execute(CLAIM, [group.cursor_ids[0], 7]).fetchone()
            windows.append(window)
        return windows

    publishing = writer.do(publish)
    reading = [reader.do(lambda reader=reader: read(reader)) for reader in readers]  # type: ignore[misc]
    publishing.result(WAIT_S * 3)
    by_reader = [each.result(WAIT_S * 3) for each in reading]
    for windows in by_reader:
        assert windows == sorted(windows)
    assert sorted(handed_out([window for windows in by_reader for window in windows])) == list(range(1, total + 1))


def test_a_partition_that_a_living_member_holds_is_not_shared(sessions: Sessions, topic_id: int) -> None:
    """One kind of delivery a group: while a member holds the partition a claim is refused; once it is dead, or has
    given it back, the claim goes on where it had committed."""
    _published(sessions, topic_id, 10)
    group, reader = Group(sessions, topic_id), sessions.open("reader", autocommit=True)
    member = group.join("m")
    (epoch,) = group.take(member, 0)
    commit(reader, member, {group.cursor_ids[0]: (epoch, 4)}).result(WAIT_S)
    error = refused(reader.start(CLAIM, [group.cursor_ids[0], 3]))
    assert (error.sqlstate, error.diag.message_detail) == ("TL013", str(group.cursor_ids[0]))
    sessions.end(member.process)
    assert _claims(reader, group, 3) == (4, 7)
    assert group.newest().member_id is None


@pytest.mark.parametrize(("outside", "window"), [("earliest", (6, 9)), ("latest", (9, 9))])
def test_a_cursor_that_retention_has_passed_goes_on_where_it_is_told(
    sessions: Sessions, topic_id: int, outside: str, window: tuple[int, int]
) -> None:
    """Offsets 1 to 5 are dropped: a claim is refused and says the range, or goes on at the start or the end. The cursor
    stands there afterwards."""
    writer, group = _published(sessions, topic_id, 5), Group(sessions, topic_id)
    old = writer.run("select open_segment_id from trunkline.topic where topic_id = %s", [topic_id])[0][0]
    writer.run("select trunkline.segment_roll(%s, true)", [old])
    writer.append(topic_id, {0: [b"y"] * 3}).result(WAIT_S)
    writer.run("select trunkline.segment_seal(%s)", [old])
    writer.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
    writer.run("select trunkline.retention_release(%s)", [topic_id])
    error = refused(writer.start(CLAIM, [group.cursor_ids[0], 100]))
    assert (error.sqlstate, error.diag.message_detail) == ("TL005", "[6, 9)")
    claim = "select * from trunkline.group_claim(%s, 100, %s)"
    assert writer.run(claim, [group.cursor_ids[0], outside]) == [window]
    assert writer.run(claim, [group.cursor_ids[0], "error"]) == [(9, 9)]
    assert group.cursors()[0] == 9


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("deleted", ["group_delete('g')", "topic_delete('t')"])
def test_a_claimer_that_waits_while_its_cursor_is_deleted_is_told_so(
    sessions: Sessions, topic_id: int, deleted: str, *, commits: bool
) -> None:
    _published(sessions, topic_id, 3)
    group, admin, reader = Group(sessions, topic_id), sessions.open("admin"), sessions.open("reader")
    admin.run(f"select trunkline.{deleted}")
    waiting = reader.start(CLAIM, [group.cursor_ids[0], 10])
    sessions.watcher.wait_blocked(reader, admin)
    admin.commit() if commits else admin.rollback()
    if commits:
        assert refused(waiting).sqlstate == "TL002"
    else:
        assert waiting.result(WAIT_S) == [(1, 4)]
