"""Publishing inside a caller's transaction, of every kind that Postgres has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

import trunkline
from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import RANGE, ROLL, WAIT_S, Session, Sessions, opened
from trunkline.server import Server

SNAPSHOTS = ["repeatable read", "serializable"]
HINT = "run the transaction again, or publish in READ COMMITTED, which does not meet this"


def _with_snapshot(sessions: Sessions, isolation: str, name: str = "caller") -> Session:
    """A session in a transaction whose snapshot is taken."""
    session = sessions.open(name)
    session.run(f"set transaction isolation level {isolation}")
    session.run("select 1 from trunkline.meta")
    return session


def _refused(session: Session, topic_id: int, partition: int = 0) -> None:
    """Its append ends in a serialization failure that says what to do; then it can only roll back."""
    with pytest.raises(psycopg.errors.SerializationFailure) as failure:
        session.append(topic_id, {partition: [b"caller"]}).result(WAIT_S)
    assert failure.value.diag.message_hint == HINT
    session.rollback()


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_a_snapshot_older_than_the_tip_is_a_serialization_failure(
    sessions: Sessions, topic_id: int, isolation: str
) -> None:
    """The tip moves after the caller's snapshot: 40001 with the hint, nothing written, and the partition stays
    usable."""
    caller = _with_snapshot(sessions, isolation)
    other = sessions.open("other", autocommit=True)
    other.append(topic_id, {0: [b"other"]}).result(WAIT_S)
    _refused(caller, topic_id)
    assert other.append(topic_id, {0: [b"next"]}).result(WAIT_S) == [([2],)]
    assert other.read(topic_id) == [(1, b"other"), (2, b"next")]


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_the_tip_moves_while_the_caller_waits_for_the_partition(
    sessions: Sessions, topic_id: int, isolation: str
) -> None:
    """The caller's snapshot is taken by its append itself, which then waits behind another writer: after that one's
    commit it fails, after its rollback it commits."""
    other = sessions.open("other")
    for commits in (False, True):
        caller = sessions.open("caller")
        caller.run(f"set transaction isolation level {isolation}")
        other.append(topic_id, {0: [b"other"]}).result(WAIT_S)
        waiting = caller.append(topic_id, {0: [b"caller"]})
        sessions.watcher.wait_blocked(caller, other)
        other.commit() if commits else other.rollback()
        if commits:
            with pytest.raises(psycopg.errors.SerializationFailure):
                waiting.result(WAIT_S)
            caller.rollback()
        else:
            assert waiting.result(WAIT_S) == [([1],)]
            caller.commit()
    assert other.read(topic_id) == [(1, b"caller"), (2, b"other")]


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_a_snapshot_with_the_current_tip_commits(sessions: Sessions, topic_id: int, isolation: str) -> None:
    """Nothing was written to the partition since the snapshot: the caller appends, twice, and commits. What others
    wrote to another partition meanwhile, or only rolled, does not matter."""
    other = sessions.open("other", autocommit=True)
    other.append(topic_id, {0: [b"before"]}).result(WAIT_S)
    caller = _with_snapshot(sessions, isolation)
    other.append(topic_id, {1: [b"elsewhere"]}).result(WAIT_S)
    other.run(ROLL, [topic_id])
    assert caller.append(topic_id, {0: [b"1", b"2"]}).result(WAIT_S) == [([2],)]
    assert caller.append(topic_id, {0: [b"3"]}).result(WAIT_S) == [([4],)]
    caller.commit()
    assert other.append(topic_id, {0: [b"after"]}).result(WAIT_S) == [([5],)]
    assert [payload for _, payload in other.read(topic_id)] == [b"before", b"1", b"2", b"3", b"after"]


@pytest.mark.parametrize("isolation", SNAPSHOTS)
@pytest.mark.parametrize("moved", ["by a publish", "by a seal", "and dropped"])
def test_S3_12_the_partition_moved_to_a_new_segment_after_the_snapshot(
    sessions: Sessions, topic_id: int, isolation: str, moved: str
) -> None:
    """The caller's snapshot knows only the old segment. Whether the partition left it by a publish or by sealing,
    or the old one is gone: the caller gets 40001 and the log has no gap and no second copy of an offset."""
    other = sessions.open("other", autocommit=True)
    other.append(topic_id, {0: [b"1"], 1: [b"1"]}).result(WAIT_S)
    caller = _with_snapshot(sessions, isolation)
    old = other.run("select open_segment_id from trunkline.topic where topic_id = %s", [topic_id])[0][0]
    other.run(ROLL, [topic_id])
    if moved == "by a publish":
        other.append(topic_id, {0: [b"2"]}).result(WAIT_S)
    else:
        other.run("select trunkline.segment_seal(%s)", [old])
    if moved == "and dropped":
        other.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
        other.run("select trunkline.retention_release(%s)", [topic_id])
        other.run("select trunkline.segment_drop(%s)", [old])
    _refused(caller, topic_id)
    other.append(topic_id, {0: [b"last"]}).result(WAIT_S)
    start, end = other.run(RANGE, [topic_id])[0][1:]
    assert [offset for offset, _ in other.read(topic_id, start=start)] == list(range(start, end))


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_partitions_added_after_the_snapshot_are_not_overlooked(
    sessions: Sessions, topic_id: int, isolation: str
) -> None:
    """Partitions are added to a topic without keyed records; a caller with an older snapshot routes a key by the old
    count. It must fail, or that key would stand in two partitions without anybody having asked for it."""
    caller = _with_snapshot(sessions, isolation)
    other = sessions.open("other", autocommit=True)
    other.run("select trunkline.topic_add_partitions('t', 3)")
    with pytest.raises(psycopg.errors.SerializationFailure):
        caller.append(topic_id, {0: [b"caller"]}, expected=2, keys=[b"k"]).result(WAIT_S)


@pytest.mark.parametrize("isolation", SNAPSHOTS)
def test_S3_12_a_producer_in_a_snapshot_gets_a_failure_and_no_duplicate(
    sessions: Sessions, topic_id: int, isolation: str
) -> None:
    """The same sequence is published after the caller's snapshot: the caller cannot see it, fails, and finds its offset
    in its next attempt."""
    numbered = {"producer": "00000000-0000-0000-0000-000000000003", "epoch": 0, "sequences": [1]}
    caller = _with_snapshot(sessions, isolation)
    other = sessions.open("other", autocommit=True)
    other.append(topic_id, {0: [b"1"]}, **numbered).result(WAIT_S)
    with pytest.raises(psycopg.errors.SerializationFailure):
        caller.append(topic_id, {0: [b"1"]}, **numbered).result(WAIT_S)
    caller.rollback()
    assert caller.append(topic_id, {0: [b"1"]}, **numbered).result(WAIT_S) == [([1],)]
    caller.commit()
    assert other.read(topic_id) == [(1, b"1")]


def test_S3_12_serializable_callers_of_one_partition_one_after_the_other_commit(
    sessions: Sessions, topic_id: int
) -> None:
    for number in range(1, 6):
        caller = _with_snapshot(sessions, "serializable", f"caller {number}")
        assert caller.append(topic_id, {0: [b"x"]}).result(WAIT_S) == [([number],)]
        caller.commit()


@pytest.fixture
def serializable_url(make_database: Callable[[], str]) -> str:
    """A database whose sessions are serializable, and odd in every other way that a database can ask for."""
    url = make_database()
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        for setting in (
            "default_transaction_isolation = 'serializable'",
            "default_transaction_deferrable = on",
            "synchronous_commit = off",
            "timezone = 'Asia/Kathmandu'",
            "datestyle = 'German'",
            "bytea_output = 'escape'",
            "search_path = 'nowhere'",
            "standard_conforming_strings = off",
        ):
            connection.execute(sql.SQL("alter database {} set " + setting).format(name))
    return url


def test_S3_12_our_client_works_in_a_database_that_defaults_to_serializable(serializable_url: str) -> None:
    """Two clients that interleave on one partition never meet a serialization failure: their transactions are READ
    COMMITTED whatever the database says, and what the session inherited does not reach the records."""
    with trunkline.connect(serializable_url) as one, trunkline.connect(serializable_url) as two:
        one.create_topic("t", partitions=2)
        for number in range(20):
            client = (one, two)[number % 2]
            at = client.publish("t", b"\\%d\x00" % number, partition=0, headers={"h": b"\\\x00"})
            assert at.offset == number + 1
        records = one.read("t", partition=0)
        assert [record.payload for record in records] == [b"\\%d\x00" % number for number in range(20)]
        assert {record.headers for record in records} == {(("h", b"\\\x00"),)}
        assert one.offset_at("t", 0, records[5].append_time) == 6
        settings = one._pool._idle[0].execute("show default_transaction_isolation").fetchone()
        assert settings == ("read committed",)


def test_an_append_in_a_session_with_synchronous_commit_off_is_flushed(sessions: Sessions, topic_id: int) -> None:
    """The session commits asynchronously; inside a transaction that appends, it does not: when COMMIT returns, the WAL
    is flushed up to it. The session's own setting is back in its next transaction."""
    caller = sessions.open("caller")
    caller.run("set synchronous_commit = off")
    caller.commit()
    for _ in range(20):
        caller.append(topic_id, {0: [b"x" * 1000]}).result(WAIT_S)
        assert caller.run("show synchronous_commit") == [("on",)]
        written = caller.run("select pg_current_wal_insert_lsn()")[0][0]
        caller.commit()
        # The commit record stands behind what was inserted before it.
        assert sessions.watcher.ask("select pg_current_wal_flush_lsn() > %s::pg_lsn", [written])
    assert caller.run("show synchronous_commit") == [("off",)]


@pytest.mark.parametrize("weaker", ["local", "remote_write", "on", "remote_apply"])
def test_a_setting_that_flushes_is_left_as_it_is(sessions: Sessions, topic_id: int, weaker: str) -> None:
    caller = sessions.open("caller")
    caller.run(f"set synchronous_commit = {weaker}")
    caller.append(topic_id, {0: [b"x"]}).result(WAIT_S)
    assert caller.run("show synchronous_commit") == [(weaker,)]


@pytest.fixture
def preparing(start_server: StartServer) -> Iterator[tuple[Server, Sessions, int]]:
    """A server that allows prepared transactions, with a topic."""
    server = start_server({"max_prepared_transactions": "5"})
    with opened(server.url) as sessions:
        admin = sessions.open("admin", autocommit=True)
        yield server, sessions, int(admin.run("select trunkline.topic_create('t', 2)")[0][0])


def test_a_transaction_that_appended_cannot_be_prepared(preparing: tuple[Server, Sessions, int]) -> None:
    """PREPARE TRANSACTION would keep the partition's lock for ever: refused, rolled back, the partition is free. One
    whose append was rolled back to a savepoint may be prepared. The guard leaves no LISTEN behind."""
    server, sessions, topic_id = preparing
    a, b = sessions.open("a"), sessions.open("b", autocommit=True)
    for isolation in ("read committed", "repeatable read", "serializable"):
        a.run(f"set transaction isolation level {isolation}")
        a.append(topic_id, {0: [b"doomed"]}).result(WAIT_S)
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            a.run("prepare transaction 'p'")
        a.rollback()
    a.run("create table kept (x int)")
    a.run("savepoint s")
    a.append(topic_id, {0: [b"doomed"]}).result(WAIT_S)
    a.run("rollback to savepoint s")
    a.run("prepare transaction 'p'")
    a.commit()
    assert b.append(topic_id, {0: [b"b"]}).result(WAIT_S) == [([1],)]
    b.run("rollback prepared 'p'")
    assert b.read(topic_id) == [(1, b"b")]
    with trunkline.connect(server.url) as tl:
        assert tl.publish("t", b"c", partition=0).offset == 2
        connection = tl._pool._idle[0]
        assert connection.execute("select pg_listening_channels()").fetchall() == []


def test_savepoints_take_back_what_was_appended_after_them(sessions: Sessions, topic_id: int) -> None:
    """Rolled back to a savepoint: the offsets are given again in the same transaction, the batch's count too, and the
    lock that was first taken after the savepoint is free for others."""
    caller, other = sessions.open("caller"), sessions.open("other", autocommit=True)
    caller.append(topic_id, {0: [b"1"]}).result(WAIT_S)
    caller.run("savepoint s")
    assert caller.append(topic_id, {0: [b"gone", b"gone"], 1: [b"gone"]}).result(WAIT_S) == [([2, 1],)]
    caller.run("rollback to savepoint s")
    assert other.append(topic_id, {1: [b"other"]}).result(WAIT_S) == [([1],)]
    assert caller.append(topic_id, {0: [b"2", b"3"], 1: [b"4"]}).result(WAIT_S) == [([2, 2],)]
    caller.run("release savepoint s")
    caller.commit()
    assert other.read(topic_id) == [(1, b"1"), (2, b"2"), (3, b"3")]
    assert other.read(topic_id, partition=1) == [(1, b"other"), (2, b"4")]
    counts = other.run(
        "select transaction_ordinal, transaction_count from trunkline.log_read(%s, 0, 1, 9, 999)", [topic_id]
    )
    assert counts == [(0, 1), (1, 3)]


def test_an_append_inside_an_exception_block_of_the_caller_is_taken_back_with_it(
    sessions: Sessions, topic_id: int
) -> None:
    caller = sessions.open("caller", autocommit=True)
    caller.run(
        "do $$ begin perform trunkline.log_publish('t', 'gone', partition => 0); raise exception 'no';"
        " exception when others then perform trunkline.log_publish('t', 'kept', partition => 0); end $$"
    )
    assert caller.read(topic_id) == [(1, b"kept")]


def _abort(session: Session) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.run("select 1 / 0")


def _read_only(session: Session) -> None:
    session.run("set transaction read only")


@pytest.mark.parametrize(("spoil", "state"), [(_abort, "25P02"), (_read_only, "25006")], ids=["aborted", "read only"])
def test_a_transaction_that_cannot_write_is_told_so_and_leaves_no_lock(
    sessions: Sessions, topic_id: int, spoil: Callable[[Session], None], state: str
) -> None:
    """Neither an aborted nor a read-only transaction appends; while it is still open, others publish freely. A
    read-only transaction reads."""
    caller, other = sessions.open("caller"), sessions.open("other", autocommit=True)
    other.append(topic_id, {0: [b"1"]}).result(WAIT_S)
    spoil(caller)
    if state == "25006":
        assert caller.read(topic_id) == [(1, b"1")]
    with pytest.raises(psycopg.Error) as refused:
        caller.append(topic_id, {0: [b"x"]}).result(WAIT_S)
    assert refused.value.sqlstate == state
    assert other.append(topic_id, {0: [b"2"]}).result(WAIT_S) == [([2],)]
    caller.rollback()
    assert other.read(topic_id) == [(1, b"1"), (2, b"2")]


def test_a_failed_append_leaves_the_partition_usable(sessions: Sessions, topic_id: int) -> None:
    """A multi-partition append that fails at its last partition has written nothing to the first."""
    caller, other = sessions.open("caller"), sessions.open("other", autocommit=True)
    with pytest.raises(psycopg.Error) as missing:
        caller.append(topic_id, {0: [b"x"], 1: [b"x"], 2: [b"x"]}).result(WAIT_S)
    assert missing.value.sqlstate == "TL002"
    caller.rollback()
    assert other.append(topic_id, {0: [b"1"], 1: [b"1"]}).result(WAIT_S) == [([1, 1],)]


def test_a_read_writes_nothing_and_takes_no_transaction_id(sessions: Sessions, topic_id: int) -> None:
    """After one read that settles hint bits: reads of records, at the end, of the range and by time give the
    transaction no id, and the server counts no WAL for them (EXPLAIN counts it for the statement alone)."""
    reader, writer = sessions.open("reader"), sessions.open("writer", autocommit=True)
    writer.append(topic_id, {0: [b"1"]}).result(WAIT_S)
    asked = [
        f"select * from trunkline.log_read({topic_id}, 0, 1, 10, 1000)",
        f"select * from trunkline.log_read({topic_id}, 0, 2, 10, 1000)",
        f"select * from trunkline.log_range({topic_id})",
        f"select trunkline.log_offset_at({topic_id}, 0, 'infinity')",
        "select * from trunkline.records('t', 0)",
    ]
    for settled in (False, True):
        for statement in asked:
            plan = reader.run(f"explain (analyze, wal, timing off, costs off) {statement}")
            if settled:
                assert "WAL" not in "\n".join(line for (line,) in plan), statement
            assert reader.run("select pg_current_xact_id_if_assigned()") == [(None,)]
        reader.commit()
    written = writer.run("explain (analyze, wal, timing off) select trunkline.log_publish('t', 'x')")
    assert "WAL" in "\n".join(line for (line,) in written), "EXPLAIN shows WAL where there is some"
