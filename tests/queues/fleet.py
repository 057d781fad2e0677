"""Processes with one queue, started, killed, stopped and resumed by the test, and what they have written down."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

import trunkline
from tests.checker.queue_history import Answer, Floor, Handed, QueueHistory, Settled
from tests.concurrency.sessions import wait_until
from tests.groups.fleet import ROOT, Process
from tests.queues.audit import add_rows, keep
from tests.queues.driver import DESCRIBE
from tests.queues.worker import Task

WAIT_S = 120.0
"""How long a process may take for anything. It only guards against hanging."""


class QueueProcess(Process):
    """One process with the queue, told and watched as a member of a group is."""

    def __init__(self, task: Task) -> None:
        self.task = task  # type: ignore[assignment]
        self.is_stopped = False
        self._log = Path(task.log)
        self._read = 0
        self._notes: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.queues.worker", msgspec.json.encode(task)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            text=True,
        )

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait(self) -> None:
        """Return once it has ended by itself, which must be in peace."""
        assert self._process.wait(WAIT_S) == 0, self.notes()[-1]
        self._close_input()


class Fleet:
    """The processes of one queue, and everything that they have ever done."""

    def __init__(self, url: str, folder: Path, seed: int, *, ack_deadline_s: float, partitions: int) -> None:
        self.url = url
        self.ack_deadline_s = ack_deadline_s
        self.partitions = partitions
        self.every: list[QueueProcess] = []
        self.floors: list[Floor] = []
        self._folder = folder
        self._chance = random.Random(seed)

    def start(self, **others: Any) -> QueueProcess:
        process = self.start_soon(**others)
        process.wait_for("begun")
        return process

    def start_soon(self, **others: Any) -> QueueProcess:
        number = len(self.every) + 1
        log = str(self._folder / f"{number}.jsonl")
        seed = self._chance.randrange(2**32)
        self.every.append(
            QueueProcess(Task(url=self.url, number=number, log=log, seed=seed, partitions=self.partitions, **others))
        )
        return self.every[-1]

    @property
    def readers(self) -> list[QueueProcess]:
        """Those that live."""
        return [process for process in self.every if process.lives and not process.task.publishes]  # type: ignore[attr-defined]

    def look(self) -> tuple[int, int]:
        """How much is below the floor, and how much was published; the floor is written down."""
        invoked = time.monotonic()
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(DESCRIBE, ["t", "q"])
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        ended = time.monotonic()
        self.floors += [Floor(row["partition"], row["floor"], invoked, ended) for row in rows]
        return sum(row["floor"] - 1 for row in rows), sum(row["end"] - 1 for row in rows)

    def handed_count(self) -> int:
        return sum(len(process.notes("handed")) for process in self.every)

    def wait_for_progress(self, times: int) -> None:
        """Return once records were handed out so many times more, or everything is done."""
        target = self.handed_count() + times

        def is_on() -> bool:
            done, published = self.look()
            return self.handed_count() >= target or done == published > 0

        wait_until(is_on, "records are handed out", deadline_s=WAIT_S)

    def finish(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Let those that live do all that is left, and go."""

        def is_done() -> bool:
            meanwhile()
            done, published = self.look()
            return done == published

        wait_until(is_done, "everything is done", deadline_s=WAIT_S)
        self.end()

    def end(self) -> None:
        for process in self.every:
            if process.lives:
                process.end()

    def kill(self) -> None:
        for process in self.every:
            process.kill()

    def history(self, **others: Any) -> QueueHistory:
        """What all of them have written down, with what the server has kept, and the dead letters."""
        history = QueueHistory(floors=self.floors, **others)
        for process in self.every:
            self._add(history, str(process.task.number), process.notes())
        with psycopg.connect(self.url, autocommit=True) as connection:
            add_rows(connection, history)
        with trunkline.connect(self.url) as tl:
            for letter in tl.read("dead", max_records=10_000) if "dead" in {t.name for t in tl.topics()} else ():
                known = dict(letter.headers)
                place = known["trunkline-dl-partition"], known["trunkline-dl-offset"]
                history.buried.append((int(place[0]), int(place[1])))
        return history

    def _add(self, history: QueueHistory, reader: str, notes: list[dict[str, Any]]) -> None:
        answers = {note["number"]: note for note in notes if note["what"] == "settled"}
        for note in notes:
            at = note["at"] / 1e9
            for partition, claim_no, attempt, expires_at, offsets in note.get("claims", ()):
                begun = expires_at - self.ack_deadline_s
                handed = (attempt, frozenset(offsets), begun, at, self.ack_deadline_s)
                history.handed.append(Handed(reader, partition, claim_no, *handed))
            if note["what"] == "settling":
                history.settled += _settled(reader, note, answers.get(note["number"]))


def _settled(reader: str, asked: dict[str, Any], answered: dict[str, Any] | None) -> Iterator[Settled]:
    """By claim, and by whether it was done."""
    lost = {tuple(place) for place in answered["lost"]} if answered else set()
    found: dict[tuple[int, int, Answer], set[int]] = defaultdict(set)
    for partition, claim_no, offset in asked["places"]:
        answer: Answer = answered["answer"] if answered else "unknown"
        found[partition, claim_no, "lost" if (partition, offset) in lost else answer].add(offset)
    ended = answered["at"] if answered else asked["at"]
    moments = asked["at"] / 1e9, ended / 1e9
    for (partition, claim_no, answer), offsets in found.items():
        yield Settled(
            reader, partition, claim_no, asked["kind"], frozenset(offsets), *moments, answer, asked["delay_s"]
        )


@contextmanager
def fleet(
    url: str, folder: Path, seed: int, *, ack_deadline_s: float, partitions: int = 1, **settings: Any
) -> Iterator[Fleet]:
    """A topic ``t`` with a queue ``q``, a topic ``dead``, and no process yet; those that live at the end are killed."""
    keep(url)
    with trunkline.connect(url) as tl:
        tl.create_topic("t", partitions=partitions)
        if settings.get("dead_letter"):
            tl.create_topic("dead")
        with tl.queue("t", "q", ack_deadline_s=ack_deadline_s, **settings):
            pass
    made = Fleet(url, folder, seed, ack_deadline_s=ack_deadline_s, partitions=partitions)
    try:
        yield made
    finally:
        made.kill()
