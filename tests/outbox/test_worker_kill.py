"""Workers that are killed at random while an application writes its outbox table: what comes out is what went in."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import trunkline
from trunkline import OutboxColumns

HANDLER = """
def handle(record, connection):
    connection.execute(
        "insert into public.effect (number, key) values (%s, %s)", [int(record.payload), record.key.decode()]
    )
"""
CONFIG = """
topic: orders
group: copying
create: true
handler: handling:handle
delivery: exactly_once
batch_size: 50
total_partitions: 4
"""
COMMAND = (sys.executable, "-c", "from trunkline.cli.main import main; main()", "outbox", "worker", "--config")
TABLES = """
create table public.outbox_message_t (id bigint generated always as identity primary key, host text, payload bigint);
create table public.effect (at bigint generated always as identity, number bigint, key text)
"""
KEYS = 20
DEADLINE_S = 60.0

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(db_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts workers; what still runs after the test is killed."""
    (tmp_path / "handling.py").write_text(HANDLER, encoding="utf-8")
    (tmp_path / "worker.yml").write_text(CONFIG, encoding="utf-8")
    environment = {
        **os.environ,
        "TRUNKLINE_URL": db_url,
        "TRUNKLINE_HEARTBEAT_S": "0.1",
        "TRUNKLINE_SESSION_TIMEOUT_S": "0.5",
        "PYTHONPATH": str(Path(trunkline.__file__).parents[1]),
    }
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        with (tmp_path / f"said-{len(started)}").open("wb") as said:
            process = subprocess.Popen([*COMMAND, "worker.yml"], cwd=tmp_path, env=environment, stderr=said)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait(DEADLINE_S)


@pytest.fixture
def seed() -> int:
    """Printed when the test fails; set TRUNKLINE_SEED to run it again."""
    chosen = int(os.environ.get("TRUNKLINE_SEED") or random.randrange(1 << 32))
    print(f"TRUNKLINE_SEED={chosen}")
    return chosen


class Application:
    """Writes numbered rows, a few to a transaction; every fourth transaction is rolled back."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], chance: random.Random) -> None:
        self.connection = connection
        self.chance = chance
        self.number = 0
        self.committed: list[int] = []

    def write(self) -> None:
        numbers = range(self.number, self.number + self.chance.randint(1, 20))
        self.number = numbers.stop
        with self.connection.cursor() as cursor:
            statement = "insert into public.outbox_message_t (host, payload) values (%s, %s)"
            cursor.executemany(statement, [(str(number % KEYS), number) for number in numbers])
        if self.chance.randrange(4) == 0:
            self.connection.rollback()
        else:
            self.connection.commit()
            self.committed.extend(numbers)

    def effects(self) -> int:
        row = self.connection.execute("select count(*) from public.effect").fetchone()
        self.connection.commit()
        assert row is not None
        return int(str(row[0]))

    def write_until(self, more: int) -> None:
        """Write until the workers have handled that many rows more."""
        target = self.effects() + more
        while self.effects() < target:
            self.write()


@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.chaos)])
def test_S4_13_and_S4_19_workers_that_die_in_any_way_lose_and_repeat_nothing(
    db_url: str, start: Start, seed: int, times: int
) -> None:
    """Two workers at a time; one is killed, told to end, or stopped until the other has its partitions. The effects are
    the committed rows, each once, those of one key in their order."""
    chance = random.Random(seed)
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url) as connection:
        tl.create_topic("orders", partitions=4)
        connection.execute(TABLES.encode())
        connection.commit()
        tl.outbox_attach("outbox_message_t", "orders", OutboxColumns(payload="payload", key="host"))
        application = Application(connection, chance)
        running = [start(), start()]
        application.write_until(50)
        for _ in range(times):
            ending = running.pop(chance.randrange(2))
            how = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
            ending.send_signal(how)
            running.append(start())
            application.write_until(chance.randint(20, 300))
            if how == signal.SIGSTOP:
                ending.send_signal(signal.SIGCONT)
                application.write_until(50)
                ending.send_signal(signal.SIGTERM)
            # One that was still being started ends by the signal itself.
            assert ending.wait(DEADLINE_S) in (0, 143, -signal.SIGTERM, -signal.SIGKILL)
        while application.effects() < len(application.committed):
            for process in running:
                assert process.poll() is None, "it ended by itself; see what it said in the test's folder"
        rows = connection.execute("select number, key from public.effect order by at").fetchall()
    assert sorted(int(number) for number, _ in rows) == application.committed
    for key in range(KEYS):
        numbers = [int(number) for number, of_key in rows if of_key == str(key)]
        assert numbers == sorted(numbers), key
