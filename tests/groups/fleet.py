"""Member processes of one group, started, killed, stopped and resumed by the test, and what they have written down."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

import trunkline
from tests.checker.group_history import KINDS, Commit, Entry, GroupHistory, Handed
from tests.concurrency.sessions import wait_until
from tests.groups.worker import Task
from trunkline.records import Message
from trunkline.settings import Delivery

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
"""How long a process may take for anything. It only guards against hanging."""

AUDIT = (
    "create table public.kept as select * from trunkline.group_ledger",
    (
        "create function public.keep() returns trigger language plpgsql as"
        " $$ begin insert into public.kept select new.*; return null; end $$"
    ),
    "create trigger keep after insert on trunkline.group_ledger for each row execute function public.keep()",
    'create table public.effect (partition integer, "offset" bigint)',
)
"""Every row that the ledger ever had, as old ones are swept away; and a table for effects, which refuses nothing."""
LEDGER = (
    "select p.partition, k.seq, k.epoch, k.next_offset, k.member_id, n.name"
    " from public.kept k join trunkline.group_cursor c using (cursor_id)"
    " join trunkline.topic_partition p using (partition_id)"
    " join unnest(%s::text[], %s::text[]) n(kind, name) on n.kind = k.kind::text order by p.partition, k.seq"
)


class Process:
    """One member process."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.is_stopped = False
        self._log = Path(task.log)
        self._read = 0
        self._notes: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.groups.worker", msgspec.json.encode(task)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            text=True,
        )

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def notes(self, what: str | None = None) -> list[dict[str, Any]]:
        """What it has written down so far; of one kind, if that is named."""
        if self._log.exists():
            with self._log.open("rb") as file:
                file.seek(self._read)
                written = file.read()
            # What is being written now may have come in part.
            lines = written[: written.rfind(b"\n") + 1]
            self._read += len(lines)
            self._notes += [msgspec.json.decode(line) for line in lines.splitlines()]
        failed = [note["error"] for note in self._notes[-1:] if note["what"] == "failed"]
        assert not failed, failed[0]
        return [note for note in self._notes if what in (None, note["what"])]

    def wait_for(self, what: str, count: int = 1) -> dict[str, Any]:
        """The so-manieth note of a kind, as soon as it is there."""
        wait_until(lambda: len(self.notes(what)) >= count, f"{self.task.number}: {what}", deadline_s=WAIT_S)
        return self.notes(what)[count - 1]

    def tell(self, command: str) -> None:
        """Let it do something; a process that is stopped does it when it goes on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def ask(self, command: str, answer: str) -> dict[str, Any]:
        """Let it do something, and wait until it has written down what came of it."""
        seen = len(self.notes(answer))
        self.tell(command)
        return self.wait_for(answer, seen + 1)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def kill(self) -> None:
        """SIGKILL, which a stopped process gets as well."""
        self._process.kill()
        self._process.wait(WAIT_S)
        self._close_input()

    def end(self) -> None:
        """Let it finish what it has in hand and go."""
        self.resume()
        if self.task.is_told:
            self._close_input()
        else:
            self.wait_for("begun")
            self._process.terminate()
        assert self._process.wait(WAIT_S) == 0, self.notes()[-1]
        self._close_input()

    def _close_input(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()


class Fleet:
    """The processes of one group, and everything that they have ever done."""

    def __init__(self, url: str, folder: Path, seed: int, delivery: Delivery) -> None:
        self.url = url
        self.delivery = delivery
        self.every: list[Process] = []
        self._folder = folder
        self._chance = random.Random(seed)

    def start(self, **others: Any) -> Process:
        """Start one more, and wait until it is a member."""
        process = self.start_soon(**others)
        process.wait_for("begun")
        return process

    def start_soon(self, **others: Any) -> Process:
        number = len(self.every) + 1
        task = Task(
            url=self.url,
            number=number,
            log=str(self._folder / f"{number}.jsonl"),
            seed=self._chance.randrange(2**32),
            delivery=self.delivery,
            **others,
        )
        self.every.append(Process(task))
        return self.every[-1]

    @property
    def living(self) -> list[Process]:
        return [process for process in self.every if process.lives]

    @property
    def working(self) -> list[Process]:
        return [process for process in self.living if not process.is_stopped]

    def handed_count(self) -> int:
        """How many times records were handed out so far."""
        return sum(len(process.notes("handed")) for process in self.every)

    def wait_for_progress(self, count: int) -> None:
        """Return once records were handed out so many times more."""
        target = self.handed_count() + count
        wait_until(lambda: self.handed_count() >= target, "records are handed out", deadline_s=WAIT_S)

    def end(self) -> None:
        for process in self.living:
            process.end()

    def kill(self) -> None:
        for process in self.every:
            process.kill()

    def read_to_the_end(self) -> None:
        """Let those that live read everything, and go."""
        with trunkline.connect(self.url) as tl:
            wait_until(lambda: tl.describe_group("g").lag == 0, "the group has read everything", deadline_s=WAIT_S)
        self.end()

    def history(self) -> GroupHistory:
        """What all of them have written down, with the ledger as it was kept, and the effects."""
        history = GroupHistory(self.delivery)
        for process in self.every:
            for note in process.notes():
                _add(history, note)
        with trunkline.connect(self.url) as tl:
            history.ends = {held.partition: held.end for held in tl.offsets("t")}
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(LEDGER, [list(KINDS), list(KINDS.values())]).fetchall()
            history.ledger = [Entry(*row) for row in rows]
            history.effects = connection.execute('select partition, "offset" from public.effect').fetchall()
        return history


def _add(history: GroupHistory, note: dict[str, Any]) -> None:
    for member, partition, epoch, start, end in note.get("ranges", ()):
        if note["what"] == "handed":
            history.handed.append(Handed(member, partition, epoch, start, end, note["at"]))
        else:
            history.commits.append(Commit(member, partition, epoch, end, note["invoked"], note["at"], note["answer"]))


@contextmanager
def fleet(
    url: str, folder: Path, seed: int, *, delivery: Delivery = "at_least_once", partitions: int = 3
) -> Iterator[Fleet]:
    """A topic ``t``, a group ``g`` that reads it, and no process yet; those that live at the end are killed."""
    with trunkline.connect(url) as tl, psycopg.connect(url, autocommit=True) as connection:
        tl.create_topic("t", partitions=partitions)
        for statement in AUDIT:
            connection.execute(statement)
        tl.create_group("g", "t")
    made = Fleet(url, folder, seed, delivery)
    try:
        yield made
    finally:
        made.kill()


@contextmanager
def publishing(url: str, seed: int, *, partitions: int) -> Iterator[None]:
    """A thread that publishes a few records again and again until the block ends."""
    ended = threading.Event()
    failures: list[BaseException] = []

    def publish() -> None:
        chance = random.Random(f"{seed} publisher")
        try:
            with trunkline.connect(url) as tl:
                while not ended.wait(0.02):
                    partition = chance.randrange(partitions)
                    tl.publish_many("t", [Message(b"x", partition=partition)] * chance.randint(1, 20))
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            failures.append(error)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(WAIT_S)
    assert not failures, failures


def shown(seconds: Sequence[float]) -> str:
    """A distribution of times, in milliseconds."""
    if not seconds:
        return "none"
    ordered = sorted(seconds)
    marks = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    at = (f"{name} {ordered[round(share * (len(ordered) - 1))] * 1000:.0f}" for name, share in marks.items())
    return f"{len(ordered)} times in ms: {', '.join(at)}"
