"""kill -9 of a job that writes through a sink, and of its server, at random moments, while segments are rolled, sealed
and dropped, and others publish: every batch is there once, whole and in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import trunkline
from tests.concurrency import sink_worker
from tests.concurrency.conftest import StartServer
from tests.concurrency.sink_worker import PARTITIONS, payloads
from trunkline.errors import TrunklineError
from trunkline.settings import ClientSettings, TopicSettings

PATIENT = ClientSettings(deadline_s=90, connect_timeout_s=5)
DEADLINE_S = 300.0
"""How long anything may take before the test fails. It only guards against hanging."""
OTHERS = b"another's"


class Job:
    """The process that is killed, and started again where it was."""

    def __init__(self, url: str, folder: Path, batches: int) -> None:
        self._checkpoint = folder / "checkpoint"
        self._arguments = [url, str(self._checkpoint), str(batches)]
        self._said = folder / "said"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        source, root = Path(trunkline.__file__).parents[1], Path(sink_worker.__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": f"{source}:{root}"}
        with self._said.open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", sink_worker.__name__, *self._arguments],
                env=environment,
                stdout=said,
                stderr=said,
            )

    def done(self) -> int:
        """How many batches the job knows to be done."""
        return int(self._checkpoint.read_text()) if self._checkpoint.exists() else 0

    def wait_for(self, batches: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.done() < batches:
            assert self._process.poll() in (None, 0), self._said.read_text()
            assert time.monotonic() < deadline, f"{self.done()} of {batches} batches:\n{self._said.read_text()}"
            time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def restart(self) -> None:
        self.kill()
        self._process = self._start()


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Does something again and again until the block ends."""
    stopped = threading.Event()

    def repeat() -> None:
        while not stopped.wait(0.03):
            with suppress(TrunklineError):
                work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def check(url: str, batches: int) -> None:
    with trunkline.connect(url) as tl:
        for partition in range(PARTITIONS):
            found, at = [], 1
            while records := tl.read("t", partition=partition, offset=at, max_records=1_000):
                assert [record.offset for record in records] == list(range(at, at + len(records)))
                found += [record.payload for record in records]
                at += len(records)
            of_job = [payload for payload in found if payload != OTHERS]
            assert of_job == [
                payload for batch in range(batches) for put in payloads(batch, partition) for payload in put
            ]


@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.chaos)])
def test_SP_03_a_job_and_its_server_that_are_killed_at_random_have_every_batch_once(
    start_server: StartServer, tmp_path: Path, seed: int, kills: int
) -> None:
    chance = random.Random(seed)
    server = start_server()
    batches = kills * 3
    with trunkline.connect(server.url, settings=PATIENT) as tl:
        tl.create_topic("t", partitions=PARTITIONS, settings=TopicSettings(segment_bytes=65536))

        def others() -> None:
            tl.publish("t", OTHERS)

        def roll() -> None:
            tl.retention_run("t")

        job = Job(server.url, tmp_path, batches)
        try:
            with beside(others), beside(roll):
                for kill in range(kills):
                    job.wait_for(min(batches - 1, kill * 3))
                    # Anywhere in a batch, and not where the test has looked.
                    time.sleep(chance.uniform(0, 0.3))
                    if chance.random() < 0.6:
                        job.restart()
                    else:
                        server.kill()
                        server.restart()
                job.wait_for(batches)
        finally:
            job.kill()
    check(server.url, batches)
