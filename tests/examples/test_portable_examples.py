"""The examples of the portable API run as their first lines say, unchanged, on whatever broker their URL names."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import psycopg
import pytest

import trunkline
from tests.portable.places import place
from trunkline.status.queues import read_queues

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ON_MEMORY = Path(__file__).with_name("on_memory.py")
DEADLINE_S = 60.0
POOL_SIZE = 10

Example = subprocess.Popen[str]
Left = tuple[int, int]
"""How many messages wait for a receiver, and how many are held by one."""


class Memory:
    """A broker in the example's own process, which says at the end what was left there."""

    def command(self, example: str, messages: int) -> list[str]:
        return [str(ON_MEMORY), str(EXAMPLES / example), str(messages)]

    def left(self, lines: list[str]) -> Left:
        found = re.fullmatch(r"left: (\d+) waiting, (\d+) held", lines.pop())
        assert found is not None
        return int(found[1]), int(found[2])


class Postgres:
    """A queue of a database. The example is run as its first lines say."""

    def __init__(self, db_url: str) -> None:
        self._url = db_url
        with trunkline.connect(db_url) as tl:
            tl.create_topic("signups")

    def command(self, example: str, messages: int) -> list[str]:
        with trunkline.connect(self._url) as tl, tl.queue("signups", "minder"):
            if messages:
                tl.publish_many("signups", [f"user {number}".encode() for number in range(messages)])
        sends = example.endswith("http.py")
        return [example, place(self._url, "signups", **({} if sends else {"queue": "minder"}))]

    def left(self, _: list[str]) -> Left:
        with psycopg.connect(self._url) as connection:
            (queue,) = read_queues(lambda query, values=(): connection.execute(query, values).fetchall())
        return queue.ready + queue.waiting, queue.in_flight


Broker = Memory | Postgres


@pytest.fixture(params=["memory", "postgres"])
def broker(request: pytest.FixtureRequest) -> Broker:
    return Memory() if request.param == "memory" else Postgres(request.getfixturevalue("direct_url"))


@contextmanager
def running(broker: Broker, example: str, messages: int) -> Iterator[Example]:
    """An example at work, on a topic that has so many messages."""
    source = str(Path(trunkline.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, *broker.command(example, messages)],
        cwd=EXAMPLES,
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: Example) -> list[str]:
    """What it has said until it ended well, line by line."""
    assert process.stdout is not None
    # Not communicate: it would not see what lies in the buffer of readline.
    said = process.stdout.read()
    _, complaints = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, complaints
    return said.splitlines()


def said_next(process: Example) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_an_http_handler_answers_when_the_broker_has_the_message(broker: Broker) -> None:
    with running(broker, "portable_http.py", 0) as process:
        answers = ended(process)
    assert broker.left(answers) == (2, 0)
    assert len(answers) == 2
    assert all(re.fullmatch(r"202 \{'message': '.+'\}", answer) for answer in answers)
    assert answers[0] != answers[1]


def test_a_single_message_is_received_and_acknowledged(broker: Broker) -> None:
    with running(broker, "portable_receive.py", 3) as process:
        lines = ended(process)
    assert broker.left(lines) == (2, 0)
    assert lines == ["got user 0", "acknowledged"]


def test_a_loop_handles_every_message_and_ends_with_ctrl_c(broker: Broker) -> None:
    with running(broker, "portable_loop.py", 50) as process:
        assert [said_next(process) for _ in range(50)] == [f"got user {number}" for number in range(50)]
        process.send_signal(signal.SIGINT)
        lines = ended(process)
    # The signal may come between the last word of a message and its acknowledgement.
    assert broker.left(lines) in [(0, 0), (0, 1), (1, 0)]
    assert lines == ["Ctrl-C: the end"]


@pytest.mark.parametrize("heard", [1, 25, 400], ids=["at once", "meanwhile", "when all is done"])
def test_S2_28_a_pool_of_ten_acknowledges_all_that_it_has_begun_and_drains_on_ctrl_c(
    broker: Broker, heard: int
) -> None:
    """Goal: whenever Ctrl-C comes, no message is left held: what was begun is done, the rest is there for others.
    Method: a real process and a real SIGINT, after so many lines of 200 messages with two lines each."""
    with running(broker, "portable_pool.py", 200) as process:
        lines = [said_next(process) for _ in range(heard)]
        process.send_signal(signal.SIGINT)
        lines += ended(process)
    left = broker.left(lines)
    assert lines.pop() == "Ctrl-C: all are done"
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin ")]
    done = [line.removeprefix("done ") for line in lines if line.startswith("done ")]
    assert len(begun) + len(done) == len(lines)
    assert sorted(begun) == sorted(set(begun)) == sorted(done)
    assert left == (200 - len(done), 0)
    at_work = list(accumulate(1 if line.startswith("begin ") else -1 for line in lines))
    assert max(at_work) <= POOL_SIZE
    # Ended early, it may not have come to that.
    assert max(at_work) == POOL_SIZE or len(done) < 200
