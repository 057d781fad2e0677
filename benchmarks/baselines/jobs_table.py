"""The queues that people build on PostgreSQL: a table with a row a record, taken with FOR UPDATE SKIP LOCKED.

``Hidden`` has our guarantee: a worker hides rows for a while by an update, and deletes them when they are done; what
it does not delete comes back. ``Deleted`` has not: a worker deletes rows as it receives them, and what it dies with is
gone.

Both are meant to be hard to beat: a statement a batch, prepared and in binary, nothing but a primary key, rows found
and changed by their place in the table (ctid), and the planner is told to keep to the index. Half of each page of the
hidden ones is left free, so that hiding a row touches no index. Tried, and not quicker: an index on the time at which
a row is visible; hiding without a wait for the flush. Deleting the last batch and hiding the next in one statement
deadlocks as soon as a deadline passes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat
from psycopg.types.numeric import Int8BinaryDumper

from benchmarks.baselines.claims import kept_to_the_index
from benchmarks.baselines.rows import connect
from benchmarks.desks import Counter, Desk, Held, Worker
from benchmarks.payloads import Tally
from benchmarks.sides import Write

POLL_S = 0.005
"""How long a worker sleeps that found nothing."""
_CREATE_HIDDEN = """
create table {table} (
    id          bigint generated always as identity primary key,
    visible_at  timestamptz not null default '-infinity',
    attempts    int not null default 0,
    enqueued_at timestamptz not null default now(),
    payload     bytea not null
) with (fillfactor = 50)
"""
_CREATE_DELETED = """
create table {table} (
    id          bigint generated always as identity primary key,
    enqueued_at timestamptz not null default now(),
    payload     bytea not null
)
"""
_WRITE = "insert into {table} (payload) select unnest({payloads}::bytea[])"
_WRITE_ONE = "insert into {table} (payload) values ({payload})"
_HIDE = """
update {table} set visible_at = clock_timestamp() + {deadline_s} * interval '1 second', attempts = attempts + 1
where ctid = any (array(
    select ctid from {table} where visible_at <= clock_timestamp() order by id limit {records} for update skip locked))
returning id, payload
"""
_DELETE = "delete from {table} where id = any ({ids}::int8[])"
_DELETE_ONE = "delete from {table} where id = {id}"
_RECEIVE = """
delete from {table}
where ctid = any (array(select ctid from {table} order by id limit {records} for update skip locked))
returning payload
"""


@dataclass(frozen=True)
class Table:
    """A queue in one table. There are no partitions: all writers and workers share it."""

    name: str

    def create(self, url: str, log: int, partitions: int) -> None:  # noqa: ARG002
        with connect(url) as connection:
            connection.execute(composed(_CREATE_HIDDEN if self.name == "hidden" else _CREATE_DELETED, log))

    def open_queue(self, url: str, log: int, ack_deadline_s: float) -> None:
        """Nothing: the table is the queue."""

    def drop(self, url: str, log: int) -> None:
        with connect(url) as connection:
            connection.execute(composed("drop table {table}", log))

    def analyse(self, url: str, log: int) -> None:
        with connect(url) as connection:
            connection.execute(composed("analyze {table}", log))

    @contextmanager
    def writer(self, url: str, log: int, partition: int) -> Iterator[Write]:  # noqa: ARG002
        many = composed(_WRITE, log, payloads=sql.Placeholder("payloads", format=PyFormat.BINARY))
        one = composed(_WRITE_ONE, log, payload=sql.Placeholder("payload", format=PyFormat.BINARY))
        with connect(url) as connection:
            cursor = connection.cursor(binary=True)

            def write(batch: list[bytes]) -> object:
                if len(batch) == 1:
                    return cursor.execute(one, {"payload": batch[0]}, prepare=True)
                return cursor.execute(many, {"payloads": batch}, prepare=True)

            yield write

    def left(self, url: str, log: int) -> Tally:
        with connect(url) as connection:
            rows = connection.cursor(binary=True).execute(composed("select payload from {table}", log))
            return Tally().after([payload for (payload,) in rows])


@dataclass(frozen=True)
class Hidden(Table):
    """Hide by update, delete on acknowledgement."""

    name: str = "hidden"

    @contextmanager
    def worker(self, url: str, log: int, desk: Desk) -> Iterator[Worker]:
        with connect(kept_to_the_index(url)) as connection:
            yield Hider(connection, log, desk)

    @asynccontextmanager
    async def counter(self, url: str, log: int, desk: Desk) -> AsyncIterator[Counter]:
        connection = await psycopg.AsyncConnection.connect(kept_to_the_index(url), autocommit=True)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        async with connection:
            yield HidingCounter(connection, log, desk)


@dataclass(frozen=True)
class Deleted(Table):
    """Delete on receive."""

    name: str = "deleted"

    @contextmanager
    def worker(self, url: str, log: int, desk: Desk) -> Iterator[Worker]:
        with connect(kept_to_the_index(url)) as connection:
            yield Deleter(connection, log, desk)


class Hider:
    """One worker of the hidden rows; with ``prefetch`` it hides so many at a time, and gives them out by its batch."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], log: int, desk: Desk) -> None:
        self._cursor = connection.cursor(binary=True)
        self._hide = hide_statement(log, max(desk.prefetch, desk.batch_records), desk.ack_deadline_s)
        self._delete, self._delete_one = delete_statement(log), delete_one_statement(log)
        self._batch_records = desk.batch_records
        self._ahead: list[tuple[int, bytes]] = []
        self._held: list[int] = []

    def take(self, wait_s: float = 0.0) -> list[bytes]:
        if not self._ahead:
            self._ahead = _polled(lambda: self._cursor.execute(self._hide, prepare=True).fetchall(), wait_s)
        rows, self._ahead = self._ahead[: self._batch_records], self._ahead[self._batch_records :]
        self._held = [row[0] for row in rows]
        return [row[1] for row in rows]

    def done(self) -> None:
        if len(self._held) == 1:
            self._cursor.execute(self._delete_one, {"id": self._held[0]}, prepare=True)
        else:
            self._cursor.execute(self._delete, {"ids": self._held}, prepare=True)
        assert self._cursor.rowcount == len(self._held), "another worker has deleted them"
        self._held = []

    def step(self, wait_s: float = 0.0) -> list[bytes]:
        if self._held:
            self.done()
        return self.take(wait_s)


class Deleter:
    """One worker of the other: what it receives is gone from the table."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], log: int, desk: Desk) -> None:
        self._cursor = connection.cursor(binary=True)
        self._receive = receive_statement(log, desk.batch_records)

    def take(self, wait_s: float = 0.0) -> list[bytes]:
        rows = _polled(lambda: self._cursor.execute(self._receive, prepare=True).fetchall(), wait_s)
        return [payload for (payload,) in rows]

    def done(self) -> None:
        """Nothing: it was done when it was received."""

    def step(self, wait_s: float = 0.0) -> list[bytes]:
        return self.take(wait_s)


class HidingCounter:
    """What a careful user would write for many handlers: rows are hidden a hundred at a time, by whoever finds none in
    memory; acknowledgements that come while one is under way are deleted together in the next statement."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[Any, ...]], log: int, desk: Desk) -> None:
        self._cursor = connection.cursor(binary=True)
        self._hide = hide_statement(log, desk.prefetch, desk.ack_deadline_s)
        self._delete = delete_statement(log)
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._statements = asyncio.Lock()
        self._hiding = asyncio.Lock()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._is_led = False

    async def receive(self) -> Held | None:
        if not self._ahead:
            async with self._hiding:
                if not self._ahead:
                    async with self._statements:
                        await self._cursor.execute(self._hide, prepare=True)
                        self._ahead.extend(await self._cursor.fetchall())
        if not self._ahead:
            return None
        number, payload = self._ahead.popleft()
        return Held(payload, number)

    async def ack(self, held: Held) -> None:
        assert isinstance(held.receipt, int)
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((held.receipt, mine))
        if not self._is_led:
            self._is_led = True
            await self._lead()
        await mine

    async def _lead(self) -> None:
        while self._waiting:
            async with self._statements:
                gathered, self._waiting = self._waiting, []
                ids = [number for number, _ in gathered]
                await self._cursor.execute(self._delete, {"ids": ids}, prepare=True)
                assert self._cursor.rowcount == len(ids), "another worker has deleted them"
            for _, waiting in gathered:
                waiting.set_result(None)
        self._is_led = False


def _polled(found: Callable[[], list[Any]], wait_s: float) -> list[Any]:
    """What a statement finds, asked again until it finds something or the time is over."""
    deadline = monotonic() + wait_s
    while not (rows := found()) and monotonic() + POLL_S <= deadline:
        sleep(POLL_S)
    return rows


def hide_statement(log: int, records: int, deadline_s: float) -> sql.Composed:
    """Also what pgbench is given."""
    return composed(_HIDE, log, records=sql.Literal(records), deadline_s=sql.Literal(deadline_s))


def delete_statement(log: int) -> sql.Composed:
    return composed(_DELETE, log, ids=sql.Placeholder("ids", format=PyFormat.BINARY))


def delete_one_statement(log: int) -> sql.Composed:
    return composed(_DELETE_ONE, log, id=sql.Placeholder("id", format=PyFormat.BINARY))


def receive_statement(log: int, records: int) -> sql.Composed:
    return composed(_RECEIVE, log, records=sql.Literal(records))


def pgbench_scripts(log: int, records: int, deadline_s: float) -> dict[str, str]:
    """What a worker does with one batch, by the name of its side. pgbench can keep one row: it is sent all payloads of
    what it hides as one text."""
    hide = hide_statement(log, records, deadline_s).as_string()
    delete = composed(_DELETE, log, ids=sql.SQL(":ids")).as_string()
    return {
        "hidden": f"with hidden as ({hide}) select array_agg(id)::text as ids, "
        f"encode(string_agg(payload, ''), 'escape') as payloads from hidden \\gset\n{delete};\n",
        "deleted": f"{receive_statement(log, records).as_string()};\n",
    }


def table_name(log: int) -> str:
    return f"jobs_{log}"


def composed(template: LiteralString, log: int, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(template).format(table=sql.Identifier(table_name(log)), **parts)
