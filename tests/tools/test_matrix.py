"""The matrix: where a version comes from, what its line says, and the exit code."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from tools import matrix
from trunkline.errors import EmbeddedServerError
from trunkline.server import binaries
from trunkline.server.binaries import Binaries


def found(major: int) -> Binaries:
    return Binaries(Path("/pg/bin"), major, f"{major}.1")


@pytest.fixture
def one_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PostgreSQL 15 is here, the others are nowhere; no test is started."""

    def locate(bin_dir: object = None, *, major: int) -> Binaries:
        if major != 15:
            raise EmbeddedServerError("none")
        return found(major)

    monkeypatch.setattr(binaries, "locate", locate)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    monkeypatch.setattr(matrix, "TOOLS", tmp_path / ".tools")


def test_a_version_that_is_nowhere_is_told_with_its_reason(one_here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "pytest", lambda *_: (0, "=== 3 passed, 1 skipped in 0.1s ==="))
    results = list(matrix.outcomes([14, 15], ["tests"], []))
    assert str(results[0]).split(maxsplit=2)[2].startswith("not to be had")
    assert "npm is missing" in results[0].detail
    assert results[1].label == "PostgreSQL 15.1 (here)"
    assert results[1].detail.startswith("3 passed, 1 skipped;")
    assert matrix.exit_code(results) == 0


def test_a_failure_is_shown_and_ends_with_one(
    one_here: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "pytest", lambda *_: (1, "E  boom\n=== 1 failed in 0.1s ==="))
    results = [matrix.run(15, ["tests"], [])]
    assert results[0].verdict == "FAILED"
    assert "boom" in capsys.readouterr().out
    assert matrix.exit_code(results) == 1


def test_nothing_to_be_had_is_no_success(one_here: None) -> None:
    assert matrix.exit_code([matrix.run(14, ["tests"], [])]) == 1


def test_links_that_npm_dropped_are_restored(tmp_path: Path) -> None:
    native = tmp_path / "native"
    (native / "lib").mkdir(parents=True)
    (native / "lib" / "libpq.so.5.14").write_text("library")
    links = [{"source": "native/lib/libpq.so.5.14", "target": "native/lib/libpq.so.5"}]
    (native / "pg-symlinks.json").write_text(json.dumps(links))
    for _ in range(2):
        matrix.restore_symlinks(native)
        assert (native / "lib" / "libpq.so.5").read_text() == "library"
    assert (native / "lib" / "libpq.so.5").readlink() == Path("libpq.so.5.14")


def test_only_versions_that_we_promise_can_be_chosen() -> None:
    assert matrix.majors_from("14,18") == [14, 18]
    with pytest.raises(argparse.ArgumentTypeError):
        matrix.majors_from("13")


def test_npm_s_reason_is_short() -> None:
    output = "npm warn x\nnpm error code ENOTFOUND\nnpm error network request failed\nnpm error more\n"
    assert matrix.npm_reason(output) == "code ENOTFOUND network request failed"
