"""Every trap has a log that falls into it. The checker, or an error that no sound log gives, shows each of them;
our own log plays the same scenes and comes out clean. A checker that passed a mutant would prove nothing about
us."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.concurrency.conftest import StartServer
from tests.concurrency.sessions import WAIT_S, Session, Sessions, opened
from tests.mutants.mutants import MUTANTS, NOBODY_FLUSHES, Mutant, install_mutant, stop_wal_writer
from tests.mutants.scenes import Log, Scene, findings
from trunkline.client.install import install
from trunkline.server import Server

SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_caught(make_database: Callable[[], str], mutant: Mutant) -> None:
    url = make_database()
    install_mutant(url, mutant)
    with opened(url) as sessions:
        assert mutant.caught_as <= findings(mutant.scene, sessions, mutant.log(sessions))


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_log_plays_the_same_scene_and_is_clean(make_database: Callable[[], str], scene: Scene) -> None:
    with opened(make_database()) as sessions:
        assert findings(scene, sessions, Log(sessions)) == set()


UNGUARDED = "create or replace function trunkline.log_guard_commit() returns void language sql as ''"


def _append_and_crash(server: Server, payload: bytes) -> bool:
    """Append in a session that commits asynchronously, kill the server at once; whether the record is there then."""
    with opened(server.url) as sessions:
        caller = sessions.open("caller", autocommit=True)
        caller.run("set synchronous_commit = off")
        topic_id = caller.run("select topic_id from trunkline.topic")[0][0]
        stop_wal_writer(caller)
        caller.append(topic_id, {0: [payload]}).result(WAIT_S)
        server.kill()
    server.restart()
    with psycopg.connect(server.url) as connection:
        rows = connection.execute("select payload from trunkline.records('t', 0)").fetchall()
    return (payload,) in rows


def _prepared(sessions: Sessions, topic_id: int) -> bool:
    """Whether a transaction that appended could be prepared."""
    caller: Session = sessions.open("caller")
    caller.append(topic_id, {0: [b"prepared"]}).result(WAIT_S)
    try:
        caller.run("prepare transaction 'p'")
    except psycopg.errors.FeatureNotSupported:
        return False
    finally:
        caller.rollback()
    sessions.open("cleaner", autocommit=True).run("rollback prepared 'p'")
    return True


def test_a_log_that_does_not_guard_its_commit_loses_an_acknowledged_record(start_server: StartServer) -> None:
    """The session has synchronous_commit off and the WAL writer is stopped: without the guard a record that was
    acknowledged is gone after kill -9, and a prepared transaction keeps the partition; with it neither happens."""
    server = start_server({**NOBODY_FLUSHES, "max_prepared_transactions": "5"})
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute("select trunkline.topic_create('t', 1)").fetchone()
        assert row is not None
    assert _append_and_crash(server, b"guarded")
    with opened(server.url) as sessions:
        assert not _prepared(sessions, row[0])
        sessions.open("mutant", autocommit=True).run(UNGUARDED)
        assert _prepared(sessions, row[0])
    assert not _append_and_crash(server, b"unguarded")
    install(server.url)
    assert _append_and_crash(server, b"guarded again")
