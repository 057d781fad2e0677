"""What the log must hold when one connection publishes, sets savepoints, goes back to them, fires its constraints early
and ends its transactions, while others publish in between."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from tests.checker.outbox_history import Where

Shown: TypeAlias = tuple[bytes, int, int]
"""A record: its payload, a number for its transaction, its ordinal in the partition within that."""


@dataclass
class Open:
    """What the transaction has done so far. Going back to a savepoint makes it what it was then.

    ``given``: every record that it would publish, by partition, in order. ``staged``: partitions with records that wait
    for the commit. ``locked``: partitions to which records were appended already, which others have to wait for.
    """

    given: dict[Where, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    staged: set[Where] = field(default_factory=set)
    locked: set[Where] = field(default_factory=set)
    is_immediate: bool = False

    def publish(self, where: Where, payload: bytes) -> None:
        self.given[where].append(payload)
        self.staged.add(where)
        if self.is_immediate:
            self.fire()

    def fire(self) -> None:
        self.locked |= self.staged
        self.staged = set()


class Model:
    """The log, and the transaction of one connection."""

    def __init__(self) -> None:
        self.log: dict[Where, list[Shown]] = defaultdict(list)
        self.open: Open | None = None
        self.savepoints: list[Open] = []
        self.has_failed = False
        self._numbers = count(1)

    def begin(self) -> Open:
        """The transaction, which any statement begins."""
        if self.open is None:
            self.open = Open()
        return self.open

    def savepoint(self) -> None:
        self.savepoints.append(deepcopy(self.begin()))

    def rollback_to(self, index: int) -> None:
        """Back to a savepoint, which stays; those after it go."""
        self.open = deepcopy(self.savepoints[index])
        del self.savepoints[index + 1 :]
        self.has_failed = False

    def release(self, index: int) -> None:
        del self.savepoints[index:]

    def end(self, *, is_kept: bool) -> None:
        """What a transaction that has failed commits is nothing."""
        if self.open is not None and is_kept and not self.has_failed:
            self.append(self.open.given)
        self.open = None
        self.savepoints = []
        self.has_failed = False

    def append(self, given: dict[Where, list[bytes]]) -> None:
        """A transaction commits."""
        number = next(self._numbers)
        for where, payloads in given.items():
            self.log[where] += [(payload, number, ordinal) for ordinal, payload in enumerate(payloads)]

    @property
    def locked(self) -> set[Where]:
        return set() if self.open is None else self.open.locked
