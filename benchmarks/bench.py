"""What a scenario works with: the database, the processes, how much work to do, and where to say what goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import psycopg

from benchmarks.crew import Crew
from benchmarks.environment import Environment
from benchmarks.lines import Finding, Flush
from benchmarks.place import Database


@dataclass(frozen=True)
class Scale:
    """How much work a run does. The quick one is for a look; only the full one is for a claim."""

    name: str
    rounds: int
    pgbench_rounds: int
    work: float
    """Of what the full run writes in a round."""
    snapshot_s: float
    stream_s: float
    log_records: tuple[int, ...]
    memory_bytes: int


FULL = Scale("full", 5, 3, 1.0, 60.0, 5.0, (10**3, 10**5, 10**7), 10**9)
QUICK = Scale("quick", 3, 1, 0.06, 8.0, 0.5, (10**3, 10**5, 10**6), 10**8)


class Made(Protocol):
    """What has logs, or queues, that are told apart by a number."""

    def create(self, url: str, log: int, partitions: int) -> None: ...

    def drop(self, url: str, log: int) -> None: ...


@dataclass(frozen=True)
class Bench:
    """Handed to every scenario."""

    database: Database
    environment: Environment
    crew: Crew
    scale: Scale
    flushes: tuple[Flush, ...]
    say: Callable[[str], None]
    _logs: Iterator[int] = field(default_factory=lambda: count(1))

    def url(self, flush: Flush) -> str:
        """Only for a flush that this server has: ask ``flushes``."""
        if flush == "fast":
            return self.database.url
        assert self.database.slow_url is not None
        return self.database.slow_url

    def rounds(self, flush: Flush) -> int:
        """Fewer with the slow flush: a delay that is always the same leaves little to chance, and takes long."""
        return self.scale.rounds if flush == "fast" else max(1, self.scale.rounds - 2)

    def pgbench_rounds(self, flush: Flush) -> int:
        return self.scale.pgbench_rounds if flush == "fast" else 1

    @property
    def programs(self) -> Path | None:
        return self.database.programs

    @contextmanager
    def log(self, side: Made, partitions: int) -> Iterator[int]:
        """The number of a new log, which is dropped when the block ends well; else the database is, and soon."""
        number = next(self._logs)
        side.create(self.database.url, number, partitions)
        yield number
        side.drop(self.database.url, number)

    def settle(self) -> None:
        """Begin each measurement with the same state of the server: nothing left to be written out."""
        with (
            psycopg.connect(self.database.url, autocommit=True) as connection,
            suppress(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("checkpoint")

    def wal_position(self) -> int:
        """Bytes of write-ahead log since the server was made."""
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0])


@dataclass(frozen=True)
class Scenario:
    """A family of lines, and what measures them. It yields a finding for each line and flush."""

    name: str
    lines: tuple[str, ...]
    measure: Callable[[Bench], Iterator[Finding]]


@dataclass(frozen=True)
class Benchmark:
    """`trunkline bench <name>`: what it measures, in the order in which it does, and how many processes that takes."""

    name: str
    summary: str
    scenarios: tuple[Scenario, ...]
    processes: int


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
