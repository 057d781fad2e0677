"""`trunkline retention run` and `trunkline bench`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from trunkline import Client, TopicSettings
from trunkline.cli import bench


def roll(url: str, topic: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select trunkline.segment_roll(t.open_segment_id, true) from trunkline.topic t where t.name = %s", [topic]
        )


@pytest.fixture
def full_topic(tl: Client, db_url: str) -> None:
    """A topic that keeps nothing, with 10 records in a segment that is no longer open."""
    tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
    tl.publish_many("orders", [b"x"] * 10)
    roll(db_url, "orders")


def test_what_was_done_is_said(run: Run, tl: Client, full_topic: None) -> None:
    done = run("retention", "run")
    assert done.exit_code == 0
    actions = [line.split()[0] for line in done.stdout.splitlines()]
    assert actions == ["seal", "release", "drop"]
    assert "bytes (10 records, " in done.stdout
    assert [(log.start, log.end) for log in tl.offsets("orders")] == [(11, 11)]
    assert run("retention", "run").stdout == "nothing was due\n"


def test_json_and_one_topic(run: Run, tl: Client, db_url: str, full_topic: None) -> None:
    tl.create_topic("other", settings=TopicSettings(retention_bytes=0))
    tl.publish("other", b"x")
    roll(db_url, "other")
    steps = [json.loads(line) for line in run("retention", "run", "--topic", "other", "--json").stdout.splitlines()]
    assert [step["action"] for step in steps] == ["seal", "release", "drop"]
    assert [(log.start, log.end) for log in tl.offsets("orders")] == [(1, 11)]


def test_watching_goes_on_until_it_is_told_to_end(start: Start, tl: Client, db_url: str, full_topic: None) -> None:
    process = start("retention", "run", "--watch", "--interval", "10ms")
    assert process.stdout is not None
    assert [process.stdout.readline().split()[0] for _ in range(3)] == [b"seal", b"release", b"drop"]
    tl.publish("orders", b"later")
    roll(db_url, "orders")
    assert [process.stdout.readline().split()[0] for _ in range(3)] == [b"seal", b"release", b"drop"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 143


@pytest.mark.parametrize("interval", ["0", "-1s", "1y", "soon", "9999d", ""])
def test_an_interval_that_cannot_be_is_wrong_usage(run: Run, interval: str) -> None:
    refused = run("retention", "run", "--watch", "--interval", interval)
    assert (refused.exit_code, "'--interval'" in refused.stderr) == (2, True)


def test_an_unknown_topic_is_not_found(run: Run) -> None:
    assert run("retention", "run", "--topic", "nope").exit_code == 3


@pytest.mark.parametrize("name", ["log", "groups", "spark", "outbox"])
def test_bench_hands_its_arguments_on(tmp_path: Path, name: str) -> None:
    """Goal: what is written after `bench log` arrives, and its exit code comes back. Method: a repository with a
    benchmark that prints its arguments."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / f"{name}.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(5)\n")
    code = (
        "import pathlib, sys; from trunkline.cli import bench, main\n"
        "bench.REPOSITORY = pathlib.Path(sys.argv.pop(1)); main.main()"
    )
    command = [sys.executable, "-c", code, str(tmp_path), "--url", "u", "bench", name, "--json", "--only", "x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (5, "['--url', 'u', '--json', '--only', 'x']\n"), done.stderr


@pytest.mark.parametrize("name", ["log", "groups", "spark", "outbox"])
def test_bench_without_a_clone_says_what_it_needs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bench, "REPOSITORY", tmp_path)
    refused = run("bench", name)
    assert (refused.exit_code, "a clone of the repository" in refused.stderr) == (3, True)
