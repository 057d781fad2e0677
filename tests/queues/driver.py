"""A queue in plain SQL: readers that claim and settle by ``queue_next``, and the server's clock in a test's hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.rows import class_row
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range

import trunkline
from tests.concurrency.sessions import APPEND, ROLL, Session, append_parameters

Kind = Literal["a", "n", "r", "d", "j", "e"]

ENTER = (
    "select queue_id, part_ids from trunkline.queue_enter("
    "(select topic_id from trunkline.topic where name = %(topic)s), %(name)s, true, %(start)s, %(ack_deadline_s)s,"
    " %(max_attempts)s, %(dead_letter)s, %(is_ordered)s, %(pause_above)s, %(bury_expired)s)"
)
NEXT = (
    "select * from trunkline.queue_next(%(queue_id)s::int4, %(part_ids)s::int4[], %(claim_nos)s::int8[],"
    " %(tokens)s::int8[], %(seqs)s::int4[], %(kinds)s::text[], %(offsets)s::text[], %(delays)s::float8[],"
    " %(max_records)s::int4, %(bytes_max)s::int8, %(start_part)s::int4, %(holder)s::text)"
)
PUBLISH = APPEND.replace(
    "null, null, null", "%(header_counts)s::int4[], %(header_names)s::text[], %(header_values)s::bytea[]"
)
DELAY = "trunkline-deliver-after"
STEP = (
    "select is_done, is_more, next_no, next_token, first_offset, record_count, payloads from trunkline.claim_{}_step("
    "%s::int4, %s::int8, %s::int8, %s::int4, %s::text::int8multirange, %s::int4, %s::int4, %s::text, %s)"
)
TABLE = "select table_no from trunkline.queue_part where part_id = %s"
DESCRIBE = "select * from trunkline.queue_describe(%s, %s) order by partition"
CLOCK = (
    "create table if not exists public.test_clock (at timestamptz)",
    "delete from public.test_clock",
    "insert into public.test_clock values ('2026-01-01 12:00Z')",
    (
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
        " as $$ select at from public.test_clock $$"
    ),
)


@dataclass(kw_only=True)
class Row:
    """A row of the answer, as the server gives it."""

    part_id: int | None
    partition: int | None
    claim_no: int | None
    token: int | None
    attempt: int | None
    deadline_s: float | None
    is_exhausted: bool | None
    offsets: Multirange[int] | None
    first_offset: int | None
    record_count: int | None
    append_time: Any
    keys: list[bytes | None] | None
    payloads: list[bytes] | None
    header_counts: list[int] | None
    header_names: list[str] | None
    header_values: list[bytes] | None
    append_times: Any
    joined: bytes | None
    lengths: list[int] | None
    lost: list[int] | None
    due_s: float | None
    is_full: bool | None


@dataclass
class Claim:
    """What one reader holds of one part. ``seq`` counts its settlements; ``payloads`` has those that came along."""

    part_id: int
    partition: int
    claim_no: int
    token: int
    attempt: int
    deadline_s: float
    is_exhausted: bool
    offsets: tuple[int, ...]
    payloads: dict[int, bytes]
    seq: int = 0


@dataclass(frozen=True)
class Settlement:
    """One settlement of one claim; ``offsets``: None for all that remain, a text as it is. Without a ``seq`` it is the
    claim's next."""

    claim: Claim
    kind: Kind = "a"
    offsets: Iterable[int] | str | None = None
    delay_s: float | None = 0.0
    seq: int | None = None


@dataclass
class Answer:
    """``lost`` has the settlements that were lost, by their place from 0 on."""

    claims: list[Claim]
    lost: list[int]
    due_s: float | None
    is_full: bool

    @property
    def offsets(self) -> list[int]:
        return [offset for claim in self.claims for offset in claim.offsets]

    @property
    def claim(self) -> Claim:
        (claim,) = self.claims
        return claim


@dataclass
class Reader:
    """A reader of one queue on one connection. Claims of another reader can be settled too, as a thief would."""

    connection: psycopg.Connection[Any]
    queue_id: int
    part_ids: Sequence[int]
    name: str = "reader"
    start_part: int = 0

    def next(self, settlements: Sequence[Settlement] = (), max_records: int = 0, **others: Any) -> Answer:
        """Settle, then claim; either may be nothing. A settlement's seq counts at once, whatever becomes of it."""
        with self.connection.cursor(row_factory=class_row(Row)) as cursor:
            rows = cursor.execute(NEXT, self.parameters(settlements, max_records, **others)).fetchall()
        *pieces, last = rows
        assert last.claim_no is None
        assert last.is_full is not None
        return Answer(list(_claims(pieces)), [place - 1 for place in last.lost or ()], last.due_s, last.is_full)

    def parameters(self, settlements: Sequence[Settlement], max_records: int, **others: Any) -> dict[str, Any]:
        seqs = []
        for each in settlements:
            each.claim.seq = each.seq if each.seq is not None else each.claim.seq + 1
            seqs.append(each.claim.seq)
        return {
            "queue_id": self.queue_id,
            "part_ids": [each.claim.part_id for each in settlements],
            "claim_nos": [each.claim.claim_no for each in settlements],
            "tokens": [each.claim.token for each in settlements],
            "seqs": seqs,
            "kinds": [each.kind for each in settlements],
            "offsets": [as_text(each.offsets) for each in settlements],
            "delays": [None if each.delay_s is None else float(each.delay_s) for each in settlements],
            "max_records": max_records,
            "bytes_max": 1 << 20,
            "start_part": self.start_part,
            "holder": self.name,
            **others,
        }

    def claim(self, max_records: int = 100, **others: Any) -> Answer:
        return self.next((), max_records, **others)

    def take(self, max_records: int = 100, **others: Any) -> Claim:
        """The one claim that is to be had."""
        return self.claim(max_records, **others).claim

    def settle(self, claim: Claim, kind: Kind = "a", offsets: Iterable[int] | str | None = None, **others: Any) -> bool:
        """Whether it was done; else the claim is lost."""
        return not self.next([Settlement(claim, kind, offsets, **others)]).lost

    def ack(self, claim: Claim, offsets: Iterable[int] | None = None, **others: Any) -> bool:
        return self.settle(claim, "a", offsets, **others)

    def nack(self, claim: Claim, offsets: Iterable[int] | None = None, delay_s: float = 0.0) -> bool:
        return self.settle(claim, "n", offsets, delay_s=delay_s)

    def release(self, claim: Claim, offsets: Iterable[int] | None = None) -> bool:
        return self.settle(claim, "r", offsets)

    def extend(self, claim: Claim, delay_s: float) -> bool:
        return self.settle(claim, "e", delay_s=delay_s)

    def step(
        self,
        claim: Claim | None,
        offsets: Iterable[int] | None = None,
        *,
        part_id: int | None = None,
        max_records: int = 0,
    ) -> tuple[bool, Claim | None]:
        """The short way, as clients go: acknowledge one claim, or claim more from one part, or both. Whether it was
        acknowledged, and what was claimed; what the short way does not do is left undone."""
        part_id = claim.part_id if claim is not None else part_id or self.part_ids[0]
        row = self.connection.execute(TABLE, [part_id]).fetchone()
        assert row is not None
        chosen = None if offsets is None else list(offsets)
        if claim is not None:
            claim.seq += 1
        given = [part_id, claim and claim.claim_no, claim and claim.token, claim and claim.seq, as_text(chosen)]
        count = 0 if claim is None else len(claim.offsets if chosen is None else chosen)
        got = self.connection.execute(
            STEP.format(row[0]).encode(), [*given, count, max_records, self.name, claim is None]
        ).fetchone()
        assert got is not None
        is_done, is_more, number, token, first, size, payloads = got
        if is_more:
            return is_done, None
        taken = tuple(range(first, first + size))
        partition = self.part_ids.index(part_id)
        along = {} if payloads is None else dict(zip(taken, payloads, strict=True))
        return is_done, Claim(
            part_id, partition, number, token, 1, 0.0, is_exhausted=False, offsets=taken, payloads=along
        )

    def ack_shortly(self, claim: Claim, offsets: Iterable[int] | None = None) -> bool:
        """By the short way, where it can be done, as clients do."""
        seq = claim.seq
        if self.step(claim, offsets)[0]:
            return True
        return self.ack(claim, offsets, seq=seq + 1)


@dataclass(frozen=True)
class Part:
    """A line of ``queue_describe``."""

    start: int
    floor: int
    frontier: int
    end: int
    in_flight: int
    waiting: int
    expired: int


class Queue:
    """A topic ``t`` with a queue ``q``, and whoever administers them, on a session that commits by itself."""

    def __init__(
        self, url: str, *, partitions: int = 1, topic: str = "t", is_new: bool = True, **settings: Any
    ) -> None:
        self.url = url
        self.topic = topic
        self.admin = psycopg.connect(url, autocommit=True, application_name="admin")
        self._readers: list[psycopg.Connection[Any]] = [self.admin]
        if is_new:
            self.sql("select trunkline.topic_create(%s, %s)", [topic, partitions])
        self.topic_id: int = self.sql("select topic_id from trunkline.topic where name = %s", [topic])[0][0]
        self.queue_id, self.part_ids = self.enter(**settings)

    def enter(self, name: str = "q", **settings: Any) -> tuple[int, list[int]]:
        defaults = dict.fromkeys(("ack_deadline_s", "max_attempts", "dead_letter", "is_ordered", "pause_above"))
        values = {**defaults, "bury_expired": None, "topic": self.topic, "name": name, "start": "earliest", **settings}
        queue_id, part_ids = self.sql(ENTER, values)[0]
        return queue_id, part_ids

    def sql(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.admin.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []

    def publish(self, count: int = 1, *, partition: int = 0, delays: Sequence[float | str | None] = ()) -> int:
        """One batch of so many records, or as many as there are delays; its first offset."""
        headers: dict[str, Any] = {}
        if delays:
            count = len(delays)
            given = [delay for delay in delays if delay is not None]
            headers = {
                "header_counts": [int(delay is not None) for delay in delays],
                "header_names": [DELAY] * len(given),
                "header_values": [str(delay).encode() for delay in given],
            }
        return self.append([b"x"] * count, partition=partition, **headers)

    def append(self, payloads: Sequence[bytes], *, partition: int = 0, **headers: Any) -> int:
        """One batch of these records; its first offset."""
        none = dict.fromkeys(("header_counts", "header_names", "header_values"))
        parameters = append_parameters(self.topic_id, {partition: payloads}, **{**none, **headers})
        return int(self.sql(PUBLISH, parameters)[0][0][0])

    def reader(self, name: str = "reader", *, session: Session | None = None, **connect: Any) -> Reader:
        """On a session of its own that commits by itself, or on the one that is given."""
        if session is None:
            self._readers.append(psycopg.connect(self.url, autocommit=True, application_name=name, **connect))
        connection = session.connection if session is not None else self._readers[-1]
        return Reader(connection, self.queue_id, self.part_ids, name)

    def describe(self, partition: int = 0, name: str = "q") -> Part:
        return self.describe_all(name)[partition]

    def describe_all(self, name: str = "q") -> dict[int, Part]:
        with self.admin.cursor() as cursor:
            rows = cursor.execute(DESCRIBE, [self.topic, name]).fetchall()
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return {row["partition"]: Part(**{at: row[at] for at in Part.__dataclass_fields__}) for row in found}

    def floor(self, partition: int = 0) -> int:
        return self.describe(partition).floor

    def roll(self) -> int:
        """New tables, all parts that can be moved are moved, old tables go. How many parts are left."""
        assert self.sql("select trunkline.queue_roll(%s, true)", [self.queue_id]) == [(True,)]
        left = self.move()
        self.sql("select trunkline.queue_drop_old()")
        return left

    def move(self) -> int:
        before = len(self.part_ids) + 1
        while True:
            ((left,),) = self.sql("select trunkline.queue_move_parts(%s)", [self.queue_id])
            if left in (0, before):
                return int(left)
            before = left

    def expire_log(self, *, roll: bool = True) -> None:
        """Retention takes everything that has been published so far; without a roll, what stands in older segments."""
        self.sql("select trunkline.topic_alter(%s, '{\"retention_bytes\": 0}')", [self.topic])
        if roll:
            self.sql(ROLL, [self.topic_id])
        with trunkline.connect(self.url) as tl:
            tl.retention_run(self.topic)

    def close(self) -> None:
        for connection in self._readers:
            connection.close()


class Clock:
    """The server's clock, which stands still until it is moved."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        for statement in CLOCK:
            connection.execute(statement)

    def advance(self, seconds: float) -> None:
        self._connection.execute("update public.test_clock set at = at + %s * interval '1 second'", [seconds])


def as_text(offsets: Iterable[int] | str | None) -> str | None:
    """Offsets as an int8multirange is spelled."""
    if offsets is None or isinstance(offsets, str):
        return offsets
    return "{" + ",".join(f"[{offset},{offset + 1})" for offset in offsets) + "}"


def expand(offsets: Multirange[int] | None) -> tuple[int, ...]:
    """The single offsets of a set."""
    return tuple(offset for each in offsets or () for offset in _range(each))


def _range(each: Range[int]) -> range:
    assert each.lower is not None
    assert each.upper is not None
    return range(each.lower, each.upper)


def _claims(pieces: Sequence[Row]) -> Iterator[Claim]:
    by_claim: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for piece in pieces:
        by_claim[piece.part_id, piece.claim_no].append(piece)
    for rows in by_claim.values():
        first = rows[0]
        assert None not in (first.part_id, first.partition, first.claim_no, first.token, first.attempt)
        named = next((row.offsets for row in rows if row.offsets is not None), None)
        whole = [offset for row in rows for offset in _piece_range(row)]
        offsets = expand(named) if named is not None else tuple(whole)
        assert set(offsets) <= set(whole)
        yield Claim(
            first.part_id or 0,
            first.partition or 0,
            first.claim_no or 0,
            first.token or 0,
            first.attempt if first.attempt is not None else -1,
            first.deadline_s or 0.0,
            bool(first.is_exhausted),
            offsets,
            {offset: payload for row in rows for offset, payload in _payloads(row) if offset in offsets},
        )


def _piece_range(row: Row) -> range:
    assert row.first_offset is not None
    assert row.record_count is not None
    return range(row.first_offset, row.first_offset + row.record_count)


def _payloads(row: Row) -> Iterator[tuple[int, bytes]]:
    if row.payloads is not None:
        yield from zip(_piece_range(row), row.payloads, strict=True)
    elif row.joined is not None:
        at = 0
        for offset, length in zip(_piece_range(row), row.lengths or (), strict=True):
            yield offset, row.joined[at : at + length]
            at += length
