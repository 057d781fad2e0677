"""What changes under writers and readers: segments roll, are sealed and dropped, topics get partitions or go.

That a session waits is proven by pg_blocking_pids.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest

import trunkline
from tests.concurrency.sessions import (
    OPEN,
    RANGE,
    ROLL,
    SEAL,
    WAIT_S,
    Session,
    Sessions,
    ends,
    wait_until,
)
from trunkline.errors import NotFound, OffsetOutOfRange
from trunkline.settings import ClientSettings

End = Callable[..., None]


@pytest.mark.parametrize("holder_commits", [True, False], ids=["commit", "rollback"])
def test_a_writer_that_waits_over_a_roll_writes_to_the_new_segment(
    sessions: Sessions, topic_id: int, *, holder_commits: bool
) -> None:
    """A holds the partition, B waits with a call to the old segment's function; the topic rolls meanwhile. The old
    segment keeps what A wrote, B goes to the new one, the offsets follow each other."""
    a, b = sessions.open("a"), sessions.open("b")
    roller = sessions.open("roller", autocommit=True)
    reader = sessions.open("reader", autocommit=True)
    a.append(topic_id, {0: [b"a1", b"a2"]}).result(WAIT_S)
    waiting = b.append(topic_id, {0: [b"b"]})
    sessions.watcher.wait_blocked(b, a)
    old = roller.run(OPEN, [topic_id])[0][0]
    new = roller.run(ROLL, [topic_id])[0][0]
    assert new != old
    a.commit() if holder_commits else a.rollback()
    assert waiting.result(WAIT_S) == [([3 if holder_commits else 1],)]
    b.commit()
    assert roller.run(SEAL, [old]) == [(True,)]
    of_a = [(1, b"a1"), (2, b"a2")] if holder_commits else []
    assert reader.read(topic_id) == [*of_a, (len(of_a) + 1, b"b")]


def test_a_roll_between_the_look_and_the_write_of_an_append_is_harmless(sessions: Sessions, topic_id: int) -> None:
    """An append that looks closely has found the open segment and is stopped before it writes (at the table of
    producers, which somebody has locked); the topic rolls; the append goes on. It writes where it meant to, or to the
    new segment, and does not take the roll for a broken log."""
    writer, lock, roller = sessions.open("writer"), sessions.open("lock"), sessions.open("roller", autocommit=True)
    # An asynchronous session is one of those that are looked at closely from the beginning.
    writer.run("set synchronous_commit = off")
    numbered = {"producer": "00000000-0000-0000-0000-000000000004", "epoch": 0}
    for sequence in (1, 2):
        lock.run("lock table trunkline.producer in access exclusive mode")
        appending = writer.append(topic_id, {0: [b"%d" % sequence]}, **numbered, sequences=[sequence])
        sessions.watcher.wait_blocked(writer, lock)
        roller.run(ROLL, [topic_id])
        lock.rollback()
        assert appending.result(WAIT_S) == [([sequence],)]
        writer.commit()
    assert roller.append(topic_id, {0: [b"3"]}).result(WAIT_S) == [([3],)]
    assert roller.read(topic_id) == [(1, b"1"), (2, b"2"), (3, b"3")]


def test_plain_sql_waits_in_line_while_the_segment_it_was_sent_to_is_dropped(sessions: Sessions, topic_id: int) -> None:
    """Three calls of log_append wait in line for a partition when the topic rolls. The first one moves the partition
    on and commits; while the second holds it and the third still waits, the old segment is sealed, released and
    dropped. All three are written, in order."""
    a, b, c, d = (sessions.open(name) for name in "abcd")
    admin = sessions.open("admin", autocommit=True)
    a.append(topic_id, {0: [b"a"]}).result(WAIT_S)
    old = admin.run(OPEN, [topic_id])[0][0]
    waiting = {}
    for session in (b, c, d):
        waiting[session] = session.append(topic_id, {0: [session.name.encode()]})
        wait_until(lambda session=session: sessions.watcher.is_waiting(session), "it stands in line")  # type: ignore[misc]
    admin.run(ROLL, [topic_id])
    a.commit()
    assert waiting[b].result(WAIT_S) == [([2],)]
    b.commit()
    assert waiting[c].result(WAIT_S) == [([3],)]
    assert admin.run(SEAL, [old]) == [(True,)]
    admin.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
    assert admin.run("select segment_id from trunkline.retention_release(%s)", [topic_id]) == [(old,)]
    assert admin.run("select trunkline.segment_drop(%s)", [old]) == [(True,)]
    c.commit()
    assert waiting[d].result(WAIT_S) == [([4],)]
    d.commit()
    assert admin.read(topic_id, start=2) == [(2, b"b"), (3, b"c"), (4, b"d")]


def test_sealing_waits_for_a_writer_that_still_writes_to_the_segment(sessions: Sessions, topic_id: int) -> None:
    """A has appended to the old segment and not committed; sealing it must wait, and then keep A's records."""
    a = sessions.open("a")
    sealer = sessions.open("sealer", autocommit=True)
    a.append(topic_id, {0: [b"a"], 1: [b"a"]}).result(WAIT_S)
    old = sealer.run(OPEN, [topic_id])[0][0]
    sealer.run(ROLL, [topic_id])
    sealing = sealer.start(SEAL, [old])
    sessions.watcher.wait_blocked(sealer, a)
    a.commit()
    assert sealing.result(WAIT_S) == [(True,)]
    assert sealer.read(topic_id) == [(1, b"a")]
    assert sealer.run(RANGE, [topic_id]) == [(0, 1, 2), (1, 1, 2)]


def test_a_transaction_that_a_roll_crosses_keeps_its_count(sessions: Sessions, topic_id: int) -> None:
    """Two batches of one transaction, a roll between them: they stand side by side, and say that they are one."""
    a, reader = sessions.open("a"), sessions.open("reader", autocommit=True)
    a.append(topic_id, {0: [b"1", b"2"]}).result(WAIT_S)
    reader.run(ROLL, [topic_id])
    a.append(topic_id, {0: [b"3"]}).result(WAIT_S)
    a.commit()
    rows = reader.run(
        "select first_offset, transaction_id, transaction_ordinal, transaction_count"
        " from trunkline.log_read(%s, 0, 1, 10, 1000000)",
        [topic_id],
    )
    assert [(first, ordinal, count) for first, _, ordinal, count in rows] == [(1, 0, 2), (3, 2, 3)]
    assert len({transaction_id for _, transaction_id, _, _ in rows}) == 1


def test_a_stale_client_publishes_after_its_segment_was_dropped(db_url: str, sessions: Sessions) -> None:
    """The client knows a segment that was rolled, sealed, released and dropped by others since: its next publish finds
    the new one, at the right offset."""
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as other:
        topic = tl.create_topic("t")
        tl.publish("t", b"1")
        other.alter_topic("t", retention_bytes=0)
        admin = sessions.open("admin", autocommit=True)
        for expected in (2, 3):
            segment = admin.run(OPEN, [topic.topic_id])[0][0]
            admin.run(ROLL, [topic.topic_id])
            steps = [step.action for step in other.retention_run("t")]
            assert steps == ["seal", "release", "drop"]
            assert admin.run("select to_regclass('trunkline.segment_' || %s)", [segment]) == [(None,)]
            assert tl.publish("t", b"%d" % expected).offset == expected


def test_a_client_waits_in_a_segments_function_while_the_segment_is_dropped(
    db_url: str, sessions: Sessions, topic_id: int
) -> None:
    """The client knows segment 1; partition 0 is in segment 2 by now and held by A. While the client waits inside the
    function of segment 1, that is sealed, released and dropped. The client's record still arrives, once."""
    a, admin = sessions.open("a"), sessions.open("admin", autocommit=True)
    with trunkline.connect(db_url, settings=ClientSettings(application_name="stale")) as tl:
        tl.publish("t", b"1", partition=0)
        old = admin.run(OPEN, [topic_id])[0][0]
        admin.run(ROLL, [topic_id])
        admin.append(topic_id, {0: [b"2"]}).result(WAIT_S)
        a.append(topic_id, {0: [b"3"]}).result(WAIT_S)
        waiting = admin.do(lambda: tl.publish("t", b"4", partition=0))
        stale = "select 1 from pg_stat_activity where application_name = 'stale' and wait_event = 'advisory'"
        wait_until(lambda: sessions.watcher.ask(stale), "the client waits")
        other = sessions.open("other", autocommit=True)
        assert other.run(SEAL, [old]) == [(True,)]
        other.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
        assert other.run("select segment_id from trunkline.retention_release(%s)", [topic_id]) == [(old,)]
        assert other.run("select trunkline.segment_drop(%s)", [old]) == [(True,)]
        a.commit()
        assert waiting.result(WAIT_S).offset == 4
    assert admin.read(topic_id, start=2) == [(2, b"2"), (3, b"3"), (4, b"4")]


@pytest.fixture
def two_segments(sessions: Sessions, topic_id: int) -> list[int]:
    """Partition 0 with offsets 1 and 2 in a sealed segment and 3 in the open one; the ids of both."""
    admin = sessions.open("admin", autocommit=True)
    admin.append(topic_id, {0: [b"1", b"2"]}).result(WAIT_S)
    old = admin.run(OPEN, [topic_id])[0][0]
    new = admin.run(ROLL, [topic_id])[0][0]
    admin.append(topic_id, {0: [b"3"]}).result(WAIT_S)
    admin.run(SEAL, [old])
    admin.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
    return [old, new]


def test_a_drop_waits_for_a_reader_and_gives_up_in_time(
    sessions: Sessions, topic_id: int, two_segments: list[int]
) -> None:
    """A reader holds the segment in its transaction: after the release it still reads all of it; the drop gives up
    after a second and changes nothing; new readers are told where the log starts, and are not queued behind it."""
    old, _ = two_segments
    reader, admin = sessions.open("reader"), sessions.open("admin", autocommit=True)
    late = sessions.open("late", autocommit=True)
    assert reader.read(topic_id) == [(1, b"1"), (2, b"2"), (3, b"3")]
    admin.run("select trunkline.retention_release(%s)", [topic_id])
    dropping = admin.start("select trunkline.segment_drop(%s)", [old])
    sessions.watcher.wait_blocked(admin, reader)
    with pytest.raises(psycopg.Error) as outside:
        late.read(topic_id, start=1)
    assert outside.value.sqlstate == "TL005"
    assert late.read(topic_id, start=3) == [(3, b"3")]
    assert late.append(topic_id, {0: [b"4"]}).result(WAIT_S) == [([4],)]
    with pytest.raises(psycopg.errors.LockNotAvailable):
        dropping.result(WAIT_S)
    reader.rollback()
    assert admin.run("select trunkline.segment_drop(%s)", [old]) == [(True,)]
    assert admin.run("select trunkline.segment_drop(%s)", [old]) == [(False,)]


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_reader_overtaken_by_retention_gets_an_error_and_never_fewer_records(
    sessions: Sessions, topic_id: int, two_segments: list[int], isolation: str
) -> None:
    """A reader that has read the catalogue is stopped at the table of the first segment; the segment is released and
    dropped; the reader goes on. In READ COMMITTED it learns the valid range; with an older snapshot it must run
    again."""
    old, _ = two_segments
    reader, lock, admin = sessions.open("reader"), sessions.open("lock"), sessions.open("admin", autocommit=True)
    reader.run(f"set transaction isolation level {isolation}")
    reader.run("select 1")
    lock.run(f"lock table trunkline.segment_{old} in access exclusive mode")
    reading = reader.start("select * from trunkline.log_read(%s, 0, 1, 10, 1000)", [topic_id])
    sessions.watcher.wait_blocked(reader, lock)
    admin.run("select trunkline.retention_release(%s)", [topic_id])
    lock.run("select trunkline.segment_drop(%s)", [old])
    lock.commit()
    with pytest.raises(psycopg.Error) as outside:
        reading.result(WAIT_S)
    if isolation == "read committed":
        assert (outside.value.sqlstate, outside.value.diag.message_detail) == ("TL005", "[3, 4)")
    else:
        assert outside.value.sqlstate == "40001"


def test_a_look_up_by_time_overtaken_by_retention_begins_anew(
    sessions: Sessions, topic_id: int, two_segments: list[int]
) -> None:
    """offset_at has read the range of the log and is stopped at the newest table; the first segment is released and
    dropped; it then answers from what is left, and does not speak of offsets that nobody asked for."""
    old, new = two_segments
    reader = sessions.open("reader", autocommit=True)
    lock, admin = sessions.open("lock"), sessions.open("admin", autocommit=True)
    lock.run(f"lock table trunkline.segment_{new} in access exclusive mode")
    asking = reader.start("select trunkline.log_offset_at(%s, 0, '-infinity')", [topic_id])
    sessions.watcher.wait_blocked(reader, lock)
    admin.run("update trunkline.segment set released_at = clock_timestamp() where segment_id = %s", [old])
    admin.run("select trunkline.segment_drop(%s)", [old])
    lock.rollback()
    assert asking.result(WAIT_S) == [(3,)]


def test_a_client_reads_across_a_drop_and_is_told_the_range(db_url: str, two_segments: list[int]) -> None:
    """Through the client: an offset that retention has passed is OffsetOutOfRange with the valid range; from "start" on
    everything that is left comes."""
    with trunkline.connect(db_url) as tl:
        assert [step.action for step in tl.retention_run("t")] == ["release", "drop"]
        with pytest.raises(OffsetOutOfRange) as outside:
            tl.read("t", offset=1)
        assert (outside.value.start, outside.value.end) == (3, 4)
        assert [record.offset for record in tl.read("t")] == [3]
        assert tl.read("t", offset=4) == []
        with pytest.raises(OffsetOutOfRange):
            tl.read("t", offset=5)


def test_a_writer_that_waits_while_its_topic_is_deleted_is_told_so(
    db_url: str, sessions: Sessions, topic_id: int
) -> None:
    """A deletes the topic in a transaction, B's append waits behind it: after the commit NotFound, after a rollback
    it is written. The name is free at once, and the old client finds the new topic."""
    a, b = sessions.open("a"), sessions.open("b")
    for commits in (False, True):
        a.run("select trunkline.topic_delete('t')")
        waiting = b.append(topic_id, {0: [b"b"]})
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        if commits:
            with pytest.raises(psycopg.Error) as missing:
                waiting.result(WAIT_S)
            assert missing.value.sqlstate == "TL002"
        else:
            assert waiting.result(WAIT_S) == [([1],)]
            b.commit()
    with trunkline.connect(db_url) as tl:
        with pytest.raises(NotFound):
            tl.publish("t", b"x")
        tl.create_topic("t")
        assert tl.publish("t", b"x").offset == 1


def test_adding_partitions_waits_for_writers_and_refuses_what_was_routed_before(
    sessions: Sessions, topic_id: int
) -> None:
    """A writer by key holds its partition; adding partitions waits for it, then sees its key and refuses. Asked to
    break the order, a writer that waited with the old count is refused and nothing of it is written."""
    a, b, admin = sessions.open("a"), sessions.open("b"), sessions.open("admin")
    a.append(topic_id, {0: [b"a"]}, expected=2, keys=[b"k"]).result(WAIT_S)
    adding = admin.start("select trunkline.topic_add_partitions('t', 3)")
    sessions.watcher.wait_blocked(admin, a)
    a.commit()
    with pytest.raises(psycopg.Error) as refused:
        adding.result(WAIT_S)
    assert refused.value.sqlstate == "TL010"
    admin.rollback()
    admin.run("select trunkline.topic_add_partitions('t', 3, true)")
    waiting = b.append(topic_id, {0: [b"b"]}, expected=2, keys=[b"k"])
    sessions.watcher.wait_blocked(b, admin)
    admin.commit()
    with pytest.raises(psycopg.Error) as stale:
        waiting.result(WAIT_S)
    assert stale.value.sqlstate == "TL012"
    assert ends(sessions, topic_id) == {0: 2, 1: 1, 2: 1}


def _append_directly(session: Session, topic_id: int, payload: bytes, expected: int | None = None) -> Future[Any]:
    """Begin what a client sends for partition 0: the function of the segment that is open as far as it knows."""
    segment_id, partition_id = session.run(
        "select t.open_segment_id, p.partition_id from trunkline.topic t"
        " join trunkline.topic_partition p using (topic_id) where topic_id = %s and p.partition = 0",
        [topic_id],
    )[0]
    session.commit()
    return session.start(
        f"select trunkline.segment_{segment_id}_append(%s, %s::int4, 1, %s, %s, null, null, null, null, null, null)",
        [partition_id, expected, [b"k"] if expected else None, [payload]],
    )


def test_a_client_that_waits_in_a_segments_function_while_its_topic_is_deleted_is_told_so(
    sessions: Sessions, topic_id: int
) -> None:
    """What the function knows of the topic is in its text. A has deleted the topic and not committed; B's call has
    begun with the old text and waits. After a rollback it is written, after the commit it is refused: its record would
    have gone with the table."""
    a, b = sessions.open("a"), sessions.open("b")
    _append_directly(b, topic_id, b"1").result(WAIT_S)
    b.commit()
    for commits in (False, True):
        a.run("select trunkline.topic_delete('t')")
        waiting = _append_directly(b, topic_id, b"2")
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        if commits:
            with pytest.raises(psycopg.Error) as missing:
                waiting.result(WAIT_S)
            assert missing.value.sqlstate == "TL002"
        else:
            assert waiting.result(WAIT_S)[0][0][0] == 2
            b.commit()


def test_a_client_that_waits_in_a_segments_function_while_partitions_are_added_is_routed_anew(
    sessions: Sessions, topic_id: int
) -> None:
    """The same with partitions: by key it is refused, without a key it is written, in the new segment."""
    a, b, c = sessions.open("a"), sessions.open("b"), sessions.open("c")
    old = a.run(OPEN, [topic_id])[0][0]
    _append_directly(b, topic_id, b"1").result(WAIT_S)
    b.commit()
    a.run("select trunkline.topic_add_partitions('t', 3)")
    by_key = _append_directly(b, topic_id, b"2", expected=2)
    sessions.watcher.wait_blocked(b, a)
    without = _append_directly(c, topic_id, b"3")
    sessions.watcher.wait_blocked(c, a)
    a.commit()
    with pytest.raises(psycopg.Error) as stale:
        by_key.result(WAIT_S)
    assert stale.value.sqlstate == "TL012"
    b.rollback()
    assert without.result(WAIT_S)[0][0][0] == 2
    c.commit()
    assert ends(sessions, topic_id) == {0: 3, 1: 1, 2: 1}
    assert a.run(SEAL, [old]) == [(True,)]
    assert a.read(topic_id) == [(1, b"1"), (2, b"3")]
