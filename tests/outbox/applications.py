"""Application processes, started and killed by the test, and what all of them have written down."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

import trunkline
from tests.checker.outbox_history import NEVER, Event, OutboxHistory, Stood, Transaction
from tests.concurrency.sessions import wait_until
from tests.outbox.application import NAME, TABLES, TOPICS, Task

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 300.0
"""How long anything may take. It only guards against hanging."""
ROWS_EACH = 1_000_000
STOOD = (
    "select b.first_offset, b.keys, b.payloads, b.transaction_id, b.transaction_ordinal, b.transaction_count"
    " from trunkline.log_read(%s::int4, %s::int4, %s::int8, 1000000, 1000000000) b"
)
LEFT = "select count(*) from pg_stat_activity where application_name = %s"
STAGED = "select count(*) from trunkline.outbox_stage"


class Process:
    """One process that writes down what it does."""

    def __init__(self, module: str, log: Path, task: msgspec.Struct) -> None:
        self._log = log
        self._read = 0
        self._notes: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        self._process = subprocess.Popen([sys.executable, "-m", module, msgspec.json.encode(task)], cwd=ROOT)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def notes(self) -> list[dict[str, Any]]:
        """What it has written down so far."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._read)
                written = file.read()
            # What is being written now may have come in part.
            lines = written[: written.rfind(b"\n") + 1]
            self._read += len(lines)
            new = [msgspec.json.decode(line) for line in lines.splitlines()]
            self._notes += new
            self._counts.update(note["what"] for note in new)
        failed = [note["error"] for note in self._notes[-1:] if note["what"] == "failure"]
        assert not failed, failed[0]
        return self._notes

    def count(self, what: str) -> int:
        self.notes()
        return self._counts[what]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_S)

    def end(self) -> None:
        """Let it finish the transaction in hand and go."""
        wait_until(lambda: self.count("ready"), "the application is ready", deadline_s=WAIT_S)
        self._process.terminate()
        assert self._process.wait(WAIT_S) == 0, self.notes()[-1:]


class Applications:
    """The processes of one test, and everything that they have ever done."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.url = url
        self.every: list[Process] = []
        self._folder = folder
        self._chance = random.Random(f"{seed} applications")

    def start(self) -> None:
        number = len(self.every) + 1
        log = self._folder / f"{number}.jsonl"
        task = Task(self.url, str(log), self._chance.randrange(2**32), number * ROWS_EACH)
        self.every.append(Process("tests.outbox.application", log, task))

    @property
    def living(self) -> list[Process]:
        return [process for process in self.every if process.lives]

    def done(self) -> int:
        """How many transactions have ended so far."""
        return sum(process.count("ended") for process in self.every)

    def wait_for(self, transactions: int) -> None:
        """Return once so many have ended, of all that there ever were."""

        def has_come() -> bool:
            assert self.living, "no application is left"
            return self.done() >= transactions

        wait_until(has_come, f"{transactions} transactions", deadline_s=WAIT_S)

    def cuts(self) -> str:
        """How many transactions a crash of the server met, for the report of a run."""
        found = [note for process in self.every for note in process.notes() if note["what"] == "cut"]
        looked_up = [note["is_there"] for note in found if note["is_committing"]]
        return f"{len(found)} transactions were cut, {len(looked_up)} of them in COMMIT: {sum(looked_up)} were done"

    def end(self) -> None:
        for process in self.living:
            process.end()

    def kill(self) -> None:
        for process in self.every:
            process.kill()

    def history(self) -> OutboxHistory:
        """What was written down, the rows, and the log, once nobody is left who might still commit."""
        found = OutboxHistory()
        for number, process in enumerate(self.every, 1):
            notes = process.notes()
            refused = [note["error"] for note in notes if note["what"] == "refused"]
            assert not any("Deadlock" in error for error in refused), refused
            found.transactions += _transactions(str(number), notes)
        with psycopg.connect(self.url, autocommit=True) as connection:
            wait_until(
                lambda: connection.execute(LEFT, [NAME]).fetchone() == (0,), "no session is left", deadline_s=WAIT_S
            )
            found.rows = [row for (row,) in connection.execute("select id from public.business order by id")]
            assert connection.execute(STAGED).fetchone() == (0,), "something was left in the stage"
        found.log = [stood for topic in TOPICS for stood in stood_in(self.url, topic)]
        return found


def stood_in(url: str, topic: str) -> list[Stood]:
    """Everything that a topic holds, each record with what its batch says of its transaction."""
    with trunkline.connect(url) as tl, psycopg.connect(url, autocommit=True) as connection:
        known = tl.describe_topic(topic).topic
        found: list[Stood] = []
        for partition in range(known.partitions):
            found += read_from(connection, known.topic_id, topic, partition, 1)
    return found


def read_from(
    connection: psycopg.Connection[tuple[Any, ...]], topic_id: int, topic: str, partition: int, start: int
) -> list[Stood]:
    """The records of a partition from an offset on, which begins a batch."""
    found: list[Stood] = []
    for first, keys, payloads, transaction_id, ordinal, count in connection.execute(
        STOOD, [topic_id, partition, start]
    ):
        found += [
            Stood(topic, partition, first + n, keys[n] if keys else None, payload, transaction_id, ordinal + n, count)
            for n, payload in enumerate(payloads)
        ]
    return found


def _transactions(session: str, notes: list[dict[str, Any]]) -> Iterator[Transaction]:
    """A transaction that was never ended was killed: at its COMMIT, or a moment before or after it."""
    ends = {note["row"]: note for note in notes if note["what"] == "ended"}
    for note in notes:
        if note["what"] == "transaction":
            end = ends.get(note["row"])
            yield Transaction(
                session,
                note["row"],
                _events(note["events"]),
                note["begun"],
                NEVER if end is None else end["at"],
                "unknown" if end is None else end["outcome"],
                _events(note["undone"]),
                note["transaction_id"],
            )


def _events(notes: list[dict[str, Any]]) -> tuple[Event, ...]:
    return tuple(
        Event(note["topic"], note["payload"].encode(), note["key"].encode(), note["version"]) for note in notes
    )


@contextmanager
def applications(url: str, folder: Path, seed: int, *, partitions: int) -> Iterator[Applications]:
    """The tables and topics of a business, and no process yet; those that live at the end are killed."""
    with trunkline.connect(url) as tl, psycopg.connect(url, autocommit=True) as connection:
        for topic in TOPICS:
            tl.create_topic(topic, partitions=partitions)
        for statement in TABLES:
            connection.execute(statement)
    made = Applications(url, folder, seed)
    try:
        yield made
    finally:
        made.kill()
