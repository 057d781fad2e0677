"""The log as it is meant: a few lists in memory, with the rules that matter and nothing of how they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trunkline.records import HeaderPairs


@dataclass(frozen=True)
class Given:
    """A record as it was published."""

    payload: bytes
    key: bytes | None = None
    headers: HeaderPairs = ()


@dataclass(frozen=True)
class Kept:
    """A record in the log: which segment holds it, and since when."""

    given: Given
    segment: int
    append_time: datetime


@dataclass
class PartitionModel:
    """All records that ever stood in a partition; offset n is ``records[n - 1]``."""

    records: list[Kept] = field(default_factory=list)
    last_sequence: dict[str, int] = field(default_factory=dict)
    numbered: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """First offset and size of each numbered batch, by producer and sequence."""

    @property
    def end(self) -> int:
        return len(self.records) + 1

    def append(self, records: Sequence[Given], segment: int, clock: datetime) -> int:
        first = self.end
        time = max([clock, *(kept.append_time for kept in self.records[-1:])])
        self.records += [Kept(record, segment, time) for record in records]
        return first


@dataclass
class TopicModel:
    """A topic: its partitions, the segments in order (the last is open), and how far retention has gone."""

    partitions: list[PartitionModel]
    segments: list[int]
    sealed: dict[int, datetime] = field(default_factory=dict)
    released: list[int] = field(default_factory=list)
    retention_age_s: int | None = None
    retention_bytes: int | None = None

    @property
    def open_segment(self) -> int:
        return self.segments[-1]

    def append(self, partition: int, records: Sequence[Given], clock: datetime) -> int:
        """The first offset."""
        return self.partitions[partition].append(records, self.open_segment, clock)

    def start(self, partition: int) -> int:
        """The first offset that retention has not taken."""
        gone = set(self.released)
        records = self.partitions[partition].records
        return 1 + next((index for index, kept in enumerate(records) if kept.segment not in gone), len(records))

    def held(self, partition: int, start: int) -> list[tuple[int, Given]]:
        """Offsets and records from an offset on."""
        records = self.partitions[partition].records[start - 1 :]
        return [(offset, kept.given) for offset, kept in enumerate(records, start)]

    def offset_at(self, partition: int, time: datetime) -> int:
        """The first offset appended at or after a time, of those that are left."""
        records = self.partitions[partition].records
        start = self.start(partition)
        later = (n for n in range(start, len(records) + 1) if records[n - 1].append_time >= time)
        return next(later, len(records) + 1)

    @property
    def is_keyed(self) -> bool:
        gone = set(self.released)
        return any(
            kept.given.key is not None and kept.segment not in gone
            for partition in self.partitions
            for kept in partition.records
        )

    def due(self, clock: datetime) -> list[int]:
        """The segments that retention must release now: sealed ones, oldest first, while a rule takes them."""
        taken: list[int] = []
        for segment in self.segments:
            if segment in self.released:
                continue
            if segment not in self.sealed or not (self._is_old(segment, clock) or self.retention_bytes == 0):
                break
            taken.append(segment)
        return taken

    def _is_old(self, segment: int, clock: datetime) -> bool:
        if self.retention_age_s is None:
            return False
        times = [kept.append_time for p in self.partitions for kept in p.records if kept.segment == segment]
        newest = max(times, default=self.sealed[segment])
        return newest < clock - timedelta(seconds=self.retention_age_s)
