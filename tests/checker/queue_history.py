"""What a test of a queue writes down: what was handed to whom, which settlements were asked for and how they were
answered, what the floor was; and at the end what the server has kept of claims, row by row.

Moments are ticks of one clock, of a recorder or of the machine, in seconds where deadlines are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.checker.history import Place

Answer: TypeAlias = Literal["done", "lost", "unknown"]
Settling: TypeAlias = Literal["a", "n", "r", "d", "j", "e"]
"""Acknowledged, given back, released, dead-lettered, rejected, extended."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A claim as its reader got it: by a call from ``invoked`` to ``at``, for ``deadline_s``."""

    reader: str
    partition: int
    claim_no: int
    attempt: int
    offsets: frozenset[int]
    invoked: float
    at: float
    deadline_s: float = float("inf")
    is_exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """A reader asked to settle offsets of a claim; ``delay_s`` of an extension counts from when it was asked for."""

    reader: str
    partition: int
    claim_no: int
    kind: Settling
    offsets: frozenset[int]
    invoked: float
    ended: float
    answer: Answer
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the server's claims: c a claim, t a ticket. ``at`` and ``deadline`` are of the server's clock."""

    partition: int
    claim_no: int
    kind: Literal["c", "t"]
    attempt: int
    offsets: frozenset[int]
    at: float
    deadline: float


@dataclass(frozen=True, slots=True)
class Closure:
    """A row about what became of a claim or ticket: as in ``Settling``, t taken over, x gone by retention."""

    partition: int
    claim_no: int
    seq: int
    kind: str
    remains: frozenset[int]


@dataclass(frozen=True, slots=True)
class Floor:
    """Where the floor of a partition was, by a question from ``invoked`` to ``ended``."""

    partition: int
    floor: int
    invoked: float
    ended: float


@dataclass
class QueueHistory:
    """What happened to one queue, whose partitions have the records ``[starts, ends)``. ``buried``: the origins of
    all dead letters. ``is_finished``: everything should be done. ``max_attempts``: where the queue has a limit."""

    handed: list[Handed] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    closures: list[Closure] = field(default_factory=list)
    floors: list[Floor] = field(default_factory=list)
    buried: list[Place] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    max_attempts: int | None = None
    is_finished: bool = True
    is_ordered: bool = False

    def chains(self) -> Iterator[tuple[Place, list[tuple[Row, str | None]]]]:
        """Of each record, the claims and tickets that had it, in order, with how it left each, if it did."""
        left = self._left()
        found: dict[Place, list[tuple[Row, str | None]]] = defaultdict(list)
        for row in sorted(self.rows, key=lambda row: (row.partition, row.claim_no)):
            for offset in row.offsets:
                kind = left.get((row.partition, row.claim_no, offset))
                found[row.partition, offset].append((row, kind))
        yield from sorted(found.items())

    def _left(self) -> dict[tuple[int, int, int], str]:
        """By which closure each offset left its claim."""
        closures: dict[tuple[int, int], list[Closure]] = defaultdict(list)
        for closure in self.closures:
            closures[closure.partition, closure.claim_no].append(closure)
        left: dict[tuple[int, int, int], str] = {}
        for row in self.rows:
            held = row.offsets
            for closure in sorted(closures[row.partition, row.claim_no], key=lambda closure: closure.seq):
                for offset in held - closure.remains:
                    left[row.partition, row.claim_no, offset] = closure.kind
                held = closure.remains
        return left

    def summary(self) -> str:
        """One line for the report of a run."""
        answers = [each.answer for each in self.settled]
        kinds = [each.kind for each in self.closures]
        return (
            f"{sum(self.ends[p] - self.starts.get(p, 1) for p in self.ends)} records, "
            f"{len(self.handed)} claims handed out of {sum(row.kind == 'c' for row in self.rows)}, "
            f"{len(answers)} settlements ({answers.count('done')} done, "
            f"{answers.count('lost')} lost, {answers.count('unknown')} unknown), {kinds.count('t')} taken over, "
            f"{len(self.buried)} dead letters, {kinds.count('x')} gone by retention"
        )
