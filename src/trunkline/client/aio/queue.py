"""Queues: readers that acknowledge each record by itself, many of them on one topic.

A record that was received is held by its reader until ``ack_deadline_s`` has passed; what was not acknowledged until
then is delivered again, to any reader. Nothing is asked of the server before the first call.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import chain
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

from trunkline.client import protocol
from trunkline.client.aio.doorbell import Ringer
from trunkline.client.aio.queue_calls import Claimed, QueueCalls
from trunkline.client.aio.queue_delivery import AsyncDelivery, Chosen
from trunkline.client.aio.queue_filling import Filling
from trunkline.client.aio.queue_lane import Order, QueueLane
from trunkline.client.aio.queue_letters import QueueLetters, find_letters_topic
from trunkline.client.aio.queue_opened import Opened
from trunkline.client.aio.queue_settling import Settling, check_unsettled
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Mutex, Shield
from trunkline.client.aio.topics import Topics
from trunkline.client.aio.watch import Seat, Watch
from trunkline.engine.checks import (
    INT4_MAX,
    check_between,
    check_delay,
    check_seconds,
    check_whole,
)
from trunkline.engine.dead_letters import reason_text
from trunkline.engine.deliveries import Buffer, Claim, Kind, Settlement
from trunkline.engine.queue_settings import ACK_DEADLINE_S_MAX, QueueWanted
from trunkline.errors import Closed, FailedPrecondition, InvalidArgument, TrunklineError
from trunkline.records import Batch, Record, Topic

logger = logging.getLogger("trunkline")

WAIT_MIN_S = 0.01


class QueueRooms(NamedTuple):
    """What a queue needs of its client."""

    server: Server
    topics: Topics
    watch: Watch
    ringer: Ringer
    shield: Shield


class AsyncQueue:
    """Reads a queue. Many tasks may share one: calls at the same time become one call of the server.

    Deliveries come in no particular order, except from an ordered queue, where each partition is in one reader's hands
    at a time. ``prefetch`` records may be claimed ahead of the application.
    """

    def __init__(self, rooms: QueueRooms, wanted: QueueWanted) -> None:
        self._rooms = rooms
        self._wanted = wanted
        self._mutex = Mutex()
        self._buffer: Buffer[AsyncDelivery] = Buffer(self._deliveries)
        self._settling = Settling(rooms.server, self._mutex, self._buffer, wanted.name, self._nudge)
        self._closed = False
        self._opened: Opened | None = None
        self._look_due = 0.0
        self._seats: list[Seat] = []
        self._idle_seats: list[Seat] = []
        self._sharing: dict[Callable[[], bool], Seat] = {}
        self._filling = Filling(self._mutex, self._buffer, wanted.prefetch.bytes_max)

    def __repr__(self) -> str:
        return f"<trunkline queue {self._wanted.name} of {self._wanted.topic}>"

    # -- coming and going --

    async def __aenter__(self) -> AsyncQueue:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what was claimed ahead, so that others get it at once, and wait for what is under way. What was
        handed out and not settled is delivered again after its deadline. Ends calls that wait, and loops. Twice is
        fine."""
        if self._rooms.server.pool.is_inherited:
            self._rooms.server.pool.check_usable()
        if self._closed:
            return
        self._closed = True
        self._nudge()
        try:
            await self._give_back(is_last=True)
        finally:
            for seat in self._seats:
                self._rooms.watch.leave(seat)

    async def give_back(self) -> None:
        """Let everybody have what lies in memory: one of several who share this reader has left, and who was cancelled
        before he had what was claimed for him has left it there. Others whose records go with it ask again."""
        if await self._give_back(is_last=False):
            self._nudge()

    def _nudge(self) -> None:
        """Let those who wait look again."""
        for seat in list(self._seats):
            seat.nudge()

    async def _give_back(self, *, is_last: bool) -> bool:
        """Whether there was anything."""
        if self._opened is None:
            return False
        order = Order(self._rooms.server.deadline(), gives_back=True, is_last=is_last)
        try:
            await self._opened.lane.submit(order)
        except TrunklineError as error:
            logger.warning(
                "%r could not give back what it had claimed; it is delivered after its deadline: %s", self, error
            )
        return order.had_records

    async def _ready(self) -> Opened:
        """Open it, where that has not been done; now and then, find partitions that were added."""
        self._check_open()
        opened = self._opened
        if opened is not None and monotonic() < self._look_due:
            return opened
        server, wanted = self._rooms.server, self._wanted
        topic = await self._rooms.topics.look_up(wanted.topic)
        if opened is None:
            opened = await self._open(topic)
        elif topic.topic_id == opened.topic.topic_id and topic.partitions > opened.topic.partitions:
            await self._look_again(opened, topic)
        else:
            await opened.calls.find_tables()
        self._look_due = monotonic() + server.settings.heartbeat_s
        return opened

    async def _open(self, topic: Topic) -> Opened:
        server, wanted = self._rooms.server, self._wanted
        if wanted.dead_letter is not None:
            await find_letters_topic(self._rooms.topics, wanted.dead_letter)
        ((queue_id, settings, part_ids),) = await server.repeat(
            protocol.QUEUE_ENTER, [topic.topic_id, wanted.name, wanted.create, wanted.start, *wanted[4:10]]
        )
        is_plain = not settings["is_ordered"] and settings["max_attempts"] != 1
        calls = QueueCalls(server, topic, queue_id, part_ids, is_plain=is_plain)
        await calls.find_tables()
        if wanted.dead_letter is None and settings["dead_letter"] is not None:
            await find_letters_topic(self._rooms.topics, settings["dead_letter"])
        lane = QueueLane(server, self._rooms.shield, calls, self._buffer, self._mutex, wanted.prefetch)
        opened = Opened(topic, calls, lane, settings, self._letters(calls, settings))
        with self._mutex:
            # Another task may have opened it meanwhile.
            self._opened = self._opened or opened
            return self._opened

    def _letters(self, calls: QueueCalls, settings: dict[str, Any]) -> QueueLetters | None:
        """Whether their topic is there is found out by who buries: without it, everything else goes on."""
        name = settings["dead_letter"]
        if name is None:
            return None
        return QueueLetters(self._rooms.server, self._rooms.topics, self._rooms.ringer, calls, name)

    async def _look_again(self, opened: Opened, topic: Topic) -> None:
        """Learn how the queue is set now, whatever was asked for when it was opened; and of new partitions, where the
        topic has got any."""
        wanted = self._wanted
        ((_, settings, part_ids),) = await self._rooms.server.repeat(
            protocol.QUEUE_ENTER, [topic.topic_id, wanted.name, False, wanted.start, *[None] * 6]
        )
        letters = self._letters(opened.calls, settings)
        with self._mutex:
            opened.set(settings, letters)
            # Another task may have learned of more of them meanwhile.
            has_grown = topic.partitions > opened.topic.partitions
            if has_grown:
                opened.calls.topic, opened.calls.part_ids, opened.topic = topic, part_ids, topic
        for seat in list(self._seats) if has_grown else ():
            self._rooms.watch.follow(seat, topic)

    def _check_open(self) -> None:
        self._rooms.server.pool.check_usable()
        if self._closed:
            raise Closed("this queue is closed; make another one")

    def _deliveries(self, batch: Batch, start: int, end: int, claim: Claim) -> Iterator[AsyncDelivery]:
        return batch.made_into(AsyncDelivery, start, end, claim.attempt, claim, self)

    @property
    def settings(self) -> dict[str, Any]:
        """How the queue was set when this was looked at last: ack_deadline_s, max_attempts, dead_letter, is_ordered."""
        return self._known().settings

    @property
    def queue_id(self) -> int:
        """The server's number for it."""
        return self._known().calls.queue_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    def _known(self) -> Opened:
        if self._opened is None:
            raise FailedPrecondition("this queue was not opened yet: enter it, or receive first")
        return self._opened

    # -- receiving --

    async def receive(
        self, max_records: int = 1, *, wait_s: float = 0.0, ack: Iterable[AsyncDelivery] = ()
    ) -> list[AsyncDelivery]:
        """The next deliveries, at most ``max_records``: what there is at once, or the first that come within
        ``wait_s``; an empty list where none came. Waiting writes nothing.

        ``ack``: deliveries that are done. They are acknowledged first, in the same call of the server where that can
        be: the quickest way for a worker that is always busy. ClaimLost is raised as by ``ack``; what was claimed
        meanwhile comes with the next call. Where they are acknowledged and only the records are not to be had, that
        error is raised, and they stay acknowledged.
        """
        check_whole("max_records", max_records, least=1, most=INT4_MAX)
        check_seconds("wait_s", wait_s)
        if ack != ():
            await self._ack_and_claim(ack, max_records)
        opened, now = self._opened, monotonic()
        if opened is not None and not self._closed and now < self._look_due:
            self._rooms.server.pool.check_usable()
            with self._mutex:
                found = [] if opened.lane.exhausted else self._buffer.take_fresh(max_records, now)
            if found:
                return found
        return await self._receive(max_records, now + wait_s, _never)

    async def receive_unless(
        self, max_records: int, wait_s: float, has_left: Callable[[], bool]
    ) -> list[AsyncDelivery]:
        """As ``receive``, for one of several who share this reader, each with one call at a time. A wait ends when he
        has left, of which ``end_wait`` tells it."""
        return await self._receive(max_records, monotonic() + wait_s, has_left)

    def end_wait(self, has_left: Callable[[], bool]) -> None:
        """End the wait of one who has left, if he waits."""
        seat = self._sharing.get(has_left)
        if seat is not None:
            seat.nudge()

    async def _ack_and_claim(self, deliveries: Iterable[AsyncDelivery], records: int) -> None:
        opened, chosen = self._chosen(deliveries)
        with self._mutex:
            wanted = max(0, records - len(self._buffer))
        self._settling.raise_lost(opened, await self._settling.settle(opened, chosen, "a", wanted=wanted))

    async def _receive(self, max_records: int, deadline: float, has_left: Callable[[], bool]) -> list[AsyncDelivery]:
        opened = await self._ready()
        found = await self._take(opened, max_records)
        if found or has_left():
            return found
        if deadline <= monotonic():
            await self._claim(opened, max_records)
            return await self._take(opened, max_records)
        seat = await self._seat(opened)
        if has_left is not _never:
            self._sharing[has_left] = seat
        try:
            return await self._await(opened, seat, max_records, deadline, has_left)
        finally:
            self._sharing.pop(has_left, None)
            self._idle_seats.append(seat)

    async def _await(
        self, opened: Opened, seat: Seat, max_records: int, deadline: float, has_left: Callable[[], bool]
    ) -> list[AsyncDelivery]:
        settings = self._rooms.server.settings
        while not has_left():
            # In this order: whatever comes after the log's ends were looked at ends the wait.
            seat.take_hints()
            ends = await self._rooms.topics.ranges(opened.topic)
            if has_left():
                # Nothing is claimed for him after what lay in memory was given back.
                break
            had_records = await self._claim(opened, max_records)
            found = await self._take(opened, max_records)
            left_s = deadline - monotonic()
            if found or left_s <= 0 or has_left():
                return found
            if had_records:
                # Others were quicker. There may be more, of which no hint will come.
                continue
            self._rooms.watch.poll_soon()
            due_s = float("inf") if opened.lane.due_at is None else opened.lane.due_at - monotonic()
            look_s = settings.heartbeat_s if self._rooms.watch.is_alive else settings.poll_max_s
            # Partitions that were added meanwhile are found when it looks again.
            awaited = {number: each.end for number, each in zip(opened.topic.partition_ids, ends, strict=False)}
            await seat.wait(awaited, min(left_s, max(due_s, WAIT_MIN_S), look_s))
            if has_left():
                break
            opened = await self._ready()
            found = await self._take(opened, max_records)
            if found:
                return found
        return []

    async def _seat(self, opened: Opened) -> Seat:
        """A place to wait in, which nobody else waits in now."""
        watch = self._rooms.watch
        await watch.start()
        with self._mutex:
            if self._idle_seats:
                return self._idle_seats.pop()
        seat = watch.seat()
        self._seats.append(seat)
        watch.follow(seat, opened.topic)
        return seat

    async def _claim(self, opened: Opened, records: int) -> bool:
        """Ask for records; whether some came, or lay in memory, for whoever takes them first."""
        order = Order(self._rooms.server.deadline(), wanted=records)
        await opened.lane.submit(order)
        return order.had_records

    async def _take(self, opened: Opened, records: int) -> list[AsyncDelivery]:
        """Hand out what lies in memory, once it is certain to be held for long enough, and has been read."""
        prolonged: set[Claim] = set()
        while True:
            self._check_open()
            with self._mutex:
                exhausted, opened.lane.exhausted = opened.lane.exhausted, []
                pieces = self._buffer.next_pieces(records)
                late = {piece.claim for piece in pieces if self._is_late(piece.claim)} - prolonged
                unread = [piece for piece in pieces if piece.records is None]
                if not (exhausted or late or unread):
                    return self._buffer.take(records)
            if exhausted:
                await self._rooms.shield.run(self._bury_exhausted(opened, exhausted))
                if not pieces:
                    await self._claim(opened, records)
            elif late:
                await self._settling.prolong(opened, late)
                prolonged |= late
            else:
                await self._filling.fill(opened.calls, unread[0])

    def _is_late(self, claim: Claim) -> bool:
        return not claim.is_fresh(monotonic())

    # -- iterating --

    def __aiter__(self) -> AsyncIterator[AsyncDelivery]:
        return self

    async def __anext__(self) -> AsyncDelivery:
        """The next delivery, however long it takes; ends when the queue is closed. Nothing is acknowledged by it."""
        while True:
            if self._closed:
                raise StopAsyncIteration
            try:
                found = await self.receive(wait_s=self._rooms.server.settings.heartbeat_s)
            except Closed:
                if not self._closed:
                    raise
                raise StopAsyncIteration from None
            if found:
                return found[0]

    # -- settling --

    async def ack(self, deliveries: Iterable[AsyncDelivery]) -> None:
        """They are done: they are not delivered again. Returns when that is durable.

        ClaimLost names those that are no longer held, and may be delivered again; the others are settled.
        """
        opened, chosen = self._chosen(deliveries)
        lost = await self._settling.settle(opened, chosen, "a")
        if lost:
            self._settling.raise_lost(opened, lost)

    async def ack_one(self, delivery: AsyncDelivery) -> None:
        """As ``ack``, for one: what most handlers call, so with as little as it takes."""
        self._check_open()
        opened, claim = self._opened, delivery.claim
        with self._mutex:
            is_open = opened is not None and delivery.queue is self and claim.begin_one(delivery.offset)
        if opened is None or not is_open:
            await self.ack((delivery,))
            return
        order = Order(self._rooms.server.deadline(), (Settlement(claim, "a", (delivery.offset,)),))
        try:
            await opened.lane.submit(order)
        except BaseException as error:
            self._settling.undo_order(order, error, {claim: [delivery]}, "a")
            raise
        if opened.lane.is_waiting or order.lost:
            self._settling.raise_lost(opened, self._settling.ended(opened, order, {claim: [delivery]}))

    async def nack(self, deliveries: Iterable[AsyncDelivery], *, delay_s: float = 0.0) -> None:
        """They failed: deliver them again, after the delay; those that were tried ``max_attempts`` times go to the dead
        letter topic. Of an ordered queue, what else is held of the same partition is given back with them."""
        check_seconds("delay_s", delay_s)
        opened, chosen = self._chosen(deliveries)
        check_delay("delay_s", delay_s, opened.topic)
        most = opened.max_attempts
        check_unsettled(chosen)
        spent = {claim: held for claim, held in chosen.items() if most is not None and claim.attempt >= most}
        again = {claim: held for claim, held in chosen.items() if claim not in spent}
        # The dead letters first: of an ordered queue, they would be given back with the others.
        lost = await self._settling.settle(opened, spent, "d", reason=f"tried {most} times, given back by its reader")
        self._settling.raise_lost(opened, lost + await self._settling.settle(opened, again, "n", float(delay_s)))

    async def release(self, deliveries: Iterable[AsyncDelivery]) -> None:
        """Nobody has looked at them: let others have them at once, and do not count this attempt. Of an ordered queue,
        what else is held of the same partition is given back with them."""
        opened, chosen = self._chosen(deliveries)
        self._settling.raise_lost(opened, await self._settling.settle(opened, chosen, "r"))

    async def reject(self, deliveries: Iterable[AsyncDelivery], reason: str) -> None:
        """They can never work: put them into the dead letter topic, where there is one, and do not deliver them
        again."""
        if not isinstance(reason, str):
            raise InvalidArgument(f"a reason must be text, not {type(reason).__name__}")
        opened, chosen = self._chosen(deliveries)
        if opened.letters is None:
            # It may have been set after this reader had opened the queue.
            await self._look_again(opened, opened.topic)
        kind: Kind = "j" if opened.letters is None else "d"
        self._settling.raise_lost(opened, await self._settling.settle(opened, chosen, kind, reason=reason_text(reason)))
        if opened.letters is None:
            for each in chain.from_iterable(chosen.values()):
                logger.error("%r is rejected: %s", each, reason)

    async def extend(self, deliveries: Iterable[AsyncDelivery], seconds: float) -> None:
        """Hold them until so many seconds from now, or longer where they are held longer already."""
        check_between("seconds", seconds, 0, ACK_DEADLINE_S_MAX)
        opened, chosen = self._chosen(deliveries)
        self._settling.raise_lost(opened, await self._settling.settle(opened, chosen, "e", float(seconds)))

    def _chosen(self, deliveries: Iterable[AsyncDelivery]) -> tuple[Opened, Chosen]:
        """What was given, if all of it was received here."""
        self._check_open()
        if not isinstance(deliveries, list | tuple):
            if isinstance(deliveries, Record | str | bytes) or not isinstance(deliveries, Iterable):
                raise InvalidArgument("a list of deliveries is needed; for one, call its own method")
            deliveries = list(deliveries)
        chosen: Chosen = {}
        claim: Claim | None = None
        for each in deliveries:
            if not isinstance(each, AsyncDelivery):
                raise InvalidArgument(f"deliveries are needed, not {type(each).__name__}")
            if each.queue is not self:
                raise InvalidArgument(f"offset {each.offset} of {each.topic} was received by another queue, or reader")
            if each.claim is not claim:
                claim = each.claim
                together = chosen.setdefault(claim, [])
            together.append(each)
        if self._opened is None:
            raise InvalidArgument("nothing was received yet: there is nothing to settle")
        return self._opened, chosen

    # -- what nobody could handle --

    async def _bury_exhausted(self, opened: Opened, exhausted: list[Claimed]) -> None:
        """Put the first record of each claim that was tried too often into the dead letter topic; what was claimed with
        it gets another chance. Where there is no such topic any more, all are delivered again. A failure is reported:
        the claim expires, and the next reader tries it."""
        by_claim: dict[Claim, list[tuple[int, int]]] = {}
        for piece in exhausted:
            by_claim.setdefault(piece.claim, []).extend(piece.ranges)
        for claim, ranges in by_claim.items():
            try:
                if opened.letters is None:
                    # It was set after this reader had opened the queue.
                    await self._look_again(opened, opened.topic)
                if opened.letters is not None:
                    await opened.letters.bury_first(claim, ranges, self._wanted.prefetch.bytes_max)
                else:
                    with self._mutex:
                        self._buffer.add(claim, ranges, None)
            except TrunklineError as error:
                logger.warning(
                    "partition %d, offset %d of %s could not be put among the dead letters; it is tried again: %s",
                    claim.partition, ranges[0][0], opened.topic.name, error,
                )  # fmt: skip


def _never() -> bool:
    return False
