"""The sequence numbers of an idempotent producer: one run of them for each partition.

A batch keeps its numbers until its outcome is known. When it cannot become known, the producer goes on in a new
epoch, and the server refuses whatever of the old one is still under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

SEQUENCE_MAX = 2**31 - 1


class ProducerState:
    """What one client has numbered so far in one topic."""

    def __init__(self, producer_id: UUID) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self._last: dict[int, int] = {}

    def next_of(self, partitions: Iterable[int]) -> list[int]:
        """The next number for each of these partitions. Asking again without ``done`` gives the same numbers."""
        numbers = [self._last.get(partition, 0) + 1 for partition in partitions]
        if max(numbers, default=0) > SEQUENCE_MAX:
            self.next_epoch()
            return [1] * len(numbers)
        return numbers

    def done(self, partitions: Iterable[int]) -> None:
        """The batch with the last given numbers is in the log."""
        for partition in partitions:
            self._last[partition] = self._last.get(partition, 0) + 1

    def next_epoch(self) -> None:
        """Begin anew at 1 in every partition."""
        self.epoch += 1
        self._last.clear()
