"""Readers of groups, on both sides of a comparison: Trunkline's consumers, and the readers that they replace.

A group's readers share its partitions. Each is driven by the same job: take some records, touch them, commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from benchmarks.sides import Side


class Handed(NamedTuple):
    """What one read gave: payloads in pieces as they came, in order.

    ``asked`` is when the read that found them began; waiting is no part of it. ``created`` are the times that the
    server gave the records, with how many have each.
    """

    asked: float
    payloads: list[list[bytes]]
    created: list[tuple[float, int]]


class Member(Protocol):
    """One reader of a group."""

    def take(self, wait_s: float) -> Handed | None:
        """The next records as soon as there are any; None when none came in that time."""

    def commit(self) -> None:
        """What was taken is done: the group goes on after it, and that is durable."""


@dataclass(frozen=True)
class Seat:
    """Which reader of which group, how many partitions are its share, and how many records it takes at a time."""

    group: str
    reader: int
    share: int
    max_records: int


class GroupSide(Side, Protocol):
    """A log that groups read."""

    def create_groups(self, url: str, log: int, groups: Sequence[str]) -> None:
        """Groups that begin at the start of the log."""

    def member(self, url: str, log: int, seat: Seat) -> AbstractContextManager[Member]:
        """A reader with a connection of its own that has its share of the partitions."""
