"""The values that every room speaks: what goes into the log and what comes out of it.

All of them are frozen. A header is a pair of a text name and a binary value; headers keep their order and may
repeat a name. Ranges are half-open: ``start`` is the first offset, ``end`` the one after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

Key: TypeAlias = str | bytes | None
HeaderPairs: TypeAlias = tuple[tuple[str, bytes], ...]
Headers: TypeAlias = Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]] | None


GROUP_KEY_HEADER = "trunkline-group-key"
"""The header that carries a group key, whoever publishes it."""

DELIVER_AFTER_HEADER = "trunkline-deliver-after"
"""The header that carries how many seconds after its append time a queue hands a record out, in decimal."""


class Message(msgspec.Struct, frozen=True):
    """What goes out: what ``publish_many`` takes, and ``Topic.send`` of every broker.

    ``key`` says to which partition it goes, as a tenant's id; messages of one key stay in order where the broker keeps
    any. ``attributes`` are text, each name once; in the log they are headers.

    The rest is the log's own, and no other broker has it: ``headers`` (binary values, repeated names), ``partition``,
    ``group_key``: which records of a key are handled together, as a user's id; queues hand it out ``deliver_after_s``
    seconds after it was published.
    """

    body: bytes
    key: Key = None
    headers: Headers = None
    partition: int | None = None
    group_key: Key = None
    deliver_after_s: float = 0.0
    attributes: Mapping[str, str] | None = None


class Position(msgspec.Struct, frozen=True, gc=False):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int


class PendingPosition(msgspec.Struct, frozen=True, gc=False):
    """Where a record will stand when the caller's transaction commits. The batch that holds it carries the
    ``transaction_id``, and its offset is given out then."""

    topic: str
    partition: int
    transaction_id: int


class Record(msgspec.Struct, frozen=True, gc=False):
    """One message in the log."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    payload: bytes
    headers: HeaderPairs
    append_time: datetime

    @property
    def group_key(self) -> bytes | None:
        """The second part of its key: which records of its key it is handled together with."""
        # The last one counts: it is the one that was added to headers which were passed on.
        return next((value for name, value in reversed(self.headers) if name == GROUP_KEY_HEADER), None)


class GroupRecord(Record, frozen=True, gc=False):
    """A record that an iterating consumer was given. It counts as handled once the next one is asked for."""

    mark: Callable[[int], None]

    def done(self) -> None:
        """Count it as handled now, whatever becomes of the loop."""
        self.mark(self.offset)

    def __repr__(self) -> str:
        return f"GroupRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, key={self.key!r})"


class Batch(msgspec.Struct, frozen=True):
    """A batch of the log as columns, or a run of many batches of one record.

    Record ``i`` has offset ``first_offset + i``.

    ``keys`` and ``headers`` are None where no record has any. Iterating gives records. Of a run, ``append_time`` is the
    first record's, ``append_times`` has one for each record, and what belongs to a single batch is None.

    All that a transaction has published to a partition stands together, in one batch or several. Of its records there
    ``transaction_ordinal`` stand before this batch, and ``transaction_count`` before its end.
    """

    topic: str
    partition: int
    first_offset: int
    keys: list[bytes | None] | None
    payloads: list[bytes]
    headers: list[HeaderPairs] | None
    append_time: datetime
    batch_id: int | None
    transaction_id: int | None
    transaction_ordinal: int | None
    transaction_count: int | None
    append_times: Sequence[datetime] | None = None

    @property
    def end(self) -> int:
        return self.first_offset + len(self.payloads)

    def __len__(self) -> int:
        return len(self.payloads)

    def continues(self, before: Batch) -> bool:
        """Whether it goes on with the transaction of the batch before it in the same partition. Never where batches
        were read as a run, which does not know transactions."""
        return bool(self.transaction_ordinal) and self.transaction_id == before.transaction_id

    def cut(self, start: int, end: int) -> Batch:
        """The records of ``[start, end)``, which must lie in it."""
        if start == self.first_offset and end == self.end:
            return self
        piece = slice(start - self.first_offset, end - self.first_offset)
        times = None if self.append_times is None else self.append_times[piece]
        ordinal, count = self.transaction_ordinal, self.transaction_count
        return msgspec.structs.replace(
            self,
            first_offset=start,
            keys=None if self.keys is None else self.keys[piece],
            payloads=self.payloads[piece],
            headers=None if self.headers is None else self.headers[piece],
            append_time=times[0] if times else self.append_time,
            transaction_ordinal=None if ordinal is None else ordinal + start - self.first_offset,
            transaction_count=None if count is None else count + end - self.end,
            append_times=times,
        )

    def __iter__(self) -> Iterator[Record]:
        return map(Record, *self._fields())

    def marked(self, mark: Callable[[int], None]) -> Iterator[GroupRecord]:
        """As iterating, for a consumer that wants to know which ones are done."""
        return map(GroupRecord, *self._fields(), repeat(mark))

    def made_into(self, make: Callable[..., T], start: int, end: int, *further: object) -> Iterator[T]:
        """The records of ``[start, end)``, which must lie in it, as a kind of record that has further fields, the same
        for all of them."""
        if end - start > 1:
            return map(make, *self.cut(start, end)._fields(), *map(repeat, further))
        at = start - self.first_offset
        record = (
            self.topic,
            self.partition,
            start,
            None if self.keys is None else self.keys[at],
            self.payloads[at],
            () if self.headers is None else self.headers[at],
            self.append_time if self.append_times is None else self.append_times[at],
        )
        return iter((make(*record, *further),))

    def _fields(self) -> tuple[Iterable[Any], ...]:
        return (
            repeat(self.topic),
            repeat(self.partition),
            range(self.first_offset, self.end),
            repeat(None) if self.keys is None else self.keys,
            self.payloads,
            repeat(()) if self.headers is None else self.headers,
            repeat(self.append_time) if self.append_times is None else self.append_times,
        )


class PartitionRange(msgspec.Struct, frozen=True):
    """The log of one partition: ``[start, end)``."""

    partition: int
    start: int
    end: int


class PinnedPosition(msgspec.Struct, frozen=True):
    """A position that may be kept outside the database: it can be proven to stand in the same log later.

    ``batch_id`` is that of the batch which holds ``offset - 1``; None where there was no such record.
    """

    topic: str
    partition: int
    offset: int
    incarnation: int
    batch_id: int | None
    log_epoch: int


class Topic(msgspec.Struct, frozen=True):
    """A topic as the database knows it. ``None`` in a retention limit means: no such limit."""

    topic_id: int
    incarnation: int
    name: str
    partitions: int
    open_segment_id: int
    created_at: datetime
    retention_age_s: int | None
    retention_bytes: int | None
    segment_bytes: int
    segment_age_s: int
    record_bytes_max: int
    batch_bytes_max: int
    batch_records_max: int
    key_bytes_max: int
    header_count_max: int
    header_bytes_max: int
    retention_consumed: bool
    notify_in_commit: bool
    loose_commit_order: bool
    partition_ids: tuple[int, ...]


class Segment(msgspec.Struct, frozen=True):
    """One table of a topic's log. ``state``: open, moving, sealed, released."""

    segment_id: int
    topic_name: str | None
    state: str
    opened_at: datetime
    sealed_at: datetime | None
    last_append_time: datetime | None
    byte_count: int | None


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic with the state of its partitions and segments."""

    topic: Topic
    ranges: list[PartitionRange]
    segments: list[Segment]


class RetentionStep(msgspec.Struct, frozen=True):
    """One thing that a retention run did: ``action`` is roll, seal, release, drop or skip."""

    action: str
    segment_id: int
    reason: str
    record_count: int = 0
    byte_count: int = 0


class PartitionLag(msgspec.Struct, frozen=True):
    """How far a group has come in a partition: ``cursor`` is the next offset it will read, ``end`` the log's."""

    topic: str
    partition: int
    cursor: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - self.cursor


class GroupSummary(msgspec.Struct, frozen=True):
    """A group at a glance. ``members`` counts those that are alive."""

    name: str
    topics: list[str]
    members: int
    partitions: int
    lag: int
    created_at: datetime


class GroupPartition(msgspec.Struct, frozen=True):
    """A group in one partition: where it stands, and who holds it (``member_id`` is None: nobody).

    ``kind`` says how it came there: b begun, t taken, c committed, r released, s sought, m claimed for at most once.
    """

    topic: str
    partition: int
    cursor: int
    start: int
    end: int
    epoch: int
    member_id: int | None
    member_name: str | None
    is_alive: bool | None
    moved_at: datetime
    kind: str

    @property
    def lag(self) -> int:
        return self.end - self.cursor


class GroupMember(msgspec.Struct, frozen=True):
    """A member of a group. ``by_session``: it is known to be alive by its session; otherwise by its heartbeats."""

    member_id: int
    name: str
    topics: list[str]
    joined_at: datetime
    is_alive: bool
    partitions: int
    by_session: bool


class GroupFailures(msgspec.Struct, frozen=True):
    """What handlers by group key have given up: how many records within 30 days, and where and why the last time
    (None: never). ``blocked_keys`` and ``parked_records`` wait for a redrive now."""

    failed_records: int = 0
    blocked_keys: int = 0
    parked_records: int = 0
    last_topic: str | None = None
    last_partition: int | None = None
    last_offset: int | None = None
    last_reason: str | None = None
    last_at: datetime | None = None


class BlockedKey(msgspec.Struct, frozen=True):
    """A key of two parts whose records are parked: ``failed_count`` of the ``record_count`` have failed themselves, the
    others wait behind them. ``due_at`` is when its redrive was asked for; None: it was not."""

    topic: str
    partition: int
    key: bytes | None
    group_key: bytes | None
    first_offset: int
    record_count: int
    failed_count: int
    attempts: int
    reason: str
    blocked_at: datetime
    due_at: datetime | None


class GroupDescription(msgspec.Struct, frozen=True):
    """A group with its partitions and members, and what was given up in it."""

    name: str
    partitions: list[GroupPartition]
    members: list[GroupMember]
    failures: GroupFailures = GroupFailures()

    @property
    def lag(self) -> int:
        return sum(partition.lag for partition in self.partitions)


class CursorMove(msgspec.Struct, frozen=True):
    """What a seek does, or would do, in one partition."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


class OutboxSource(msgspec.Struct, frozen=True):
    """A table of the application's whose rows are published as they are inserted; ``problem`` says what is wrong."""

    table: str
    topic: str
    payload: str
    key: str | None
    group_key: str | None
    headers: str | None
    attached_by: str
    attached_at: datetime
    problem: str | None
