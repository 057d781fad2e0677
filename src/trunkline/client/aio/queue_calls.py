"""What a queue asks of the server: claims and settlements, records that were too large to come along, new tables."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from time import monotonic
from typing import Any

import msgspec

from trunkline.client import protocol
from trunkline.client.aio.connection import Row
from trunkline.client.aio.reader import batches_of
from trunkline.client.aio.server import Server
from trunkline.client.arrays import float_array, integer_array, offset_array, text_array
from trunkline.engine.deliveries import Claim, Settlement, multirange, numbered
from trunkline.errors import OffsetOutOfRange, TrunklineError
from trunkline.records import Batch, Topic

logger = logging.getLogger("trunkline")

KEPT_BYTES_MAX = 4 * 1024 * 1024
READ_RECORDS = 1_000
STEP_BYTES_MAX = 65_536
"""The short way claims about so much at the most."""
LOOK_FURTHER_S = 0.25
"""So often all parts are looked at."""
_INT4 = Struct("!i").pack
_INT8 = Struct("!q").pack


class Claimed(msgspec.Struct, frozen=True):
    """A piece of a claim: ranges of offsets, and the batch that they are in, where it has come along."""

    claim: Claim
    ranges: list[tuple[int, int]]
    batch: Batch | None


class Answer(msgspec.Struct, frozen=True):
    """``lost``: which settlements were not done, because the claim is lost. ``exhausted``: pieces of claims that were
    tried as often as the queue allows. ``due_s``: in how many seconds somebody should look again."""

    lost: set[int]
    in_doubt: bool
    claimed: list[Claimed]
    exhausted: list[Claimed]
    due_s: float | None
    is_full: bool
    is_more: bool = False
    """Whether records are to be asked for once more: only the acknowledgement was done."""


class QueueCalls:
    """The calls of one reader of a queue. One ``next`` at a time. ``is_plain``: records come in no particular order,
    and more than once where they fail; then the short way can be taken."""

    def __init__(
        self,
        server: Server,
        topic: Topic,
        queue_id: int,
        part_ids: Sequence[int],
        *,
        is_plain: bool,
    ) -> None:
        self._server = server
        self._is_plain = is_plain
        self._tables: dict[int, int] = {}
        self._look_at = 0.0
        self._part: tuple[int, int] | None = None
        """Where records were found last: a part, and its partition."""
        self.topic = topic
        self.queue_id = queue_id
        self.part_ids = part_ids
        self._holder = f"{socket.gethostname()}:{os.getpid()}"[:200]
        # Readers begin at different partitions, or they would all wait for the same one.
        self._turn = random.randrange(1024)
        self._kept: deque[tuple[Batch, int]] = deque()

    async def find_tables(self) -> None:
        """Look where the parts of the queue are: calls go to their tables' own functions, where that is possible."""
        if self._is_plain:
            self._tables = dict(await self._server.ask(protocol.QUEUE_TABLES, [self.queue_id]))

    async def next(
        self, settlements: Sequence[Settlement], records_max: int, bytes_max: int, deadline: float
    ) -> Answer:
        """Settle, then claim, in one transaction. OutcomeUnknown where it could not be found out before the deadline
        whether it was done; with any other error nothing was."""
        self._turn += 1
        in_doubt = False
        usual = self._usual(settlements, records_max, bytes_max)
        if usual is not None:
            answer, in_doubt = await self._step(*usual, settlements, records_max, deadline)
            if answer is not None:
                return answer
        sent_at = monotonic()
        parameters = self.parameters(settlements, records_max, bytes_max)
        rows, may_be_done = await self._server.queue_next(parameters, deadline, may_be_done=in_doubt)
        lost = lost_of(rows)
        note_done(settlements, lost, sent_at)
        return self._answer(rows, lost, sent_at, in_doubt=may_be_done)

    def _usual(
        self, settlements: Sequence[Settlement], records_max: int, bytes_max: int
    ) -> tuple[int, int, int] | None:
        """The part to go on with, its partition and its table, where it is nothing but that one claim is acknowledged,
        or nothing, and more is wanted. Now and then it looks further: otherwise other parts would wait for as long as
        this one has records."""
        if not self._tables or len(settlements) > 1 or bytes_max < STEP_BYTES_MAX:
            return None
        now = monotonic()
        if records_max and now >= self._look_at:
            self._look_at = now + LOOK_FURTHER_S
            return None
        if settlements:
            claim, kind, _, _ = settlements[0]
            place = (claim.part_id, claim.partition) if kind == "a" else None
        else:
            place = self._part
        table_no = self._tables.get(place[0]) if place is not None else None
        return None if place is None or table_no is None else (*place, table_no)

    async def _step(
        self, part_id: int, partition: int, table_no: int, settlements: Sequence[Settlement], records_max: int,
        deadline: float,
    ) -> tuple[Answer | None, bool]:  # fmt: skip
        """The short way; None where it did nothing. Also whether an answer was lost before."""
        sent_at = monotonic()
        values: list[bytes | None] = [_INT4(part_id), None, None, _INT4(0), None, _INT4(0)]
        if settlements:
            claim, _, offsets, _ = settlements[0]
            records = len(offsets) or claim.left
            chosen = None if records == claim.left else multirange(offsets)
            values = [
                values[0], _INT8(claim.claim_no), _INT8(claim.token), _INT4(claim.seq + 1),
                None if chosen is None else chosen.encode(), _INT4(records),
            ]  # fmt: skip
        values += (_INT4(records_max), self._holder.encode(), b"\0" if settlements else b"\1")
        row, in_doubt = await self._server.queue_step(table_no, values, deadline)
        if row is None:
            # Until somebody has looked where they are now.
            self._tables = {}
            return None, in_doubt
        if settlements and not row[0]:
            return None, in_doubt
        note_done(settlements, set(), sent_at)
        if row[1] and not settlements:
            self._part = None
            return None, in_doubt
        _, is_more, is_full, claim_no, token, first, count, held_ms, append_time, keys, payloads, *headers = row
        if claim_no is None:
            is_more = is_more and records_max > 0
            return Answer(set(), in_doubt, [], [], None, is_full, is_more), in_doubt
        self._part = (part_id, partition)
        held_s = held_ms / 1000
        claim = Claim(part_id, partition, claim_no, token, attempt=1, held_from=sent_at, held_s=held_s)
        if payloads is None:
            batch = self._kept_batch(partition, first, first + count)
        else:
            found = (first, count, append_time, None, keys, payloads, *headers, None, None, None, None, None, None, 0)
            (batch,) = batches_of(self.topic.name, partition, [found])
        claimed = [Claimed(claim, [(first, first + count)], batch)]
        return Answer(set(), in_doubt, claimed, [], held_s, is_full), in_doubt

    def parameters(self, settlements: Sequence[Settlement], records_max: int, bytes_max: int) -> list[Any]:
        """The arguments of queue_next."""
        claims = [settlement.claim for settlement in settlements]
        return [
            self.queue_id,
            integer_array([claim.part_id for claim in claims]),
            offset_array([claim.claim_no for claim in claims]),
            offset_array([claim.token for claim in claims]),
            integer_array(numbered(settlements)),
            text_array([settlement.kind for settlement in settlements]),
            text_array([multirange(settlement.offsets) for settlement in settlements]),
            float_array([settlement.delay_s for settlement in settlements]),
            records_max,
            bytes_max,
            self.part_ids[self._turn % len(self.part_ids)] if self._part is None else self._part[0],
            self._holder,
        ]

    def _answer(self, rows: list[Row], lost: set[int], sent_at: float, *, in_doubt: bool) -> Answer:
        claims: dict[tuple[int, int], Claim] = {}
        claimed: list[Claimed] = []
        exhausted: list[Claimed] = []
        for row in rows[:-1]:
            part_id, partition, claim_no, token, attempt, deadline_s, is_exhausted = row[:7]
            claim = claims.setdefault(
                (part_id, claim_no),
                Claim(part_id, partition, claim_no, token, attempt=attempt, held_from=sent_at, held_s=deadline_s),
            )
            self._part = (part_id, partition)
            piece = Claimed(claim, _ranges(row), self._batch(row))
            (exhausted if is_exhausted else claimed).append(piece)
        _, due_s, is_full = rows[-1][-3:]
        return Answer(lost, in_doubt, claimed, exhausted, due_s, bool(is_full))

    def _batch(self, row: Row) -> Batch | None:
        first_offset, count, append_time, keys, payloads, *headers = row[8:16]
        append_times, joined, lengths = row[16:19]
        if payloads is None and joined is None:
            return None
        of_one_batch = (None, None, None)
        values = (first_offset, count, append_time, None, keys, payloads, *headers, *of_one_batch, append_times)
        return batches_of(self.topic.name, row[1], [(*values, joined, lengths, 0)])[0]

    # -- records that did not come along --

    async def read(self, partition: int, first: int, end: int, bytes_max: int) -> list[Batch]:
        """Batches that hold records of a partition from ``first`` on, about as many as fit; none where retention has
        taken all of them up to ``end``."""
        kept = self._kept_batch(partition, first, first + 1)
        if kept is not None:
            return [kept]
        topic_id = self.topic.topic_id
        while True:
            try:
                rows = await self._server.read([topic_id, partition, first, min(end - first, READ_RECORDS), bytes_max])
                break
            except OffsetOutOfRange as error:
                if error.start is None or not first < error.start < end:
                    return []
                first = error.start
        batches = batches_of(self.topic.name, partition, rows)
        if batches:
            self._keep(batches[-1], rows[len(batches) - 1][-1])
        return batches

    def _kept_batch(self, partition: int, first: int, end: int) -> Batch | None:
        for batch, _ in reversed(self._kept):
            if batch.partition == partition and batch.first_offset <= first and end <= batch.end:
                return batch
        return None

    def _keep(self, batch: Batch, size: int) -> None:
        """Readers that claim one record after the other out of a batch must not fetch it for each."""
        kept = [*self._kept, (batch, size)]
        while len(kept) > 1 and sum(each for _, each in kept) > KEPT_BYTES_MAX:
            del kept[0]
        self._kept = deque(kept, maxlen=64)

    # -- tables --

    async def roll(self) -> None:
        """Move the queue to new tables, which its claims have outgrown. Everything works all the same: a failure is
        only reported, and a later call will say again that they are full."""
        try:
            await self._server.once(protocol.QUEUE_ROLL, [self.queue_id])
            before = None
            while True:
                ((left,),) = await self._server.once(protocol.QUEUE_MOVE_PARTS, [self.queue_id])
                if left == 0 or (before is not None and left >= before):
                    break
                before = left
            await self._server.once(protocol.QUEUE_DROP_OLD)
            await self.find_tables()
        except TrunklineError as error:
            logger.warning(
                "queue %d of topic %s could not be moved to new tables: %s", self.queue_id, self.topic.name, error
            )


def lost_of(rows: list[Row]) -> set[int]:
    """Which settlements, from 0, the answer of queue_next calls lost."""
    return {number - 1 for number in rows[-1][-3] or ()}


def note_done(settlements: Sequence[Settlement], lost: set[int], sent_at: float) -> None:
    """Remember what a call has done to the claims that it was about."""
    for index, settlement in enumerate(settlements):
        claim = settlement.claim
        if index in lost:
            claim.lose()
            continue
        claim.seq += 1
        if settlement.kind == "e":
            claim.expires_at = sent_at + settlement.delay_s
        else:
            claim.left = max(0, claim.left - len(settlement.offsets)) if settlement.offsets else 0


def _ranges(row: Row) -> list[tuple[int, int]]:
    """The offsets of a piece that the claim holds: all, unless the row names some."""
    offsets, first, count = row[7:10]
    if offsets is None:
        return [(first, first + count)]
    found = ((max(each.lower, first), min(each.upper, first + count)) for each in offsets)
    return [(start, end) for start, end in found if start < end]
