"""What a test of the outbox writes down: business transactions, each with its row and its events, and at the end the
rows that are there and the log, record by record, with the transaction that each came in.

Moments are of one clock for all sessions. A payload names its event: no two events of a history carry the same one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.checker.history import Outcome

Where: TypeAlias = tuple[str, int]
"""Topic and partition."""

NEVER = 2**63
"""When something ended of which nobody was told."""


@dataclass(frozen=True, slots=True)
class Event:
    """A record as it was published. ``version``: how often its key had been changed, as the row of the key said that
    the transaction had locked; None where there was no such row."""

    topic: str
    payload: bytes
    key: bytes | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of an application: the row it inserted, what it published, and what it published and undid.

    ``row``: None where it only publishes. failed: it was rolled back, or its row was looked up and is not there.
    unknown: nobody was told anything.
    """

    session: str
    row: int | None
    events: tuple[Event, ...]
    begun: int
    ended: int
    outcome: Outcome
    undone: tuple[Event, ...] = ()
    transaction_id: int | None = None


@dataclass(frozen=True, slots=True)
class Stood:
    """A record in the log. ``ordinal`` and ``count`` are those that its batch gives it within its transaction."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    payload: bytes
    transaction_id: int
    ordinal: int
    count: int

    @property
    def where(self) -> Where:
        return self.topic, self.partition


@dataclass
class OutboxHistory:
    """``snapshots``: what readers found that they had not seen before, each in one snapshot of all partitions."""

    transactions: list[Transaction] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    log: list[Stood] = field(default_factory=list)
    snapshots: list[list[Stood]] = field(default_factory=list)

    def partitions(self) -> Iterator[tuple[Where, list[Stood]]]:
        """The records of each partition, as the log gave them."""
        found: dict[Where, list[Stood]] = defaultdict(list)
        for stood in self.log:
            found[stood.where].append(stood)
        yield from sorted(found.items())

    def by_payload(self) -> dict[bytes, Stood]:
        return {stood.payload: stood for stood in self.log}

    def summary(self) -> str:
        """One line for the report of a run."""
        outcomes = [each.outcome for each in self.transactions]
        return (
            f"{len(outcomes)} transactions ({outcomes.count('acknowledged')} acknowledged, "
            f"{outcomes.count('failed')} failed, {outcomes.count('unknown')} unknown), {len(self.rows)} rows, "
            f"{len(self.log)} records in the log, {len(self.snapshots)} snapshots of it"
        )
