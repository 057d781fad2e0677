"""Consumers: how an application reads topics with a group.

A consumer joins its group when it is entered, or at its first poll. Partitions come and go while it polls; one that
it holds is read by nobody else in the group. No transaction is open while the application works, except in
``transaction``.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from itertools import chain
from time import monotonic
from types import TracebackType
from typing import Literal, NamedTuple, get_args

from trunkline.client import protocol
from trunkline.client.aio.claims import Claims
from trunkline.client.aio.doorbell import Ringer
from trunkline.client.aio.fetching import Fetcher, Owned, Shared
from trunkline.client.aio.member import Member
from trunkline.client.aio.outbox import Outbox
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Mutex, Shield, Waiter, caller
from trunkline.client.aio.topics import Topics
from trunkline.client.aio.transaction import Effects, GroupTransaction
from trunkline.client.aio.watch import Seat, Watch
from trunkline.client.arrays import integer_array
from trunkline.engine.checks import (
    INT4_MAX,
    GroupStart,
    check_group_name,
    check_seconds,
    check_start,
    check_time,
    check_topic_name,
    check_topic_names,
    check_whole,
)
from trunkline.engine.holdings import Holding, Piece, TransactionLimits, by_transaction, extent
from trunkline.errors import Closed, Fenced, InUse, InvalidArgument, NotFound, OutcomeUnknown, TrunklineError
from trunkline.records import Batch, GroupRecord, PartitionLag, Position, Record, Topic
from trunkline.settings import ConsumerSettings, Delivery

logger = logging.getLogger("trunkline")

SHARED_RECORDS = 500
"""Claimed at a time while iterating at most once: what a reader dies with is gone."""


class Rooms(NamedTuple):
    """What a consumer needs of its client."""

    server: Server
    topics: Topics
    watch: Watch
    ringer: Ringer
    shield: Shield
    outbox: Outbox


class Wanted(NamedTuple):
    """What a consumer is to read, and how."""

    topics: list[str]
    group: str
    create: bool
    start: GroupStart
    delivery: Delivery
    whole_transactions: bool

    @classmethod
    def checked(
        cls,
        topics: object,
        group: object,
        *,
        create: object,
        start: object,
        delivery: object,
        whole_transactions: object,
    ) -> Wanted:
        for name, switch in (("create", create), ("whole_transactions", whole_transactions)):
            if not isinstance(switch, bool):
                raise InvalidArgument(f"{name} must be True or False, not {switch!r}")
        if delivery not in get_args(Delivery):
            raise InvalidArgument(f"delivery must be one of {', '.join(get_args(Delivery))}, not {delivery!r}")
        if whole_transactions and delivery == "at_most_once":
            raise InvalidArgument(
                "whole_transactions is not for at_most_once, whose readers claim ranges of offsets; read at_least_once "
                "or exactly_once"
            )
        where = (check_topic_names(topics), check_group_name(group))
        return cls(*where, create, check_start(start), delivery, whole_transactions)  # type: ignore[arg-type]


class AsyncConsumer:
    """Reads topics with a group. For one task: a second one at the same time gets InUse.

    At least once (the default): poll, work, ``commit``; or iterate, where a record counts as handled when the next one
    is asked for. At most once: what is polled has been passed already, and many consumers may share a partition.
    Exactly once: ``transaction``.
    """

    def __init__(self, rooms: Rooms, wanted: Wanted, settings: ConsumerSettings) -> None:
        if settings.partitions is not None and wanted.delivery == "at_most_once":
            raise InvalidArgument("readers at most once share every partition: leave the setting partitions out")
        self._rooms = rooms
        self._wanted = wanted
        self._settings = settings
        self._mutex = Mutex()
        self._in_use = False
        self._released: Waiter[bool] | None = None
        self._closed = False
        self._is_woken = False
        self._away_since: float | None = None
        self._overdue_since: float | None = None
        self._given_up_since: float | None = None
        self._seat: Seat | None = None
        self._member: Member | None = None
        self._claims: Claims | None = None
        self._fetcher: Fetcher | None = None
        self._chunk: Iterator[GroupRecord] = iter(())
        self._chunk_of: Holding | None = None
        self._chunks: list[tuple[Holding, Iterator[GroupRecord]]] = []
        self._current: GroupRecord | None = None
        self._looping: object = None
        self._commit_due = 0.0

    # -- coming and going --

    async def __aenter__(self) -> AsyncConsumer:
        with self._using():
            await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except TrunklineError as failure:
            if error is None:
                raise
            logger.warning("a consumer of group %s could not be closed cleanly: %s", self._wanted.group, failure)

    async def close(self) -> None:
        """Commit what iterating has handled, and hand the partitions over at once. Ends a poll that is under way, and a
        loop. Twice is fine."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            released = self._released = Waiter() if self._in_use else None
        if self._seat is not None:
            self._seat.nudge()
        if released is not None:
            try:
                await released.wait(self._rooms.server.settings.deadline_s)
            except TimeoutError:
                raise InUse("this consumer cannot be closed while it is used, as inside its transaction") from None
        try:
            if self._member is not None:
                try:
                    await self._commit_handled()
                finally:
                    await self._rooms.shield.run(self._member.leave())
        finally:
            if self._seat is not None:
                self._rooms.watch.leave(self._seat)

    def __repr__(self) -> str:
        return f"<trunkline consumer of {', '.join(self._wanted.topics)} in group {self._wanted.group}>"

    async def _ready(self) -> None:
        """Join the group, where that has not been done."""
        self._rooms.server.pool.check_usable()
        if self._closed:
            raise Closed("this consumer is closed; make another one")
        if self._fetcher is not None:
            return
        server, watch = self._rooms.server, self._rooms.watch
        topics = [await self._rooms.topics.look_up(name) for name in self._wanted.topics]
        for topic in topics:
            _check_partitions(topic, self._settings.partitions)
        topic_ids = integer_array([topic.topic_id for topic in topics])
        wanted = self._wanted
        ((group_id,),) = await server.repeat(
            protocol.GROUP_ENTER, [wanted.group, topic_ids, wanted.create, *wanted.start]
        )
        seat = watch.seat()
        try:
            if wanted.delivery == "at_most_once":
                for topic in topics:
                    watch.follow(seat, topic)
                claims = Claims(server, self._rooms.topics, watch, seat, self._settings.on_out_of_range)
                await claims.join(group_id, topics)
                self._claims = claims
                self._fetcher = Fetcher(Shared(server, claims), seat)
            else:
                member = Member(
                    server,
                    self._rooms.topics,
                    watch,
                    self._rooms.ringer,
                    self._settings.name or _name(self._settings.partitions),
                    self._settings.partitions,
                )
                await member.join(group_id, topics, seat)
                seat.give_up_by(self._overdue, self._give_up)
                self._member = member
                self._fetcher = self._fetcher_of(member, seat)
        except BaseException:
            watch.leave(seat)
            raise
        self._seat = seat

    def _fetcher_of(self, member: Member, seat: Seat) -> Fetcher:
        settings, whole = self._settings, self._wanted.whole_transactions
        source = Owned(self._rooms.server, member, settings, merge_small=not whole)
        limits = TransactionLimits(settings.transaction_records_max, settings.transaction_bytes_max)
        return Fetcher(source, seat, limits if whole else None)

    def _overdue(self) -> int | None:
        """The member that is to leave, where the application has not come back for too long; asked by the watch."""
        since, member = self._away_since, self._member
        if since is None or since == self._given_up_since or member is None:
            return None
        self._overdue_since = since
        return member.member_id if monotonic() - since > self._settings.handler_timeout_s else None

    def _give_up(self) -> None:
        """It has left the group: others read on. Whoever comes back joins again."""
        self._given_up_since = self._overdue_since
        logger.warning(
            "a consumer of group %s did not come back for %g s, and loses its partitions; raise handler_timeout_s",
            self._wanted.group,
            self._settings.handler_timeout_s,
        )

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._mutex:
            if self._in_use:
                raise InUse("two tasks use this consumer at the same time; give each one its own")
            self._in_use = True
            self._away_since = None
        try:
            yield
        finally:
            with self._mutex:
                self._in_use = False
                self._away_since = monotonic()
                if self._released is not None:
                    self._released.give(True)

    # -- reading --

    async def poll(self, max_records: int = 500, *, bytes_max: int | None = None, wait_s: float = 0.0) -> list[Record]:
        """The next records, at most ``max_records``; an empty list where none came within ``wait_s``.

        Those of one partition come in order. ``commit`` when they are handled. With ``whole_transactions`` it may pass
        ``max_records``, up to the end of the transaction that it has come to; TransactionTooLarge over the limit.
        """
        with self._using():
            self._refuse("exactly_once", "use transaction()")
            return _records(await self._next(max_records, bytes_max, wait_s, whole=False))

    async def poll_batches(
        self, max_records: int = 10_000, *, bytes_max: int | None = None, wait_s: float = 0.0
    ) -> list[Batch]:
        """As ``poll``, but whole batches as columns, without an object a record; the last may pass ``max_records``."""
        with self._using():
            self._refuse("exactly_once", "use transaction()")
            found = await self._next(max_records, bytes_max, wait_s, whole=True)
            return [piece.batch for _, pieces in found for piece in pieces]

    async def _next(
        self, max_records: int, bytes_max: int | None, wait_s: float, *, whole: bool
    ) -> list[tuple[Holding, list[Piece]]]:
        check_whole("max_records", max_records, least=1, most=INT4_MAX)
        limit = self._rooms.server.settings.read_bytes_max if bytes_max is None else bytes_max
        check_whole("bytes_max", limit, least=1)
        deadline = monotonic() + check_seconds("wait_s", wait_s)
        self._put_back()
        await self._ready()
        return await self._found(max_records, limit, deadline, whole=whole)

    async def _found(
        self, max_records: int, bytes_max: int, deadline: float, *, whole: bool
    ) -> list[tuple[Holding, list[Piece]]]:
        """What there is now, or comes before the deadline. Who does not wait at all gets what is there for certain,
        whether a hint of it has come or not."""
        fetcher, seat = self._fetcher, self._seat
        assert fetcher is not None
        assert seat is not None
        must_look = deadline <= monotonic()
        while True:
            await self._attend()
            found = await fetcher.take(max_records, bytes_max, whole=whole)
            left_s = deadline - monotonic()
            if found or self._is_woken:
                self._is_woken = False
                return found
            if left_s > 0:
                self._rooms.watch.poll_soon()
                await seat.wait(fetcher.awaited(), min(left_s, self._attention_s()))
                self._check_open()
                await self._look_alone(fetcher, deadline)
            elif must_look and await fetcher.look(self._rooms.server):
                must_look = False
            else:
                return found

    async def _look_alone(self, fetcher: Fetcher, deadline: float) -> None:
        """Poll for itself while the watch cannot, because its own connection is lost and does not come back."""
        server = self._rooms.server
        if not self._rooms.watch.is_alive:
            try:
                await fetcher.look(server, min(deadline, server.deadline()))
            except TrunklineError as error:
                if not error.retryable:
                    raise
                logger.info("a consumer of group %s waits for the server: %s", self._wanted.group, error)

    def wake(self) -> None:
        """End the wait of a poll that is under way, or of the next one: it returns what there is. Another task, or
        thread, may call it."""
        self._is_woken = True
        if self._seat is not None:
            self._seat.nudge()

    def _check_open(self) -> None:
        self._rooms.server.pool.check_usable()
        if self._closed:
            raise Closed("this consumer was closed")

    def _attention_s(self) -> float:
        """How long it may wait before it must look at its group by itself."""
        leaving = self._member is not None and any(
            holding.leaving_since is not None for holding in self._member.holdings.values()
        )
        settings = self._rooms.server.settings
        wait_s = settings.heartbeat_s if leaving or self._claims is not None else float("inf")
        return wait_s if self._rooms.watch.is_alive else min(wait_s, settings.poll_max_s)

    async def _attend(self) -> None:
        """See to the group: give up, take, find partitions that were added."""
        if self._claims is not None:
            await self._claims.refresh()
            return
        assert self._member is not None
        assert self._seat is not None
        view = self._seat.take_view()
        if view is not None:
            await self._member.settle(view)
        else:
            await self._member.give_back()

    # -- iterating --

    def __aiter__(self) -> AsyncIterator[GroupRecord]:
        self._looping = caller()
        return self

    async def __anext__(self) -> GroupRecord:
        """The next record, however long it takes; ends when the consumer is closed."""
        if self._looping != caller():
            # The next record would count this one's as handled while the other is still at it.
            raise InUse("two tasks iterate over this consumer; give each one its own")
        return self._at_hand() or await self._next_in_loop()

    def _at_hand(self) -> GroupRecord | None:
        """The next record, where it is in memory and nothing else has to be done first."""
        now = monotonic()
        if self._in_use or self._closed or self._seat is None or self._seat.has_news or now >= self._commit_due:
            return None
        record = next(self._chunk, None)
        if record is not None:
            self._count_current()
            self._current = record
            self._away_since = now
        return record

    async def _next_in_loop(self) -> GroupRecord:
        with self._using():
            self._refuse("exactly_once", "use transaction()")
            if self._closed:
                raise StopAsyncIteration
            await self._ready()
            self._count_current()
            try:
                self._current = await self._next_record()
            except Closed:
                if not self._closed:
                    raise
                raise StopAsyncIteration from None
            return self._current

    async def _next_record(self) -> GroupRecord:
        while True:
            assert self._seat is not None
            # A transaction that has been begun is handed out to its end before anything else is seen to.
            record = next(self._chunk, None) if self._wanted.whole_transactions else None
            if record is not None:
                return record
            if self._seat.has_news:
                await self._yield_to_others()
            elif monotonic() >= self._commit_due:
                await self._commit_handled()
            record = next(self._chunk, None)
            if record is not None:
                return record
            await self._next_chunk()

    async def _next_chunk(self) -> None:
        if not self._chunks:
            await self._commit_handled()
            deadline = monotonic() + self._rooms.server.settings.heartbeat_s
            most = INT4_MAX if self._claims is None else SHARED_RECORDS
            found = await self._found(most, self._settings.fetch_bytes_max, deadline, whole=True)
            for holding, pieces in found:
                self._chunks += [(holding, chunk) for chunk in self._chunks_of(holding, pieces)]
        if self._chunks:
            self._chunk_of, self._chunk = self._chunks.pop(0)

    def _chunks_of(self, holding: Holding, pieces: list[Piece]) -> Iterator[Iterator[GroupRecord]]:
        if not self._wanted.whole_transactions:
            yield from (piece.batch.marked(holding.mark) for piece in pieces)
            return
        for transaction in by_transaction(pieces):
            mark = holding.marker(transaction)
            yield chain.from_iterable([piece.batch.marked(mark) for piece in transaction])

    async def _yield_to_others(self) -> None:
        """The group has changed: nothing is in the application's hand now, so what has to go can go."""
        self._put_back()
        await self._commit_handled()
        await self._attend()

    def _count_current(self) -> None:
        """The next record is asked for: the last one is handled."""
        current, self._current = self._current, None
        if current is not None:
            current.done()

    def _put_back(self) -> None:
        """What iterating had in memory is read again, by whoever reads next. Not what was claimed for at most once."""
        if self._claims is not None:
            return
        pieces = [(self._chunk_of, self._chunk)] if self._chunk_of is not None else []
        for holding, _ in [*pieces, *self._chunks]:
            if holding is not None:
                holding.rewind(holding.handled)
        self._chunk, self._chunk_of, self._chunks, self._current = iter(()), None, [], None

    # -- committing --

    async def commit(self, positions: Iterable[Position] | None = None) -> None:
        """Everything that was polled is handled; or, with positions, everything before their offsets.

        Returns when that is durable. Fenced where a partition is no longer held: nothing was written, and what was
        polled from it goes to another member. OutcomeUnknown where it was lost after the answer to a first attempt was.
        """
        with self._using():
            self._refuse("at_most_once", "there is nothing to commit: what is polled has been passed already")
            self._refuse("exactly_once", "leaving transaction() commits")
            await self._ready()
            assert self._member is not None
            moves = self._in_hand() if positions is None else [self._move(position) for position in positions]
            self._member.check_lost()
            if moves:
                await self._rooms.shield.run(self._member.commit(moves))
            await self._member.give_back()

    async def _commit_handled(self) -> None:
        """What iterating counts as handled. A partition that was lost meanwhile is another's, with its records."""
        self._commit_due = monotonic() + self._settings.commit_interval_s
        if self._member is None or self._wanted.delivery != "at_least_once":
            return
        self._member.lost.clear()
        moves = self._handled()
        while moves:
            try:
                await self._rooms.shield.run(self._member.commit(moves))
                return
            except (Fenced, OutcomeUnknown) as error:
                logger.warning("records may be handled again by another member: %s", error)
                self._put_back()
                moves = self._handled()

    def _in_hand(self) -> list[tuple[Holding, int]]:
        """Everything that was given to the application: of a loop up to the record it is at, of polls all."""
        if self._chunk_of is not None:
            if self._current is not None:
                self._current.done()
            return self._handled()
        assert self._member is not None
        return [
            (holding, holding.handed)
            for holding in self._member.holdings.values()
            if holding.handed > holding.committed
        ]

    def _handled(self) -> list[tuple[Holding, int]]:
        assert self._member is not None
        held = self._member.holdings.values()
        return [(holding, holding.handled) for holding in held if holding.handled > holding.committed]

    def _move(self, position: object) -> tuple[Holding, int]:
        if not isinstance(position, Position):
            raise InvalidArgument(f"positions are needed, not {type(position).__name__}")
        holding = self._held(position.topic, position.partition)
        if holding is None:
            place = (position.topic, position.partition)
            raise Fenced(
                f"partition {position.partition} of {position.topic} is not held by this consumer; nothing was written",
                partitions=[place],
            )
        if not holding.committed <= position.offset <= holding.handed:
            raise InvalidArgument(
                f"offset {position.offset} cannot be committed: of partition {position.partition} of {position.topic} "
                f"[{holding.committed}, {holding.handed}) is in hand; seek to go elsewhere"
            )
        return holding, position.offset

    @asynccontextmanager
    async def transaction(
        self, max_records: int = 500, *, bytes_max: int | None = None, wait_s: float = 0.0
    ) -> AsyncIterator[GroupTransaction]:
        """Records, and a connection in a transaction: what the block writes on ``tx.conn`` and the moved cursors are
        committed together when it ends.

        Where the block raises, nothing stays, and the records come again. Fenced where a partition was lost meanwhile:
        nothing stays either. ``tx.records`` is empty where none came within ``wait_s``. A block that does nothing on
        ``tx.conn`` for longer than ``session_timeout_s`` is taken for dead: the server ends its transaction.
        """
        with self._using():
            if self._wanted.delivery != "exactly_once":
                raise InvalidArgument("transaction() is for delivery='exactly_once'")
            found = await self._next(max_records, bytes_max, wait_s, whole=False)
            assert self._member is not None
            moves = [(holding, holding.handed) for holding, _ in found]
            self._away_since = monotonic()
            deadline = self._away_since + self._settings.handler_timeout_s
            effects = Effects(self._rooms.server, self._member, self._rooms.shield, moves)
            async with effects.begun(_records(found), deadline, self._transaction_sizes(found)) as tx:
                tx.member_id, tx.held = self._member.member_id, list(self._member.holdings.values())
                yield tx
            self._rooms.outbox.committed(tx.conn)
            self._member.lost.clear()

    def _transaction_sizes(self, found: list[tuple[Holding, list[Piece]]]) -> list[int] | None:
        """How many records each transaction has; None where that is not known."""
        if not self._wanted.whole_transactions:
            return None
        return [extent(transaction)[0] for _, pieces in found for transaction in by_transaction(pieces)]

    # -- where it stands --

    @property
    def assignment(self) -> list[tuple[str, int]]:
        """The partitions that it holds now, as (topic, partition); none for at most once, which shares them."""
        return sorted(holding.place for holding in self._member.holdings.values()) if self._member else []

    @property
    def leaving(self) -> list[tuple[str, int]]:
        """The partitions that another member should have, and that go to it once what was polled from them is
        committed, or was put back."""
        held = self._member.holdings.values() if self._member else []
        return sorted(holding.place for holding in held if holding.leaving_since is not None)

    def put_back(self, topic: str, partition: int) -> None:
        """What was polled from a partition and is not committed is not in the application's hand any more: it comes
        again, here or elsewhere."""
        with self._using():
            holding = self._held(topic, partition)
            if holding is not None:
                holding.rewind(holding.committed)

    def take_lost(self) -> list[tuple[str, int]]:
        """The partitions that were lost with something of them in the application's hand, since this, or ``commit``,
        was last called; ``commit`` does not raise Fenced for them any more. After a poll, and before its records are
        added to those in hand: a partition may have come back with it."""
        lost = self._member.lost if self._member is not None else set()
        taken = sorted(lost)
        lost.clear()
        return taken

    def position(self) -> list[Position]:
        """The next offset that will be handed out, of each partition that it holds."""
        held = self._member.holdings.values() if self._member else []
        return sorted(
            (Position(holding.topic, holding.partition, holding.handed) for holding in held),
            key=lambda position: (position.topic, position.partition),
        )

    async def lag(self) -> list[PartitionLag]:
        """How far the cursor of each partition that it holds is behind the log's end."""
        with self._using():
            await self._ready()
            held = list(self._member.holdings.values()) if self._member else []
            ends: dict[tuple[int, int], int] = {}
            for topic_id in {holding.topic_id for holding in held}:
                for partition, _, end in await self._rooms.server.ask(protocol.RANGE, [topic_id, None]):
                    ends[topic_id, partition] = end
            return [
                PartitionLag(each.topic, each.partition, each.committed, ends[each.topic_id, each.partition])
                for each in sorted(held, key=lambda holding: holding.place)
            ]

    async def seek(self, topic: str, partition: int, offset: int | Literal["start", "end"] | datetime) -> None:
        """Go on elsewhere in a partition that it holds: at an offset, at the log's start or end, or at a time.

        The group's cursor is moved at once, back as well; what was polled before can no longer be committed.
        """
        with self._using():
            self._refuse("at_most_once", "move the whole group instead: seek_group()")
            check_topic_name(topic)
            check_whole("partition", partition, most=INT4_MAX)
            await self._ready()
            holding = self._held(topic, partition)
            if holding is None:
                raise NotFound(f"partition {partition} of {topic} is not held by this consumer")
            to = await self._offset(holding, offset)
            assert self._member is not None
            self._put_back()
            await self._rooms.shield.run(self._member.seek(holding, to))

    async def _offset(self, holding: Holding, offset: int | str | datetime) -> int:
        server = self._rooms.server
        if isinstance(offset, datetime):
            check_time("offset", offset)
            ((found,),) = await server.ask(protocol.OFFSET_AT, [holding.topic_id, holding.partition, offset])
            return int(found)
        ((_, start, end),) = await server.ask(protocol.RANGE, [holding.topic_id, holding.partition])
        if offset in ("start", "end"):
            return int(start if offset == "start" else end)
        return check_whole("offset", offset, least=int(start), most=int(end))

    def pause(self, topic: str, partition: int | None = None) -> None:
        """Hand out nothing of a partition, or of a topic, until ``resume``. It stays held."""
        self._pause(topic, partition, is_paused=True)

    def resume(self, topic: str, partition: int | None = None) -> None:
        """Hand it out again, also to a poll that is under way."""
        self._pause(topic, partition, is_paused=False)
        if self._seat is not None:
            # Who waits does so for what was not paused when it began.
            self._seat.nudge()

    def _pause(self, topic: str, partition: int | None, *, is_paused: bool) -> None:
        check_topic_name(topic)
        if topic not in self._wanted.topics:
            raise NotFound(f"this consumer does not read {topic}")
        if partition is not None:
            check_whole("partition", partition, most=INT4_MAX)
        if self._member is None:
            raise InvalidArgument("nothing is held yet: poll first")
        held = self._member.holdings.values()
        places = [each.place for each in held if each.topic == topic] if partition is None else [(topic, partition)]
        self._member.pause(places, is_paused=is_paused)

    def _held(self, topic: str, partition: int) -> Holding | None:
        held = self._member.holdings.values() if self._member else []
        return next((each for each in held if each.place == (topic, partition)), None)

    def _refuse(self, delivery: Delivery, reason: str) -> None:
        if self._wanted.delivery == delivery:
            raise InvalidArgument(f"this consumer reads {delivery.replace('_', ' ')}: {reason}")


def _records(found: list[tuple[Holding, list[Piece]]]) -> list[Record]:
    return list(chain.from_iterable(piece.batch for _, pieces in found for piece in pieces))


def _check_partitions(topic: Topic, partitions: Sequence[int] | None) -> None:
    missing = [each for each in partitions or () if each >= topic.partitions]
    if missing:
        raise NotFound(
            f"topic {topic.name} has no partition {missing[0]}: its partitions are 0 to {topic.partitions - 1}; "
            "correct the setting partitions"
        )


def _name(partitions: Sequence[int] | None) -> str:
    """By which people know it: where it runs, and what it is limited to."""
    limit = "" if partitions is None else f" only {','.join(map(str, partitions))}"
    return f"{socket.gethostname()}:{os.getpid()}{limit}"[:200]
