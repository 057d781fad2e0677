"""Documents run: every snippet of README and docs is executed, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import trunkline

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
_SNIPPET = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STATEMENT_END = re.compile(r";(?=(?:[^$]*\$\$[^$]*\$\$)*[^$]*$)")  # outside of $$ … $$
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# Lines that set up a machine or run for long; what they run is tested by itself.
_NOT_HERE = ("make ", "pip install", "trunkline dev", "trunkline --url", "trunkline pipeline", "export ")


def snippets(language: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in DOCUMENTS:
        for kind, text in _SNIPPET.findall(path.read_text(encoding="utf-8")):
            if kind == language and "# ASYNC" not in text:  # that one shows a form of the twin generator
                found.append((f"{path.name}-{len(found)}", text))
    return found


@pytest.mark.parametrize(("name", "code"), snippets("python"), ids=lambda value: value if len(value) < 60 else "")
def test_python_snippets_run(name: str, code: str, tmp_path_factory: pytest.TempPathFactory, db_url: str) -> None:
    """In a process of its own; what has a fixture is a test module, and pytest runs it. What asks for the development
    server gets one of this test's own."""
    folder = tmp_path_factory.mktemp("snippet")
    environment = {**os.environ, "TRUNKLINE_URL": db_url, "TRUNKLINE_DEV_DIR": str(folder / "dev")}
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=4) if "create_topic" not in code else None
    try:
        (folder / "test_snippet.py").write_text(code, encoding="utf-8")
        with_pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider") if "@pytest.fixture" in code else ()
        command = [sys.executable, *with_pytest, "test_snippet.py"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        stop = [sys.executable, "-m", "trunkline.cli.main", "dev", "stop"]
        subprocess.run(stop, env=environment, check=False, capture_output=True)


@pytest.mark.parametrize(("name", "code"), snippets("sql"), ids=lambda value: value if len(value) < 60 else "")
def test_sql_snippets_run(name: str, code: str, db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("select trunkline.topic_create('orders', 4)")
        for statement in _STATEMENT_END.split(code):
            if statement.strip():
                connection.execute(statement.encode())


@pytest.mark.parametrize(("name", "code"), snippets("sh"), ids=lambda value: value if len(value) < 60 else "")
def test_shell_snippets_run(name: str, code: str, db_url: str, tmp_path: Path) -> None:
    """Line by line, in a shell, with `trunkline` on the path. What sets up machines is left to the tests of that."""
    command = Path(sys.executable).parent / "trunkline"
    assert command.exists(), "run `make setup`"
    environment = {**os.environ, "TRUNKLINE_URL": db_url, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    ran = 0
    for line in code.replace("\\\n", " ").splitlines():
        text = line.split("  #")[0].strip()
        if not text or text.startswith(("#", *_NOT_HERE)):
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", text], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        ran += 1
    if ran == 0:
        assert all(line.strip().startswith(_NOT_HERE) or not line.strip() for line in code.splitlines()), code


def test_every_link_leads_somewhere() -> None:
    for path in DOCUMENTS:
        for link in _LINK.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_the_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
