"""Which record in hand may be handled next, and how far each partition is done.

Records with the same key in the same partition are handled one after the other, in offset order; all others side by
side, at most ``concurrency`` at once. A partition is committable up to its first record that is not done. One that has
too much in hand is full, so that a slow key holds up its own partition and no other.

Time is whatever number the caller counts by; nothing here waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from trunkline.records import Position, Record

PartitionName: TypeAlias = tuple[str, int]

RECORD_OVERHEAD_BYTES = 200
"""Counted for each record in hand beside its key and payload."""


class Work:
    """A record in hand. ``failures`` are the attempts that count, ``pauses`` how often it has waited for the next;
    with a ``reason`` it is not to be handled any more, but to be put away."""

    __slots__ = ("failures", "pauses", "reason", "record", "size", "started", "tenure")

    def __init__(self, record: Record, tenure: int) -> None:
        self.record = record
        self.tenure = tenure
        self.size = len(record.payload) + len(record.key or b"") + RECORD_OVERHEAD_BYTES
        self.started = 0.0
        self.failures = 0
        self.pauses = 0
        self.reason: str | None = None

    @property
    def partition(self) -> PartitionName:
        return self.record.topic, self.record.partition


class _Partition:
    """What is in hand of one partition since its tenure began: since it came, or came back."""

    def __init__(self) -> None:
        self.tenure = 0
        self.is_retired = False
        self.end = 0
        self.committed = 0
        self.byte_count = 0
        self.offsets: deque[int] = deque()
        self.done: set[int] = set()
        # A key has a line while one of its records is out; those that come after it stand in it.
        self.lines: dict[bytes, deque[Work]] = {}

    @property
    def position(self) -> int:
        """Everything below it is done."""
        return self.offsets[0] if self.offsets else self.end

    def add(self, work: Work) -> bool:
        """Take a record in hand. True: it may start, as no other of its key is out."""
        offset, key = work.record.offset, work.record.key
        if not self.offsets and offset != self.end:
            self.committed = offset
        self.end = offset + 1
        self.offsets.append(offset)
        self.byte_count += work.size
        if key is None:
            return True
        line = self.lines.get(key)
        if line is None:
            self.lines[key] = deque()
            return True
        line.append(work)
        return False

    def finish(self, work: Work) -> Work | None:
        """The record is done, unless it is from an earlier tenure; the next of its key, if one stands in line."""
        if work.tenure == self.tenure:
            self.byte_count -= work.size
            self.done.add(work.record.offset)
            while self.offsets and self.offsets[0] in self.done:
                self.done.remove(self.offsets.popleft())
        key = work.record.key
        if key is None:
            return None
        if self.lines[key]:
            return self.lines[key].popleft()
        del self.lines[key]
        return None

    def forget(self, busy: Collection[bytes | None]) -> None:
        """Begin a new tenure. Keys that are busy keep their line: the same record must not start beside itself."""
        self.tenure += 1
        self.is_retired = False
        self.end = self.committed = self.byte_count = 0
        self.offsets.clear()
        self.done.clear()
        self.clear_lines(busy)

    def clear_lines(self, busy: Collection[bytes | None]) -> None:
        self.lines = {key: deque() for key in self.lines if key in busy}


class Dispatch:
    """The records in hand of one consumer. Threads that share it take turns by a lock of their own."""

    def __init__(self, *, concurrency: int, records_max: int, bytes_max: int) -> None:
        self._concurrency = concurrency
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._partitions: dict[PartitionName, _Partition] = {}
        self._ready: deque[Work] = deque()
        self._paused: list[tuple[float, int, Work]] = []
        self._numbers = count()
        self._running: set[Work] = set()

    # -- coming and going --

    def add(self, records: Iterable[Record]) -> None:
        """Take records in hand; those of a partition come in offset order.

        An offset that came before means that its partition begins anew, as after it was lost and came back, or was
        sought: what still waits from the time before is dropped.
        """
        for record in records:
            name = (record.topic, record.partition)
            partition = self._partitions.setdefault(name, _Partition())
            if record.offset < partition.end:
                self.drop([name])
            work = Work(record, partition.tenure)
            if partition.add(work):
                self._ready.append(work)

    def drop(self, names: Collection[PartitionName]) -> None:
        """Forget partitions. What is being handled goes on and counts for nothing; its key stays taken until then."""
        self._leave_waiting(names)
        for name in names:
            if name in self._partitions:
                self._partitions[name].forget(self._busy_keys(name))

    def retire(self, names: Collection[PartitionName]) -> None:
        """Begin nothing more of these partitions, and fetch nothing more. What is being handled still counts, until
        they are dropped."""
        self._leave_waiting(names)
        for name in names:
            partition = self._partitions.setdefault(name, _Partition())
            partition.is_retired = True
            partition.clear_lines(self._busy_keys(name))

    def is_busy(self, name: PartitionName) -> bool:
        """Whether a record of a partition is being handled, and counts."""
        tenure = self._partitions[name].tenure
        return any(work.partition == name and work.tenure == tenure for work in self._running)

    def _leave_waiting(self, names: Collection[PartitionName]) -> None:
        self._ready = deque(work for work in self._ready if work.partition not in names)
        self._paused = [entry for entry in self._paused if entry[2].partition not in names]
        heapify(self._paused)

    def _busy_keys(self, name: PartitionName) -> set[bytes | None]:
        return {work.record.key for work in self._running if work.partition == name}

    # -- handling --

    def start(self, now: float) -> Work | None:
        """A record to handle now; None where there is none, or as many as may be are being handled."""
        while self._paused and self._paused[0][0] <= now:
            self._ready.append(heappop(self._paused)[2])
        if not self._ready or len(self._running) >= self._concurrency:
            return None
        work = self._ready.popleft()
        work.started = now
        self._running.add(work)
        return work

    def finish(self, work: Work) -> None:
        """The record is done with, one way or the other: the next of its key may start."""
        self._running.remove(work)
        following = self._partitions[work.partition].finish(work)
        if following is not None:
            self._ready.append(following)

    def postpone(self, work: Work, until: float) -> None:
        """The record is to be handled again later. Those of its key wait, all others go on."""
        partition = self._partitions[work.partition]
        if work.tenure != partition.tenure:
            self.finish(work)
            return
        self._running.remove(work)
        work.pauses += 1
        if not partition.is_retired:
            heappush(self._paused, (until, next(self._numbers), work))

    # -- what there is to know --

    @property
    def ready(self) -> int:
        """How many records could start if nothing were being handled."""
        return len(self._ready)

    @property
    def running(self) -> list[Work]:
        """The records that are being handled, the longest first."""
        return sorted(self._running, key=lambda work: work.started)

    def due(self) -> float | None:
        """When the first of the postponed records may start."""
        return self._paused[0][0] if self._paused else None

    def full(self) -> set[PartitionName]:
        """The partitions of which nothing more is to be fetched for now."""
        return {
            name
            for name, partition in self._partitions.items()
            if partition.is_retired
            or len(partition.offsets) >= self._records_max
            or partition.byte_count >= self._bytes_max
        }

    def committable(self) -> list[Position]:
        """How far each partition is done, where that is further than what was committed."""
        return [
            Position(topic, number, partition.position)
            for (topic, number), partition in self._partitions.items()
            if partition.position > partition.committed
        ]

    def committed(self, positions: Iterable[Position]) -> None:
        """These positions are durable."""
        for position in positions:
            partition = self._partitions[position.topic, position.partition]
            partition.committed = max(partition.committed, position.offset)
