"""What a reader with a group has in memory and in hand, by partition, and how far each cursor may move.

Records of a partition are handed out in order. Each is acknowledged by itself, in any order; the cursor passes a record
when it and all before it are done. One that is given back comes again before its successors: those that are in hand are
taken back with it, and cannot be acknowledged any more. Pure: nothing here waits or asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from trunkline.records import Position, Record

SPAN_MAX = 10_000
"""So many records of a partition are in memory, in hand or done beyond the cursor; then no more are read."""

PartitionName = tuple[str, int]


Standing = Literal["open", "done", "lost"]


class Handed:
    """A record in somebody's hand: what it is settled by."""

    __slots__ = ("_part", "is_done", "is_open", "record")

    def __init__(self, record: Record, part: PartitionHand) -> None:
        self.record = record
        self._part = part
        self.is_open = True
        self.is_done = False

    @property
    def partition(self) -> PartitionName:
        return self.record.topic, self.record.partition

    @property
    def standing(self) -> Standing:
        """What can be done with it. What is done in a partition that was lost before that was committed is lost."""
        if self.is_open:
            return "open"
        return "done" if self.is_done and not self._part.is_lost else "lost"


class PartitionHand:
    """One partition. ``cursor`` is the first offset that is not done, ``end`` the first that was not read."""

    __slots__ = ("committed", "cursor", "done", "end", "is_leaving", "is_lost", "out", "waiting")

    def __init__(self, start: int) -> None:
        self.committed = self.cursor = self.end = start
        self.is_leaving = self.is_lost = False
        self.waiting: deque[Record] = deque()
        self.out: dict[int, Handed] = {}
        self.done: set[int] = set()

    def hand_out(self) -> Handed:
        record = self.waiting.popleft()
        handed = self.out[record.offset] = Handed(record, self)
        return handed

    def finish(self, handed: Handed) -> None:
        offset = handed.record.offset
        handed.is_open, handed.is_done = False, True
        del self.out[offset]
        self.done.add(offset)
        while self.cursor in self.done:
            self.done.discard(self.cursor)
            self.cursor += 1

    def take_back(self, offset: int) -> None:
        """Everything in hand from an offset on waits again, before what was not handed out yet."""
        again = sorted(each for each in self.out if each >= offset)
        for each in reversed(again):
            handed = self.out.pop(each)
            handed.is_open = False
            if not self.is_leaving:
                self.waiting.appendleft(handed.record)

    def lose(self) -> None:
        self.is_lost = True
        for handed in self.out.values():
            handed.is_open = False
        self.out.clear()
        self.waiting.clear()


class Hand:
    """All partitions of one reader."""

    def __init__(self) -> None:
        self._parts: dict[PartitionName, PartitionHand] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Keep what was read. A partition that goes on elsewhere than it ended was moved: what was there is dropped."""
        for record in records:
            name = (record.topic, record.partition)
            part = self._parts.get(name)
            if part is None or part.end != record.offset:
                if part is not None:
                    part.lose()
                part = self._parts[name] = PartitionHand(record.offset)
            part.waiting.append(record)
            part.end = record.offset + 1

    def take(self, max_records: int) -> list[Handed]:
        """Hand out the next ones. Partitions take turns to be first."""
        taken: list[Handed] = []
        for name, part in list(self._parts.items()):
            if len(taken) == max_records:
                break
            if part.waiting:
                self._parts[name] = self._parts.pop(name)
                while part.waiting and len(taken) < max_records:
                    taken.append(part.hand_out())
        return taken

    # -- settling --

    def finish(self, chosen: Iterable[Handed]) -> None:
        """They are done. All of them must be open."""
        for handed in chosen:
            self._parts[handed.partition].finish(handed)

    def give_back(self, chosen: Sequence[Handed]) -> None:
        """They, and what was handed out after them, come again. All of them must be open."""
        first: dict[PartitionName, int] = {}
        for handed in chosen:
            offset = handed.record.offset
            first[handed.partition] = min(offset, first.get(handed.partition, offset))
        for name, offset in first.items():
            self._parts[name].take_back(offset)

    def committable(self) -> list[Position]:
        """Where cursors may be moved to."""
        return [Position(*name, part.cursor) for name, part in self._parts.items() if part.cursor > part.committed]

    def committed(self, positions: Iterable[Position]) -> None:
        for position in positions:
            part = self._parts.get((position.topic, position.partition))
            if part is not None:
                part.committed = max(part.committed, position.offset)

    # -- partitions that come and go --

    def lose(self, names: Iterable[PartitionName]) -> None:
        """They are another's: nothing of them is handed out, or can be acknowledged."""
        for name in names:
            part = self._parts.pop(name, None)
            if part is not None:
                part.lose()

    def retire(self, names: Iterable[PartitionName]) -> list[PartitionName]:
        """They are to go to another: nothing more of them is handed out. Those, of these and earlier ones, of which
        nothing is in hand."""
        leaving = set(names)
        for name in leaving & self._parts.keys():
            part = self._parts[name]
            part.is_leaving = True
            part.waiting.clear()
        # Also one that may stay after all: what waited here has to be read again.
        free = [name for name, part in self._parts.items() if part.is_leaving and not part.out]
        return free + sorted(leaving - self._parts.keys())

    def full(self) -> set[PartitionName]:
        """Those of which no more may be read for now."""
        return {name for name, part in self._parts.items() if part.end - part.cursor >= SPAN_MAX}
