"""Groups as an operator sees them: how far each has come, who reads, how fast. What is wrong: group_findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from trunkline.records import GroupDescription, GroupFailures, GroupMember, GroupPartition
from trunkline.status.facts import GroupFacts, Waiting

Held = Literal["held", "free", "gone", "shared"]
_MOVES = {"b": "begun", "t": "taken", "c": "committed", "r": "released", "s": "sought", "m": "claimed"}


class PartitionStatus(msgspec.Struct, frozen=True):
    """A group in one partition. ``lag`` is end - cursor.

    ``held``: by a living member, by one that is gone, by nobody (free), or shared by readers at most once. ``moved``
    says how the group came to its cursor, at ``moved_at``: begun, taken, committed, released, sought or claimed.
    ``waiting_since`` is when the first record that it has not passed was appended; None where nobody looked, or it has
    passed them all.
    """

    topic: str
    partition: int
    cursor: int
    start: int
    end: int
    lag: int
    held: Held
    holder: str | None
    epoch: int
    moved: str
    moved_at: datetime
    waiting_since: datetime | None = None


class GroupStatus(msgspec.Struct, frozen=True):
    """A group with its partitions and members. ``shared``: its readers read at most once, and are not members.
    ``failures``: what its handlers by group key have given up, and what waits for a redrive."""

    name: str
    lag: int
    members_alive: int
    shared: bool
    members: list[GroupMember]
    partitions: list[PartitionStatus]
    failures: GroupFailures = GroupFailures()

    @property
    def waiting_since(self) -> datetime | None:
        """When the oldest record that it has not passed was appended."""
        return min((each.waiting_since for each in self.partitions if each.waiting_since is not None), default=None)

    @property
    def is_read(self) -> bool:
        """Whether somebody reads with it, as far as can be known."""
        return self.shared or self.members_alive > 0


class LagRow(msgspec.Struct, frozen=True):
    """One line of ``group lag``. The rates, in records a second, are None where there is nothing to compare with."""

    group: str
    topic: str
    partition: int
    cursor: int
    end: int
    lag: int
    held: Held
    holder: str | None
    consumed_per_s: float | None = None
    published_per_s: float | None = None


def status_of(group: GroupDescription, waiting: Iterable[Waiting] = ()) -> GroupStatus:
    since = {(each.topic, each.partition): each.since for each in waiting}
    partitions = [_partition(each, since.get((each.topic, each.partition))) for each in group.partitions]
    return GroupStatus(
        name=group.name,
        lag=group.lag,
        members_alive=sum(member.is_alive for member in group.members),
        shared=any(each.held == "shared" for each in partitions),
        members=group.members,
        partitions=partitions,
        failures=group.failures,
    )


def statuses_of(groups: Iterable[GroupFacts]) -> list[GroupStatus]:
    return [status_of(each.group, each.waiting) for each in groups]


def _partition(found: GroupPartition, waiting_since: datetime | None) -> PartitionStatus:
    return PartitionStatus(
        topic=found.topic,
        partition=found.partition,
        cursor=found.cursor,
        start=found.start,
        end=found.end,
        lag=found.lag,
        held=_held(found),
        holder=None if found.member_id is None else " ".join(filter(None, [f"#{found.member_id}", found.member_name])),
        epoch=found.epoch,
        moved=_MOVES.get(found.kind, found.kind),
        moved_at=found.moved_at,
        waiting_since=waiting_since,
    )


def _held(found: GroupPartition) -> Held:
    if found.member_id is None:
        return "shared" if found.kind == "m" else "free"
    return "held" if found.is_alive else "gone"


# -- lag --


def lag_rows(groups: Iterable[GroupStatus]) -> list[LagRow]:
    return [
        LagRow(group.name, each.topic, each.partition, each.cursor, each.end, each.lag, each.held, each.holder)
        for group in groups
        for each in group.partitions
    ]


def with_rates(rows: Iterable[LagRow], before: Iterable[LagRow], elapsed_s: float) -> list[LagRow]:
    """The rows with what was consumed and published since ``before``, which is ``elapsed_s`` ago."""
    known = {(row.group, row.topic, row.partition): row for row in before}
    rated = []
    for row in rows:
        old = known.get((row.group, row.topic, row.partition))
        if old is not None and elapsed_s > 0:
            row = msgspec.structs.replace(  # noqa: PLW2901 - the same row, with more known of it
                row,
                consumed_per_s=_rate(old.cursor, row.cursor, elapsed_s),
                published_per_s=_rate(old.end, row.end, elapsed_s),
            )
        rated.append(row)
    return rated


def _rate(before: int, now: int, elapsed_s: float) -> float | None:
    """None where it went back: somebody has moved the cursor, or the topic is another one."""
    return (now - before) / elapsed_s if now >= before else None
