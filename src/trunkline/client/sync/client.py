# Generated from src/trunkline/client/aio/client.py by tools/twins.py (make fix). Change the source, not this file.
"""The client: one object through which an application publishes to the log and reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, overload
from uuid import uuid4

from psycopg import Connection

from trunkline.client import target
from trunkline.client.foreign import CallersConnection
from trunkline.client.sync.append import Appender
from trunkline.client.sync.consumer import Consumer, Rooms, Wanted
from trunkline.client.sync.doorbell import Ringer
from trunkline.client.sync.groups import Groups
from trunkline.client.sync.inbox import Inbox
from trunkline.client.sync.lane import Lane
from trunkline.client.sync.outbox import Outbox
from trunkline.client.sync.pool import Pool
from trunkline.client.sync.queue import Queue, QueueRooms
from trunkline.client.sync.reader import Reader, Start
from trunkline.client.sync.retention import Retention
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import Service, Shield
from trunkline.client.sync.sources import Sources
from trunkline.client.sync.topics import Topics
from trunkline.client.sync.watch import Watch
from trunkline.engine.batching import BatchLimits, Parcel, split
from trunkline.engine.checks import check_topic_name
from trunkline.engine.packing import pack_each, pack_many, pack_one
from trunkline.engine.queue_settings import Prefetch, QueueWanted
from trunkline.errors import InvalidArgument, OutcomeUnknown, TrunklineError, Unavailable
from trunkline.records import (
    Batch,
    BlockedKey,
    CursorMove,
    GroupDescription,
    GroupSummary,
    Headers,
    Key,
    Message,
    OutboxSource,
    PartitionRange,
    PendingPosition,
    PinnedPosition,
    Position,
    Record,
    RetentionStep,
    Topic,
    TopicDescription,
)
from trunkline.settings import ClientSettings, ConsumerSettings, Delivery, OutboxColumns, TopicSettings


class Client:
    """A connection to Trunkline in one database. Safe to share: callers at the same time are made to share work.

    Every call ends by ``deadline_s``, with a result or a typed error. After ``close`` every call raises Closed.
    """

    def __init__(self, url: str, settings: ClientSettings, doorbell_url: str | None = None) -> None:
        self.url_shown = target.shown(url)
        self.settings = settings
        self._pool = Pool(url, settings)
        self._server = Server(self._pool, settings)
        self._topics = Topics(self._server)
        self._reader = Reader(self._server, self._topics)
        self._retention = Retention(self._server)
        self._groups = Groups(self._server)
        self._shield = Shield()
        self._ringer = Ringer(url, settings)
        self._outbox = Outbox(self._server, self._topics, self._ringer)
        self._sources = Sources(url, self._server)
        self._watch = Watch(doorbell_url or url, settings, self._pool)
        self._lanes: dict[str, Lane] = {}
        self._limits = BatchLimits(settings.batch_records_max, settings.batch_bytes_max, settings.record_alone_bytes)
        self._producer_id = uuid4() if settings.idempotent else None

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        dev: bool = False,
        settings: ClientSettings | None = None,
        doorbell_url: str | None = None,
    ) -> Client:
        """Connect, and make sure that the server can be used: it fails here rather than at the first publish.

        Where ``url`` leads through a pooler, ``doorbell_url`` (else ``TRUNKLINE_DOORBELL_URL``) may lead past it, for
        the one session that listens.
        """
        found = target.resolve(url, dev=dev)
        client = cls(found, settings or ClientSettings.from_environment(), target.resolve_doorbell(doorbell_url))
        with client._pool.connection(client._server.deadline()):
            pass
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what is being published, then close every connection. Its consumers end with it; close them first,
        and they hand over at once. Twice is fine."""
        if not self._pool.is_inherited:
            self._shield.drain()
            self._watch.close()
            self._ringer.close()
        self._pool.close()

    def __repr__(self) -> str:
        return f"<trunkline client of {self.url_shown}>"

    # -- topics --

    def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> Topic:
        """Create a topic. AlreadyExists where there is one of that name."""
        return self._topics.create(name, partitions, settings)

    def topics(self) -> list[Topic]:
        """Every topic, by name."""
        return self._topics.all()

    def topic(self, name: str) -> Topic:
        """The topic as it is now; NotFound where there is none."""
        return self._topics.look_up(name)

    def describe_topic(self, name: str) -> TopicDescription:
        """The topic with the state of its partitions and segments."""
        return self._topics.describe(name)

    def alter_topic(self, name: str, **changes: int | bool | None) -> Topic:
        """Change settings by their names in TopicSettings."""
        return self._topics.alter(name, changes)

    def add_partitions(self, name: str, partitions: int, *, break_key_order: bool = False) -> Topic:
        """Raise the number of partitions. KeyOrderAtRisk where keyed records exist, unless asked to break it."""
        return self._topics.add_partitions(name, partitions, break_key_order=break_key_order)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Its name is free at once."""
        self._retention.drop(self._topics.delete(name))

    # -- publishing --

    @overload
    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        key: Key = None,
        headers: Headers = None,
        partition: int | None = None,
        group_key: Key = None,
        deliver_after_s: float = 0.0,
        conn: None = None,
    ) -> Position: ...

    @overload
    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        key: Key = None,
        headers: Headers = None,
        partition: int | None = None,
        group_key: Key = None,
        deliver_after_s: float = 0.0,
        conn: CallersConnection,
    ) -> PendingPosition: ...

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        key: Key = None,
        headers: Headers = None,
        partition: int | None = None,
        group_key: Key = None,
        deliver_after_s: float = 0.0,
        conn: CallersConnection | None = None,
    ) -> Position | PendingPosition:
        """Publish one record; its position, once it is durable.

        With ``conn``, a connection of psycopg, or a session or connection of SQLAlchemy or Django, it is published in
        the transaction of that connection: it is in the log if and only if that commits, and has no offset before.

        ``key`` chooses the partition; ``group_key`` says which records of a key are handled together. Calls at
        the same time share a batch. With the same key, records keep the order of calls that did not overlap. A
        cancelled call may or may not have published. Queues hand it out ``deliver_after_s`` seconds later; whoever
        reads the log sees it at once.
        """
        known = self._topics.find(check_topic_name(topic))
        parcel = pack_one(payload, key, headers, partition, known, group_key, deliver_after_s)
        if conn is not None:
            return self._outbox.put(conn, known, parcel)[0]
        return self._lane(topic).submit(parcel)[0]

    @overload
    def publish_many(
        self, topic: str, messages: Iterable[Message | bytes], *, partition: int | None = None, conn: None = None
    ) -> list[Position]: ...

    @overload
    def publish_many(
        self,
        topic: str,
        messages: Iterable[Message | bytes],
        *,
        partition: int | None = None,
        conn: CallersConnection,
    ) -> list[PendingPosition]: ...

    def publish_many(
        self,
        topic: str,
        messages: Iterable[Message | bytes],
        *,
        partition: int | None = None,
        conn: CallersConnection | None = None,
    ) -> list[Position] | list[PendingPosition]:
        """Publish many records; their positions, in the order given, once all are durable.

        What fits into one batch (``batch_records_max``, ``batch_bytes_max``) becomes visible together. More than
        that is split; if a later piece fails, earlier ones are in the log. Nothing is written where a message is
        invalid, or the iterable raises. With ``conn`` all of it becomes visible together, when that commits.
        """
        known = self._topics.find(check_topic_name(topic))
        if conn is not None:
            pieces = [*split(pack_many(messages, partition, known), self._limits)]
            return [position for piece in pieces for position in self._outbox.put(conn, known, piece)]
        positions: list[Position] = []
        for piece in split(pack_many(messages, partition, known), self._limits):
            positions += self._lane(topic).submit(piece)
        return positions

    def publish_each(self, topic: str, messages: Iterable[Message | bytes]) -> list[Position | TrunklineError]:
        """Publish many records; for each, in the order given, its position or the error that it met.

        As ``publish_many``, but a message that is invalid, or a piece that fails, does not fail the others; what comes
        after a piece that failed is not sent, and gets an error that says so. All of it ends by one deadline.
        """
        known = self._topics.find(check_topic_name(topic))
        deadline = self._server.deadline()
        parcel, refused = pack_each(messages, known)
        answers: list[Position | TrunklineError] = []
        failure: TrunklineError | None = None
        for piece in split(parcel, self._limits):
            if failure is None:
                found, failure = self._publish_piece(topic, piece, deadline)
                answers += found
            else:
                answers += [failure] * len(piece)
        for place in sorted(refused):
            answers.insert(place, refused[place])
        return answers

    def _publish_piece(
        self, topic: str, piece: Parcel, deadline: float
    ) -> tuple[Sequence[Position | TrunklineError], TrunklineError | None]:
        """The answers for a batch; and the error of what comes after it, where that is not to be sent."""
        try:
            return self._lane(topic).submit(piece, deadline), None
        except InvalidArgument as error:
            # Over a limit that was lowered meanwhile: one record is, and the others are not.
            if len(piece) == 1:
                return [error], None
            alone = [self._publish_piece(topic, piece.pick([place]), deadline) for place in range(len(piece))]
            failures = [failure for _, failure in alone if failure is not None]
            return [answer for answers, _ in alone for answer in answers], failures[0] if failures else None
        except OutcomeUnknown as error:
            unsent = Unavailable(f"it was not sent, because what came before it is in doubt: {error}")
            return [error] * len(piece), unsent
        except TrunklineError as error:
            return [error] * len(piece), error

    def transaction(self, conn: Connection[Any]) -> AbstractContextManager[Connection[Any]]:
        """A transaction on a connection of psycopg's, in which to publish with ``conn``. Readers are woken when it has
        committed; without it they find what was published when they poll."""
        return self._outbox.transaction(conn)

    def _lane(self, topic: str) -> Lane:
        lane = self._lanes.get(topic)
        if lane is None:
            appender = Appender(topic, self._server, self._topics, self._producer_id)
            lane = self._lanes.setdefault(
                topic, Lane(topic, self._server, self._topics, self._shield, appender, self._ringer)
            )
        return lane

    # -- tables of the application's that are an outbox --

    def outbox_attach(
        self,
        table: str,
        topic: str,
        columns: OutboxColumns,
        *,
        order_by: str | None = None,
        deadline_s: float = 3600.0,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Publish every row that is inserted into a table from now on, in the transaction that inserts it.

        With ``order_by``, a column, the rows that are there already are published first, in its order, each once,
        before any newer one; ``progress`` is told how many it were so far. Meanwhile nobody can write to the table.
        Returns how many they were. AlreadyExists where the table is attached.
        """
        return self._sources.attach(table, topic, columns, order_by=order_by, deadline_s=deadline_s, progress=progress)

    def outbox_detach(self, table: str) -> str:
        """Publish the rows of a table no longer; the topic that it was attached to. What was published stays."""
        return self._sources.detach(table)

    def outbox_sources(self) -> list[OutboxSource]:
        """The tables that are attached, and what is wrong with each, if anything."""
        return self._sources.all()

    # -- reading --

    def read(
        self,
        topic: str,
        *,
        partition: int = 0,
        offset: Start = "start",
        since: datetime | None = None,
        max_records: int = 100,
        bytes_max: int | None = None,
    ) -> list[Record]:
        """Records of a partition from an offset, or a time, on; fewer than ``max_records`` only at the end of the log
        or at ``bytes_max``. OffsetOutOfRange outside the log; an empty list at its end. Does not wait."""
        return self._reader.read(
            topic,
            partition=partition,
            offset=offset,
            since=since,
            max_records=max_records,
            bytes_max=bytes_max,
        )

    def read_batches(
        self,
        topic: str,
        *,
        partition: int = 0,
        offset: Start = "start",
        since: datetime | None = None,
        max_records: int = 10_000,
        bytes_max: int | None = None,
    ) -> list[Batch]:
        """As ``read``, but whole batches as columns, without an object a record."""
        return self._reader.read_batches(
            topic,
            partition=partition,
            offset=offset,
            since=since,
            max_records=max_records,
            bytes_max=bytes_max,
        )

    def offsets(self, topic: str) -> list[PartitionRange]:
        """What each partition's log holds: ``[start, end)``."""
        return self._reader.ranges(topic)

    def offset_at(self, topic: str, partition: int, time: datetime) -> int:
        """The first offset appended at or after a time; the end of the log where none was."""
        return self._reader.offset_at(topic, partition, time)

    def pin(self, topic: str, partition: int, offset: int) -> PinnedPosition:
        """A position to be kept outside the database, for ``check`` to prove later."""
        return self._reader.pin(topic, partition, offset)

    def check(self, pinned: PinnedPosition) -> None:
        """Prove that the log is the one the position was taken from; LogDiverged after a restore or a failover that
        lost records, NotFound where the topic was made again, OffsetOutOfRange where retention passed it."""
        self._reader.check(pinned)

    # -- groups --

    def consumer(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        create: bool = False,
        start: Literal["earliest", "latest"] | int | datetime = "earliest",
        delivery: Delivery = "at_least_once",
        whole_transactions: bool = False,
        settings: ConsumerSettings | None = None,
    ) -> Consumer:
        """A consumer of one topic or several, with a group. It joins when it is entered, or polls first.

        A group that does not exist is NotFound, unless ``create``; then it begins at ``start``: ``earliest``,
        ``latest``, an offset that every partition has, or a time. With ``whole_transactions`` what a transaction has
        published to a partition is handed out at once, even past the number of records that is asked for.
        """
        wanted = Wanted.checked(
            topics, group, create=create, start=start, delivery=delivery, whole_transactions=whole_transactions
        )
        rooms = Rooms(self._server, self._topics, self._watch, self._ringer, self._shield, self._outbox)
        return Consumer(rooms, wanted, settings or ConsumerSettings())

    def queue(  # noqa: PLR0913 - by name, as the queue's settings are
        self,
        topic: str,
        name: str,
        *,
        create: bool = True,
        start: Literal["earliest", "latest"] = "earliest",
        ack_deadline_s: float | None = None,
        max_attempts: int | None = None,
        dead_letter: str | None = None,
        ordered_by_key: bool | None = None,
        pause_above: float | None = None,
        bury_expired: bool | None = None,
        prefetch: int = 100,
        prefetch_bytes: int = 1024 * 1024,
    ) -> Queue:
        """A reader of a queue: records that are acknowledged one by one, by as many readers as there are.

        A queue that does not exist begins at ``start``, unless ``create`` is False. What is held longer than
        ``ack_deadline_s`` (30) is delivered again; what was delivered ``max_attempts`` times (5) goes to the topic
        ``dead_letter``, where one is named. With ``ordered_by_key`` one reader at a time has records of a partition.
        ``pause_above`` pauses the queue where more than this part of the last 100 deliveries failed. With
        ``bury_expired`` what retention takes goes to the dead letters first. None leaves a setting as it is; one that
        differs from the queue's is InvalidArgument.

        Up to ``prefetch`` records, of about ``prefetch_bytes`` bytes, are claimed ahead of the application, once fewer
        than half as many are left in memory; 0 for none.
        """
        wanted = QueueWanted(
            topic,
            name,
            create,
            start,
            ack_deadline_s,
            max_attempts,
            dead_letter,
            ordered_by_key,
            pause_above,
            bury_expired,
            Prefetch(prefetch, prefetch_bytes),
        )
        rooms = QueueRooms(self._server, self._topics, self._watch, self._ringer, self._shield)
        return Queue(rooms, wanted.checked())

    def create_group(
        self,
        name: str,
        topics: str | Iterable[str],
        *,
        start: Literal["earliest", "latest"] | int | datetime = "earliest",
    ) -> None:
        """Create a group that reads topics from ``start`` on. AlreadyExists where there is one of that name."""
        self._groups.create(name, topics, start)

    def groups(self) -> list[GroupSummary]:
        """Every group, by name, with how far it is behind."""
        return self._groups.all()

    def describe_group(self, name: str) -> GroupDescription:
        """A group with its partitions and members."""
        return self._groups.describe(name)

    def seek_group(
        self,
        name: str,
        topic: str,
        to: int | datetime | Literal["start", "end"] | None = None,
        *,
        like_group: str | None = None,
        partition: int | None = None,
        execute: bool = False,
    ) -> list[CursorMove]:
        """Move a group in a topic, or in one partition: to an offset, a time, the start, the end, or where another
        group stands. Only with ``execute``; otherwise it says what would be done. Members lose what they have in
        hand."""
        return self._groups.seek(name, topic, to, like_group=like_group, partition=partition, execute=execute)

    def blocked_keys(self, name: str) -> list[BlockedKey]:
        """The keys of a group whose records are parked, and why."""
        return self._groups.blocked(name)

    def redrive_group(
        self,
        name: str,
        *,
        key: Key = None,
        group_key: Key = None,
        discard_failed: bool = False,
        execute: bool = False,
    ) -> list[BlockedKey]:
        """Ask for parked records to be handled again, in their order, before anything newer of their key: of all keys,
        or of those with this key or group key. Only with ``execute``; otherwise it says which keys it would be.

        Whoever holds the partition does it, within about a second; where it fails they stay parked.
        ``discard_failed`` drops the records that failed, and redrives what stood behind them.
        """
        return self._groups.redrive(name, key, group_key, discard_failed=discard_failed, execute=execute)

    def inbox(self, name: str, *, keep_s: int | None = None) -> Inbox:
        """Remembers which records were dealt with, for effects outside of the database; ``keep_s`` seconds long, a week
        where nobody has said."""
        return Inbox(self._server, name, keep_s)

    def delete_group(self, name: str, *, cut_off: bool = False) -> None:
        """Delete a group. GroupActive while it has living members, unless they are to be cut off."""
        self._groups.delete(name, cut_off=cut_off)

    def ring(self, topic: str) -> None:
        """Wake the readers of a topic, after publishing to it in SQL. Does not wait for them, nor for the server once
        it knows the name: a ring is a hint."""
        self._topics.find(check_topic_name(topic))
        self._pool.check_usable()
        # By its name: the topic may have been made again since it was looked up, or have got partitions.
        self._ringer.ring_named(topic)

    # -- retention --

    def retention_run(self, topic: str | None = None) -> list[RetentionStep]:
        """Do what retention has to do now, for one topic or all; what was done."""
        return self._retention.run(topic)

    def retention_host(self, *, interval_s: float = 60.0) -> Service:
        """Run retention in the background until the returned service is closed."""
        return self._retention.host(interval_s)
