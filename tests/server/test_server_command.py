"""`trunkline dev` as a person or a script runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

import trunkline.server
from trunkline.cli.dev import dev
from trunkline.server import Server

COMMAND = [sys.executable, "-c", "from trunkline.cli.dev import dev; dev(prog_name='trunkline dev')"]
DEADLINE_S = 60.0


def run_dev(data_dir: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(dev, arguments, env={"TRUNKLINE_DEV_DIR": str(data_dir)}, input=answer)


class Foreground:
    """`trunkline dev` in the foreground, past its announcement."""

    def __init__(self, data_dir: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--data-dir", str(data_dir)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = ""
        while "Ctrl-C" not in self.said:
            line = self.process.stdout.readline()
            assert line, f"it ended early: {self.end()}"
            self.said += line

    @property
    def url(self) -> str:
        return next(line.strip() for line in self.said.splitlines() if "postgresql://" in line)

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        if number is not None:
            self.process.send_signal(number)
        out, error = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out + error


@pytest.fixture
def foreground(child_environment: dict[str, str]) -> Iterator[Callable[[Path], Foreground]]:
    started: list[Foreground] = []

    def start(data_dir: Path) -> Foreground:
        started.append(Foreground(data_dir, child_environment))
        return started[-1]

    yield start
    for one in started:
        with one.process:  # closes its pipes and waits for it
            one.process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_a_signal_ends_the_server_too(
    shared_place: Path, foreground: Callable[[Path], Foreground], number: signal.Signals
) -> None:
    trunkline.server.stop(shared_place / "dev")
    running = foreground(shared_place / "dev")
    with psycopg.connect(running.url) as connection:
        assert connection.info.dbname == "trunkline"
    code, _ = running.end(number)
    assert code == 0
    assert trunkline.server.find(shared_place / "dev") is None


def test_in_the_foreground_a_server_that_ran_before_is_left_running(
    server: Server, foreground: Callable[[Path], Foreground]
) -> None:
    running = foreground(server.data_dir)
    assert running.url == server.url
    code, _ = running.end(signal.SIGINT)
    assert code == 0
    found = trunkline.server.find(server.data_dir)
    assert found is not None
    assert found.pid == server.pid


def test_in_the_foreground_it_ends_when_the_server_is_stopped_elsewhere(
    shared_place: Path, foreground: Callable[[Path], Foreground]
) -> None:
    trunkline.server.stop(shared_place / "dev")
    running = foreground(shared_place / "dev")
    assert run_dev(shared_place / "dev", "stop").stdout == "Stopped.\n"
    code, said = running.end()
    assert code == 0
    assert "was stopped" in said


def test_in_the_foreground_a_crash_of_the_server_is_an_error(
    shared_place: Path, foreground: Callable[[Path], Foreground]
) -> None:
    trunkline.server.stop(shared_place / "dev")
    running = foreground(shared_place / "dev")
    found = trunkline.server.find(shared_place / "dev")
    assert found is not None
    found.kill()
    code, said = running.end()
    assert code != 0
    assert "the server has crashed" in said


def test_detached_it_returns_and_the_server_stays(shared_place: Path, child_environment: dict[str, str]) -> None:
    trunkline.server.stop(shared_place / "dev")
    command = [*COMMAND, "--data-dir", str(shared_place / "dev"), "--detach"]
    said = subprocess.run(command, env=child_environment, capture_output=True, text=True, check=True).stdout
    found = trunkline.server.find(shared_place / "dev")
    assert found is not None
    assert found.url in said
    with psycopg.connect(found.url) as connection:
        assert connection.execute("select to_regnamespace('trunkline')").fetchone() == ("trunkline",)
    assert found.url in run_dev(shared_place / "dev", "--detach").stdout


def test_status_of_a_running_server_shows_all_but_the_password(server: Server) -> None:
    password = server.url.split("@")[0].rpartition(":")[2]
    plain = run_dev(server.data_dir, "status")
    as_json = run_dev(server.data_dir, "status", "--json")
    assert (plain.exit_code, as_json.exit_code) == (0, 0)
    assert password not in plain.stdout + as_json.stdout
    assert str(server.port) in plain.stdout
    assert json.loads(as_json.stdout) == {
        "running": True,
        "version": server.version,
        "pid": server.pid,
        "port": server.port,
        "data_dir": str(server.data_dir),
        "log": str(server.log),
    }


def test_status_url_prints_the_url_alone(server: Server) -> None:
    result = run_dev(server.data_dir, "status", "--url")
    assert (result.exit_code, result.stdout, result.stderr) == (0, server.url + "\n", "")


def test_status_of_no_server_is_exit_code_3(place: Path) -> None:
    plain = run_dev(place / "dev", "status")
    as_json = run_dev(place / "dev", "status", "--json")
    url = run_dev(place / "dev", "status", "--url")
    assert [plain.exit_code, as_json.exit_code, url.exit_code] == [3, 3, 3]
    assert json.loads(as_json.stdout) == {"running": False}
    assert url.stdout == ""
    assert "not running" in url.stderr
    assert list(place.iterdir()) == []


def test_stop_without_a_server_says_so(place: Path) -> None:
    result = run_dev(place / "dev", "stop")
    assert (result.exit_code, result.stdout) == (0, "It was not running.\n")


def test_reset_asks_before_it_removes_anything(server: Server) -> None:
    refused = run_dev(server.data_dir, "reset", answer="n\n")
    assert refused.exit_code == 1
    assert str(server.data_dir) in refused.stdout
    assert trunkline.server.find(server.data_dir) is not None


def test_reset_removes_the_data_or_says_that_there_was_none(place: Path) -> None:
    trunkline.server.start(place / "dev")
    assert run_dev(place / "dev", "reset", "--yes").stdout == "Removed.\n"
    assert not (place / "dev" / "pgdata").exists()
    assert run_dev(place / "dev", "reset", answer="y\n").stdout.endswith("There was nothing to remove.\n")


def test_detach_with_a_command_is_a_usage_error(place: Path) -> None:
    result = run_dev(place / "dev", "--detach", "status")
    assert result.exit_code == 2
    assert "--detach" in result.stderr
