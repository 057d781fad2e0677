"""Starting, sharing, stopping: what a caller of trunkline.server may rely on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import trunkline.server
from trunkline.errors import EmbeddedServerError, InvalidArgument
from trunkline.server import Server


def _setting(server: Server, name: str) -> str:
    with psycopg.connect(server.url) as connection:
        row = connection.execute("select current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("max_connections", "200"),
        ("shared_buffers", "128MB"),
        ("timezone", "UTC"),
    ],
)
def test_a_server_is_durable_local_and_small(server: Server, name: str, value: str) -> None:
    assert _setting(server, name) == value


def test_the_database_is_trunkline_with_collation_c(server: Server) -> None:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(
            "select current_database(), current_user, datcollate, datctype from pg_database"
            " where datname = current_database()"
        ).fetchone()
    assert row == ("trunkline", "trunkline", "C", "C")


def test_a_wrong_password_is_refused_and_passwords_are_scram(server: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.url.replace("trunkline:", "trunkline:x"))
    with psycopg.connect(server.url) as connection:
        row = connection.execute("select rolpassword from pg_authid where rolname = 'trunkline'").fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")


def test_database_url_names_another_database_and_quotes_it(server: Server) -> None:
    assert server.database_url("postgres") == server.url.removesuffix("trunkline") + "postgres"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute('create database "odd / name?"')
    with psycopg.connect(server.database_url("odd / name?")) as connection:
        assert connection.info.dbname == "odd / name?"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute('drop database "odd / name?"')


def test_a_second_start_and_find_share_the_server(server: Server) -> None:
    again = trunkline.server.start(server.data_dir)
    found = trunkline.server.find(server.data_dir)
    assert found is not None
    assert not again.started
    assert server.pid == again.pid == found.pid
    assert server.url == again.url == found.url
    assert found.version == _setting(server, "server_version").split()[0]


def test_a_link_to_the_directory_is_the_same_server(server: Server, place: Path) -> None:
    (place / "link").symlink_to(server.data_dir)
    found = trunkline.server.find(place / "link")
    assert found is not None
    assert found.pid == server.pid


def test_processes_that_start_one_directory_at_once_share_one_server_that_outlives_them(
    place: Path, child_environment: dict[str, str]
) -> None:
    """Goal: one server, started once. Method: three processes, released together, on a new directory."""
    code = (
        "import json, sys, trunkline.server; print(flush=True); sys.stdin.readline();"
        "s = trunkline.server.start(sys.argv[1]); print(json.dumps([s.pid, s.url, s.started]))"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(place / "dev")],
            env=child_environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    answers = [json.loads(child.communicate("go\n", timeout=60)[0]) for child in _released(children)]
    assert len({(pid, url) for pid, url, _ in answers}) == 1
    assert sorted(started for *_, started in answers) == [False, False, True]
    found = trunkline.server.find(place / "dev")
    assert found is not None
    assert found.pid == answers[0][0]


def _released(children: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return children


def test_stop_is_clean_and_idempotent_and_keeps_data_port_and_password(server: Server) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("create table if not exists kept as select 1")
    url = server.url
    server.stop()
    server.stop()
    assert server.pid == 0
    assert trunkline.server.find(server.data_dir) is None
    assert trunkline.server.stop(server.data_dir) is False
    assert "database system is shut down" in server.log.read_text().splitlines()[-1]
    again = trunkline.server.start(server.data_dir)
    assert again.started
    assert again.url == url
    with psycopg.connect(url) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (1,)


def test_stop_does_not_wait_for_open_transactions(server: Server) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("create table never (x int)")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    server.restart()
    with psycopg.connect(server.url) as connection:
        assert connection.execute("select to_regclass('never')").fetchone() == (None,)


def test_another_port_is_taken_when_the_old_one_is_in_use(server: Server) -> None:
    server.stop()
    old_port = server.port
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", old_port))
        other.listen()
        server.restart()
    assert server.port != old_port
    assert _setting(server, "port") == str(server.port)


def test_settings_are_set_kept_and_never_ignored(server: Server) -> None:
    server.stop()
    wanted = {"max_prepared_transactions": "7", "trunkline.note": "it's a \\ note"}
    started = trunkline.server.start(server.data_dir, settings=wanted)
    assert _setting(started, "max_prepared_transactions") == "7"
    assert _setting(started, "trunkline.note") == "it's a \\ note"
    started.restart()
    assert _setting(started, "max_prepared_transactions") == "7"
    assert not trunkline.server.start(server.data_dir, settings=wanted).started
    with pytest.raises(EmbeddedServerError, match="other settings"):
        trunkline.server.start(server.data_dir, settings={})
    started.stop()
    assert _setting(trunkline.server.start(server.data_dir, settings={}), "max_prepared_transactions") == "0"


def test_a_setting_that_postgres_refuses_is_named_and_forgotten(server: Server) -> None:
    server.stop()
    with pytest.raises(EmbeddedServerError, match='unrecognized configuration parameter "no_such"'):
        trunkline.server.start(server.data_dir, settings={"no_such": "1"})
    assert trunkline.server.start(server.data_dir).started


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fsync", "off"),
        ("fsync", " OFF "),
        ("full_page_writes", "false"),
        ("Synchronous_Commit", "off"),
        ("port", "5432"),
        ("listen_addresses", "*"),
        ("include", "/etc/passwd"),
        ("hba_file", "/tmp/hba"),
        ("work_mem\nfsync", "off"),
        ("work_mem", "1MB\nfsync = off"),
        ("", "1"),
        ("work_mem", 4),
    ],
)
def test_settings_that_weaken_or_move_the_server_are_refused(place: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidArgument):
        trunkline.server.start(place / "dev", settings={name: value})
    assert not (place / "dev").exists()


def test_find_tells_a_full_server_from_none(server: Server) -> None:
    server.stop()
    small = trunkline.server.start(server.data_dir, settings={"max_connections": "5", "max_wal_senders": "0"})
    connections = [psycopg.connect(small.url) for _ in range(5)]
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        psycopg.connect(small.url)
    assert trunkline.server.find(server.data_dir) is not None
    assert not trunkline.server.start(server.data_dir).started
    for connection in connections:
        connection.close()
    small.stop()
    trunkline.server.start(server.data_dir, settings={})
