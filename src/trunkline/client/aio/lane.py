"""The way of records into one topic: callers that publish at the same time share a batch.

While one commit is under way, whoever comes next waits in line; when it is done, the first in line takes everything
that has gathered and commits it. No timer, no thread: an idle lane sends a record at once, a busy one sends many.

A batch that fails for one caller's reason is sent again caller by caller, so that each gets the answer for its own
record. A batch whose outcome is unknown is sent again as it was: its sequence number tells the server whether it is
in the log already.
"""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import Literal

from trunkline.client.aio.append import Appender
from trunkline.client.aio.doorbell import Ringer
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import IS_ASYNC, Mutex, Shield, Waiter
from trunkline.client.aio.topics import Topics
from trunkline.engine.batching import BatchLimits, Parcel, merge, take
from trunkline.errors import Closed, DeadlineExceeded, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import Position

logger = logging.getLogger("trunkline")

Signal = Literal["lead", "done"]


class Entry:
    """What one caller waits for: its records, then their positions or an error. ``leads``: it is the caller's turn to
    send what is in line; ``is_begun``: it does."""

    __slots__ = ("deadline", "error", "is_begun", "leads", "parcel", "positions", "size", "waiter")

    def __init__(self, parcel: Parcel, deadline: float) -> None:
        self.parcel = parcel
        self.deadline = deadline
        self.size = parcel.size
        self.waiter: Waiter[Signal] | None = None  # Of who has to wait: most callers find nobody before them.
        self.positions: list[Position] | None = None
        self.error: BaseException | None = None
        self.leads = self.is_begun = False

    @property
    def ended(self) -> bool:
        return self.positions is not None or self.error is not None

    def tell(self, signal: Signal) -> None:
        if self.waiter is not None:
            self.waiter.give(signal)

    def result(self) -> list[Position]:
        if self.error is not None:
            raise self.error
        assert self.positions is not None
        return self.positions


class Lane:
    """Publishes to one topic for one client. One commit at a time, in the order in which callers came."""

    def __init__(
        self, topic_name: str, server: Server, topics: Topics, shield: Shield, appender: Appender, ringer: Ringer
    ) -> None:
        self._ringer = ringer
        self._topic_name = topic_name
        self._server = server
        self._topics = topics
        self._shield = shield
        self._appender = appender
        self._limits = BatchLimits(
            server.settings.batch_records_max,
            server.settings.batch_bytes_max,
            server.settings.record_alone_bytes,
        )
        self._mutex = Mutex()
        self._pending: deque[Entry] = deque()
        self._pending_bytes = 0
        self._for_room: deque[Waiter[bool]] = deque()
        self._led = False
        self._full_segment_id: int | None = None

    async def submit(self, parcel: Parcel, deadline: float | None = None) -> list[Position]:
        """Positions of the records once they are durable, by the deadline or the client's own. They stand in one batch,
        in one transaction.

        A caller that is cancelled while its records wait in line takes them out; later they go on without it.
        """
        entry = Entry(parcel, self._server.deadline() if deadline is None else deadline)
        try:
            await self._join(entry)
            if not entry.leads:
                await self._turn(entry)
            if entry.leads:
                await self._shield.run(self._lead(entry))
        except BaseException:
            # What leads in a task of its own goes on, once it has begun: before that, the task may have been cancelled
            # too. A signal finds a thread anywhere: others must not wait for it.
            if not (IS_ASYNC and entry.is_begun):
                self._leave(entry)
            raise
        return entry.result()

    async def _join(self, entry: Entry) -> None:
        """Stand in line, as soon as there is room. Where nobody leads, the caller does."""
        while True:
            self._server.pool.check_usable()
            with self._mutex:
                if not self._pending or self._pending_bytes + entry.size <= self._server.settings.buffer_bytes_max:
                    self._pending.append(entry)
                    self._pending_bytes += entry.size
                    entry.leads, self._led = not self._led, True
                    entry.waiter = None if entry.leads else Waiter()
                    return
                room: Waiter[bool] = Waiter()
                self._for_room.append(room)
            try:
                await room.wait(max(0.0, entry.deadline - monotonic()))
            except TimeoutError:
                raise DeadlineExceeded(
                    f"{self._server.settings.buffer_bytes_max} bytes wait to be published; "
                    "publish less at a time, or raise buffer_bytes_max"
                ) from None

    async def _turn(self, entry: Entry) -> None:
        """Wait in line until the records are sent, or the caller has to send them. Out of time, leave the line."""
        assert entry.waiter is not None
        try:
            await entry.waiter.wait(max(0.0, entry.deadline - monotonic()))
        except TimeoutError:
            if self._leave(entry):
                raise DeadlineExceeded(
                    f"the records waited in line for {self._server.settings.deadline_s:g} s and were not sent; "
                    "somebody may hold the partition's lock: see `trunkline doctor`"
                ) from None
            raise OutcomeUnknown(
                "the records were being sent when the time was over; they may or may not be in the log"
            ) from None

    def _leave(self, entry: Entry) -> bool:
        """Take the records out of the line; False where they are being sent already. If it leads, the next one does."""
        with self._mutex:
            waiting = entry in self._pending
            if waiting:
                self._pending.remove(entry)
                self._pending_bytes -= entry.size
            if entry.leads:
                self._hand_over(entry)
            return waiting

    async def _lead(self, own: Entry) -> None:
        """Send batches until the leader's own records are sent, then let the next in line lead."""
        if not own.leads:
            return  # Its caller has left before this began.
        own.is_begun = True
        entries: list[Entry] = []
        try:
            while not own.ended:
                entries = self._take()
                await self._send(entries)
        except BaseException:
            self._appender.doubt()
            self._end(
                [entry for entry in entries if not entry.ended],
                OutcomeUnknown("publishing was interrupted; the records may or may not be in the log"),
            )
            self._leave(own)
            raise
        with self._mutex:
            self._hand_over(own)
        await self._roll()

    def _hand_over(self, leader: Entry) -> None:
        leader.leads = False
        if self._pending:
            self._pending[0].leads = True
            self._pending[0].tell("lead")
        else:
            self._led = False

    def _take(self) -> list[Entry]:
        with self._mutex:
            entries = take(self._pending, self._limits)
            self._pending_bytes -= sum([entry.size for entry in entries])
            while self._for_room:
                self._for_room.popleft().give(True)
        return entries

    async def _send(self, entries: list[Entry]) -> None:
        """Commit a batch and tell each caller; if it cannot be done together, one caller after the other."""
        try:
            await self._commit(entries)
        except DeadlineExceeded as error:
            # Nothing was written. The first to come are out of time; who came later may have some left.
            late = [entry for entry in entries if entry.deadline <= monotonic()] or entries
            self._end(late, error)
            if len(late) < len(entries):
                await self._send([entry for entry in entries if not entry.ended])
        except TrunklineError as error:
            if len(entries) > 1 and not isinstance(error, OutcomeUnknown | Unavailable | Closed):
                for entry in entries:
                    await self._send([entry])
                return
            self._end(entries, error)

    def _end(self, entries: list[Entry], error: BaseException) -> None:
        for entry in entries:
            entry.error = error
            entry.tell("done")

    async def _commit(self, entries: list[Entry]) -> None:
        parcel = merge([entry.parcel for entry in entries])
        answer = await self._appender.append(parcel, min([entry.deadline for entry in entries]))
        start = 0
        for entry in entries:
            end = start + len(entry.parcel)
            entry.positions = answer.positions[start:end]
            entry.tell("done")
            start = end
        self._topics.moved_on(self._topic_name, answer.open_segment_id)
        self._ringer.ring_topic(answer.topic_id, answer.partitions)
        if answer.is_full:
            self._full_segment_id = answer.open_segment_id

    async def _roll(self) -> None:
        """Open the next segment where a batch found one full. The records are safe whatever happens here, so a
        failure is only reported; a later batch will find the segment full again."""
        segment_id, self._full_segment_id = self._full_segment_id, None
        if segment_id is None:
            return
        try:
            await self._appender.roll(segment_id)
        except TrunklineError as error:
            logger.warning("segment %d of topic %s could not be rolled: %s", segment_id, self._topic_name, error)
