# Generated from src/trunkline/client/aio/fetching.py by tools/twins.py (make fix). Change the source, not this file.
"""Reading ahead for one consumer: from partitions that its member holds, or from ranges that it claims.

A partition is read again only while it may have more: after it was taken, after a hint, and until a read comes back
short. So a consumer at the end of the log asks nothing of the server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Protocol

from trunkline.client import protocol
from trunkline.client.arrays import integer_array, offset_array
from trunkline.client.sync.claims import Claims
from trunkline.client.sync.connection import Row
from trunkline.client.sync.member import Member
from trunkline.client.sync.reader import batches_of
from trunkline.client.sync.server import Server
from trunkline.client.sync.watch import Seat
from trunkline.engine.holdings import Holding, Piece, TransactionLimits, extent
from trunkline.errors import OffsetOutOfRange, TrunklineError
from trunkline.settings import ConsumerSettings

logger = logging.getLogger("trunkline")

FETCH_RECORDS = 1_000
"""Read at a time at least, however few are asked for."""
FETCH_BEHIND_RECORDS = 3_000
"""The same where the last read found more than it was to bring: what a read costs before its first record is shared by
more of them."""
MANY_RECORDS = 64
"""From so many on it pays that batches of one record come as one. To find that there are fewer costs the server as much
as reading them."""


class Source(Protocol):
    """Where the records of a consumer come from."""

    @property
    def holdings(self) -> dict[int, Holding]: ...

    def fill(self, holding: Holding, records_max: int, bytes_max: int) -> None:
        """Read from the end of what the holding has, about as much as asked for; note whether there may be more."""


class Owned:
    """Partitions that a member holds. ``merge_small``: batches of one record may come as one, without their
    transactions."""

    def __init__(self, server: Server, member: Member, settings: ConsumerSettings, *, merge_small: bool) -> None:
        self._server = server
        self._member = member
        self._settings = settings
        self._merge_small = merge_small

    @property
    def holdings(self) -> dict[int, Holding]:
        return self._member.holdings

    def fill(self, holding: Holding, records_max: int, bytes_max: int) -> None:
        records_max = max(records_max, FETCH_BEHIND_RECORDS if holding.is_behind else FETCH_RECORDS)
        bytes_max = max(bytes_max, self._settings.fetch_bytes_max)
        # Cleared before the read: a hint that comes meanwhile counts.
        holding.may_have_more = False
        try:
            rows = self._server.read(
                [holding.topic_id, holding.partition, holding.fetched, records_max, bytes_max],
                merge_small=self._merge_small and holding.may_bring_many,
            )
        except OffsetOutOfRange as error:
            holding.may_have_more = True
            self._go_on(holding, error)
            return
        except BaseException:
            holding.may_have_more = True
            raise
        before = holding.fetched
        holding.add(_pieces(holding, rows))
        found = holding.fetched - before
        holding.may_bring_many = found >= MANY_RECORDS
        holding.is_behind = found >= records_max
        if rows:
            left = not rows[-1][1] or sum(row[-1] for row in rows) >= bytes_max
            holding.may_have_more |= left or holding.is_behind

    def _go_on(self, holding: Holding, error: OffsetOutOfRange) -> None:
        """The log has nothing at this place: retention has passed it, or it was never written."""
        policy = self._settings.on_out_of_range
        to = error.start if policy == "earliest" else error.end
        if policy == "error" or to is None:
            raise error
        logger.warning("partition %d of %s goes on at offset %d: %s", holding.partition, holding.topic, to, error)
        self._member.seek(holding, to)


class Shared:
    """Ranges that are claimed from cursors which many readers share."""

    def __init__(self, server: Server, claims: Claims) -> None:
        self._server = server
        self._claims = claims

    @property
    def holdings(self) -> dict[int, Holding]:
        return self._claims.holdings

    def fill(self, holding: Holding, records_max: int, bytes_max: int) -> None:
        """Claim no more than is asked for: what a reader dies with is gone."""
        holding.may_have_more = False
        try:
            start, end = self._claims.claim(holding, records_max)
        except BaseException:
            holding.may_have_more = True
            raise
        holding.may_have_more |= end - start == records_max
        holding.rewind_claim(start)
        while holding.fetched < end:
            rows = self._server.read(
                [holding.topic_id, holding.partition, holding.fetched, end - holding.fetched, bytes_max],
                merge_small=end - holding.fetched >= MANY_RECORDS,
            )
            read = _pieces(holding, rows)
            holding.add(piece.cut(piece.batch.first_offset, min(piece.batch.end, end)) for piece in read)


class Fetcher:
    """Hands out what a source has, partition by partition in turn. With limits for transactions, only whole ones."""

    def __init__(self, source: Source, seat: Seat, whole_up_to: TransactionLimits | None = None) -> None:
        self._source = source
        self._seat = seat
        self._whole_up_to = whole_up_to
        self._turn = 0

    def take(self, records_max: int, bytes_max: int, *, whole: bool) -> list[tuple[Holding, list[Piece]]]:
        """Pieces of each partition that has any, until a limit is reached; empty where there is nothing now."""
        self._note_hints()
        found: list[tuple[Holding, list[Piece]]] = []
        for holding in self._in_turn():
            try:
                pieces = self._take_from(holding, records_max, bytes_max, whole=whole)
            except TrunklineError:
                if not found:
                    raise
                # What other partitions have given comes first; this one says it again next time.
                break
            except BaseException:
                for other, given in found:
                    other.put_back(given)
                raise
            if pieces:
                found.append((holding, pieces))
                records_max -= sum(len(piece.batch) for piece in pieces)
                bytes_max -= sum(piece.size for piece in pieces)
            if records_max <= 0 or bytes_max <= 0:
                break
        return found

    def _take_from(self, holding: Holding, records_max: int, bytes_max: int, *, whole: bool) -> list[Piece]:
        """Pieces of one partition, read where there are none in memory."""
        most = self._whole_up_to
        if most is None:
            if not holding.has_pieces and holding.may_have_more:
                self._source.fill(holding, records_max, bytes_max)
            return holding.take(records_max, bytes_max, whole=whole)
        while holding.needs_more(most):
            # As much again as there is of it: few reads for a long one, and never twice its size.
            records, size = extent(holding.pieces)
            self._source.fill(holding, max(records_max, records), max(bytes_max, size))
        return holding.take_transactions(records_max, bytes_max, most)

    def look(self, server: Server, deadline: float | None = None) -> bool:
        """Ask the server whether there is more; True where there is."""
        awaited = self.awaited()
        if not awaited:
            return False
        parameters = [integer_array(list(awaited)), offset_array(list(awaited.values()))]
        rows = server.ask(protocol.MORE, parameters, deadline)
        self._seat.hint(partition_id for (partition_id,) in rows)
        return bool(rows)

    def awaited(self) -> dict[int, int]:
        """What to wait for: the next offset of each partition that may hand out more."""
        return {holding.partition_id: holding.fetched for holding in self._source.holdings.values() if holding.may_give}

    def _note_hints(self) -> None:
        hints = self._seat.take_hints()
        if hints:
            for holding in self._source.holdings.values():
                holding.may_have_more |= holding.partition_id in hints

    def _in_turn(self) -> Iterator[Holding]:
        """Those that may give something, another one first each time."""
        able = [
            holding
            for holding in list(self._source.holdings.values())
            if holding.may_give and (holding.has_pieces or holding.may_have_more)
        ]
        self._turn += 1
        first = self._turn % len(able) if able else 0
        yield from able[first:]
        yield from able[:first]


def _pieces(holding: Holding, rows: list[Row]) -> list[Piece]:
    batches = batches_of(holding.topic, holding.partition, rows)
    return [Piece(batch, row[-1]) for batch, row in zip(batches, rows, strict=False)]
