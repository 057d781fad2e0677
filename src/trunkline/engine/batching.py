"""What goes into one batch, and where each record of it goes.

A lane collects entries (one for each call that waits); ``take`` cuts the next batch off its front, ``route`` sorts
the batch's records by partition. Nothing here waits or sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from trunkline.engine.routing import partition_of_key
from trunkline.records import HeaderPairs

_OVERHEAD_BYTES = 32
"""Counted for each record beside its own bytes, so that a batch of empty records has an end too."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A record that passed the checks. ``partition`` is None unless the caller chose one."""

    payload: bytes
    key: bytes | None
    headers: HeaderPairs
    partition: int | None

    @property
    def size(self) -> int:
        size = len(self.payload) + _OVERHEAD_BYTES
        if self.key is not None:
            size += len(self.key)
        if self.headers:
            size += sum(len(name) + len(value) for name, value in self.headers)
        return size


class Sized(Protocol):
    """What a lane collects."""

    @property
    def records(self) -> Sequence[Outgoing]: ...

    @property
    def size(self) -> int: ...


EntryT = TypeVar("EntryT", bound=Sized)


class BatchLimits(msgspec.Struct, frozen=True):
    """How much one batch may hold. A record over ``alone_bytes`` gets a batch of its own."""

    records_max: int
    bytes_max: int
    alone_bytes: int


def take(pending: deque[EntryT], limits: BatchLimits) -> list[EntryT]:
    """Remove the next batch from the front: as many whole entries as fit, and at least one."""
    taken = [pending.popleft()]
    count, size = len(taken[0].records), taken[0].size
    while pending and _stands_with_others(taken[-1], limits):
        following = pending[0]
        count += len(following.records)
        size += following.size
        if count > limits.records_max or size > limits.bytes_max or not _stands_with_others(following, limits):
            break
        taken.append(pending.popleft())
    return taken


def _stands_with_others(entry: Sized, limits: BatchLimits) -> bool:
    return entry.size <= limits.alone_bytes or len(entry.records) > 1


def split(records: Iterable[Outgoing], limits: BatchLimits) -> Iterator[list[Outgoing]]:
    """Cut many records into pieces that each fit into a batch, in order."""
    piece: list[Outgoing] = []
    size = 0
    for record in records:
        alone = record.size > limits.alone_bytes
        if piece and (alone or len(piece) >= limits.records_max or size + record.size > limits.bytes_max):
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += record.size
        if alone:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def route(records: Iterable[Outgoing], partitions: int, sticky: int) -> dict[int, list[int]]:
    """The partition of each record: partition to indexes, both ascending. Keyless records go to ``sticky``."""
    routed: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        if record.partition is not None:
            partition = record.partition
        elif record.key is not None:
            partition = partition_of_key(record.key, partitions)
        else:
            partition = sticky
        routed.setdefault(partition, []).append(index)
    return dict(sorted(routed.items())) if len(routed) > 1 else routed
