# Generated from src/trunkline/client/aio/queue_letters.py by tools/twins.py (make fix). Change the source, not this file.
"""Dead letters of a queue: appended, and their records settled, in one transaction."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
import psycopg

from trunkline.client import protocol
from trunkline.client.failures import translate
from trunkline.client.sync.append import append_parameters
from trunkline.client.sync.connection import ServerConnection
from trunkline.client.sync.doorbell import Ringer
from trunkline.client.sync.queue_calls import QueueCalls, lost_of, note_done
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.engine.batching import BatchLimits, Parcel, split
from trunkline.engine.dead_letters import dead_letter, fitted
from trunkline.engine.deliveries import Claim, Settlement
from trunkline.engine.packing import pack_many
from trunkline.errors import DeadlineExceeded, NotFound, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Record, Topic

logger = logging.getLogger("trunkline")


class Grave(msgspec.Struct, frozen=True):
    """A record that is given up, why, and what that means for its claim."""

    record: Record
    attempts: int
    reason: str
    settlements: list[Settlement]

    @property
    def is_lost(self) -> bool:
        return any(settlement.claim.is_lost for settlement in self.settlements)


class _InDoubtError(Exception):
    """The connection failed at the commit."""

    def __init__(self, transaction_id: str, cause: TrunklineError) -> None:
        super().__init__(str(cause))
        self.transaction_id = transaction_id
        self.cause = cause


class QueueLetters:
    """Buries records of one queue in its dead letter topic."""

    def __init__(self, server: Server, topics: Topics, ringer: Ringer, calls: QueueCalls, name: str) -> None:
        self._server = server
        self._topics = topics
        self._ringer = ringer
        self._calls = calls
        self._name = name
        settings = server.settings
        self._limits = BatchLimits(settings.batch_records_max, settings.batch_bytes_max, settings.record_alone_bytes)
        self._turn = count(random.randrange(1024))

    def bury(self, graves: Sequence[Grave], deadline: float) -> list[Grave]:
        """Publish each record to the dead letter topic and settle it, all in one transaction; those whose claims are
        lost, of which nothing was done. OutcomeUnknown where it may have been done; with any other error nothing
        was."""
        lost = [grave for grave in graves if grave.is_lost]
        left = [grave for grave in graves if not grave.is_lost]
        while left:
            refused = self._bury_all(left, deadline)
            if not refused:
                break
            for settlement in (each for grave in refused for each in grave.settlements):
                settlement.claim.lose()
            lost += refused
            left = [grave for grave in left if not any(grave is each for each in refused)]
        for grave in left:
            logger.error(
                "partition %d, offset %d of %s is put into %s: %s",
                grave.record.partition, grave.record.offset, grave.record.topic, self._name, grave.reason,
            )  # fmt: skip
        return lost

    def bury_first(self, claim: Claim, ranges: Sequence[tuple[int, int]], bytes_max: int) -> None:
        """Bury the first record of a claim that was tried too often. The others get another chance."""
        first, end = min(ranges)
        batches = self._calls.read(claim.partition, first, end, bytes_max)
        if not batches or batches[0].first_offset > first:
            return
        (record,) = batches[0].cut(first, first + 1)
        settlements = [Settlement(claim, "d", [first])]
        if sum(stop - start for start, stop in ranges) > 1:
            settlements.append(Settlement(claim, "r", ()))
        reason = f"tried {claim.attempt} times, the deadline passed"
        self.bury([Grave(record, claim.attempt, reason, settlements)], self._server.deadline())

    def _bury_all(self, graves: list[Grave], deadline: float) -> list[Grave]:
        now = datetime.now(UTC)
        letters = [dead_letter(each.record, attempts=each.attempts, reason=each.reason, time=now) for each in graves]
        attempt = 0
        doubt: _InDoubtError | None = None
        while True:
            try:
                if doubt is not None and self._was_committed(doubt, deadline):
                    _note(graves)
                    return []
                doubt = None
                topic = find_letters_topic(self._topics, self._name)
                parcel = pack_many([fitted(letter, topic) for letter in letters], None, topic)
                return self._transact(topic, parcel, graves, deadline)
            except _InDoubtError as error:
                doubt, failure = error, error.cause
            except TrunklineError as error:
                if not error.retryable:
                    raise
                failure = error
            try:
                self._server.pause(attempt, deadline, failure)
            except TrunklineError as error:
                if doubt is not None:
                    raise OutcomeUnknown(f"the dead letters may or may not be there: {failure}") from error
                raise
            attempt += 1

    def _was_committed(self, doubt: _InDoubtError, deadline: float) -> bool:
        """What became of a transaction whose answer was lost."""
        ((status,),) = self._server.ask(protocol.TRANSACTION_STATUS, [doubt.transaction_id], deadline)
        if status == "in progress":
            raise doubt
        return bool(status == "committed")

    def _transact(self, topic: Topic, parcel: Parcel, graves: list[Grave], deadline: float) -> list[Grave]:
        appends = [
            append_parameters(topic, piece, next(self._turn) % topic.partitions)
            for piece in split(parcel, self._limits)
        ]
        settlements = [settlement for grave in graves for settlement in grave.settlements]
        with self._server.pool.connection(deadline) as connection:
            lost, full = self._commit(connection, [values for _, values in appends], settlements)
        if lost:
            return [grave for grave in graves if lost & {settlements.index(each) for each in grave.settlements}]
        _note(graves)
        self._ringer.ring_topic(topic.topic_id, {number for partitions, _ in appends for number in partitions})
        if full is not None:
            self._roll(full)
        return []

    def _commit(
        self, connection: ServerConnection, appends: list[list[Any]], settlements: list[Settlement]
    ) -> tuple[set[int], int | None]:
        """Which settlements were lost, of which then none was done; and the segment that is full now, if one is."""
        settings = self._server.settings
        times = [str(round(settings.lock_wait_s * 1000)), str(round(settings.session_timeout_s * 1000))]
        transaction_id = ""
        is_ending = False
        full: int | None = None
        lost: set[int] = set()
        try:
            with connection.transaction() as block:
                connection.execute(protocol.SESSION_LOCAL, times)
                for values in appends:
                    cursor = connection.execute(protocol.APPEND, values)
                    ((_, segment_id, is_full),) = cursor.fetchall()
                    full = segment_id if is_full else full
                parameters = self._calls.parameters(settlements, 0, 1)
                cursor = connection.execute(protocol.QUEUE_NEXT, parameters)
                lost = lost_of(cursor.fetchall())
                if lost:
                    raise psycopg.Rollback(block)
                cursor = connection.execute(protocol.TRANSACTION_ID)
                ((transaction_id,),) = cursor.fetchall()
                is_ending = True
        except (psycopg.Error, TrunklineError) as error:
            failure = translate(error) if isinstance(error, psycopg.Error) else error
            if is_ending and isinstance(failure, Unavailable | DeadlineExceeded):
                raise _InDoubtError(transaction_id, failure) from error
            raise failure from error
        return lost, full

    def _roll(self, segment_id: int) -> None:
        try:
            self._server.once(protocol.ROLL, [segment_id])
            self._server.once(protocol.SEAL, [segment_id])
        except TrunklineError as error:
            logger.warning("segment %d of topic %s could not be rolled: %s", segment_id, self._name, error)


def find_letters_topic(topics: Topics, name: str) -> Topic:
    """The dead letter topic as it is now: a limit that was altered since must not fail the transaction."""
    try:
        return topics.look_up(name)
    except NotFound as error:
        raise NotFound(
            f"the dead letter topic {name} does not exist; create it: trunkline topic create {name}"
        ) from error


def _note(graves: Sequence[Grave]) -> None:
    note_done([settlement for grave in graves for settlement in grave.settlements], set(), 0.0)
