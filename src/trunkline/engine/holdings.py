"""The partitions that one consumer holds, and how far it has come in each.

In a partition offsets only move on: committed ≤ handled ≤ handed ≤ fetched. Handled is what counts as done and may be
committed; handed is what the application was given; fetched is what lies in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from trunkline.records import Batch


class Holding:
    """A partition that is held, in one epoch."""

    def __init__(
        self, *, cursor_id: int, topic: str, topic_id: int, partition: int, partition_id: int, epoch: int, at: int
    ) -> None:
        self.cursor_id = cursor_id
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.partition_id = partition_id
        self.epoch = epoch
        self.committed = self.handled = self.handed = self.fetched = at
        self.may_have_more = True
        self.is_paused = False
        self.leaving_since: float | None = None
        self._batches: deque[Batch] = deque()

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def has_uncommitted(self) -> bool:
        """Whether the application has something in hand that a commit could still save."""
        return self.handed > self.committed

    @property
    def may_give(self) -> bool:
        """Whether it may hand out more: what is to be given back does not."""
        return not self.is_paused and self.leaving_since is None

    @property
    def has_batches(self) -> bool:
        return bool(self._batches)

    def add(self, batches: list[Batch]) -> None:
        """Keep what was read from ``fetched`` on; the first batch may begin before it."""
        for batch in batches:
            kept = batch.cut(max(batch.first_offset, self.fetched), batch.end)
            self._batches.append(kept)
            self.fetched = kept.end

    def take(self, records_max: int, bytes_max: int | None, *, whole: bool) -> Iterator[Batch]:
        """Hand out batches until a limit is reached; with ``whole`` the last may pass ``records_max``, otherwise it
        is cut there. At least one record where there is any."""
        while self._batches and records_max > 0:
            batch = self._batches.popleft()
            if not whole and len(batch) > records_max:
                cut = batch.first_offset + records_max
                self._batches.appendleft(batch.cut(cut, batch.end))
                batch = batch.cut(batch.first_offset, cut)
            records_max -= len(batch)
            self.handed = batch.end
            yield batch
            if bytes_max is not None:
                bytes_max -= sum(map(len, batch.payloads))
                if bytes_max <= 0:
                    return

    def put_back(self, batches: list[Batch]) -> None:
        """They were taken, but did not reach the application."""
        self._batches.extendleft(reversed(batches))
        self.handed = batches[0].first_offset

    def rewind(self, to: int) -> None:
        """Forget what lies beyond an offset: it is read, and handed out, again."""
        self._batches.clear()
        self.handled = self.handed = self.fetched = to
        self.may_have_more = True

    def rewind_claim(self, to: int) -> None:
        """Begin at a range that was claimed, wherever the last one ended."""
        self._batches.clear()
        self.committed = self.handled = self.handed = self.fetched = to

    def mark(self, offset: int) -> None:
        """Count everything up to and including an offset as handled."""
        self.handled = max(self.handled, min(offset + 1, self.handed))
