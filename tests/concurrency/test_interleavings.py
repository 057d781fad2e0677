"""Two sessions, step by step, with both orders of commit. That a session waits is proven by pg_blocking_pids."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

import trunkline
from tests.concurrency.sessions import (
    APPEND,
    OPEN,
    RANGE,
    ROLL,
    SEAL,
    WAIT_S,
    Sessions,
    append_parameters,
    ends,
    wait_until,
)

End = Callable[..., None]


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
    assert ends(sessions, topic_id) == {0: 2, 1: 1}


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
    assert ends(sessions, topic_id) == {0: 1, 1: 1}


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
    assert ends(sessions, topic_id) == {0: 2, 1: 3}
