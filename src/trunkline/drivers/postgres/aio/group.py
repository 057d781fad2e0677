"""A subscription that is a group: partitions in order, and a cursor for each.

An acknowledgement is durable once the cursor has passed its record, which is when all before it in its partition are
acknowledged too. Until then it is remembered: whoever ends before comes to it again. Giving back costs nothing: the
record, and what was handed out after it, is handed out again from memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic
from typing import Any

from trunkline.client.aio.consumer import AsyncConsumer
from trunkline.client.aio.shim import Mutex
from trunkline.drivers.postgres.aio.clients import Lease
from trunkline.drivers.postgres.aio.turn import Turn
from trunkline.drivers.postgres.capabilities import GROUP
from trunkline.drivers.postgres.hand import SPAN_MAX, Hand, Handed, PartitionName, Standing
from trunkline.drivers.postgres.incoming import incoming
from trunkline.errors import (
    ClaimLost,
    Closed,
    DeadlineExceeded,
    FailedPrecondition,
    Fenced,
    OutcomeUnknown,
    TrunklineError,
    Unavailable,
)
from trunkline.portable.driver import Capabilities, Incoming, Target
from trunkline.records import Record

logger = logging.getLogger("trunkline")

POLL_MAX = 500


class AsyncGroupSubscription:
    """Receives with a group. The consumer is one task's at a time: receiving and acknowledging take turns, and who
    waits for records is woken for those who acknowledge."""

    def __init__(self, lease: Lease, consumer: AsyncConsumer, target: Target) -> None:
        self.capabilities: Capabilities = GROUP
        self.native: Any = consumer
        self.ack_deadline_s: float | None = None
        self._lease = lease
        self._consumer = consumer
        self._ahead_max = min(target.prefetch_max, POLL_MAX)
        self._bytes_max = max(1, target.prefetch_bytes_max)
        self._turn = Turn()
        # Guards everything below.
        self._mutex = Mutex()
        self._hand = Hand()
        self._full: set[PartitionName] = set()
        self._is_waiting = False
        self._was_woken = False
        self._settling = 0
        self._closed = False

    @classmethod
    async def open(cls, lease: Lease, topic: str, group: str, target: Target) -> AsyncGroupSubscription:
        """NotFound where there is no such group."""
        consumer = lease.client.consumer(topic, group=group)
        await consumer.__aenter__()
        return cls(lease, consumer, target)

    # -- receiving --

    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        deadline = monotonic() + wait_s
        is_late = False
        while True:
            with self._mutex:
                taken = self._hand.take(max_messages)
            if taken or is_late:
                return [incoming(each.record, each, None) for each in taken]
            try:
                is_late = await self._read_more(max_messages, deadline)
            except Closed:
                if not self._closed:
                    raise
                return []
            except DeadlineExceeded as error:
                # Not that nothing came: the server could not be asked.
                raise Unavailable(str(error)) from error

    async def _read_more(self, max_messages: int, deadline: float) -> bool:
        """Read what there is, or comes before the deadline; True where nothing did until then."""
        async with self._turn:
            with self._mutex:
                # Who acknowledges must not wait for records to come.
                wait_s = 0.0 if self._settling else max(0.0, deadline - monotonic())
                self._is_waiting, self._was_woken = wait_s > 0, False
            try:
                self._pause_full()
                records = await self._poll(max_messages, wait_s)
                if wait_s and not records and deadline <= monotonic():
                    # Who waits is patient with a server that is away; who asks finds out.
                    records = await self._poll(max_messages, 0.0)
            finally:
                with self._mutex:
                    self._is_waiting = False
            self._take_in(records)
            await self._let_go()
            with self._mutex:
                return not records and not self._was_woken and deadline <= monotonic()

    async def _poll(self, max_messages: int, wait_s: float) -> list[Record]:
        return await self._consumer.poll(max(max_messages, self._ahead_max), bytes_max=self._bytes_max, wait_s=wait_s)

    def _pause_full(self) -> None:
        with self._mutex:
            full = self._hand.full()
            before, self._full = self._full, full
        for topic, partition in full - before:
            logger.warning(
                "partition %d of %s waits: %d records from the first that is not acknowledged on are in memory",
                partition, topic, SPAN_MAX,
            )  # fmt: skip
            self._consumer.pause(topic, partition)
        for topic, partition in before - full:
            self._consumer.resume(topic, partition)

    def _take_in(self, records: Sequence[Record]) -> None:
        lost = self._consumer.take_lost()
        with self._mutex:
            self._hand.lose(lost)
            self._hand.add(records)

    async def _let_go(self) -> None:
        """Give partitions that another reader should have to it as soon as nothing of them is in hand."""
        with self._mutex:
            free = self._hand.retire(self._consumer.leaving)
        if free and await self._commit({}) is None:
            for topic, partition in free:
                self._consumer.put_back(topic, partition)
            with self._mutex:
                self._hand.lose(free)

    # -- settling --

    async def ack(self, ack_ids: Sequence[Handed]) -> Sequence[TrunklineError | None] | None:
        with self._mutex:
            self._settling += 1
        try:
            self._wake_receiver()
            async with self._turn:
                return await self._ack(ack_ids)
        finally:
            with self._mutex:
                self._settling -= 1

    async def _ack(self, ack_ids: Sequence[Handed]) -> Sequence[TrunklineError | None] | None:
        with self._mutex:
            # What is done already was acknowledged before, by a call whose commit failed.
            lost = {id(each) for each in ack_ids if each.standing == "lost"}
            self._hand.finish([each for each in ack_ids if each.standing == "open"])
        gone: dict[PartitionName, OutcomeUnknown | None] = {}
        failure = await self._commit(gone)
        if failure is None:
            await self._let_go()
            if not (lost or gone):
                return None
        return [
            (gone.get(each.partition) or _lost(each)) if id(each) in lost or each.partition in gone else failure
            for each in ack_ids
        ]

    async def _commit(self, gone: dict[PartitionName, OutcomeUnknown | None]) -> TrunklineError | None:
        """Move the cursors as far as everything is done. The error where that failed: what is done stays so, and is
        committed with what is acknowledged next. Partitions that were lost go into ``gone``, with the error where it is
        not known whether their cursors were moved before."""
        while True:
            with self._mutex:
                positions = self._hand.committable()
            if not positions:
                return None
            try:
                await self._consumer.commit(positions)
            except Fenced as error:
                self._lose(error.partitions)
                gone.update(dict.fromkeys(error.partitions))
            except OutcomeUnknown as error:
                if not isinstance(error.__cause__, Fenced):
                    return error
                self._lose(error.__cause__.partitions)
                gone.update(dict.fromkeys(error.__cause__.partitions, error))
            except TrunklineError as error:
                return error
            else:
                with self._mutex:
                    self._hand.committed(positions)
                return None

    def _lose(self, partitions: Sequence[PartitionName]) -> None:
        with self._mutex:
            self._hand.lose(partitions)

    async def nack(self, ack_ids: Sequence[Handed], delay_s: float) -> Sequence[TrunklineError | None] | None:  # noqa: ARG002 - there is no nack_delay
        return self._give_back(ack_ids)

    async def release(self, ack_ids: Sequence[Handed]) -> None:
        self._give_back(ack_ids)

    def _give_back(self, ack_ids: Sequence[Handed]) -> list[TrunklineError | None]:
        with self._mutex:
            standings = [each.standing for each in ack_ids]
            self._hand.give_back([each for each in ack_ids if each.is_open])
        self._wake_receiver()
        return [_refusal(each, standing) for each, standing in zip(ack_ids, standings, strict=True)]

    def _wake_receiver(self) -> None:
        """Let whoever waits for records look again, or give way."""
        with self._mutex:
            waits = self._is_waiting
            self._was_woken |= waits
        if waits:
            self._consumer.wake()

    async def close(self) -> None:
        self._closed = True
        try:
            await self._consumer.close()
        finally:
            await self._lease.end()


def _refusal(handed: Handed, standing: Standing) -> TrunklineError | None:
    if standing == "done":
        return FailedPrecondition(f"offset {handed.record.offset} of {handed.record.topic} is acknowledged already")
    return _lost(handed) if standing == "lost" else None


def _lost(handed: Handed) -> ClaimLost:
    record = handed.record
    return ClaimLost(
        f"offset {record.offset} in partition {record.partition} of {record.topic} is no longer in hand: it, or one "
        "before it, was given back, or its partition went to another reader; it is delivered again",
        places=[(record.partition, record.offset)],
    )
