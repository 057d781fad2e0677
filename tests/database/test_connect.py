"""Connecting: where the server's address comes from, and servers that cannot be used."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import trunkline
from tests.sync.shim import wait_until
from trunkline import ClientSettings, errors
from trunkline.client import target
from trunkline.client.sync import connection, pool
from trunkline.server import Server, start


def changed(url: str, **parts: str | int) -> str:
    return make_conninfo("", **{**conninfo_to_dict(url), **parts})


def test_the_address_is_the_argument_then_the_variable_then_a_running_server(
    db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_DEV_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("TRUNKLINE_URL", raising=False)
    with pytest.raises(errors.NotConfigured, match=r"TRUNKLINE_URL.*trunkline dev") as caught:
        trunkline.connect()
    assert caught.value.code == "TL030"
    monkeypatch.setenv("TRUNKLINE_URL", db_url)
    with trunkline.connect() as tl:
        assert tl.topics() == []
    monkeypatch.setenv("TRUNKLINE_URL", "postgresql://nowhere.invalid/db")
    with trunkline.connect(db_url) as tl:
        assert tl.topics() == []
    for wrong in ("not a url at all", "http://example.com", ""):
        with pytest.raises((errors.InvalidArgument, errors.NotConfigured)):
            target.resolve(wrong, environment={})


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ClientSettings.from_environment({"TRUNKLINE_DEADLINE_S": "2.5", "TRUNKLINE_IDEMPOTENT": "false"})
    assert (settings.deadline_s, settings.idempotent, settings.connections_max) == (2.5, False, 4)
    with pytest.raises(errors.InvalidArgument, match="TRUNKLINE_DEADLINE_S"):
        ClientSettings.from_environment({"TRUNKLINE_DEADLINE_S": "soon"})


def test_connect_with_dev_starts_the_embedded_server_and_installs(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("dev") / "data"
    monkeypatch.setenv("TRUNKLINE_DEV_DIR", str(folder))
    monkeypatch.delenv("TRUNKLINE_URL", raising=False)
    try:
        with trunkline.connect(dev=True) as tl:
            tl.create_topic("orders")
        with trunkline.connect() as again:
            assert [topic.name for topic in again.topics()] == ["orders"]
        with pytest.raises(errors.InvalidArgument):
            trunkline.connect("postgresql://localhost/x", dev=True)
    finally:
        start(folder).stop()


def test_a_server_that_cannot_be_used_is_a_typed_error_at_once(db_url: str, server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        free_port = taken.getsockname()[1]
    cases = [
        (changed(db_url, password="wrong"), errors.PermissionDenied),
        (changed(db_url, user="nobody_at_all"), errors.PermissionDenied),
        (changed(db_url, user="trunkline_consumer"), errors.PermissionDenied),
        (changed(db_url, dbname="no_such_database"), errors.NotFound),
        (changed(db_url, port=free_port), errors.Unavailable),
        (changed(server.url, dbname="postgres"), errors.SchemaMissing),
    ]
    for url, expected in cases:
        with pytest.raises(expected):
            trunkline.connect(url)


def test_a_server_that_is_not_postgres(db_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(100)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(errors.Unavailable):
            trunkline.connect(changed(db_url, host="127.0.0.1", port=port, sslmode="disable"))
        thread.join()


def test_too_many_connections(db_url: str, server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create role few login password 'few' connection limit 0")
        connection.execute("grant trunkline_consumer to few")
        try:
            with pytest.raises(errors.Unavailable):
                trunkline.connect(changed(db_url, user="few", password="few"))
        finally:
            connection.execute("drop role few")


def test_a_client_is_refused_in_a_forked_child(db_url: str) -> None:
    """The child must neither use nor close the parent's connections."""
    code = """
import os, sys, trunkline
tl = trunkline.connect(sys.argv[1])
tl.create_topic("orders")
child = os.fork()
if child == 0:
    try:
        tl.publish("orders", b"x")
    except trunkline.errors.Closed as error:
        tl.close()
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), tl.publish("orders", b"y").offset)
"""
    done = subprocess.run([sys.executable, "-c", code, db_url], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "1"]


def test_every_thread_has_a_name_and_a_reason_and_ends_with_the_client(db_url: str) -> None:
    before = {thread.name for thread in threading.enumerate()}

    def running() -> set[str]:
        return {thread.name for thread in threading.enumerate()} - before

    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        assert running() == set()
        tl.publish("orders", b"x")
        assert running() == {"trunkline-ringer"}
        with tl.consumer("orders", group="billing", create=True):
            assert running() == {"trunkline-ringer", "trunkline-watch"}
        hosted = tl.retention_host(interval_s=3600)
        assert running() == {"trunkline-ringer", "trunkline-watch", "trunkline-retention"}
        hosted.close()
    assert running() == set()
    with trunkline.connect(db_url, settings=ClientSettings(ring=False)) as quiet:
        quiet.publish("orders", b"x")
        assert running() == set()


def test_a_connection_that_was_killed_is_replaced(db_url: str, server: Server) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for n in range(5):
            assert tl.publish("orders", b"x").offset == n + 1
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'trunkline'"
                )
            assert len(tl.read("orders")) == n + 1


def test_importing_does_no_work() -> None:
    code = (
        "import sys, trunkline; print('trunkline.server' in sys.modules, 'rich' in sys.modules, 'click' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.split() == ["False", "False", "False"]


@pytest.mark.direct("the sessions on the server are the pooler's, which keeps them")
def test_a_connection_is_replaced_when_it_is_old(db_url: str) -> None:
    with trunkline.connect(db_url, settings=ClientSettings(connection_age_s=1e-9, connections_max=2)) as tl:
        tl.create_topic("orders")
        for n in range(5):
            assert tl.publish("orders", b"x").offset == n + 1
        with psycopg.connect(db_url, autocommit=True) as connection:
            ours = "select count(*) from pg_stat_activity where datname = current_database() and application_name = %s"
            wait_until(lambda: connection.execute(ours, ["trunkline"]).fetchone() == (0,))


@pytest.mark.direct("the sessions on the server are the pooler's, which keeps them")
def test_a_connection_is_replaced_when_it_has_read_many_topics(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server process keeps plans for each: a reader of very many would make it large."""
    monkeypatch.setattr("trunkline.client.sync.connection.SEGMENTS_KNOWN_MAX", 1)
    monkeypatch.setattr("trunkline.client.sync.connection.TOPICS_A_SEGMENT", 2)
    ours = "select pid from pg_stat_activity where datname = current_database() and application_name = 'trunkline'"
    with (
        trunkline.connect(db_url, settings=ClientSettings(connections_max=1)) as tl,
        psycopg.connect(db_url, autocommit=True) as connection,
    ):
        for n in range(4):
            tl.create_topic(f"topic-{n}")
        for _ in range(10):
            tl.read("topic-0")
        before = connection.execute(ours).fetchall()
        assert len(before) == 1
        for n in range(1, 4):
            assert connection.execute(ours).fetchall() == before
            tl.read(f"topic-{n}")
        wait_until(lambda: connection.execute(ours).fetchall() == [])
        tl.read("topic-0")


@pytest.mark.direct("it is another call that a batch is sent by through a pooler")
def test_a_database_that_is_not_found_says_nothing_about_a_batch_in_doubt(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: NotFound promises that nothing is in the log; only the server's own look at the log may say so. Method: the
    answer to a batch is lost, and then the database cannot be found."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=1)
        tl.publish("orders", b"known")
        append = connection.ServerConnection.append

        def away(*_: Any, **__: Any) -> Any:
            raise errors.NotFound('database "x" does not exist (3D000)')

        def lost(own: connection.ServerConnection, *arguments: Any) -> Any:
            append(own, *arguments)
            own.close()
            monkeypatch.setattr(pool, "open_connection", away)
            raise errors.Unavailable("the connection was lost")

        monkeypatch.setattr(connection.ServerConnection, "append", lost)
        with pytest.raises(errors.OutcomeUnknown):
            tl.publish("orders", b"x")
