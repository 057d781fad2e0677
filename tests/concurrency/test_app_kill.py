"""Processes of one app that are killed, stopped and told to end under load: others go on where they were."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest

import trunkline
from trunkline import Client, Message

APP = """
import trunkline

app = trunkline.App()
settings = trunkline.HandlerSettings(commit_interval_s=0.05, in_hand_max=50)


@app.on("orders", group="billing", concurrency=4, create=True, settings=settings)
def handle(record):
    app.client.publish("handled", record.payload, key=record.key)
"""
RUN = (sys.executable, "-c", "from trunkline.cli.main import main; main()", "run", "handling:app")
PARTITIONS = 4
KEYS = 20
DEADLINE_S = 60.0

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(db_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts processes of the app; what still runs after the test is killed."""
    (tmp_path / "handling.py").write_text(APP, encoding="utf-8")
    environment = {
        **os.environ,
        "TRUNKLINE_URL": db_url,
        "TRUNKLINE_HEARTBEAT_S": "0.1",
        "TRUNKLINE_SESSION_TIMEOUT_S": "0.5",
        # One that was stopped has waited longer than that for its answer.
        "TRUNKLINE_STATEMENT_TIMEOUT_S": "1",
        "PYTHONPATH": str(Path(trunkline.__file__).parents[1]),
    }
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(RUN, cwd=tmp_path, env=environment, stderr=(said := TemporaryFile()))  # noqa: SIM115 - read at the end
        process.stderr = said
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait(DEADLINE_S)
        assert process.stderr is not None
        process.stderr.close()


def said(process: subprocess.Popen[bytes]) -> str:
    """What it has written to its standard error."""
    assert process.stderr is not None
    process.stderr.seek(0)
    return process.stderr.read().decode()


def handled(tl: Client) -> int:
    return sum(log.end - log.start for log in tl.offsets("handled"))


def feed_until_handled(tl: Client, published: list[int], wanted: int) -> None:
    """Publish a little at a time until so many more records were handled; of each key the numbers rise."""
    target = handled(tl) + wanted
    while handled(tl) < target:
        numbers = range(len(published), len(published) + 20)
        tl.publish_many("orders", [Message(b"%d" % number, key=str(number % KEYS)) for number in numbers])
        published.extend(numbers)


def first_times(tl: Client) -> dict[bytes | None, list[int]]:
    """The numbers that each key was handled with, each where it was first."""
    found: dict[bytes | None, dict[int, None]] = {}
    for log in tl.offsets("handled"):
        at = log.start
        while records := tl.read("handled", partition=log.partition, offset=at, max_records=1_000):
            for record in records:
                found.setdefault(record.key, {}).setdefault(int(record.payload))
            at = records[-1].offset + 1
    return {key: list(numbers) for key, numbers in found.items()}


@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.chaos)])
def test_processes_that_die_in_any_way_lose_nothing_and_keep_the_order_of_keys(
    db_url: str, start: Start, seed: int, times: int
) -> None:
    """Two processes at a time. One is killed, told to end, or stopped until the other has its partitions and then let
    on: whatever it still does, every key is handled without a gap, in its order."""
    chance = random.Random(seed)
    published: list[int] = []
    with trunkline.connect(db_url) as tl:
        for topic in ("orders", "handled"):
            tl.create_topic(topic, partitions=PARTITIONS)
        running = [start(), start()]
        feed_until_handled(tl, published, 50)
        for _ in range(times):
            ending = running.pop(chance.randrange(2))
            how = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
            ending.send_signal(how)
            running.append(start())
            feed_until_handled(tl, published, chance.randint(20, 300))
            if how == signal.SIGSTOP:
                ending.send_signal(signal.SIGCONT)
                feed_until_handled(tl, published, 50)
                ending.send_signal(signal.SIGTERM)
            # One that was still being started ends by the signal itself.
            assert ending.wait(DEADLINE_S) in (0, 143, -signal.SIGTERM, -signal.SIGKILL), said(ending)
        expected = {str(key).encode(): [number for number in published if number % KEYS == key] for key in range(KEYS)}
        while any(len(first_times(tl).get(key, ())) < len(numbers) for key, numbers in expected.items()):
            for process in running:
                assert process.poll() is None, f"it ended by itself: {said(process)}"
        assert first_times(tl) == expected
