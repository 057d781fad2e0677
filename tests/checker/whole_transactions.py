"""What must hold where transactions are delivered whole: each delivery has, of every transaction it touches in a
partition, all records, side by side and in order.

A record says in its payload which transaction it is of, its place in it, and how many there are in its partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple


class Part(NamedTuple):
    """A record of a transaction: number ``place`` of ``total`` in its partition."""

    transaction: str
    partition: int
    place: int
    total: int

    @property
    def payload(self) -> bytes:
        return f"{self.transaction} {self.partition} {self.place} {self.total}".encode()

    @classmethod
    def of(cls, payload: bytes) -> Part:
        transaction, partition, place, total = payload.decode().split()
        return cls(transaction, int(partition), int(place), int(total))


def parts_of(transaction: str, sizes: dict[int, int]) -> dict[int, list[Part]]:
    """The records of a transaction that publishes sizes[p] of them to partition p."""
    return {
        partition: [Part(transaction, partition, place, total) for place in range(total)]
        for partition, total in sizes.items()
    }


def torn(delivery: Sequence[bytes]) -> list[str]:
    """What is torn in one delivery."""
    parts = [Part.of(payload) for payload in delivery]
    found: list[str] = []
    met: set[tuple[str, int]] = set()
    for name, group in groupby(parts, key=lambda part: (part.transaction, part.partition)):
        places = list(group)
        if name in met or [part.place for part in places] != list(range(places[0].total)):
            shown = [part.place for part in places]
            found.append(f"transaction {name[0]} in partition {name[1]}: {shown} of {places[0].total}")
        met.add(name)
    return found


def torn_deliveries(deliveries: Iterable[Sequence[bytes]]) -> list[str]:
    return [each for delivery in deliveries for each in torn(delivery)]
