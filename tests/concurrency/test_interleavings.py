"""Two sessions, step by step, with both orders of commit. That a session waits is proven by pg_blocking_pids."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

import trunkline
from tests.concurrency.sessions import APPEND, RANGE, WAIT_S, Sessions, append_parameters, wait_until
from trunkline.errors import NotFound, OffsetOutOfRange
from trunkline.settings import ClientSettings

End = Callable[..., None]

ROLL = "select trunkline.segment_roll(t.open_segment_id, true) from trunkline.topic t where t.topic_id = %s"
SEAL = "select trunkline.segment_seal(%s)"
OPEN = "select open_segment_id from trunkline.topic where topic_id = %s"


def _end(sessions: Sessions, topic_id: int) -> dict[int, int]:
    reader = sessions.open("end", autocommit=True)
    return {partition: end for partition, _, end in reader.run(RANGE, [topic_id])}


@pytest.mark.parametrize("first_commits", [True, False], ids=["commit", "rollback"])
def test_S0_05_nothing_from_an_uncommitted_offset_on_is_visible(
    sessions: Sessions, topic_id: int, *, first_commits: bool
) -> None:
    """A holds offset 2, B waits for the partition behind it. The reader sees neither; when A has ended it sees A before
    B, or B alone at A's offset; at no time a higher offset without the lower one."""
    a, b = sessions.open("a"), sessions.open("b")
    reader = sessions.open("reader", autocommit=True)
    a.append(topic_id, {0: [b"zero"]}).result(WAIT_S)
    a.commit()
    assert a.append(topic_id, {0: [b"a1", b"a2"]}).result(WAIT_S) == [([2],)]
    waiting = b.append(topic_id, {0: [b"b"]})
    sessions.watcher.wait_blocked(b, a)
    assert reader.read(topic_id) == [(1, b"zero")]
    assert reader.run(RANGE, [topic_id])[0] == (0, 1, 2)
    a.commit() if first_commits else a.rollback()
    offset = 4 if first_commits else 2
    assert waiting.result(WAIT_S) == [([offset],)]
    of_a = [(2, b"a1"), (3, b"a2")] if first_commits else []
    assert reader.read(topic_id) == [(1, b"zero"), *of_a]
    b.commit()
    assert reader.read(topic_id) == [(1, b"zero"), *of_a, (offset, b"b")]


@pytest.mark.parametrize("b_commits", [True, False], ids=["commit", "rollback"])
def test_S0_02_offsets_of_a_rolled_back_batch_are_given_again(
    sessions: Sessions, topic_id: int, *, b_commits: bool
) -> None:
    """Three writers in line on one partition; the first rolls back, the second commits or rolls back, the third
    commits: offsets stay gapless whatever happened before."""
    a, b, c = sessions.open("a"), sessions.open("b"), sessions.open("c")
    reader = sessions.open("reader", autocommit=True)
    assert a.append(topic_id, {0: [b"a"] * 3}).result(WAIT_S) == [([1],)]
    of_b = b.append(topic_id, {0: [b"b"] * 2})
    sessions.watcher.wait_blocked(b, a)
    of_c = c.append(topic_id, {0: [b"c"]})
    wait_until(lambda: sessions.watcher.is_waiting(c), "c waits")
    a.rollback()
    assert of_b.result(WAIT_S) == [([1],)]
    b.commit() if b_commits else b.rollback()
    assert of_c.result(WAIT_S) == [([3 if b_commits else 1],)]
    c.commit()
    expected = [b"b", b"b", b"c"] if b_commits else [b"c"]
    assert reader.read(topic_id) == list(enumerate(expected, 1))


HOLDER = """
import sys, psycopg
connection = psycopg.connect(sys.argv[1], application_name="holder")
connection.execute("select trunkline.log_publish('t', 'doomed', partition => 0)")
print(connection.info.backend_pid, flush=True)
sys.stdin.read()
"""


def test_S0_02_offsets_of_a_killed_client_are_given_again(db_url: str, sessions: Sessions, topic_id: int) -> None:
    """A client process is killed (SIGKILL) with an appended batch in its transaction while another writer waits: the
    writer goes on as soon as the server notices, at the same offset, and nobody ever sees the batch."""
    b, reader = sessions.open("b"), sessions.open("reader", autocommit=True)
    command = [sys.executable, "-c", HOLDER, db_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        waiting = b.append(topic_id, {0: [b"b"]})
        wait_until(lambda: sessions.watcher.ask("select %s = any (pg_blocking_pids(%s))", [pid, b.pid]), "b waits")
        holder.send_signal(signal.SIGKILL)
        assert waiting.result(WAIT_S) == [([1],)]
    b.commit()
    assert reader.read(topic_id) == [(1, b"b")]


def test_S0_02_offsets_of_a_terminated_backend_are_given_again(sessions: Sessions, topic_id: int) -> None:
    """The backend of a session that holds an appended batch is terminated: the waiting writer takes the offset."""
    a, b = sessions.open("a"), sessions.open("b")
    a.append(topic_id, {0: [b"a"]}).result(WAIT_S)
    waiting = b.append(topic_id, {0: [b"b"]})
    sessions.watcher.wait_blocked(b, a)
    assert sessions.watcher.ask("select pg_terminate_backend(%s)", [a.pid])
    assert waiting.result(WAIT_S) == [([1],)]
    b.commit()
    with pytest.raises(psycopg.OperationalError):
        a.commit()
    assert _end(sessions, topic_id) == {0: 2, 1: 1}


def test_S0_04_writers_of_different_partitions_do_not_block_each_other(sessions: Sessions, topic_id: int) -> None:
    """A holds partition 0 open; B appends to partition 1 and commits meanwhile. Their offsets are independent."""
    a, b = sessions.open("a"), sessions.open("b")
    reader = sessions.open("reader", autocommit=True)
    assert a.append(topic_id, {0: [b"a1", b"a2"]}).result(WAIT_S) == [([1],)]
    assert b.append(topic_id, {1: [b"b"]}).result(WAIT_S) == [([1],)]
    assert not sessions.watcher.is_waiting(b)
    b.commit()
    assert reader.read(topic_id, partition=1) == [(1, b"b")]
    assert reader.read(topic_id, partition=0) == []
    a.commit()
    assert reader.read(topic_id, partition=0) == [(1, b"a1"), (2, b"a2")]


def test_S3_11_a_transaction_over_two_partitions_is_visible_at_once(sessions: Sessions, topic_id: int) -> None:
    """50 records in each of two partitions: before the commit a reader sees none of them, after it all."""
    a, reader = sessions.open("a"), sessions.open("reader", autocommit=True)
    payloads = [b"%d" % number for number in range(50)]
    a.append(topic_id, {0: payloads[:20], 1: payloads}).result(WAIT_S)
    a.append(topic_id, {0: payloads[20:]}).result(WAIT_S)
    assert reader.run(RANGE, [topic_id]) == [(0, 1, 1), (1, 1, 1)]
    assert (reader.read(topic_id), reader.read(topic_id, partition=1)) == ([], [])
    a.commit()
    expected = list(enumerate(payloads, 1))
    assert (reader.read(topic_id), reader.read(topic_id, partition=1)) == (expected, expected)


def test_S3_11_a_published_batch_of_50_is_visible_atomically(db_url: str, sessions: Sessions) -> None:
    """While a client publishes batches of 50, a reader polls the end of the log as fast as it can: it is always a
    multiple of 50, and what it reads is too."""
    with trunkline.connect(db_url) as tl:
        topic_id = tl.create_topic("fifty").topic_id
        reader = sessions.open("reader", autocommit=True)
        ends: list[int] = []

        def poll() -> None:
            while not ends or ends[-1] < 2001:
                ends.append(reader.connection.execute(RANGE, [topic_id]).fetchall()[0][2])

        polling = reader.do(poll)
        for _ in range(40):
            tl.publish_many("fifty", [b"x"] * 50)
        polling.result(WAIT_S)
        assert len(set(ends)) > 2
        assert all((end - 1) % 50 == 0 for end in ends)


def test_opposite_orders_of_partitions_cannot_deadlock(sessions: Sessions, topic_id: int) -> None:
    """log_append takes partitions in ascending order only; others are refused, and nothing is locked or written."""
    a = sessions.open("a")
    with pytest.raises(psycopg.Error, match="ascending order") as refused:
        a.append(topic_id, {1: [b"x"], 0: [b"y"]}).result(WAIT_S)
    assert refused.value.sqlstate == "TL001"
    a.rollback()
    assert _end(sessions, topic_id) == {0: 1, 1: 1}


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
    assert _end(sessions, topic_id) == {0: 2, 1: 1, 2: 1}


def test_a_wait_for_a_partition_has_a_bound(sessions: Sessions, topic_id: int) -> None:
    """lock_timeout of the session bounds the wait for a partition; the writer is told, and nothing was written."""
    a, b = sessions.open("a"), sessions.open("b")
    a.append(topic_id, {0: [b"a"]}).result(WAIT_S)
    b.run("set lock_timeout = '50ms'")
    b.commit()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        b.append(topic_id, {0: [b"b"]}).result(WAIT_S)
    b.rollback()
    # A session that has no bound gets one for this wait only.
    b.run("set lock_timeout = 0")
    waiting = b.append(topic_id, {0: [b"b"]})
    sessions.watcher.wait_blocked(b, a)
    a.commit()
    assert waiting.result(WAIT_S) == [([2],)]
    assert b.run("show lock_timeout") == [("0",)]


def test_the_statement_of_a_retry_finds_what_the_first_attempt_is_still_writing(
    sessions: Sessions, topic_id: int
) -> None:
    """The first attempt of a producer has appended and not committed; its retry waits for it. After the commit the
    retry is answered with the first offset; after a rollback the retry writes."""
    a, b = sessions.open("a"), sessions.open("b")
    producer = {"producer": "00000000-0000-0000-0000-000000000001", "epoch": 0}
    for sequence, commits, expected in ((1, True, 1), (2, False, 2)):
        numbered = {**producer, "sequences": [sequence]}
        a.append(topic_id, {0: [b"%d" % sequence]}, **numbered).result(WAIT_S)
        retrying = b.append(topic_id, {0: [b"%d" % sequence]}, **numbered)
        sessions.watcher.wait_blocked(b, a)
        a.commit() if commits else a.rollback()
        assert retrying.result(WAIT_S) == [([expected],)]
        b.commit()
    assert b.read(topic_id) == [(1, b"1"), (2, b"2")]


def test_an_older_epoch_that_wakes_up_late_is_refused(sessions: Sessions, topic_id: int) -> None:
    """A producer in epoch 0 waits for the partition while its next epoch publishes: the late batch is refused."""
    holder, old, new = sessions.open("holder"), sessions.open("old"), sessions.open("new")
    producer = {"producer": "00000000-0000-0000-0000-000000000002", "sequences": [1]}
    holder.append(topic_id, {0: [b"new"]}, **producer, epoch=1).result(WAIT_S)
    late = old.append(topic_id, {0: [b"old"]}, **producer, epoch=0)
    sessions.watcher.wait_blocked(old, holder)
    holder.commit()
    with pytest.raises(psycopg.Error) as fenced:
        late.result(WAIT_S)
    assert fenced.value.sqlstate == "TL007"
    assert new.read(topic_id) == [(1, b"new")]


def test_a_reader_is_never_blocked_by_writers_rolls_or_sealing(sessions: Sessions, topic_id: int) -> None:
    """With a writer, a roll and a seal each left uncommitted, a reader reads the committed records without waiting."""
    writer, roller = sessions.open("writer"), sessions.open("roller")
    reader = sessions.open("reader", autocommit=True)
    roller.append(topic_id, {0: [b"1"]}).result(WAIT_S)
    roller.commit()
    writer.append(topic_id, {1: [b"x"]}).result(WAIT_S)
    old = roller.run(OPEN, [topic_id])[0][0]
    roller.run(ROLL, [topic_id])
    roller.commit()
    roller.run("set lock_timeout = '10s'")
    sealing = roller.start(SEAL, [old])
    sessions.watcher.wait_blocked(roller, writer)
    reader.run("set statement_timeout = '5s'")
    assert reader.read(topic_id) == [(1, b"1")]
    assert reader.run(RANGE, [topic_id]) == [(0, 1, 2), (1, 1, 1)]
    writer.commit()
    sealing.result(WAIT_S)
    roller.commit()


def test_append_takes_its_time_under_the_lock_and_never_backwards(sessions: Sessions, topic_id: int) -> None:
    """B's transaction began before A's and appends after it; then the clock steps back an hour: append times follow
    the offsets all the same."""
    a, b = sessions.open("a"), sessions.open("b")
    reader = sessions.open("reader", autocommit=True)
    b.run("select now()")
    a.append(topic_id, {0: [b"a"]}).result(WAIT_S)
    a.commit()
    b.append(topic_id, {0: [b"b"]}).result(WAIT_S)
    b.commit()
    reader.run(
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
        " as $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$"
    )
    for payload in (b"c", b"d"):
        a.append(topic_id, {0: [payload]}).result(WAIT_S)
        a.commit()
        reader.run(ROLL, [topic_id])
    times = [row[2] for row in reader.run("select * from trunkline.log_read(%s, 0, 1, 10, 1000)", [topic_id])]
    assert len(times) == 4
    assert times == sorted(times)


def test_statements_of_append_carry_many_partitions(sessions: Sessions, topic_id: int) -> None:
    """The statement that these tests send is the one they mean: two partitions, one transaction, two first offsets."""
    a = sessions.open("a")
    assert a.run(APPEND, append_parameters(topic_id, {0: [b"1"], 1: [b"2", b"3"]})) == [([1, 1],)]
    a.commit()
    assert _end(sessions, topic_id) == {0: 2, 1: 3}
