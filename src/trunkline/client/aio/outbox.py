"""Publishing in a transaction that the caller owns: the record is in the log if and only if that is committed.

The records go to the server at once, and are given their offsets by the commit, there (sql/outbox). Nothing that
another publisher needs is held until then.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from trunkline.client import protocol
from trunkline.client.aio.callers import Values, caller_of
from trunkline.client.aio.doorbell import Ringer
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import IS_ASYNC, Mutex
from trunkline.client.aio.topics import Topics
from trunkline.client.foreign import library_of
from trunkline.client.protocol import OutboxCall
from trunkline.engine.batching import Parcel, Routed, routed
from trunkline.errors import InvalidArgument, NotFound, RoutingStale, TrunklineError
from trunkline.records import PendingPosition, Topic

logger = logging.getLogger("trunkline")


@dataclass
class Unrung:
    """What a transaction has published, and nobody was woken for: partitions by topic."""

    transaction_id: int
    topics: dict[int, set[int]] = field(default_factory=dict)
    unplaced: dict[int, set[int]] = field(default_factory=dict)
    """The ids of partitions whose records wait for their place after the commit, by topic."""


@dataclass(frozen=True)
class Committed:
    """Tells an outbox that a connection has committed. One is equal to another that tells the same."""

    outbox: Outbox
    key: Any

    def __call__(self) -> None:
        self.outbox.committed(self.key)


class Outbox:
    """What one client publishes on connections of others, and whom it wakes when they have committed."""

    def __init__(self, server: Server, topics: Topics, ringer: Ringer) -> None:
        self._server = server
        self._topics = topics
        self._ringer = ringer
        self._mutex = Mutex()
        self._turn = count(random.randrange(1024))
        self._unrung: WeakKeyDictionary[Any, Unrung] = WeakKeyDictionary()

    async def put(self, conn: object, topic: Topic, parcel: Parcel) -> list[PendingPosition]:
        """Publish records in the transaction of a connection; which partition each of them will stand in."""
        caller = caller_of(conn)
        self._server.pool.check_usable()
        way = routed(topic, parcel, next(self._turn) % topic.partitions)
        try:
            transaction_id, *full = await caller.put(*_call(topic, way))
        except (NotFound, RoutingStale):
            self._topics.forget(topic.name)
            raise
        self._note(caller.key, transaction_id, topic, way)
        caller.on_commit(Committed(self, caller.key))
        for segment_id in full:
            await self._roll(topic, segment_id)
        placed: list[PendingPosition | None] = [None] * len(parcel)
        for partition, indexes in way.partitions.items():
            for index in indexes:
                placed[index] = PendingPosition(topic.name, partition, transaction_id)
        return [position for position in placed if position]

    @asynccontextmanager
    async def transaction(self, conn: psycopg.AsyncConnection[Any]) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A transaction on a connection of psycopg's. Readers are woken once it has committed."""
        if library_of(conn, is_async=IS_ASYNC) != "psycopg":
            raise InvalidArgument(
                f"transaction() is for a connection of psycopg, not for {type(conn).__name__}; sessions of SQLAlchemy "
                "and connections of Django wake readers by themselves"
            )
        async with conn.transaction():
            yield conn
        if conn.info.transaction_status == TransactionStatus.IDLE:
            self.committed(conn)

    def committed(self, key: object) -> None:
        """Wake the readers of what was published in the last transaction of a connection."""
        with self._mutex:
            unrung = self._unrung.pop(key, None)
        if unrung is not None:
            for topic_id, partitions in unrung.topics.items():
                self._ringer.ring_topic(topic_id, partitions, unrung.unplaced.get(topic_id, ()))

    def _note(self, key: object, transaction_id: int, topic: Topic, way: Routed) -> None:
        with self._mutex:
            unrung = self._unrung.get(key)
            if unrung is None or unrung.transaction_id != transaction_id:
                # What is there from another transaction was rolled back, or its commit was nobody's to tell.
                unrung = self._unrung[key] = Unrung(transaction_id)
            unrung.topics.setdefault(topic.topic_id, set()).update(way.partitions)
            if topic.loose_commit_order:
                ids = (topic.partition_ids[partition] for partition in way.partitions)
                unrung.unplaced.setdefault(topic.topic_id, set()).update(ids)

    async def _roll(self, topic: Topic, segment_id: int) -> None:
        """Open the next segment. What was published is safe whatever happens here; a later publish finds it full."""
        try:
            await self._server.once(protocol.ROLL, [segment_id])
            await self._server.once(protocol.SEAL, [segment_id])
        except TrunklineError as error:
            logger.warning("segment %d of topic %s could not be rolled: %s", segment_id, topic.name, error)


def _call(topic: Topic, way: Routed) -> tuple[OutboxCall, Values]:
    """Which call publishes the records, and its arguments as any driver takes them."""
    parcel = way.parcel
    where: list[Any] = [topic.topic_id, topic.incarnation, way.expected_partitions]
    if len(parcel) == 1 and parcel.headers is None:
        key = None if parcel.keys is None else parcel.keys[0]
        return protocol.OUTBOX_PUT_ONE, [*where, *way.partitions, key, parcel.payloads[0]]
    where += [list(way.partitions), [len(indexes) for indexes in way.partitions.values()]]
    if parcel.headers is None:
        return protocol.OUTBOX_PUT, [*where, parcel.keys, parcel.payloads, None, None, None]
    pairs = [pair for pairs in parcel.headers for pair in pairs]
    return protocol.OUTBOX_PUT, [
        *where,
        parcel.keys,
        parcel.payloads,
        [len(pairs) for pairs in parcel.headers],
        [name for name, _ in pairs],
        [value for _, value in pairs],
    ]
