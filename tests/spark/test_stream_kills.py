"""SIGKILL at random moments of a Spark application, of its workers and of its database, while it copies a topic.
What it has written in the end is what was there to be read, once, in order, without a gap.

Every kill is of a real process. The seed is printed; TRUNKLINE_SEED repeats the choices, though not the moments."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.concurrency.conftest import StartServer
from tests.concurrency.conftest import seed as seed
from tests.concurrency.conftest import start_server as start_server
from tests.spark.driving import copying, moment

TEN = pytest.param(10, marks=pytest.mark.chaos)


@pytest.mark.parametrize("kills", [2, TEN])
def test_SP_03_a_driver_that_is_killed_at_random_writes_everything_once(
    db_url: str, tmp_path: Path, seed: int, kills: int
) -> None:
    chance = random.Random(seed)
    with copying(db_url, tmp_path, records_each=60) as work:
        work.feed(300)
        for _ in range(kills):
            work.wait_for(work.written() + chance.randint(1, 200))
            work.feed(400)
            moment(chance)
            assert work.driver is not None
            work.driver.kill(chance)
            work.start()
        work.finish()
        assert work.starts > kills


@pytest.mark.parametrize("kills", [2, TEN])
def test_SP_03_a_database_that_is_killed_at_random_keeps_everything_once(
    start_server: StartServer, tmp_path: Path, seed: int, kills: int
) -> None:
    """The server and all its children die; it comes back on the same directory and port. The application lives through
    it, or fails and is started again."""
    chance = random.Random(seed)
    server = start_server()
    with copying(server.url, tmp_path, records_each=60) as work:
        work.feed(300)
        for _ in range(kills):
            work.wait_for(work.written() + chance.randint(1, 200))
            work.feed(400)
            moment(chance)
            server.kill()
            moment(chance)
            server.restart()
        work.finish()


@pytest.mark.parametrize(
    ("kills", "is_speculating"),
    [
        pytest.param(3, True, id="speculation"),
        pytest.param(10, True, id="speculation-long", marks=pytest.mark.chaos),
        pytest.param(10, False, id="long", marks=pytest.mark.chaos),
    ],
)
def test_SP_03_python_workers_that_are_killed_at_random_write_everything_once(
    db_url: str, tmp_path: Path, seed: int, kills: int, is_speculating: bool
) -> None:
    """Where it is a task's, Spark tries the task again; where it is the one that plans or commits, the query fails, and
    the application is started again."""
    chance = random.Random(seed)
    with copying(db_url, tmp_path, records_each=60, is_speculating=is_speculating) as work:
        work.feed(300)
        for _ in range(kills):
            work.wait_for(work.written() + chance.randint(1, 100))
            work.feed(200)
            moment(chance)
            assert work.driver is not None
            if workers := work.driver.workers():
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(workers), signal.SIGKILL)
        work.finish()
