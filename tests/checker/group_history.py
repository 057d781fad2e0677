"""What a test of a group writes down: what was handed to whom, which commits were asked for and how they were answered,
and at the end the ledger of the server, row by row, with what the effects were.

Moments are ticks of one clock, of a recorder or of the machine; offsets are half-open ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from tests.checker.history import Place
from trunkline.settings import Delivery

Answer: TypeAlias = Literal["acknowledged", "refused", "unknown"]
Kind: TypeAlias = Literal["begun", "taken", "committed", "released", "sought", "claimed"]

KINDS: dict[str, Kind] = {
    "b": "begun",
    "t": "taken",
    "c": "committed",
    "r": "released",
    "s": "sought",
    "m": "claimed",
}
"""As the ledger spells them."""


@dataclass(frozen=True, slots=True)
class Handed:
    """Records ``[start, end)`` of a partition that were given to a member's application, under an epoch."""

    member: int
    partition: int
    epoch: int
    start: int
    end: int
    at: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A member asked to move the cursor of a partition. refused: it was told that nothing was written."""

    member: int
    partition: int
    epoch: int
    next_offset: int
    invoked: int
    ended: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger."""

    partition: int
    seq: int
    epoch: int
    next_offset: int
    member: int | None
    kind: Kind


@dataclass
class GroupHistory:
    """What happened to one group in one topic, whose partitions end at ``ends``.

    ``dead``: the members that died or were stopped, where that is known for certain; None where any may have been
    taken for dead.
    """

    delivery: Delivery
    handed: list[Handed] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    effects: list[Place] = field(default_factory=list)
    dead: set[int] | None = None

    def entries(self) -> Iterator[tuple[int, list[Entry]]]:
        """The ledger of each partition, in its order."""
        by_partition: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.ledger:
            by_partition[entry.partition].append(entry)
        for partition, entries in sorted(by_partition.items()):
            yield partition, sorted(entries, key=lambda entry: entry.seq)

    def moves(self, kind: Kind) -> Iterator[tuple[Entry, Entry]]:
        """Each entry of a kind, with the one before it."""
        for _, entries in self.entries():
            for before, entry in pairwise(entries):
                if entry.kind == kind:
                    yield before, entry

    def summary(self) -> str:
        """One line for the report of a run."""
        answers = [commit.answer for commit in self.commits]
        kinds = [entry.kind for entry in self.ledger]
        return (
            f"{self.delivery}: {sum(each.end - each.start for each in self.handed)} records handed out, "
            f"{len(answers)} commits ({answers.count('acknowledged')} acknowledged, "
            f"{answers.count('refused')} refused, {answers.count('unknown')} unknown), "
            f"{kinds.count('taken')} takes, {kinds.count('released')} releases, "
            f"{sum(end - 1 for end in self.ends.values())} records in the log"
        )
