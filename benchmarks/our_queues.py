"""Trunkline's queues as a side: through the client, and by its SQL functions alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import psycopg
from psycopg import sql

import trunkline
from benchmarks.baselines.rows import connect
from benchmarks.desks import Counter, Desk, Held, Worker
from benchmarks.payloads import Tally
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name
from trunkline import aio

QUEUE = "bench"
LEFT_WAIT_S = 0.5
LEFT_RECORDS = 1_000
BYTES_MAX = 1024 * 1024
_NEXT = """
select part_id, claim_no, token, first_offset, record_count, payloads, joined, lengths, lost
from trunkline.queue_next(%(queue)s::int4, %(parts)b::int4[], %(claims)b::int8[], %(tokens)b::int8[],
    %(seqs)b::int4[], %(kinds)s::text[], %(offsets)s::text[], %(delays)s::float8[], %(max_records)s::int4,
    %(bytes_max)s::int8, %(start)s::int4, %(holder)s)
"""
_STEP = """
select is_done, next_no, next_token, first_offset, record_count, payloads
from {step}(%(part)s::int4, %(claim)s::int8, %(token)s::int8, 1, null, %(records)s::int4, %(max_records)s::int4,
    %(holder)s, %(claim)s::int8 is null)
"""
_ENTER = """
select e.queue_id, e.part_ids, t.topic_id,
    (select max(p.table_no) from trunkline.queue_table p where p.queue_id = e.queue_id)
from trunkline.topic t, trunkline.queue_enter(t.topic_id, %s, true, 'earliest', %s) e where t.name = %s
"""
_READ = """
select payloads, joined, lengths, first_offset from trunkline.log_read(%s::int4, %s::int4, %s, %s::int4, %s, true)
"""


@dataclass(frozen=True)
class Queues(Ours):
    """A reader in each process, with one connection for its statements and the doorbell's."""

    def open_queue(self, url: str, log: int, ack_deadline_s: float) -> None:
        with trunkline.connect(url) as client, client.queue(topic_name(log), QUEUE, ack_deadline_s=ack_deadline_s):
            pass

    @contextmanager
    def worker(self, url: str, log: int, desk: Desk) -> Iterator[Worker]:
        with (
            trunkline.connect(url, settings=ONE_CONNECTION) as client,
            client.queue(topic_name(log), QUEUE, create=False, prefetch=desk.prefetch) as queue,
        ):
            yield Reader(queue, desk.batch_records)

    @asynccontextmanager
    async def counter(self, url: str, log: int, desk: Desk) -> AsyncIterator[Counter]:
        async with (
            await aio.connect(url, settings=ONE_CONNECTION) as client,
            client.queue(topic_name(log), QUEUE, create=False, prefetch=desk.prefetch) as queue,
        ):
            yield ReadingCounter(queue)

    def left(self, url: str, log: int) -> Tally:
        tally = Tally()
        with trunkline.connect(url) as client, client.queue(topic_name(log), QUEUE, create=False) as queue:
            while found := queue.receive(LEFT_RECORDS, wait_s=LEFT_WAIT_S):
                tally = tally.after([delivery.payload for delivery in found])
                queue.ack(found)
        return tally


class Reader:
    """One queue of the client: received in batches, acknowledged in batches."""

    def __init__(self, queue: trunkline.Queue, batch_records: int) -> None:
        self._queue = queue
        self._batch_records = batch_records
        self._held: list[trunkline.Delivery] = []

    def take(self, wait_s: float = 0.0) -> list[bytes]:
        self._held = self._queue.receive(self._batch_records, wait_s=wait_s)
        return [delivery.payload for delivery in self._held]

    def done(self) -> None:
        self._queue.ack(self._held)
        self._held = []

    def step(self, wait_s: float = 0.0) -> list[bytes]:
        self._held = self._queue.receive(self._batch_records, wait_s=wait_s, ack=self._held)
        return [delivery.payload for delivery in self._held]


class ReadingCounter:
    """One queue of the async client, which all handlers share."""

    def __init__(self, queue: aio.AsyncQueue) -> None:
        self._queue = queue

    async def receive(self) -> Held | None:
        found = await self._queue.receive()
        return Held(found[0].payload, found[0]) if found else None

    async def ack(self, held: Held) -> None:
        assert isinstance(held.receipt, aio.AsyncDelivery)
        await held.receipt.ack()


@dataclass(frozen=True)
class BareQueues(Queues):
    """The same by the functions that the client calls, prepared and in binary: what the server makes of it."""

    name: str = "ours, bare"

    @contextmanager
    def worker(self, url: str, log: int, desk: Desk) -> Iterator[Worker]:
        with connect(url) as connection:
            yield Caller(connection, log, desk)


class Caller:
    """One session that calls the functions of a queue: the short one for what is usual, queue_next for the rest. It
    never waits."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], log: int, desk: Desk) -> None:
        self._cursor = connection.cursor(binary=True)
        ((queue_id, part_ids, topic_id, table_no),) = self._cursor.execute(
            _ENTER, [QUEUE, desk.ack_deadline_s, topic_name(log)]
        ).fetchall()
        self._partitions = {part_id: partition for partition, part_id in enumerate(part_ids)}
        self._topic_id = topic_id
        self._step = sql.SQL(_STEP).format(step=sql.Identifier("trunkline", f"claim_{table_no}_step"))
        self._arguments = {"queue": queue_id, "bytes_max": BYTES_MAX, "holder": f"worker {desk.number}"}
        self._part_id = part_ids[desk.number % len(part_ids)]
        """Where it claims first."""
        self._batch_records = desk.batch_records
        self._kept: tuple[int, int, list[bytes]] = (-1, 0, [])
        """The batch that was read last: its part, first offset and payloads."""
        self._held: dict[tuple[int, int], int] = {}
        """Part and number of each claim: its token."""
        self._records = 0

    def take(self, wait_s: float = 0.0) -> list[bytes]:
        assert not wait_s
        self._held = {}
        return self._stepped(self._batch_records)

    def done(self) -> None:
        self._stepped(0)

    def step(self, wait_s: float = 0.0) -> list[bytes]:
        assert not wait_s
        return self._stepped(self._batch_records)

    def _stepped(self, max_records: int) -> list[bytes]:
        """Acknowledge what is held, if anything, and take so many."""
        kinds = ["a"] * len(self._held)
        if len(self._held) <= 1:
            ((self._part_id, claim_no), token), *_ = [*self._held.items(), ((self._part_id, None), None)]
            wanted = {"part": self._part_id, "claim": claim_no, "token": token, "records": self._records}
            wanted |= {"max_records": max_records, "holder": self._arguments["holder"]}
            ((is_done, next_no, next_token, first, count, payloads),) = self._cursor.execute(
                self._step, wanted, prepare=True
            ).fetchall()
            if is_done:
                self._held, kinds = {}, []
            if next_no is not None:
                self._held = {(self._part_id, next_no): next_token}
                self._records = count
                return list(payloads) if payloads is not None else self._read(self._part_id, first, count)
            if not max_records and not kinds:
                return []
        return self._called(max_records, kinds)

    def put_back(self, delay_s: float) -> None:
        """Give back what was taken last, for so long."""
        self._called(0, ["n"] * len(self._held), delay_s)

    def _called(self, max_records: int, kinds: Sequence[str], delay_s: float = 0.0) -> list[bytes]:
        claims = list(self._held.items())[: len(kinds)]
        arguments = self._arguments | {
            "parts": [part_id for (part_id, _), _ in claims],
            "claims": [claim_no for (_, claim_no), _ in claims],
            "tokens": [token for _, token in claims],
            "seqs": [1] * len(claims),
            "kinds": list(kinds),
            "offsets": [None] * len(claims),
            "delays": [delay_s] * len(claims),
            "max_records": max_records,
            "start": self._part_id,
        }
        rows = self._cursor.execute(_NEXT, arguments, prepare=True).fetchall()
        *pieces, (*_, lost) = rows
        assert not lost, f"claims were lost: {lost}"
        self._held = {(piece[0], piece[1]): piece[2] for piece in pieces}
        payloads = [payload for piece in pieces for payload in self._payloads(piece)]
        self._records = len(payloads)
        return payloads

    def _payloads(self, piece: tuple[Any, ...]) -> list[bytes]:
        part_id, _, _, first, count, payloads, joined, lengths, _ = piece
        if payloads is None and joined is None:
            return self._read(part_id, first, count)
        return unpacked(payloads, joined, lengths)

    def _read(self, part_id: int, first: int, count: int) -> list[bytes]:
        """Records that did not come along: their batch is read, and kept for the next ones of it."""
        part, begins, payloads = self._kept
        if part != part_id or not begins <= first <= first + count <= begins + len(payloads):
            wanted = [self._topic_id, self._partitions[part_id], first, count, BYTES_MAX]
            ((whole, joined, lengths, begins),) = self._cursor.execute(_READ, wanted, prepare=True).fetchall()
            payloads = unpacked(whole, joined, lengths)
            self._kept = (part_id, begins, payloads)
        return payloads[first - begins :][:count]


def unpacked(payloads: list[bytes] | None, joined: bytes | None, lengths: list[int] | None) -> list[bytes]:
    """Payloads as they come: a list, or one after the other with their lengths."""
    if payloads is not None:
        return payloads
    assert joined is not None
    assert lengths is not None
    return [joined[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
