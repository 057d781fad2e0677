"""Crashes of the server, of the machine and of the process that starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import trunkline.server
from trunkline.errors import EmbeddedServerError
from trunkline.server import Server, postmaster
from trunkline.server.binaries import locate
from trunkline.server.directory import Directory


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same account that must survive whatever we do."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    assert process.poll() is None, "an unrelated process was ended"
    process.communicate(b"\n", timeout=30)
    assert process.returncode == 0


def _committed(server: Server) -> int:
    with psycopg.connect(server.url) as connection:
        row = connection.execute("select count(*) from crash").fetchone()
    assert row is not None
    return int(row[0])


def _commit_rows(server: Server, count: int) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("drop table if exists crash")
        connection.execute("create table crash as select generate_series(1, %s) as x", [count])


def test_committed_data_survive_kill_and_uncommitted_do_not(server: Server) -> None:
    _commit_rows(server, 1000)
    url, pid = server.url, server.pid
    with psycopg.connect(server.url) as open_transaction:
        open_transaction.execute("insert into crash values (0)")
        server.kill()
        assert trunkline.server.find(server.data_dir) is None
        with pytest.raises(psycopg.OperationalError):
            open_transaction.execute("select 1")
    server.restart()
    assert (server.url, server.pid != pid) == (url, True)
    assert _committed(server) == 1000


def test_start_recovers_after_the_postmaster_alone_was_killed(server: Server) -> None:
    """Its children end by themselves, and start waits for them: PostgreSQL refuses to start beside them."""
    _commit_rows(server, 10)
    os.kill(server.pid, signal.SIGKILL)
    again = trunkline.server.start(server.data_dir)
    assert again.started
    assert _committed(again) == 10


def test_kill_ends_a_backend_that_does_not_look_up(server: Server) -> None:
    with closing(psycopg.connect(server.url)) as busy, closing(psycopg.connect(server.url)) as watcher:
        watcher.autocommit = True
        while busy.pgconn.get_result() is not None:
            pass
        busy.pgconn.send_query(b"do 'begin loop end loop; end'")
        running = "select 1 from pg_stat_activity where pid = %s and state = 'active'"
        while watcher.execute(running, [busy.info.backend_pid]).fetchone() is None:
            pass
        server.kill()
    server.restart()


def test_a_server_that_does_not_listen_to_signals_is_stopped_by_force(server: Server) -> None:
    _commit_rows(server, 5)
    os.kill(server.pid, signal.SIGSTOP)
    postmaster.stop(Directory(server.data_dir), fast_s=0.05, immediate_s=0.05)
    assert trunkline.server.find(server.data_dir) is None
    server.restart()
    assert _committed(server) == 5


def test_a_port_that_is_taken_between_choice_and_use_is_replaced(server: Server, place: Path) -> None:
    """Method: a program that, the first time, gives the server a port that is in use."""
    server.stop()
    (place / "notes").mkdir()
    (place / "notes").chmod(0o777)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        first_time = f'if mkdir "{place}/notes/tried"; then set -- "$1" "$2" -p {taken} "$5"; fi\n'
        programs = _programs(place / "bin", postgres=f'{first_time}exec {locate().directory}/postgres "$@"\n')
        again = trunkline.server.start(server.data_dir, bin_dir=programs)
    assert (place / "notes" / "tried").exists()
    assert again.port not in (taken, server.port)


def test_a_reboot_is_noticed_though_pid_and_port_are_in_use_by_others(
    server: Server, bystander: subprocess.Popen[bytes]
) -> None:
    """After a reboot the pid in both files may be anybody's, and so may the port."""
    server.kill()
    state_file = server.data_dir / "state.json"
    pid_file = server.data_dir / "pgdata" / "postmaster.pid"
    state_file.write_text(json.dumps({**json.loads(state_file.read_text()), "pid": bystander.pid}))
    pid_file.write_text("\n".join([str(bystander.pid), *pid_file.read_text().splitlines()[1:]]) + "\n")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", server.port))
        other.listen()
        assert trunkline.server.find(server.data_dir) is None
        assert trunkline.server.stop(server.data_dir) is False
        again = trunkline.server.start(server.data_dir)
    assert again.started
    assert again.port != server.port
    assert again.pid != bystander.pid


def test_a_server_whose_starter_died_before_writing_it_down_is_adopted(server: Server) -> None:
    state_file = server.data_dir / "state.json"
    forgotten = {**json.loads(state_file.read_text()), "pid": None, "version": ""}
    state_file.write_text(json.dumps(forgotten))
    again = trunkline.server.start(server.data_dir)
    assert not again.started
    assert (again.pid, again.version) == (server.pid, server.version)
    assert trunkline.server.find(server.data_dir) is not None


def test_leftovers_of_an_interrupted_first_start_are_swept(place: Path) -> None:
    home = place / "dev"
    home.mkdir(mode=0o755)
    (home / "trunkline.lock").touch()
    (home / "state.json").write_text(json.dumps({"password": "s3cret"}))
    (home / "password.unfinished").write_text("s3cret")
    (home / "state.unfinished.1").write_text("s3cret")
    (home / "pgdata.unfinished").mkdir()
    (home / "pgdata.unfinished" / "PG_VERSION").write_text("15")
    started = trunkline.server.start(home)
    assert "s3cret" in started.url
    assert not [path.name for path in home.iterdir() if "unfinished" in path.name]
    with psycopg.connect(started.url) as connection:
        assert connection.info.dbname == "trunkline"


def test_ctrl_c_during_a_start_leaves_no_server(place: Path, child_environment: dict[str, str]) -> None:
    """Goal: no orphan. Method: programs whose server never gets ready, and says so through a pipe."""
    ready = place / "ready"
    os.mkfifo(ready)
    ready.chmod(0o666)
    programs = _programs(place / "bin", postgres=f'echo >"{ready}"\nexec sleep 1000\n')
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, trunkline.server; trunkline.server.start(sys.argv[1])",
            place / "dev",
        ],
        env={**child_environment, "TRUNKLINE_PG_BIN": str(programs)},
        stderr=subprocess.PIPE,
        text=True,
    )
    ready.read_text()
    child.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in child.communicate(timeout=30)[1]
    assert trunkline.server.stop(place / "dev") is False


def test_the_password_is_in_no_argument_environment_log_or_repr(place: Path) -> None:
    """Goal: it is in state.json alone. Method: programs that write down how they were called."""
    calls = place / "calls"
    calls.touch()
    calls.chmod(0o666)
    note = f'(echo "$0 $*"; env) >>"{calls}"\n'
    real = locate().directory
    programs = _programs(
        place / "bin",
        initdb=f'{note}exec {real}/initdb "$@"\n',
        postgres=f'{note}exec {real}/postgres "$@"\n',
    )
    started = trunkline.server.start(place / "dev", bin_dir=programs)
    password = json.loads((started.data_dir / "state.json").read_text())["password"]
    assert password in started.url
    assert len(password) >= 32
    assert "initdb" in calls.read_text()
    assert "config_file" in calls.read_text()
    holders = [path for path in started.data_dir.rglob("*") if path.is_file() and password in _text(path)]
    assert holders == [started.data_dir / "state.json"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert password not in calls.read_text()
    assert password not in repr(started) + repr(vars(started))
    if sys.platform == "linux":
        shown = [path for path in Path("/proc").glob("[0-9]*/cmdline") if password in _text(path)]
        assert shown == []


def test_an_error_about_a_password_that_no_longer_fits_does_not_show_it(server: Server) -> None:
    state_file = server.data_dir / "state.json"
    right = state_file.read_text()
    state_file.write_text(json.dumps({**json.loads(right), "password": "not-the-one", "pid": None}))
    with pytest.raises(EmbeddedServerError) as caught:
        trunkline.server.start(server.data_dir)
    assert "not-the-one" not in str(caught.value) + repr(caught.value.__cause__)
    state_file.write_text(right)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _programs(directory: Path, **scripts: str) -> Path:
    """A directory of programs: PostgreSQL's own, with a shell script before those that are named."""
    real = locate().directory
    directory.mkdir(mode=0o755)
    for name in ("postgres", "initdb"):
        script = scripts.get(name, f'exec {real}/{name} "$@"\n')
        version = f'case "$1" in --version|-V) exec {real}/{name} "$1";; esac\n'
        (directory / name).write_text(f"#!/bin/sh\n{version}{script}")
        (directory / name).chmod(0o755)
    return directory
