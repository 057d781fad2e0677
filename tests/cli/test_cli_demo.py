"""`trunkline demo`, in a few seconds: it ends by itself, adds up, and leaves nothing behind."""

from __future__ import annotations

import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE_S, Start
from trunkline import server

pytestmark = pytest.mark.direct("the demo starts a server of its own, and talks to that one")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for temporary files that every account can reach; whatever the demo left there is ended."""
    path = Path(tempfile.gettempdir()).resolve() / f"trunkline-test-{secrets.token_hex(6)}"
    path.mkdir(mode=0o755)
    yield path
    for left in path.iterdir():
        server.reset(left / "server")
    shutil.rmtree(path)


@pytest.fixture
def started(start: Start, place: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv("TMPDIR", str(place))
    return start


def test_it_ends_with_a_summary_and_leaves_nothing(started: Start, place: Path, tmp_path: Path) -> None:
    plot = tmp_path / "demo.png"
    process = started("demo", "--seconds", "3", "--without-spark", "--plot", str(plot))
    said, complained = (text.decode() for text in process.communicate(timeout=DEADLINE_S))
    assert process.returncode == 0, complained
    published = re.search(r"Published  ([\d,]+) orders", said)
    assert published is not None
    assert int(published[1].replace(",", "")) > 0
    assert f"Billed     {published[1]} by the group billing" in said
    assert f"{published[1]} of {published[1]} records are there, every offset once." in said
    assert "written " in said  # a line every two seconds, as there is no terminal
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(place.iterdir()) == []


def test_with_spark_every_minute_is_right(started: Start, place: Path, tmp_path: Path) -> None:
    process = started("demo", "--seconds", "8", "--plot", str(tmp_path / "demo.png"))
    said, complained = (text.decode() for text in process.communicate(timeout=600))
    assert process.returncode == 0, said + complained
    published = re.search(r"Published  ([\d,]+) orders", said)
    assert published is not None
    assert f"Every minute is right: {published[1]} orders, once each, by way of Spark." in said
    assert list(place.iterdir()) == []


def test_ctrl_c_ends_it_and_leaves_nothing(started: Start, place: Path) -> None:
    process = started("demo", "--seconds", "600", stderr=subprocess.STDOUT)
    assert process.stdout is not None
    while not process.stdout.readline().startswith(b"PostgreSQL "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, b"Traceback" in said) == (130, False), said
    assert list(place.iterdir()) == []
