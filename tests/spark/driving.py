"""Starts applications of ``stream_driver.py``, kills them and what belongs to them, and compares what they have written
with what was there to be read."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import psycopg

import trunkline
from tests.spark.stream_driver import Settings
from trunkline import Client, Message

PARTITIONS = 3
DEADLINE_S = 300.0
"""How long anything may take before a test fails. It only guards against hanging."""
PROGRAM = Path(__file__).with_name("stream_driver.py")
LOOK_S = 0.05
WRITTEN = (
    "select sum(r.\"end\" - r.start) from trunkline.topic t, trunkline.log_range(t.topic_id) r where t.name = 'out'"
)
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx1g"


class Driver:
    """One application: a process of Python, a JVM, and the JVM's Python workers, in a session of their own."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.said = folder / f"driver-{len(list(folder.glob('driver-*')))}.txt"
        source = Path(trunkline.__file__).parents[1]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{source}:{PROGRAM.parents[2]}",
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": QUICK_JVM,
        }
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), msgspec.json.encode(settings).decode()],
                cwd=folder,
                env=environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def lines(self) -> list[str]:
        return self.said.read_text(encoding="utf-8", errors="replace").splitlines()

    def has_said(self, line: str) -> bool:
        return line in self.lines()

    def is_running(self) -> bool:
        return self.process.poll() is None

    def processes(self) -> dict[int, str]:
        """Everything that belongs to this application: pid, and what it is."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError):
                # After the name, in brackets, come state, parent, group, session.
                session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if session == self.process.pid and command:
                    found[int(entry.name)] = command
        return found

    def workers(self) -> list[int]:
        """Processes of Spark's that run our code for tasks and for the plan."""
        return sorted(pid for pid, command in self.processes().items() if " -m pyspark." in command)

    def machine(self) -> list[int]:
        return [pid for pid, command in self.processes().items() if "org.apache.spark.deploy" in command]

    def kill(self, chance: random.Random | None = None) -> None:
        """SIGKILL of everything at once. By chance, first of the JVM or of Python alone, as it may happen."""
        if chance is not None and chance.random() < 0.5:
            for pid in chance.choice([[self.process.pid], self.machine()]):
                _kill(pid)
        while left := self.processes():
            for pid in left:
                _kill(pid)
        self.process.wait(DEADLINE_S)

    def wait(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self.kill()
        return code

    def failure(self) -> str:
        return "\n".join(self.lines()[-60:])


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Copying:
    """A topic ``in`` that is copied to a topic ``out``. Whatever dies is started again."""

    def __init__(self, url: str, folder: Path, **settings: Any) -> None:
        self.url = url
        self.folder = folder
        self.settings = Settings(url, str(folder / "checkpoint"), **settings)
        self.published = 0
        self.starts = 0
        self.driver: Driver | None = None
        self._looking: psycopg.Connection[tuple[Any, ...]] | None = None
        with trunkline.connect(url) as tl:
            for topic in ("in", "out"):
                if topic not in {each.name for each in tl.topics()}:
                    tl.create_topic(topic, partitions=PARTITIONS)

    def start(self, **changes: Any) -> Driver:
        self.starts += 1
        self.driver = Driver(msgspec.structs.replace(self.settings, **changes), self.folder)
        return self.driver

    def feed(self, count: int) -> None:
        """Publish records whose numbers rise within every partition."""
        with trunkline.connect(self.url) as tl:
            for partition in range(PARTITIONS):
                numbers = [n for n in range(self.published, self.published + count) if n % PARTITIONS == partition]
                tl.publish_many("in", [Message(b"%d" % n, key=b"k%d" % (n % 7)) for n in numbers], partition=partition)
        self.published += count

    def written(self) -> int:
        """How many records have been written; -1 while the server cannot say."""
        try:
            if self._looking is None:
                self._looking = psycopg.connect(self.url, connect_timeout=5, autocommit=True)
            row = self._looking.execute(WRITTEN).fetchone()
        except psycopg.Error:
            self.look_away()
            return -1
        return int(row[0]) if row else -1

    def look_away(self) -> None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.close()

    def wait_for(self, count: int) -> None:
        """Until so many records have been written; an application that has failed meanwhile is started again."""
        deadline = time.monotonic() + DEADLINE_S
        while self.written() < count:
            if self.driver is None or not self.driver.is_running():
                if self.driver is not None:
                    self.driver.kill()
                self.start()
            assert time.monotonic() < deadline, f"not {count} records in time, but {self.written()}:\n{self._said()}"
            # Not more often: on a small machine looking would be what everything else waits for.
            time.sleep(LOOK_S)

    def _said(self) -> str:
        return self.driver.failure() if self.driver else ""

    def finish(self) -> None:
        """Let everything be written, end it, and see that it was done once and in order."""
        self.wait_for(self.published)
        assert self.driver is not None
        self.driver.kill()
        self.check()

    def check(self, published: int | None = None) -> None:
        with trunkline.connect(self.url) as tl:
            check_copied(tl, self.published if published is None else published)


@contextmanager
def copying(url: str, folder: Path, **settings: Any) -> Iterator[Copying]:
    """A copying whose applications are gone afterwards."""
    made = Copying(url, folder, **settings)
    drivers: list[Driver] = []
    start = made.start

    def noted(**changes: Any) -> Driver:
        drivers.append(start(**changes))
        return drivers[-1]

    made.start = noted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        made.look_away()
        for driver in drivers:
            driver.kill()


def contents(tl: Client, topic: str) -> dict[int, list[tuple[int, bytes | None, bytes]]]:
    """Offset, key and payload of every record, by partition."""
    found: defaultdict[int, list[tuple[int, bytes | None, bytes]]] = defaultdict(list)
    for log in tl.offsets(topic):
        at = log.start
        while records := tl.read(topic, partition=log.partition, offset=at, max_records=1_000):
            found[log.partition] += [(record.offset, record.key, record.payload) for record in records]
            at = records[-1].offset + 1
        assert at == log.end, "a read ended before the log does"
    return found


def check_copied(tl: Client, published: int) -> None:
    """``out`` is ``in``: the same records in the same order in every partition, at offsets 1, 2, 3 and so on; and what
    stands there are the numbers that were published, each once."""
    read, written = contents(tl, "in"), contents(tl, "out")
    for partition in range(PARTITIONS):
        assert [record[0] for record in written[partition]] == list(range(1, len(written[partition]) + 1)), "a gap"
        expected = [b"%d" % n for n in range(published) if n % PARTITIONS == partition]
        payloads = [payload for _, _, payload in written[partition]]
        assert sorted(payloads) == sorted(expected), difference(expected, payloads)
        assert payloads == expected, f"partition {partition} is out of order"
        assert written[partition] == read[partition], "keys or offsets differ"


def difference(expected: list[bytes], found: list[bytes]) -> str:
    twice = sorted({payload for payload in found if found.count(payload) > 1})
    lost = sorted(set(expected) - set(found))
    return f"{len(twice)} twice: {twice[:10]}; {len(lost)} lost: {lost[:10]}; foreign: {set(found) - set(expected)}"


def moment(chance: random.Random) -> None:
    """Let a random time pass: what comes next should fall anywhere in a batch, not where the test has looked."""
    time.sleep(chance.uniform(0, 0.4))
