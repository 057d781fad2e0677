"""Ranges of offsets, and how they are cut into tasks and into micro-batches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from itertools import pairwise

Place = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True)
class Range:
    """The records ``[start, end)`` of one partition: what one task reads. ``incarnation`` is the topic's."""

    topic: str
    topic_id: int
    partition: int
    start: int
    end: int
    incarnation: int = 0

    def __len__(self) -> int:
        return self.end - self.start


def split(ranges: Sequence[Range], min_partitions: int | None, max_records: int | None) -> list[Range]:
    """Cut ranges into at least ``min_partitions`` pieces, none over ``max_records``, of about the same size.

    The pieces are exactly the records of the ranges, in order. Fewer than ``min_partitions`` only where there are
    fewer records. Empty ranges vanish.
    """
    full = [range_ for range_ in ranges if len(range_) > 0]
    lengths = [len(range_) for range_ in full]
    counts = _shares(lengths, min(min_partitions or 0, sum(lengths)), max_records)
    return [piece for range_, count in zip(full, counts, strict=True) for piece in _cut(range_, count)]


def gathered(pieces: Sequence[Range], most: int) -> list[tuple[Range, ...]]:
    """What one task reads, one range after the other: neighbours of at most ``most`` records together, larger ones
    alone. Every piece once, in order."""
    tasks: list[list[Range]] = []
    size = most
    for piece in pieces:
        if size + len(piece) > most:
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += len(piece)
    return [tuple(task) for task in tasks]


def limited(starts: Mapping[Place, int], ends: Mapping[Place, int], most: int | None) -> dict[Place, int]:
    """Ends such that at most ``most`` records lie between; each partition gets its share of what waits, at least one
    while there is one. Where the limit is too low for that, those with the most come first, so that nobody is passed
    over for ever. Every place of ``ends`` has a start."""
    waiting = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return dict(ends)
    left = most
    limited: dict[Place, int] = {}
    is_scarce = most < sum(1 for count in waiting.values() if count)
    # The smallest first, so that what rounding gives them is taken from those who have plenty.
    for place in sorted(waiting, key=lambda place: (waiting[place], place), reverse=is_scarce):
        share = min(waiting[place], left, max(1, waiting[place] * left // total)) if waiting[place] else 0
        limited[place] = starts[place] + share
        left -= share
        total -= waiting[place]
    return limited


def _shares(lengths: Sequence[int], wanted: int, max_records: int | None) -> list[int]:
    """How many pieces each length is cut into: ``wanted`` in all, or more where the size demands it."""
    counts = [1 if max_records is None else -(-length // max_records) for length in lengths]
    # Always the one whose pieces are the largest.
    largest = [(-length / count, i) for i, (length, count) in enumerate(zip(lengths, counts, strict=True))]
    heapify(largest)
    for _ in range(wanted - sum(counts)):
        _, i = largest[0]
        counts[i] += 1
        heapreplace(largest, (-lengths[i] / counts[i], i))
    return counts


def _cut(range_: Range, count: int) -> list[Range]:
    length = len(range_)
    edges = [range_.start + length * i // count for i in range(count + 1)]
    return [replace(range_, start=start, end=end) for start, end in pairwise(edges)]
