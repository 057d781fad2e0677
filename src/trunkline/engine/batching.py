"""What goes into one batch, and where each record of it goes.

Records travel as columns, from the caller's list to the server's arrays, so that many of them cost little more than
their bytes. A lane collects entries (one for each call that waits); ``take`` cuts the next batch off its front,
``route`` sorts its records by partition. Nothing here waits or sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from trunkline.engine.routing import partition_of_key
from trunkline.errors import NotFound
from trunkline.records import HeaderPairs, Topic

RECORD_OVERHEAD_BYTES = 32
"""Counted for each record beside its own bytes, so that a batch of empty records has an end too."""


class Parcel(msgspec.Struct, frozen=True):
    """Records that passed the checks, as columns. None: no record has any.

    ``partitions`` is what the caller chose: one for all records, or one (or None) for each. ``lengths`` are those of
    the payloads, where somebody has counted them already: with many records each count takes its time.
    """

    payloads: list[bytes]
    keys: list[bytes | None] | None = None
    headers: list[HeaderPairs] | None = None
    partitions: int | list[int | None] | None = None
    lengths: list[int] | None = None

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def size(self) -> int:
        """The bytes that all records count for."""
        if self.keys is not None or self.headers is not None:
            return sum(self.sizes())
        return sum(self.payload_lengths()) + RECORD_OVERHEAD_BYTES * len(self.payloads)

    @property
    def largest(self) -> int:
        """The bytes that the largest record counts for."""
        if self.keys is not None or self.headers is not None:
            return max(self.sizes(), default=0)
        return max(self.payload_lengths(), default=0) + RECORD_OVERHEAD_BYTES

    def payload_lengths(self) -> list[int]:
        """The bytes of each payload."""
        return list(map(len, self.payloads)) if self.lengths is None else self.lengths

    def sizes(self) -> list[int]:
        """The bytes that each record counts for."""
        found = [len(payload) + RECORD_OVERHEAD_BYTES for payload in self.payloads]
        if self.keys is not None:
            found = [size + len(key or b"") for size, key in zip(found, self.keys, strict=True)]
        if self.headers is not None:
            found = [
                size + sum(len(name) + len(value) for name, value in pairs)
                for size, pairs in zip(found, self.headers, strict=True)
            ]
        return found

    def piece(self, start: int, end: int) -> Parcel:
        """The records from ``start`` up to ``end``."""
        return self.pick(range(start, end))

    def pick(self, indexes: Sequence[int]) -> Parcel:
        """The records at these places, in this order."""
        return Parcel(
            [self.payloads[index] for index in indexes],
            None if self.keys is None else [self.keys[index] for index in indexes],
            None if self.headers is None else [self.headers[index] for index in indexes],
            [self.partitions[index] for index in indexes] if isinstance(self.partitions, list) else self.partitions,
        )


class Waiting(Protocol):
    """What a lane collects."""

    @property
    def parcel(self) -> Parcel: ...

    @property
    def size(self) -> int: ...


WaitingT = TypeVar("WaitingT", bound=Waiting)


class BatchLimits(msgspec.Struct, frozen=True):
    """How much one batch may hold. A record over ``alone_bytes`` gets a batch of its own."""

    records_max: int
    bytes_max: int
    alone_bytes: int


def take(pending: deque[WaitingT], limits: BatchLimits) -> list[WaitingT]:
    """Remove the next batch from the front: as many whole entries as fit, and at least one."""
    taken = [pending.popleft()]
    count, size = len(taken[0].parcel), taken[0].size
    while pending and _stands_with_others(taken[-1], limits):
        following = pending[0]
        count += len(following.parcel)
        size += following.size
        if count > limits.records_max or size > limits.bytes_max or not _stands_with_others(following, limits):
            break
        taken.append(pending.popleft())
    return taken


def _stands_with_others(entry: Waiting, limits: BatchLimits) -> bool:
    return entry.size <= limits.alone_bytes or len(entry.parcel) > 1


def split(parcel: Parcel, limits: BatchLimits) -> Iterator[Parcel]:
    """Cut many records into parcels that each fit into a batch, in order."""
    if not parcel.payloads:
        return
    if len(parcel) <= limits.records_max and parcel.largest <= limits.alone_bytes and parcel.size <= limits.bytes_max:
        yield parcel
        return
    start = size = 0
    sizes = parcel.sizes()
    for index, record_size in enumerate(sizes):
        alone = record_size > limits.alone_bytes
        full = index - start >= limits.records_max or size + record_size > limits.bytes_max
        if index > start and (alone or full):
            yield parcel.piece(start, index)
            start, size = index, 0
        size += record_size
        if alone:
            yield parcel.piece(start, index + 1)
            start, size = index + 1, 0
    if start < len(sizes):
        yield parcel.piece(start, len(sizes))


def merge(parcels: Sequence[Parcel]) -> Parcel:
    """Several parcels as one, in order."""
    if len(parcels) == 1:
        return parcels[0]
    keyed = any(parcel.keys is not None for parcel in parcels)
    headed = any(parcel.headers is not None for parcel in parcels)
    keys: list[bytes | None] = []
    headers: list[HeaderPairs] = []
    payloads: list[bytes] = []
    partitions: list[int | None] = []
    for parcel in parcels:
        count = len(parcel)
        payloads += parcel.payloads
        partitions += parcel.partitions if isinstance(parcel.partitions, list) else [parcel.partitions] * count
        if keyed:
            keys += [None] * count if parcel.keys is None else parcel.keys
        if headed:
            headers += [()] * count if parcel.headers is None else parcel.headers
    return Parcel(payloads, keys if keyed else None, headers if headed else None, partitions)


def route(parcel: Parcel, partitions: int, sticky: int) -> dict[int, Sequence[int]]:
    """The partition of each record: partition to places, both ascending. Keyless records go to ``sticky``."""
    chosen = parcel.partitions
    if isinstance(chosen, int):
        return {chosen: range(len(parcel))}
    if parcel.keys is None and chosen is None:
        return {sticky: range(len(parcel))}
    routed: dict[int, list[int]] = {}
    keys = parcel.keys or [None] * len(parcel)
    for index, key in enumerate(keys):
        partition = None if chosen is None else chosen[index]
        if partition is None:
            partition = sticky if key is None else partition_of_key(key, partitions)
        routed.setdefault(partition, []).append(index)
    return dict(sorted(routed.items()))


class Routed(msgspec.Struct, frozen=True):
    """Records sorted by partition: ``partitions`` says which places of the caller's order each one has, ``parcel`` has
    them one partition after the other. ``expected_partitions``: the count that keys were routed by."""

    partitions: dict[int, Sequence[int]]
    parcel: Parcel
    expected_partitions: int | None


def routed(topic: Topic, parcel: Parcel, sticky: int) -> Routed:
    """Where each record goes, in a topic as it is known; NotFound for a partition that it has not."""
    partitions = route(parcel, topic.partitions, sticky)
    for partition in partitions:
        if partition >= topic.partitions:
            raise NotFound(
                f"topic {topic.name} has no partition {partition}; its partitions are 0 to {topic.partitions - 1}"
            )
    by_key = parcel.keys is not None and not isinstance(parcel.partitions, int)
    if len(partitions) > 1:
        parcel = parcel.pick([index for indexes in partitions.values() for index in indexes])
    return Routed(partitions, parcel, topic.partitions if by_key else None)
