"""The partitions that one consumer holds, and how far it has come in each.

In a partition offsets only move on: committed ≤ handled ≤ handed ≤ fetched. Handled is what counts as done and may be
committed; handed is what the application was given; fetched is what lies in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from trunkline.errors import TransactionTooLarge
from trunkline.records import Batch


class Piece(NamedTuple):
    """A batch, or a part of one, and about how many bytes it has: looking at every record would cost more than that
    is worth."""

    batch: Batch
    size: int

    def cut(self, start: int, end: int) -> Piece:
        cut = self.batch.cut(start, end)
        return Piece(cut, self.size * len(cut) // len(self.batch))


class TransactionLimits(NamedTuple):
    """How large a transaction may be, in one partition, where it is to be handed out whole."""

    records_max: int
    bytes_max: int

    def allow(self, transaction: Iterable[Piece]) -> bool:
        records, size = extent(transaction)
        return records <= self.records_max and size <= self.bytes_max


def extent(pieces: Iterable[Piece]) -> tuple[int, int]:
    """How many records and bytes they have."""
    records = size = 0
    for piece in pieces:
        records += len(piece.batch)
        size += piece.size
    return records, size


def by_transaction(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces of one partition, in order, by the transaction that published them."""
    transaction: list[Piece] = []
    for piece in pieces:
        if transaction and not piece.batch.continues(transaction[-1].batch):
            yield transaction
            transaction = []
        transaction.append(piece)
    if transaction:
        yield transaction


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
        self.may_bring_many = True
        """Whether the next read may find many records: the last one did, or nothing is known."""
        self.is_behind = False
        """Whether the last read ended at its limit of records."""
        self.is_paused = False
        self.leaving_since: float | None = None
        self._pieces: deque[Piece] = deque()

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
    def has_pieces(self) -> bool:
        return bool(self._pieces)

    @property
    def pieces(self) -> Iterable[Piece]:
        """What lies in memory, in order."""
        return self._pieces

    def add(self, pieces: Iterable[Piece]) -> None:
        """Keep what was read from ``fetched`` on; the first piece may begin before it."""
        for piece in pieces:
            batch, end = piece.batch, piece.batch.end
            self._pieces.append(piece if batch.first_offset >= self.fetched else piece.cut(self.fetched, end))
            self.fetched = end

    def take(self, records_max: int, bytes_max: int, *, whole: bool) -> list[Piece]:
        """Hand out batches until a limit is reached; with ``whole`` the last may pass ``records_max``, otherwise it
        is cut there. At least one record where there is any."""
        taken: list[Piece] = []
        while self._pieces and records_max > 0 and bytes_max > 0:
            piece = self._pieces.popleft()
            first, end = piece.batch.first_offset, piece.batch.end
            if not whole and end - first > records_max:
                self._pieces.appendleft(piece.cut(first + records_max, end))
                piece = piece.cut(first, first + records_max)
            records_max -= len(piece.batch)
            bytes_max -= piece.size
            self.handed = piece.batch.end
            taken.append(piece)
        return taken

    def needs_more(self, most: TransactionLimits) -> bool:
        """Whether more has to be read before a whole transaction can be handed out, or refused. One has ended where
        another follows, or where the last read came to the end of the log: all of it became visible at once."""
        if not self.may_have_more:
            return False
        first = next(by_transaction(self._pieces), [])
        return len(first) == len(self._pieces) and most.allow(first)

    def take_transactions(self, records_max: int, bytes_max: int, most: TransactionLimits) -> list[Piece]:
        """Hand out whole transactions until a limit is reached, which the last one may pass. TransactionTooLarge where
        the first is more than may be held at once; where it comes after others, they are handed out before."""
        count = 0
        for transaction in by_transaction(self._pieces):
            if records_max <= 0 or bytes_max <= 0:
                break
            if not most.allow(transaction):
                if count == 0:
                    raise self._too_large(transaction, most)
                break
            if self.may_have_more and count + len(transaction) == len(self._pieces):
                break  # Its end is not known.
            count += len(transaction)
            records, size = extent(transaction)
            records_max -= records
            bytes_max -= size
        taken = [self._pieces.popleft() for _ in range(count)]
        if taken:
            self.handed = taken[-1].batch.end
        return taken

    def _too_large(self, transaction: Sequence[Piece], most: TransactionLimits) -> TransactionTooLarge:
        batch = transaction[0].batch
        records, size = extent(transaction)
        limit = (
            f"transaction_records_max of {most.records_max}"
            if records > most.records_max
            else f"transaction_bytes_max of {most.bytes_max}"
        )
        return TransactionTooLarge(
            f"transaction {batch.transaction_id} in partition {self.partition} of {self.topic}, from offset "
            f"{batch.first_offset} on, has at least {records} records and {size} bytes: over {limit}. Nothing of it "
            "was handed out. Raise the limit in ConsumerSettings, read without whole_transactions, or seek past it",
            topic=self.topic,
            partition=self.partition,
            offset=batch.first_offset,
            transaction_id=batch.transaction_id,
        )

    def put_back(self, pieces: list[Piece]) -> None:
        """They were taken, but did not reach the application."""
        self._pieces.extendleft(reversed(pieces))
        self.handed = pieces[0].batch.first_offset

    def confirm(self, committed: int) -> None:
        """Everything below an offset is committed, and is not handed out again, though it may have been taken back
        meanwhile."""
        self.committed = committed
        if self.fetched < committed:
            self.rewind(committed)

    def rewind(self, to: int) -> None:
        """Forget what lies beyond an offset: it is read, and handed out, again."""
        self._pieces.clear()
        self.handled = self.handed = self.fetched = to
        self.may_have_more = self.may_bring_many = True

    def rewind_claim(self, to: int) -> None:
        """Begin at a range that was claimed, wherever the last one ended."""
        self._pieces.clear()
        self.committed = self.handled = self.handed = self.fetched = to

    def mark(self, offset: int) -> None:
        """Count everything up to and including an offset as handled."""
        self.handled = max(self.handled, min(offset + 1, self.handed))

    def marker(self, transaction: Sequence[Piece]) -> Callable[[int], None]:
        """A mark for the records of a transaction: they count as handled together, when the last one is."""
        start, last = transaction[0].batch.first_offset, transaction[-1].batch.end - 1
        return lambda offset: self.mark(last if offset >= last else start - 1)
