"""The runner of the checks: a line each, every failure told at the end."""

from __future__ import annotations

import importlib
import sys

import pytest

from tools import check


def python_check(name: str, code: str, *, shown: bool = False) -> check.Check:
    return check.Check(name, [sys.executable, "-c", code], "a promise", shown)


def test_all_run_and_the_failures_are_told_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    failing = python_check("first", "print('why'); raise SystemExit(1)")
    passing = python_check("second", "print('quiet')")
    listing = python_check("third", "print('a table')", shown=True)
    assert check.run_all([failing, passing, listing]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["FAILED", "first"],
        ["ok", "second"],
        ["ok", "third"],
    ]
    assert lines[3] == "a table"
    assert "why" in lines
    assert "quiet" not in lines
    assert lines[-1].startswith("1 of 3 checks failed")


def test_success_is_zero() -> None:
    assert check.run_all([python_check("one", "")]) == 0


def test_every_generator_can_be_imported_and_has_a_main() -> None:
    for module in check.GENERATORS:
        assert callable(importlib.import_module(module).main)


def test_an_unknown_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        check.main(["nonsense"])
    assert "no check named nonsense" in capsys.readouterr().err
