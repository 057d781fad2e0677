"""How much processor time the server took, and how busy the machine is. From /proc: elsewhere there is no figure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

PROC = Path("/proc")
_IDLE = slice(3, 5)
"""Where /proc/stat has the time that processors were idle, or waited for a disk."""


def server_processor_s(connection: psycopg.Connection[tuple[Any, ...]], proc: Path = PROC) -> float | None:
    """Seconds that the server's living processes have taken, without the session that asks; None from elsewhere."""
    asking = connection.info.backend_pid
    if connection.info.host not in ("localhost", "127.0.0.1", "::1") and not connection.info.host.startswith("/"):
        return None
    postmaster = _parent(proc / str(asking))
    if postmaster is None:
        return None
    family = [each for each in _processes(proc) if each.name == str(postmaster) or _parent(each) == postmaster]
    return sum(_took_s(each) for each in family if each.name != str(asking))


def _processes(proc: Path) -> Iterator[Path]:
    return (each for each in proc.iterdir() if each.name.isdecimal())


def _parent(process: Path) -> int | None:
    try:
        # The name of the program stands in parentheses, and may have spaces.
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _took_s(process: Path) -> float:
    """On a processor, to the nanosecond; 0 for a process that has just ended."""
    try:
        return int((process / "schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


@dataclass(frozen=True)
class Busy:
    """Time of all processors since the machine started, in its own unit: all of it, and what was idle."""

    total: int
    idle: int

    @classmethod
    def now(cls, proc: Path = PROC) -> Busy | None:
        try:
            times = [int(each) for each in (proc / "stat").read_text().splitlines()[0].split()[1:9]]
        except OSError:
            return None
        return cls(sum(times), sum(times[_IDLE]))

    def share(self, later: Busy) -> float:
        """How much of the machine was busy between the two: 1.0 is all of it."""
        total = later.total - self.total
        return 1 - (later.idle - self.idle) / total if total else 0.0
