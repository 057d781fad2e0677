"""Where a run takes place: found out, told, and refused where an acknowledgement would not mean durable."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from benchmarks import environment
from benchmarks.log import LOG
from benchmarks.memory import peak_mb
from benchmarks.place import slow
from benchmarks.run import run


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n")
    assert environment.file_system(Path("/tmp/disk/data"), mounts) == "xfs"
    assert environment.file_system(Path("/tmp/disks"), mounts) == "tmpfs"
    assert environment.file_system(Path("/var"), mounts) == "ext4"
    assert environment.file_system(Path("/var"), tmp_path / "none") == "unknown"


def test_the_peak_of_memory_is_the_process_own(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t  900000 kB\nVmHWM:\t  100000 kB\n")
    assert peak_mb(status) == pytest.approx(102.4)
    assert peak_mb() > 1


def test_the_environment_of_a_durable_server_has_nothing_weakened(db_url: str) -> None:
    found = environment.look(db_url)
    assert found.weakened() == []
    assert found.fsync == "on"
    assert found.server_version in found.shown()


def test_the_slow_flush_is_a_matter_of_the_connection(db_url: str) -> None:
    slowed = slow(db_url)
    assert slowed is not None
    with psycopg.connect(slowed) as connection:
        assert connection.execute("show commit_delay").fetchone() == ("3000",)


def test_a_run_with_weakened_durability_is_refused_with_2(
    db_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weakened = make_conninfo(db_url, options="-c synchronous_commit=off")
    assert run(LOG, ["--quick", "--only", "payload", "--url", weakened, "--results", str(tmp_path)]) == 2
    assert "synchronous_commit is off" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_says_its_lines_writes_its_files_and_leaves_no_database(
    db_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--only", "payload", "--json", "--url", db_url, "--results", str(tmp_path)]
    assert run(LOG, arguments) == 0
    (told,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (told["name"], told["scale"]) == ("payload.lz4", "quick")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "log-quick-partial-latest.json",
        "log-quick-partial-latest.png",
    ]
    with psycopg.connect(db_url) as connection:
        left = "select count(*) from pg_database where datname like 'trunkline_bench_%'"
        assert connection.execute(left).fetchone() == (0,)
