# Generated from src/trunkline/client/aio/queue.py by tools/twins.py (make fix). Change the source, not this file.
"""Queues: readers that acknowledge each record by itself, many of them on one topic.

A record that was received is held by its reader until ``ack_deadline_s`` has passed; what was not acknowledged until
then is delivered again, to any reader. Nothing is asked of the server before the first call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

from trunkline.client import protocol
from trunkline.client.sync.doorbell import Ringer
from trunkline.client.sync.queue_calls import Claimed, QueueCalls
from trunkline.client.sync.queue_lane import Order, Prefetch, QueueLane
from trunkline.client.sync.queue_letters import Grave, QueueLetters, find_letters_topic
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import Mutex, Shield, Waiter
from trunkline.client.sync.topics import Topics
from trunkline.client.sync.watch import Seat, Watch
from trunkline.engine.checks import (
    INT4_MAX,
    check_delay,
    check_queue_name,
    check_seconds,
    check_topic_name,
    check_whole,
)
from trunkline.engine.dead_letters import reason_text
from trunkline.engine.deliveries import Buffer, Claim, Kind, Piece, Settlement
from trunkline.errors import ClaimLost, Closed, FailedPrecondition, InvalidArgument, OutcomeUnknown, TrunklineError
from trunkline.records import Batch, Record, Topic

logger = logging.getLogger("trunkline")

ACK_DEADLINE_S_MAX = 86_400
ATTEMPTS_MAX = 1_000_000
PREFETCH_MAX = 10_000
WAIT_MIN_S = 0.01


class QueueRooms(NamedTuple):
    """What a queue needs of its client."""

    server: Server
    topics: Topics
    watch: Watch
    ringer: Ringer
    shield: Shield


class QueueWanted(NamedTuple):
    """Which queue is to be read, and how it should be set; None: as it is."""

    topic: str
    name: str
    create: bool
    start: str
    ack_deadline_s: float | None
    max_attempts: int | None
    dead_letter: str | None
    ordered_by_key: bool | None
    pause_above: float | None
    bury_expired: bool | None
    prefetch: Prefetch

    def checked(self) -> QueueWanted:
        check_topic_name(self.topic)
        check_queue_name(self.name)
        _check_switch("create", self.create)
        if self.start not in ("earliest", "latest"):
            raise InvalidArgument(f"start must be 'earliest' or 'latest', not {self.start!r}")
        if self.ack_deadline_s is not None:
            _check_between("ack_deadline_s", self.ack_deadline_s, 0.001, ACK_DEADLINE_S_MAX)
        if self.pause_above is not None:
            _check_between("pause_above", self.pause_above, 1e-9, 1)
        for name, switch in (("ordered_by_key", self.ordered_by_key), ("bury_expired", self.bury_expired)):
            if switch is not None:
                _check_switch(name, switch)
        if self.dead_letter is not None and check_topic_name(self.dead_letter) == self.topic:
            raise InvalidArgument(f"records that fail would come back at once: {self.topic} is what the queue reads")
        if self.max_attempts is not None:
            check_whole("max_attempts", self.max_attempts, least=1, most=ATTEMPTS_MAX)
            if self.dead_letter is None:
                raise InvalidArgument(
                    "max_attempts needs a topic for what has failed so often: give dead_letter='…' too, and create it"
                )
        check_whole("prefetch", self.prefetch.records, most=PREFETCH_MAX)
        check_whole("prefetch_bytes", self.prefetch.bytes_max, least=1)
        return self


class Delivery(Record, frozen=True, gc=False):
    """A record that a queue has handed out, for the ``attempt``-th time. It is held until it is settled, or its
    deadline passes. Each call returns when it is durable, and raises ClaimLost where it is too late."""

    attempt: int
    claim: Claim
    queue: Queue

    def ack(self) -> None:
        """It is done: it is not delivered again."""
        self.queue.ack_one(self)

    def nack(self, *, delay_s: float = 0.0) -> None:
        """It failed: deliver it again, after the delay. After ``max_attempts`` it goes to the dead letter topic."""
        self.queue.nack([self], delay_s=delay_s)

    def reject(self, reason: str) -> None:
        """It can never work: put it into the dead letter topic, where there is one, and do not deliver it again."""
        self.queue.reject([self], reason)

    def extend(self, seconds: float) -> None:
        """Hold it until so many seconds from now, or longer where it is held longer already."""
        self.queue.extend([self], seconds)

    def __repr__(self) -> str:
        place = f"topic={self.topic!r}, partition={self.partition}, offset={self.offset}"
        return f"Delivery({place}, key={self.key!r}, attempt={self.attempt})"


Chosen = dict[Claim, list[Delivery]]
"""Deliveries by their claims."""


class Queue:
    """Reads a queue. Many tasks may share one: calls at the same time become one call of the server.

    Deliveries come in no particular order, except from an ordered queue, where each partition is in one reader's hands
    at a time. ``prefetch`` records may be claimed ahead of the application.
    """

    def __init__(self, rooms: QueueRooms, wanted: QueueWanted) -> None:
        self._rooms = rooms
        self._wanted = wanted
        self._mutex = Mutex()
        self._buffer: Buffer[Delivery] = Buffer(self._deliveries)
        self._closed = False
        self._opened: _Opened | None = None
        self._look_due = 0.0
        self._seats: list[Seat] = []
        self._idle_seats: list[Seat] = []
        self._sharing: dict[Callable[[], bool], Seat] = {}
        self._reading: dict[Piece[Delivery], list[Waiter[bool]]] = {}
        """Pieces that are being read, and who waits for them."""

    def __repr__(self) -> str:
        return f"<trunkline queue {self._wanted.name} of {self._wanted.topic}>"

    # -- coming and going --

    def __enter__(self) -> Queue:
        self._ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was claimed ahead, so that others get it at once, and wait for what is under way. What was
        handed out and not settled is delivered again after its deadline. Ends calls that wait, and loops. Twice is
        fine."""
        if self._rooms.server.pool.is_inherited:
            self._rooms.server.pool.check_usable()
        if self._closed:
            return
        self._closed = True
        for seat in list(self._seats):
            seat.nudge()
        try:
            self._give_back(is_last=True)
        finally:
            for seat in self._seats:
                self._rooms.watch.leave(seat)

    def give_back(self) -> None:
        """Let everybody have what lies in memory: one of several who share this reader has left, and who was cancelled
        before he had what was claimed for him has left it there. Others whose records go with it ask again."""
        if self._give_back(is_last=False):
            for seat in list(self._seats):
                seat.nudge()

    def _give_back(self, *, is_last: bool) -> bool:
        """Whether there was anything."""
        if self._opened is None:
            return False
        order = Order(self._rooms.server.deadline(), gives_back=True, is_last=is_last)
        try:
            self._opened.lane.submit(order)
        except TrunklineError as error:
            logger.warning(
                "%r could not give back what it had claimed; it is delivered after its deadline: %s", self, error
            )
        return order.had_records

    def _ready(self) -> _Opened:
        """Open it, where that has not been done; now and then, find partitions that were added."""
        self._check_open()
        opened = self._opened
        if opened is not None and monotonic() < self._look_due:
            return opened
        server, wanted = self._rooms.server, self._wanted
        topic = self._rooms.topics.look_up(wanted.topic)
        if opened is None:
            opened = self._open(topic)
        elif topic.topic_id == opened.topic.topic_id and topic.partitions > opened.topic.partitions:
            self._look_again(opened, topic)
        else:
            opened.calls.find_tables()
        self._look_due = monotonic() + server.settings.heartbeat_s
        return opened

    def _open(self, topic: Topic) -> _Opened:
        server, wanted = self._rooms.server, self._wanted
        if wanted.dead_letter is not None:
            find_letters_topic(self._rooms.topics, wanted.dead_letter)
        ((queue_id, settings, part_ids),) = server.repeat(
            protocol.QUEUE_ENTER, [topic.topic_id, wanted.name, wanted.create, wanted.start, *wanted[4:10]]
        )
        is_plain = not settings["is_ordered"] and settings["max_attempts"] != 1
        calls = QueueCalls(server, topic, queue_id, part_ids, is_plain=is_plain)
        calls.find_tables()
        if wanted.dead_letter is None and settings["dead_letter"] is not None:
            find_letters_topic(self._rooms.topics, settings["dead_letter"])
        lane = QueueLane(server, self._rooms.shield, calls, self._buffer, self._mutex, wanted.prefetch)
        opened = _Opened(topic, calls, lane, settings, self._letters(calls, settings))
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

    def _look_again(self, opened: _Opened, topic: Topic) -> None:
        """Learn how the queue is set now, whatever was asked for when it was opened; and of new partitions, where the
        topic has got any."""
        wanted = self._wanted
        ((_, settings, part_ids),) = self._rooms.server.repeat(
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

    def _deliveries(self, batch: Batch, start: int, end: int, claim: Claim) -> Iterator[Delivery]:
        return batch.made_into(Delivery, start, end, claim.attempt, claim, self)

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

    def _known(self) -> _Opened:
        if self._opened is None:
            raise FailedPrecondition("this queue was not opened yet: enter it, or receive first")
        return self._opened

    # -- receiving --

    def receive(self, max_records: int = 1, *, wait_s: float = 0.0, ack: Iterable[Delivery] = ()) -> list[Delivery]:
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
            self._ack_and_claim(ack, max_records)
        opened, now = self._opened, monotonic()
        if opened is not None and not self._closed and now < self._look_due:
            self._rooms.server.pool.check_usable()
            with self._mutex:
                found = [] if opened.lane.exhausted else self._buffer.take_fresh(max_records, now)
            if found:
                return found
        return self._receive(max_records, now + wait_s, _never)

    def receive_unless(self, max_records: int, wait_s: float, has_left: Callable[[], bool]) -> list[Delivery]:
        """As ``receive``, for one of several who share this reader, each with one call at a time. A wait ends when he
        has left, of which ``end_wait`` tells it."""
        return self._receive(max_records, monotonic() + wait_s, has_left)

    def end_wait(self, has_left: Callable[[], bool]) -> None:
        """End the wait of one who has left, if he waits."""
        seat = self._sharing.get(has_left)
        if seat is not None:
            seat.nudge()

    def _ack_and_claim(self, deliveries: Iterable[Delivery], records: int) -> None:
        opened, chosen = self._chosen(deliveries)
        with self._mutex:
            wanted = max(0, records - len(self._buffer))
        self._raise_lost(opened, self._settle(opened, chosen, "a", wanted=wanted))

    def _receive(self, max_records: int, deadline: float, has_left: Callable[[], bool]) -> list[Delivery]:
        opened = self._ready()
        found = self._take(opened, max_records)
        if found or has_left():
            return found
        if deadline <= monotonic():
            self._claim(opened, max_records)
            return self._take(opened, max_records)
        seat = self._seat(opened)
        if has_left is not _never:
            self._sharing[has_left] = seat
        try:
            return self._await(opened, seat, max_records, deadline, has_left)
        finally:
            self._sharing.pop(has_left, None)
            self._idle_seats.append(seat)

    def _await(
        self, opened: _Opened, seat: Seat, max_records: int, deadline: float, has_left: Callable[[], bool]
    ) -> list[Delivery]:
        settings = self._rooms.server.settings
        while not has_left():
            # In this order: whatever comes after the log's ends were looked at ends the wait.
            seat.take_hints()
            ends = self._rooms.topics.ranges(opened.topic)
            if has_left():
                # Nothing is claimed for him after what lay in memory was given back.
                break
            had_records = self._claim(opened, max_records)
            found = self._take(opened, max_records)
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
            seat.wait(awaited, min(left_s, max(due_s, WAIT_MIN_S), look_s))
            if has_left():
                break
            opened = self._ready()
            found = self._take(opened, max_records)
            if found:
                return found
        return []

    def _seat(self, opened: _Opened) -> Seat:
        """A place to wait in, which nobody else waits in now."""
        watch = self._rooms.watch
        watch.start()
        with self._mutex:
            if self._idle_seats:
                return self._idle_seats.pop()
        seat = watch.seat()
        self._seats.append(seat)
        watch.follow(seat, opened.topic)
        return seat

    def _claim(self, opened: _Opened, records: int) -> bool:
        """Ask for records; whether some came, or lay in memory, for whoever takes them first."""
        order = Order(self._rooms.server.deadline(), wanted=records)
        opened.lane.submit(order)
        return order.had_records

    def _take(self, opened: _Opened, records: int) -> list[Delivery]:
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
                self._rooms.shield.run(self._bury_exhausted(opened, exhausted))
                if not pieces:
                    self._claim(opened, records)
            elif late:
                self._prolong(opened, late)
                prolonged |= late
            else:
                self._read(opened, unread[0])

    def _is_late(self, claim: Claim) -> bool:
        return not claim.is_fresh(monotonic())

    def _prolong(self, opened: _Opened, claims: Iterable[Claim]) -> None:
        """Hold claims for longer that have waited in memory. Of those that are lost nothing is handed out."""
        wanted = [Settlement(claim, "e", (), opened.ack_deadline_s) for claim in claims]
        order = Order(self._rooms.server.deadline(), wanted)
        try:
            opened.lane.submit(order)
        except OutcomeUnknown:
            for settlement in wanted:
                settlement.claim.lose()

    def _read(self, opened: _Opened, piece: Piece[Delivery]) -> None:
        """Read a piece, and what can be read with it. One does, others who want the same wait; they look again, whatever
        came of it."""
        waiter: Waiter[bool] = Waiter()
        with self._mutex:
            waiting = self._reading.setdefault(piece, [])
            waiting.append(waiter)
            is_first = len(waiting) == 1
        if not is_first:
            waiter.wait()
            return
        try:
            self._fill(opened, piece)
        finally:
            with self._mutex:
                waiting = self._reading.pop(piece)
            for each in waiting:
                each.give(True)

    def _fill(self, opened: _Opened, piece: Piece[Delivery]) -> None:
        with self._mutex:
            run = self._buffer.unread_run(piece)
        if run:
            end = run[-1].end
            bytes_max = self._wanted.prefetch.bytes_max
            batches = opened.calls.read(piece.claim.partition, piece.first, end, bytes_max)
            with self._mutex:
                self._buffer.fill(run, batches)

    # -- iterating --

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        """The next delivery, however long it takes; ends when the queue is closed. Nothing is acknowledged by it."""
        while True:
            if self._closed:
                raise StopIteration
            try:
                found = self.receive(wait_s=self._rooms.server.settings.heartbeat_s)
            except Closed:
                if not self._closed:
                    raise
                raise StopIteration from None
            if found:
                return found[0]

    # -- settling --

    def ack(self, deliveries: Iterable[Delivery]) -> None:
        """They are done: they are not delivered again. Returns when that is durable.

        ClaimLost names those that are no longer held, and may be delivered again; the others are settled.
        """
        opened, chosen = self._chosen(deliveries)
        lost = self._settle(opened, chosen, "a")
        if lost:
            self._raise_lost(opened, lost)

    def ack_one(self, delivery: Delivery) -> None:
        """As ``ack``, for one: what most handlers call, so with as little as it takes."""
        self._check_open()
        opened, claim = self._opened, delivery.claim
        with self._mutex:
            is_open = opened is not None and delivery.queue is self and claim.begin_one(delivery.offset)
        if opened is None or not is_open:
            self.ack((delivery,))
            return
        order = Order(self._rooms.server.deadline(), (Settlement(claim, "a", (delivery.offset,)),))
        try:
            opened.lane.submit(order)
        except BaseException as error:
            self._undo_order(order, error, {claim: [delivery]}, "a")
            raise
        if opened.lane.is_waiting or order.lost:
            self._raise_lost(opened, self._ended(opened, order, {claim: [delivery]}))

    def nack(self, deliveries: Iterable[Delivery], *, delay_s: float = 0.0) -> None:
        """They failed: deliver them again, after the delay; those that were tried ``max_attempts`` times go to the dead
        letter topic. Of an ordered queue, what else is held of the same partition is given back with them."""
        check_seconds("delay_s", delay_s)
        opened, chosen = self._chosen(deliveries)
        check_delay("delay_s", delay_s, opened.topic)
        most = opened.max_attempts
        _check_unsettled(chosen)
        spent = {claim: held for claim, held in chosen.items() if most is not None and claim.attempt >= most}
        again = {claim: held for claim, held in chosen.items() if claim not in spent}
        # The dead letters first: of an ordered queue, they would be given back with the others.
        lost = self._settle(opened, spent, "d", reason=f"tried {most} times, given back by its reader")
        self._raise_lost(opened, lost + self._settle(opened, again, "n", float(delay_s)))

    def release(self, deliveries: Iterable[Delivery]) -> None:
        """Nobody has looked at them: let others have them at once, and do not count this attempt. Of an ordered queue,
        what else is held of the same partition is given back with them."""
        opened, chosen = self._chosen(deliveries)
        self._raise_lost(opened, self._settle(opened, chosen, "r"))

    def reject(self, deliveries: Iterable[Delivery], reason: str) -> None:
        """They can never work: put them into the dead letter topic, where there is one, and do not deliver them
        again."""
        if not isinstance(reason, str):
            raise InvalidArgument(f"a reason must be text, not {type(reason).__name__}")
        opened, chosen = self._chosen(deliveries)
        if opened.letters is None:
            # It may have been set after this reader had opened the queue.
            self._look_again(opened, opened.topic)
        kind: Kind = "j" if opened.letters is None else "d"
        self._raise_lost(opened, self._settle(opened, chosen, kind, reason=reason_text(reason)))
        if opened.letters is None:
            for each in chain.from_iterable(chosen.values()):
                logger.error("%r is rejected: %s", each, reason)

    def extend(self, deliveries: Iterable[Delivery], seconds: float) -> None:
        """Hold them until so many seconds from now, or longer where they are held longer already."""
        _check_between("seconds", seconds, 0, ACK_DEADLINE_S_MAX)
        opened, chosen = self._chosen(deliveries)
        self._raise_lost(opened, self._settle(opened, chosen, "e", float(seconds)))

    def _chosen(self, deliveries: Iterable[Delivery]) -> tuple[_Opened, Chosen]:
        """What was given, if all of it was received here."""
        self._check_open()
        if not isinstance(deliveries, list | tuple):
            if isinstance(deliveries, Record | str | bytes) or not isinstance(deliveries, Iterable):
                raise InvalidArgument("a list of deliveries is needed; for one, call its own method")
            deliveries = list(deliveries)
        chosen: Chosen = {}
        claim: Claim | None = None
        for each in deliveries:
            if not isinstance(each, Delivery):
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

    def _settle(
        self, opened: _Opened, chosen: Chosen, kind: Kind, delay_s: float = 0.0, *, reason: str = "", wanted: int = 0
    ) -> list[Delivery]:
        """Settle those that are held; the others."""
        if not chosen:
            return []
        with self._mutex:
            held, lost = self._begin(chosen, kind, is_ordered=opened.is_ordered)
        if not held:
            return lost
        deadline = self._rooms.server.deadline()
        if kind == "d":
            graves = [_grave(each, reason) for each in chain.from_iterable(held.values())]
            order = Order(deadline, graves=graves)
        else:
            order = Order(deadline, _settlements(held, kind, delay_s), wanted=wanted)
        return lost + self._ordered(opened, order, held, kind)

    def _ordered(self, opened: _Opened, order: Order, held: Chosen, kind: Kind) -> list[Delivery]:
        """Have it done what was begun; those whose claims turn out to be lost."""
        try:
            opened.lane.submit(order)
        except BaseException as error:
            self._undo_order(order, error, held, kind)
            raise
        return self._ended(opened, order, held)

    def _undo_order(self, order: Order, error: BaseException, held: Chosen, kind: Kind) -> None:
        # Interrupted by a signal, or cancelled, it may still be under way: then whoever is at it goes on.
        failure = error if isinstance(error, TrunklineError) else order.error
        if failure is not None or order.is_withdrawn:
            self._undo(held, kind, is_unknown=isinstance(failure, OutcomeUnknown))

    def _ended(self, opened: _Opened, order: Order, held: Chosen) -> list[Delivery]:
        """It was answered; those whose claims turned out to be lost."""
        if opened.lane.is_waiting:
            self._wake_waiting(opened)
        lost: list[Delivery] = []
        if order.lost:
            with self._mutex:
                for claim in order.lost:
                    lost += held[claim]
                    claim.lose(_offsets(held[claim]))
        return lost

    def _wake_waiting(self, opened: _Opened) -> None:
        """Let those go on who could not claim anything while a record was held alone."""
        opened.lane.is_waiting = False
        for seat in list(self._seats):
            seat.nudge()

    def _begin(self, chosen: Chosen, kind: Kind, *, is_ordered: bool) -> tuple[Chosen, list[Delivery]]:
        """Note that they are being settled; those that are held, and those that are lost already."""
        lost: list[Delivery] = []
        if not all(claim.are_open(_offsets(deliveries)) for claim, deliveries in chosen.items()):
            _check_unsettled(chosen)
            chosen, lost = _open_of(chosen)
        if kind != "e":
            for claim, deliveries in chosen.items():
                claim.begin(_offsets(deliveries))
        if is_ordered and kind in ("n", "r"):
            for claim in chosen:
                claim.give_back()
                self._buffer.give_back(claim)
        return chosen, lost

    def _undo(self, chosen: Chosen, kind: Kind, *, is_unknown: bool) -> None:
        """Nothing was settled: they are in the application's hands as before. Where that is not known, the claim is not
        touched any more; what of it was not settled is delivered again."""
        with self._mutex:
            for claim, deliveries in chosen.items():
                if is_unknown:
                    claim.lose(_offsets(deliveries))
                elif kind != "e":
                    claim.put_back(_offsets(deliveries))

    def _raise_lost(self, opened: _Opened, lost: list[Delivery]) -> None:
        if not lost:
            return
        places = sorted((each.partition, each.offset) for each in lost)
        shown = ", ".join(f"offset {offset} in partition {partition}" for partition, offset in places[:10])
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        raise ClaimLost(
            f"{shown}{more} of {opened.topic.name}: no longer held by this reader of queue {self._wanted.name}; the "
            f"deadline of {opened.ack_deadline_s:g} s has passed, or it was given back, and it is delivered again; "
            "raise ack_deadline_s, or call extend() in time",
            places=places,
        )

    # -- what nobody could handle --

    def _bury_exhausted(self, opened: _Opened, exhausted: list[Claimed]) -> None:
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
                    self._look_again(opened, opened.topic)
                if opened.letters is not None:
                    self._bury_first(opened, opened.letters, claim, ranges)
                else:
                    with self._mutex:
                        self._buffer.add(claim, ranges, None)
            except TrunklineError as error:
                logger.warning(
                    "partition %d, offset %d of %s could not be put among the dead letters; it is tried again: %s",
                    claim.partition, ranges[0][0], opened.topic.name, error,
                )  # fmt: skip

    def _bury_first(self, opened: _Opened, letters: QueueLetters, claim: Claim, ranges: list[tuple[int, int]]) -> None:
        first, end = min(ranges)
        batches = opened.calls.read(claim.partition, first, end, self._wanted.prefetch.bytes_max)
        if not batches or batches[0].first_offset > first:
            return
        (record,) = batches[0].cut(first, first + 1)
        settlements = [Settlement(claim, "d", [first])]
        if sum(stop - start for start, stop in ranges) > 1:
            settlements.append(Settlement(claim, "r", ()))
        reason = f"tried {claim.attempt} times, the deadline passed"
        grave = Grave(record, claim.attempt, reason, settlements)
        letters.bury([grave], self._rooms.server.deadline())


class _Opened:
    """What is known of a queue once it was opened."""

    def __init__(
        self, topic: Topic, calls: QueueCalls, lane: QueueLane, settings: dict[str, Any], letters: QueueLetters | None
    ) -> None:
        self.topic = topic
        self.calls = calls
        self.lane = lane
        self.set(settings, letters)

    def set(self, settings: dict[str, Any], letters: QueueLetters | None) -> None:
        """Take over how the queue is set."""
        self.settings = settings
        self.letters = self.lane.letters = letters
        self.ack_deadline_s: float = settings["ack_deadline_s"]
        self.max_attempts: int | None = settings["max_attempts"]
        self.lane.max_attempts = self.max_attempts
        self.is_ordered: bool = settings["is_ordered"]


def _grave(delivery: Delivery, reason: str) -> Grave:
    return Grave(delivery, delivery.attempt, reason, [Settlement(delivery.claim, "d", [delivery.offset])])


def _settlements(held: Chosen, kind: Kind, delay_s: float) -> list[Settlement]:
    if kind == "e":
        # Others of the claim must not be held for a shorter time than before.
        now = monotonic()
        return [Settlement(claim, "e", (), max(delay_s, claim.expires_at - now)) for claim in held]
    return [Settlement(claim, kind, _offsets(deliveries), delay_s) for claim, deliveries in held.items()]


def _never() -> bool:
    return False


def _offsets(deliveries: Iterable[Delivery]) -> list[int]:
    return [each.offset for each in deliveries]


def _open_of(chosen: Chosen) -> tuple[Chosen, list[Delivery]]:
    """Those that are in the application's hands, and the others, which are lost."""
    held: Chosen = {}
    lost: list[Delivery] = []
    for claim, deliveries in chosen.items():
        for each in deliveries:
            if claim.standing(each.offset) == "open":
                held.setdefault(claim, []).append(each)
            else:
                lost.append(each)
    return held, lost


def _check_unsettled(chosen: Chosen) -> None:
    for claim, deliveries in chosen.items():
        for each in deliveries:
            if claim.standing(each.offset) == "settled":
                raise InvalidArgument(
                    f"offset {each.offset} in partition {each.partition} of {each.topic} is settled already"
                )
        if len({each.offset for each in deliveries}) < len(deliveries):
            raise InvalidArgument("a delivery is given twice")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False, not {value!r}")


def _check_between(name: str, value: object, least: float, most: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:  # type: ignore[operator]
        raise InvalidArgument(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")
