"""Where a server may live, what is removed, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import trunkline.server
from tests.server.conftest import RunPython
from trunkline.errors import EmbeddedServerError, InvalidArgument, TrunklineError
from trunkline.server import Server
from trunkline.server.directory import PATH_BYTES_MAX, resolve


def test_find_stop_and_reset_on_nothing_do_nothing(place: Path) -> None:
    assert trunkline.server.find(place / "dev") is None
    assert trunkline.server.stop(place / "dev") is False
    assert trunkline.server.reset(place / "dev") is False
    assert list(place.iterdir()) == []


def test_find_on_nothing_imports_nothing(place: Path, run_python: RunPython) -> None:
    """connect() asks this of every user who has no development server."""
    code = (
        "import sys, trunkline.server; before = set(sys.modules);"
        "assert trunkline.server.find(sys.argv[1]) is None;"
        "assert set(sys.modules) == before, set(sys.modules) - before;"
        "assert not {'click', 'rich'} & before"
    )
    result = run_python(code, place / "dev")
    assert result.returncode == 0, result.stderr


def test_the_directory_comes_from_argument_then_variable_then_default(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_DEV_DIR", str(place / "variable"))
    assert resolve(place / "argument").path == place / "argument"
    assert resolve(None).path == place / "variable"
    monkeypatch.delenv("TRUNKLINE_DEV_DIR")
    assert resolve(None).path.parts[-2:] == ("trunkline", "dev")


@pytest.mark.parametrize(
    "make",
    [lambda p: p / "with space, 'quotes' \"$HOME\" \\ ünï", lambda p: _path_of(p, PATH_BYTES_MAX)],
    ids=["odd characters", "as long as can be"],
)
def test_a_directory_may_have_any_printable_name(place: Path, make: Callable[[Path], Path]) -> None:
    path = make(place)
    started = trunkline.server.start(path)
    with psycopg.connect(started.url) as connection:
        connection.execute("create table t as select 1")
    started.kill()
    started.restart()
    with psycopg.connect(started.url) as connection:
        assert connection.execute("select count(*) from t").fetchone() == (1,)
    found = trunkline.server.find(path)
    assert found is not None
    assert found.pid == started.pid
    found.stop()


@pytest.mark.parametrize("make", [lambda p: _path_of(p, PATH_BYTES_MAX + 1), lambda p: p / "new\nline"])
def test_a_path_that_cannot_work_is_refused_at_once(place: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(InvalidArgument):
        trunkline.server.start(make(place))
    assert list(place.iterdir()) == []


def _path_of(place: Path, bytes_wanted: int) -> Path:
    path = place
    while len(str(path)) < bytes_wanted:
        path = path / ("d" * min(200, bytes_wanted - len(str(path)) - 1) or "d")
    assert len(str(path)) == bytes_wanted
    return path


def test_a_directory_with_other_files_is_refused_and_left_alone(place: Path) -> None:
    (place / "state.json").write_text("mine")
    with pytest.raises(InvalidArgument, match="holds other files"):
        trunkline.server.start(place)
    assert trunkline.server.reset(place) is False
    assert trunkline.server.find(place) is None
    assert [path.name for path in place.iterdir()] == ["state.json"]


def test_a_file_in_place_of_the_directory_is_an_error(place: Path) -> None:
    (place / "dev").touch()
    with pytest.raises(TrunklineError):
        trunkline.server.start(place / "dev")


def test_reset_stops_the_server_and_removes_its_data_and_nothing_else(place: Path) -> None:
    first = trunkline.server.start(place / "dev", settings={"work_mem": "5MB"})
    (place / "dev" / "notes.txt").write_text("mine")
    with psycopg.connect(first.url) as connection:
        connection.execute("create table gone as select 1")
    assert trunkline.server.reset(place / "dev") is True
    assert trunkline.server.find(place / "dev") is None
    left = sorted(path.name for path in (place / "dev").iterdir())
    assert left == ["life.lock", "notes.txt", "trunkline.lock"]
    assert trunkline.server.reset(place / "dev") is False
    second = trunkline.server.start(place / "dev")
    assert second.url.split("@")[0] != first.url.split("@")[0]
    with psycopg.connect(second.url) as connection:
        assert connection.execute("select to_regclass('gone'), current_setting('work_mem')").fetchone() == (
            None,
            "4MB",
        )


@pytest.mark.parametrize("damage", ["", "{", '{"password": 7}', "[]"])
def test_a_damaged_state_file_is_an_error_that_says_what_to_do(server: Server, damage: str) -> None:
    state_file = server.data_dir / "state.json"
    right = state_file.read_text()
    state_file.write_text(damage)
    for call in (trunkline.server.find, trunkline.server.start):
        with pytest.raises(EmbeddedServerError, match="trunkline dev reset"):
            call(server.data_dir)
    state_file.write_text(right)
    assert trunkline.server.find(server.data_dir) is not None


def test_a_lost_state_file_is_an_error_that_says_what_to_do(server: Server) -> None:
    state_file = server.data_dir / "state.json"
    right = state_file.read_text()
    state_file.unlink()
    with pytest.raises(EmbeddedServerError, match="trunkline dev reset"):
        trunkline.server.start(server.data_dir)
    state_file.write_text(right)
    assert json.loads(right)["pid"] == trunkline.server.start(server.data_dir).pid


def test_a_log_that_has_grown_is_put_aside(server: Server) -> None:
    server.stop()
    with server.log.open("r+b") as log:
        log.truncate(17 * 1024 * 1024)
    server.restart()
    assert server.log.stat().st_size < 1024 * 1024
    assert server.log.with_name("server.log.1").stat().st_size == 17 * 1024 * 1024
