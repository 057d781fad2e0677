"""Groups in the design that Trunkline replaces: a reader is pinned to one partition, a row says how far its group is.

A reader takes records in one transaction: it claims up to a batch by moving its group's row, selects what it has
claimed, and commits when they are handled; without records it sleeps. The claim that was published for it is faulty;
this one is right, and quicker: one update that keeps where it began, bounded by the tip, and no row is written when
there is nothing. Two more things are done for it that a careful user would do: a reader that may be at the end looks
with one plain select before it opens a transaction, a third of the price; and the planner is told to keep to the index,
as our own functions tell it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks.baselines.rows import Rows, composed, connect, read_statement
from benchmarks.members import Handed, Member, Seat
from trunkline.client import target

POLL_S = 0.005
"""How long a reader sleeps that found nothing, where its delay counts."""

_CREATE = """
create table {schema}.consumer_offsets (
    group_id     text not null,
    topic_id     int not null,
    next_offset  bigint not null default 1,
    claimed_from bigint not null default 1,
    primary key (group_id, topic_id)
)
"""
_ADD = """
insert into {schema}.consumer_offsets (group_id, topic_id) select %(group)s, id from {schema}.log_counter
"""
_LOOK = """
select from {schema}.consumer_offsets o, {schema}.log_counter t
where o.group_id = {group} and o.topic_id = {partition} and t.id = {partition} and o.next_offset < t.next_offset
"""
_CLAIM = """
update {schema}.consumer_offsets o
set claimed_from = o.next_offset, next_offset = least(o.next_offset + {max_records}, t.next_offset)
from {schema}.log_counter t
where o.group_id = {group} and o.topic_id = {partition} and t.id = {partition} and o.next_offset < t.next_offset
returning o.claimed_from, o.next_offset
"""
_time_of = itemgetter(2)
KEEP_TO_THE_INDEX = "-c enable_seqscan=off -c enable_bitmapscan=off"


@dataclass(frozen=True)
class Claims(Rows):
    """The baseline of every comparison of groups: the baseline's log, and readers of it."""

    poll_s: float = POLL_S

    def create(self, url: str, log: int, partitions: int) -> None:
        super().create(url, log, partitions)
        with connect(url) as connection:
            connection.execute(composed(_CREATE, log))

    def create_groups(self, url: str, log: int, groups: Sequence[str]) -> None:
        with connect(url) as connection:
            for group in groups:
                connection.execute(composed(_ADD, log), {"group": group})

    @contextmanager
    def member(self, url: str, log: int, seat: Seat) -> Iterator[Member]:
        assert seat.share == 1, "the baseline's readers have one partition each"
        with connect(kept_to_the_index(url)) as connection:
            yield ClaimingMember(connection, log, seat, self.poll_s)
            # A connection that ends commits what is open.
            connection.rollback()


class ClaimingMember:
    """One reader of the baseline. Between ``take`` and ``commit`` its transaction is open."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], log: int, seat: Seat, poll_s: float) -> None:
        self._cursor = connection.cursor(binary=True)
        self._look, self._claim = (statement(log, seat) for statement in (look_statement, claim_statement))
        self._read = read_statement(log, seat.reader, sql.Placeholder("start"), sql.Placeholder("end"))
        self._max_records = seat.max_records
        self._poll_s = poll_s
        self._behind = False

    def take(self, wait_s: float) -> Handed | None:
        deadline = monotonic() + wait_s
        while True:
            if self._behind or self._finds_some():
                handed = self._claimed()
                if handed is not None:
                    return handed
            if monotonic() + self._poll_s > deadline:
                return None
            sleep(self._poll_s)

    def commit(self) -> None:
        self._cursor.execute("commit")

    def _finds_some(self) -> bool:
        return self._cursor.execute(self._look, prepare=True).rowcount > 0

    def _claimed(self) -> Handed | None:
        asked = monotonic()
        self._cursor.execute("begin")
        row = self._cursor.execute(self._claim, prepare=True).fetchone()
        if row is None:
            self._cursor.execute("commit")
            self._behind = False
            return None
        start, end = row
        rows = self._cursor.execute(self._read, {"start": start, "end": end}, prepare=True).fetchall()
        assert len(rows) == end - start, "the baseline claimed records that it does not see"
        self._behind = end - start == self._max_records
        created = Counter(map(_time_of, rows))
        times = [(time.timestamp(), count) for time, count in created.items()]
        return Handed(asked, [[row[1] for row in rows]], times)


def kept_to_the_index(url: str) -> str:
    """The same URL for sessions whose plans do not depend on what the planner believes of a new table."""
    options = target.parse(url).get("options", "")
    return make_conninfo(url, options=f"{options} {KEEP_TO_THE_INDEX}".strip())


def look_statement(log: int, seat: Seat) -> sql.Composed:
    """A row if the group has something to read in the partition."""
    return _of_seat(_LOOK, log, seat)


def claim_statement(log: int, seat: Seat) -> sql.Composed:
    """Moves the group on; the start and the end of what it may read, or no row. Also what pgbench is given."""
    return _of_seat(_CLAIM, log, seat)


def _of_seat(template: LiteralString, log: int, seat: Seat) -> sql.Composed:
    return composed(
        template, log, seat.reader, group=sql.Literal(seat.group), max_records=sql.Literal(seat.max_records)
    )
