"""What the commit of a transaction that has published does in the server: which locks it takes and when, with whose
rights, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

import trunkline
from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import OPEN, RANGE, READ, ROLL, SEAL, WAIT_S, Session, Sessions, opened
from tests.outbox.scenes import PUBLISH, Stage, opposite_orders, slow_check, stuck_check
from trunkline import Client, errors
from trunkline.server import Server


@pytest.fixture
def stage(sessions: Sessions) -> Stage:
    return Stage(sessions)


# -- locks --


@pytest.mark.parametrize("publish_first", [True, False])
def test_S4_18_no_partition_is_held_while_a_deferred_check_of_the_application_waits(
    stage: Stage, publish_first: bool
) -> None:
    """A constraint of the application's waits at COMMIT for a lock that the test holds. Meanwhile the transaction has
    no partition, and others publish to the same one and commit."""
    assert slow_check(stage, publish_first=publish_first) == set()


def test_S4_18_checks_that_wait_for_each_other_do_not_meet_at_a_partition(stage: Stage) -> None:
    assert stuck_check(stage) == set()


def test_S4_18_partitions_published_to_in_opposite_orders_do_not_deadlock(stage: Stage) -> None:
    assert opposite_orders(stage) == set()


def test_S4_18_an_open_transaction_holds_no_partition(stage: Stage) -> None:
    """From publish to COMMIT: not one lock of ours, whatever it published to."""
    slow, other = stage.session("slow"), stage.session("other")
    for partition in (1, 0):
        slow.run(PUBLISH, [b"slow", partition])
    assert stage.partitions_held(slow) == 0
    for partition in (0, 1):
        other.run(PUBLISH, [b"other", partition])
    other.commit()
    slow.commit()
    assert stage.payloads(0) == [b"other", b"slow"]


def test_what_the_applications_own_deferred_triggers_publish_is_in_the_same_transaction(stage: Stage) -> None:
    """Before and after our own turn, and where nothing was published before the commit."""
    stage.admin.run(
        "create function tell() returns trigger language plpgsql as $$ begin"
        " perform trunkline.outbox_publish('t', convert_to('told ' || new.id, 'UTF8'), partition => 0);"
        " return null; end $$"
    )
    stage.admin.run(
        "create constraint trigger tell after insert on checked deferrable initially deferred"
        " for each row execute function tell()"
    )
    stage.admin.run("alter table checked disable trigger slowly")
    caller = stage.session("caller")
    caller.run("insert into checked values (1)")
    caller.commit()
    caller.run("insert into checked values (2)")
    caller.run(PUBLISH, [b"a", 0])
    caller.commit()
    caller.run(PUBLISH, [b"b", 0])
    caller.run("insert into checked values (3)")
    caller.commit()
    assert stage.payloads(0) == [b"told 1", b"a", b"told 2", b"b", b"told 3"]
    assert stage.left_behind() == 0


def test_S4_21_a_record_is_stored_with_an_offset_or_not_at_all(stage: Stage) -> None:
    """What was only put down is no record; what is one has an offset, by the one index there is."""
    caller = stage.session("caller")
    for number in range(20):
        caller.run(PUBLISH, [b"%d" % number, number % 2])
        caller.run("savepoint s")
        caller.run(PUBLISH, [b"undone", 0])
        caller.run("rollback to s")
        assert stage.payloads(0) == [b"%d" % n for n in range(0, number, 2) if n % 3]
        caller.commit() if number % 3 else caller.rollback()
    assert stage.left_behind() == 0
    segment = stage.admin.run("select 'trunkline.segment_' || open_segment_id from trunkline.topic")[0][0]
    indexes = (
        "select i.indisprimary, array_agg(a.attname::text order by k.n)"
        " from pg_index i, unnest(i.indkey::int[]) with ordinality k(attnum, n)"
        " join pg_attribute a on a.attnum = k.attnum where i.indrelid = %s::regclass and a.attrelid = i.indrelid"
        " group by i.indexrelid, i.indisprimary having 'first_offset' = any (array_agg(a.attname::text))"
    )
    assert stage.admin.run(indexes, [segment]) == [(True, ["partition", "first_offset"])]
    copied = f"insert into {segment} select (jsonb_populate_record(b, %s)).* from {segment} b limit 1"
    for change, state in ((None, "23502"), (1, "23505")):
        with pytest.raises(psycopg.Error) as refused:
            stage.admin.run(copied, [Jsonb({"first_offset": change, "partition": 0})])
        assert refused.value.sqlstate == state


# -- a commit that fails --


def test_a_partition_that_does_not_become_free_fails_the_commit_in_the_sessions_own_time(stage: Stage) -> None:
    """Nothing of the transaction is left, and it can be run again."""
    holder, caller = stage.session("holder"), stage.session("caller")
    holder.run("select trunkline.lock_partition(min(partition_id)) from trunkline.topic_partition")
    caller.run("set lock_timeout = '50ms'")
    caller.commit()
    caller.run("create table written (x integer)")
    caller.run(PUBLISH, [b"x", 0])
    with pytest.raises(psycopg.errors.LockNotAvailable):
        caller.commit()
    assert stage.left_behind() == 0
    assert caller.run("select to_regclass('written')") == [(None,)]
    holder.commit()
    caller.run(PUBLISH, [b"again", 0])
    caller.commit()
    assert stage.payloads(0) == [b"again"]


@pytest.mark.parametrize("beside", [True, False])
def test_keys_that_would_go_elsewhere_by_now_fail_the_commit(stage: Stage, *, beside: bool) -> None:
    caller = stage.session("caller")
    keyed = "select trunkline.outbox_publish('t', 'x', key => 'k')"
    stage.admin.run(keyed)
    caller.run(keyed)
    if beside:
        caller.run(PUBLISH, [b"not keyed", 0])
    stage.admin.run("select trunkline.topic_add_partitions('t', 5, true)")
    for partition in range(2):
        stage.admin.run(PUBLISH, [b"since", partition])
    with pytest.raises(psycopg.Error) as failed:
        caller.commit()
    assert failed.value.sqlstate == "TL012"
    caller.run(keyed)
    caller.commit()
    assert sum(len(stage.payloads(partition)) for partition in range(5)) == 4


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_snapshot_that_is_older_than_the_tip_fails_the_commit(stage: Stage, isolation: str) -> None:
    """One that is not commits."""
    caller, other = stage.session("caller"), stage.session("other")
    stage.admin.run(PUBLISH, [b"before", 0])
    for published in ([0, 1], [1]):
        caller.run(f"set transaction isolation level {isolation}")
        caller.run(PUBLISH, [b"caller", 0])
        for partition in published:
            other.run(PUBLISH, [b"other", partition])
            other.commit()
        if 0 in published:
            with pytest.raises(psycopg.errors.SerializationFailure):
                caller.commit()
    caller.commit()
    assert stage.payloads(0) == [b"before", b"other", b"caller"]


# -- segments --


@pytest.mark.parametrize("moved", ["not at all", "by a publish", "by a seal", "and dropped"])
def test_a_transaction_that_outlives_its_segment_publishes_to_the_next(stage: Stage, moved: str) -> None:
    caller, admin = stage.session("caller"), stage.admin
    admin.run(PUBLISH, [b"before", 0])
    caller.run(PUBLISH, [b"late", 0])
    old = admin.run(OPEN, [stage.topic_id])[0][0]
    admin.run(ROLL, [stage.topic_id])
    if moved == "by a publish":
        admin.run(PUBLISH, [b"next", 0])
    elif moved != "not at all":
        admin.run(SEAL, [old])
    if moved == "and dropped":
        admin.run("select trunkline.topic_alter('t', '{\"retention_bytes\": 0}')")
        admin.run("select trunkline.retention_release(%s)", [stage.topic_id])
        admin.run("select trunkline.segment_drop(%s)", [old])
    caller.commit()
    start, end = admin.run(RANGE, [stage.topic_id])[0][1:]
    records = admin.read(stage.topic_id, start=start)
    assert [offset for offset, _ in records] == list(range(start, end))
    assert records[-1] == (3 if moved == "by a publish" else 2, b"late")
    assert admin.run(f"select count(*) from trunkline.segment_{old + 1} where record_count > 0")[0][0] >= 1


def test_a_limit_that_is_lowered_meanwhile_does_not_fail_the_commit(stage: Stage) -> None:
    """What was published was within it."""
    caller = stage.session("caller")
    stage.admin.run(PUBLISH, [b"before", 0])
    caller.run(PUBLISH, [b"x" * 1000, 0])
    stage.admin.run("select trunkline.topic_alter('t', '{\"record_bytes_max\": 10}')")
    caller.commit()
    assert stage.payloads(0) == [b"before", b"x" * 1000]


def test_routines_of_a_segment_go_with_it(stage: Stage) -> None:
    stage.admin.run("select trunkline.topic_delete('t')")
    for (segment_id,) in stage.admin.run("select segment_id from trunkline.segment"):
        stage.admin.run("select trunkline.segment_drop(%s)", [segment_id])
    assert stage.admin.run("select proname from pg_proc where proname ~ '^segment_[0-9]+_'") == []


def test_what_follows_in_a_transaction_carries_on_its_count(stage: Stage) -> None:
    """Its batches say where they stand in it, also where the first was appended before the commit."""
    caller = stage.session("caller")
    stage.admin.run(PUBLISH, [b"before", 0])
    for payload in (b"a", b"b", b"c"):
        caller.run(PUBLISH, [payload, 0])
        caller.run("set constraints all immediate")
        caller.run("set constraints all deferred")
    caller.commit()
    batches = stage.admin.run(READ, [stage.topic_id, 0, 1, 100])
    assert [(ordinal, count) for *_, ordinal, count in batches] == [(0, 1), (0, 1), (1, 2), (2, 3)]
    assert len({batch[5] for batch in batches}) == 2


# -- rights --


@pytest.fixture
def logins(server: Server, db_url: str) -> Iterator[dict[str, str]]:
    """The URL of a login that may publish, and of one that may nothing."""
    urls = {}
    names = {kind: sql.Identifier(f"outbox_{kind}") for kind in ("producer", "nobody")}
    with psycopg.connect(server.url, autocommit=True) as connection:
        for kind, name in names.items():
            connection.execute(sql.SQL("create role {} login password 'secret'").format(name))
            parts = {**conninfo_to_dict(db_url), "user": f"outbox_{kind}", "password": "secret"}
            urls[kind] = make_conninfo("", **parts)
        connection.execute(sql.SQL("grant trunkline_producer, {nobody} to {producer}").format(**names))
    yield urls
    with psycopg.connect(server.url, autocommit=True) as connection:
        for name in names.values():
            connection.execute(sql.SQL("drop role {}").format(name))


@pytest.mark.direct("logins that the pooler does not know")
def test_a_producer_publishes_and_a_login_without_grants_is_refused(tl: Client, logins: dict[str, str]) -> None:
    """The commit has our rights, whoever the application is by then: between publish and COMMIT it becomes somebody
    who may not even see the schema."""
    with trunkline.connect(logins["producer"]) as client, psycopg.connect(logins["producer"]) as conn:
        client.publish("orders", b"a", conn=conn)
        conn.execute("select trunkline.outbox_publish('orders', 'b')")
        conn.execute("set role outbox_nobody")
        conn.commit()
        conn.execute("set role outbox_nobody")
        with pytest.raises(errors.PermissionDenied, match="permission denied for schema trunkline"):
            client.publish("orders", b"x", conn=conn)
        conn.rollback()
        conn.execute("reset role")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select from trunkline.outbox_stage")
        conn.rollback()
    with psycopg.connect(logins["nobody"]) as conn, pytest.raises(errors.PermissionDenied):
        tl.publish("orders", b"x", conn=conn)
    assert [record.payload for record in tl.read("orders")] == [b"a", b"b"]


# -- two phases --


@pytest.fixture
def preparing(start_server: StartServer) -> Iterator[Sessions]:
    """Sessions on a server that allows prepared transactions, with a topic."""
    server = start_server({"max_prepared_transactions": "5"})
    with opened(server.url) as sessions:
        sessions.open("admin", autocommit=True).run("select trunkline.topic_create('t', 2)")
        yield sessions


def _plainly(caller: Session) -> None:
    caller.run("prepare transaction 'p'")


def _in_capitals(caller: Session) -> None:
    caller.run("\n  PREPARE\n TRANSACTION 'p'")


def _after_a_comment(caller: Session) -> None:
    caller.run("/* now */ prepare transaction 'p'")


def _among_others(caller: Session) -> None:
    caller.run("select 1; prepare transaction 'p'")


def _after_constraints(caller: Session) -> None:
    caller.run("set constraints all immediate")
    caller.run("prepare transaction 'p'")


def test_a_transaction_that_has_published_cannot_be_prepared(preparing: Sessions) -> None:
    """With our words where the server tells what it is asked for, and else with its own. Nothing is published, no
    partition is held; one whose publish was taken back may be prepared."""
    caller, other = preparing.open("caller"), preparing.open("other", autocommit=True)
    ways: dict[Callable[[Session], Any], str] = {
        _plainly: "TL001",
        _in_capitals: "TL001",
        _after_a_comment: "0A000",
        _among_others: "0A000",
        _after_constraints: "0A000",
    }
    other.run(PUBLISH, [b"before", 0])
    for way, state in ways.items():
        caller.run(PUBLISH, [b"doomed", 0])
        with pytest.raises(psycopg.Error) as refused:
            way(caller)
        assert refused.value.sqlstate == state, way.__name__
        caller.rollback()
    caller.run("create table kept (x int)")
    caller.run("savepoint s")
    caller.run(PUBLISH, [b"doomed", 0])
    caller.run("rollback to s")
    caller.run("prepare transaction 'p'")
    caller.commit()
    other.run(PUBLISH, [b"free", 0])
    other.run("rollback prepared 'p'")
    assert other.run("select payload from trunkline.records('t', 0)") == [(b"before",), (b"free",)]
    assert other.run("select count(*) from pg_prepared_xacts") == [(0,)]


def test_a_commit_is_flushed_where_the_session_would_not_wait_for_it(stage: Stage) -> None:
    caller = stage.session("caller")
    caller.run("set synchronous_commit = off")
    caller.commit()
    for _ in range(10):
        caller.run(PUBLISH, [b"x" * 1000, 0])
        written = caller.run("select pg_current_wal_insert_lsn()")[0][0]
        caller.do(caller.connection.commit).result(WAIT_S)
        assert stage.sessions.watcher.ask("select pg_current_wal_flush_lsn() > %s::pg_lsn", [written])
