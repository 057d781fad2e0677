"""`trunkline pipeline run` as a process: signals end it between two batches, or at once, and nothing comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from trunkline import Client

COMMAND = (sys.executable, "-c", "from trunkline.cli.main import main; main()", "pipeline", "run", "copy.yml")
DEADLINE_S = 300.0
LOOK_S = 0.05
"""Between two looks: whoever looks without a pause takes a processor from the Spark that it waits for."""
FILE = """\
name: copy
source: {topic: orders, format: raw, max_records: 10}
steps:
  - sql: SELECT key, value FROM input
sinks:
  - topic: copies
checkpoints: checkpoints
config: {spark.sql.shuffle.partitions: 2}
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(db_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts the command in a folder of its own; whatever still runs after the test is killed, Java with it."""
    (tmp_path / "copy.yml").write_text(FILE, "utf-8")
    started: list[subprocess.Popen[bytes]] = []

    def command(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TRUNKLINE_URL": db_url, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [*COMMAND, "--master", "local[1,4]", *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield command
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextmanager
def nobody_publishes(url: str, topic: str) -> Iterator[Callable[[], bool]]:
    """Holds the lock of a topic's partition, so that a batch stays under way; whether somebody waits for it."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select m.lock_class, p.partition_id from trunkline.meta m, trunkline.topic_partition p "
            "join trunkline.topic t using (topic_id) where t.name = %s",
            [topic],
        ).fetchone()
        assert found is not None
        connection.execute("select pg_advisory_lock(%s, %s)", found)

        def is_awaited() -> bool:
            row = connection.execute(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = %s", [found[1]]
            ).fetchone()
            return row is not None and row[0] > 0

        yield is_awaited


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], *, look_s: float = LOOK_S) -> None:
    gives_up_at = monotonic() + DEADLINE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert monotonic() < gives_up_at
        sleep(look_s)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, list[dict[str, Any]], str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def copies(tl: Client) -> list[bytes]:
    return [record.payload for record in tl.read("copies", max_records=10_000)]


def test_the_first_signal_finishes_the_batch_in_hand_and_a_second_one_does_not_wait(
    tl: Client, db_url: str, start: Start
) -> None:
    """The batch in hand waits for a lock that the test holds: a second signal leaves it, a first one does not."""
    tl.create_topic("orders")
    tl.create_topic("copies")
    orders = [b"%03d" % number for number in range(30)]
    tl.publish_many("orders", orders)

    with nobody_publishes(db_url, "copies") as is_awaited:
        hurried = start("--json")
        wait_until(is_awaited, hurried)
        hurried.send_signal(signal.SIGTERM)
        hurried.send_signal(signal.SIGINT)
        code, _, err = ended(hurried)
        assert (code in (130, 143), copies(tl)) == (True, []), err

    with nobody_publishes(db_url, "copies") as is_awaited:
        patient = start("--json")
        wait_until(is_awaited, patient)
        patient.send_signal(signal.SIGTERM)
        # It is still there when the next wait for the lock begins. Between two waits there is only an instant.
        wait_until(lambda: not is_awaited(), patient, look_s=0.0)
        wait_until(is_awaited, patient)
    code, said, err = ended(patient)
    assert code == 0, err
    done = [each["batch"] for each in said if "batch" in each]
    assert done[0] == 0
    assert {"ended": "topic-copies", "state": "stopped", "rows": 10 * len(done)} in said
    assert copies(tl) == orders[: 10 * len(done)]

    code, said, err = ended(start("--json", "--until-caught-up"))
    assert code == 0, err
    assert said[-1] == {"ended": "topic-copies", "state": "done", "rows": 30 - 10 * len(done)}
    assert copies(tl) == orders
