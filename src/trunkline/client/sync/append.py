# Generated from src/trunkline/client/aio/append.py by tools/twins.py (make fix). Change the source, not this file.
"""Sends batches of one topic to the server and makes sure of their outcome.

One batch at a time. Nothing is given up while there is time: a lock that is held, a server that restarts or a
connection that breaks costs another attempt with the same sequence numbers, never a second copy.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from struct import Struct
from typing import Any
from uuid import UUID

import msgspec

from trunkline.client import protocol
from trunkline.client.arrays import EncodedArray, bytea_array, integer_array, payload_array, text_array
from trunkline.client.failures import is_ours
from trunkline.client.sync.connection import Row
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.engine.batching import Parcel, routed
from trunkline.engine.producing import ProducerState
from trunkline.errors import (
    Conflict,
    DeadlineExceeded,
    NotFound,
    OutcomeUnknown,
    ProducerError,
    ProducerExpired,
    RoutingStale,
    SchemaMissing,
    TooLarge,
    TrunklineError,
    Unavailable,
)
from trunkline.records import Position, Topic

_int4 = Struct("!i").pack
_LOOK_UPS = 2
"""How often a topic is looked up again that is not there."""


class Answer(msgspec.Struct, frozen=True):
    """What the server gave: a position for each record, in the order in which they came."""

    positions: list[Position]
    topic_id: int
    partitions: Iterable[int]
    open_segment_id: int
    is_full: bool


class _Plan(msgspec.Struct, frozen=True):
    """A batch as it is sent, and sent again: where each record goes, and under which sequence numbers."""

    topic: Topic
    routed: dict[int, Sequence[int]]
    expected_partitions: int | None
    columns: list[EncodedArray | None]
    producer: UUID | None = None
    epoch: int = 0
    sequences: Sequence[int] = ()


class _InDoubtError(Exception):
    """The connection failed after the batch was sent: it may be in the log."""

    def __init__(self, cause: TrunklineError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Appender:
    """The producer of one client in one topic."""

    def __init__(self, topic_name: str, server: Server, topics: Topics, producer_id: UUID | None) -> None:
        self._topic_name = topic_name
        self._server = server
        self._topics = topics
        self._producer = ProducerState(producer_id) if producer_id is not None else None
        # Clients begin at different partitions, or they would all write to the same one at first.
        self._turn = count(random.randrange(1024))

    def append(self, parcel: Parcel, deadline: float) -> Answer:
        """Write the records as one transaction; their positions once it is durable.

        Any error but OutcomeUnknown means: they are not in the log. OutcomeUnknown: whether they are could not be
        found out before the deadline.
        """
        turn = next(self._turn)
        plan: _Plan | None = None
        in_doubt = False
        attempt = 0
        segment_id: int | None = None
        gone: set[int | None] = set()
        not_found = 0
        while True:
            try:
                topic = self._topics.find(self._topic_name)
                plan = plan or self._plan(topic, parcel, turn)
                segment_id = topic.open_segment_id
                row = self._send(plan, segment_id, deadline)
                return self._answer(plan, row, len(parcel))
            except _InDoubtError as error:
                in_doubt = True
                failure = error.cause
            except TrunklineError as error:
                # A topic may have been made again, and the function of a segment goes with its table: look it up again.
                not_found += isinstance(error, NotFound)
                may_be_elsewhere = isinstance(error, NotFound) and not_found <= _LOOK_UPS
                if isinstance(error, SchemaMissing):
                    may_be_elsewhere = segment_id not in gone
                    gone.add(segment_id)
                failure = self._failed(error, in_doubt=in_doubt, may_be_elsewhere=may_be_elsewhere)
                if isinstance(error, RoutingStale | ProducerExpired | NotFound) and is_ours(error):
                    # The server has looked: the batch is not in the log, and must be planned anew.
                    plan, in_doubt = None, False
            self._topics.forget(self._topic_name)
            self._pause(attempt, deadline, failure, in_doubt=in_doubt)
            attempt += 1

    def doubt(self) -> None:
        """The outcome of a batch will not become known: go on in a new epoch, which fences it off."""
        if self._producer is not None:
            self._producer.next_epoch()

    def roll(self, segment_id: int) -> None:
        """Open the next segment, and seal the one that was full."""
        self._server.once(protocol.ROLL, [segment_id])
        self._server.once(protocol.SEAL, [segment_id])

    def _plan(self, topic: Topic, parcel: Parcel, turn: int) -> _Plan:
        way = routed(topic, parcel, turn % topic.partitions)
        columns = _columns(way.parcel)
        if self._producer is None:
            return _Plan(topic, way.partitions, way.expected_partitions, columns)
        sequences = self._producer.next_of(way.partitions)
        return _Plan(
            topic,
            way.partitions,
            way.expected_partitions,
            columns,
            self._producer.producer_id,
            self._producer.epoch,
            sequences,
        )

    def _send(self, plan: _Plan, segment_id: int, deadline: float) -> Row:
        with self._server.pool.connection(deadline) as connection:
            try:
                if len(plan.routed) == 1 and not connection.pooled:
                    return connection.append(segment_id, _values(plan))
                (row,) = connection.call(protocol.APPEND, _parameters(plan))
            except (Unavailable, DeadlineExceeded) as error:
                raise _InDoubtError(error) from error
        first_offsets, open_segment_id, is_full = row
        return (first_offsets if len(plan.routed) > 1 else first_offsets[0], open_segment_id, is_full)

    def _answer(self, plan: _Plan, row: Row, size: int) -> Answer:
        first, open_segment_id, is_full = row
        if self._producer is not None:
            self._producer.done(plan.routed)
        name = self._topic_name
        if len(plan.routed) == 1:
            (partition,) = plan.routed
            positions = list(map(Position, repeat(name), repeat(partition), range(first, first + size)))
            return Answer(positions, plan.topic.topic_id, plan.routed, open_segment_id, is_full)
        placed: list[Position | None] = [None] * size
        for offset, (partition, indexes) in zip(first, plan.routed.items(), strict=True):
            for ordinal, index in enumerate(indexes):
                placed[index] = Position(name, partition, offset + ordinal)
        known = [position for position in placed if position]
        return Answer(known, plan.topic.topic_id, plan.routed, open_segment_id, is_full)

    def _failed(self, error: TrunklineError, *, in_doubt: bool, may_be_elsewhere: bool) -> TrunklineError:
        """The error to try again after; or raises it, where another attempt would end no better."""
        if isinstance(error, ProducerError):
            self.doubt()
            if in_doubt:
                raise OutcomeUnknown(_unknown(error)) from error
            if isinstance(error, ProducerExpired):
                return error
        if error.retryable or may_be_elsewhere:
            return error
        self._topics.forget(self._topic_name)
        if in_doubt and not (isinstance(error, TooLarge | NotFound) and is_ours(error)):
            # Not from the function that looks for the sequence first: the batch may be in the log all the same.
            self.doubt()
            raise OutcomeUnknown(_unknown(error)) from error
        raise error

    def _pause(self, attempt: int, deadline: float, failure: TrunklineError, *, in_doubt: bool) -> None:
        if in_doubt and self._producer is None:
            raise OutcomeUnknown(_unknown(failure)) from failure
        if isinstance(failure, Conflict):
            # An attempt that the deadline cut off would leave the batch in doubt; one that is not begun does not.
            deadline -= self._server.settings.lock_wait_s
        try:
            self._server.pause(attempt, deadline, failure)
        except TrunklineError:
            if in_doubt:
                self.doubt()
                raise OutcomeUnknown(_unknown(failure)) from failure
            raise


def _columns(parcel: Parcel) -> list[EncodedArray | None]:
    keys = None if parcel.keys is None else bytea_array(parcel.keys)
    payloads = payload_array(parcel.payloads, parcel.payload_lengths())
    if parcel.headers is None:
        return [keys, payloads, None, None, None]
    pairs = [pair for pairs in parcel.headers for pair in pairs]
    return [
        keys,
        payloads,
        integer_array([len(pairs) for pairs in parcel.headers]),
        text_array([name for name, _ in pairs]),
        bytea_array([value for _, value in pairs]),
    ]


def _values(plan: _Plan) -> list[bytes | None]:
    """The arguments of a segment's function, one partition, in binary."""
    ((partition, indexes),) = plan.routed.items()
    partition_id = plan.topic.partition_ids[partition]
    expected = None if plan.expected_partitions is None else _int4(plan.expected_partitions)
    values = [_int4(partition_id), expected, _int4(len(indexes))]
    values += [None if column is None else column.data for column in plan.columns]
    if plan.producer is None:
        return [*values, None, None, None]
    return [*values, plan.producer.bytes, _int4(plan.epoch), _int4(plan.sequences[0])]


def _parameters(plan: _Plan) -> list[Any]:
    """The arguments of log_append, any number of partitions."""
    counts = [len(indexes) for indexes in plan.routed.values()]
    where = [plan.topic.topic_id, plan.expected_partitions, integer_array(list(plan.routed)), integer_array(counts)]
    producer: list[Any] = [None, None, None]
    if plan.producer is not None:
        producer = [plan.producer, plan.epoch, integer_array(plan.sequences)]
    return [*where, *plan.columns, *producer]


def append_parameters(topic: Topic, parcel: Parcel, sticky: int) -> tuple[Iterable[int], list[Any]]:
    """For a transaction that does more than appending: the partitions that records go to, and the arguments of
    log_append. Nothing tells a second attempt from the first."""
    way = routed(topic, parcel, sticky)
    return way.partitions, _parameters(_Plan(topic, way.partitions, way.expected_partitions, _columns(way.parcel)))


def _unknown(cause: Exception) -> str:
    return f"the records may or may not be in the log: {cause}; read the log's end to find out"
