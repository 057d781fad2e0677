"""The design that Trunkline replaces: one row a record, a counter row for each partition, two unique indexes.

It is what a competent user would write today with psycopg, and it is meant to be hard to beat: one statement a batch,
prepared, in binary; it returns no offsets, which ours does. What psycopg costs on top of the SQL is printed in the same
run (the pgbench lines). Two faults of the design as it was published are corrected: the number of offsets taken is
the number of payloads, whatever the caller says, and a partition without a counter is an error, not a lost batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat
from psycopg.types.numeric import Int8BinaryDumper

from benchmarks.sides import Fetch, Shape, Write, schema_bytes
from trunkline.records import Record

_CREATE = """
create schema {schema};
create table {schema}.log_counter (
    id          int primary key,
    next_offset bigint not null
);
"""
_CREATE_PARTITION = """
create table {table} (
    id         bigserial primary key,
    c_offset   bigint unique not null,
    payload    bytea not null,
    created_at timestamptz not null default now()
);
insert into {schema}.log_counter (id, next_offset) values ({partition}, 1);
"""
_WRITE = """
with reserve as (
    update {schema}.log_counter set next_offset = next_offset + cardinality({payloads})
    where id = {partition}
    returning next_offset - cardinality({payloads}) as first_off
)
insert into {table} (c_offset, payload)
select r.first_off + p.ord - 1, p.payload
from reserve r, unnest({payloads}) with ordinality as p(payload, ord)
"""
_READ = (
    "select c_offset, payload, created_at from {table} where c_offset >= {start} and c_offset < {end} order by c_offset"
)


@dataclass(frozen=True)
class Rows:
    """The baseline of every comparison of logs."""

    name: str = "baseline"

    def create(self, url: str, log: int, partitions: int) -> None:
        with connect(url) as connection:
            connection.execute(composed(_CREATE, log))
            for partition in range(partitions):
                connection.execute(composed(_CREATE_PARTITION, log, partition))

    def drop(self, url: str, log: int) -> None:
        with connect(url) as connection:
            connection.execute(composed("drop schema {schema} cascade", log))

    def analyse(self, url: str, log: int) -> None:
        """Without statistics, rows would be read through a bitmap and a sort instead of in the index's order."""
        _each_table(url, log, "analyze {table}")

    def settle(self, url: str, log: int) -> None:
        """Vacuumed and analysed: hint bits set, all visible."""
        _each_table(url, log, "vacuum (analyze) {table}")

    def disk_bytes(self, url: str, log: int) -> int:
        return schema_bytes(url, schema_name(log))

    @contextmanager
    def writer(self, url: str, log: int, partition: int) -> Iterator[Write]:
        statement = write_statement(log, partition, sql.Placeholder("payloads", format=PyFormat.BINARY))
        with connect(url) as connection:
            cursor = connection.cursor(binary=True)

            def write(batch: list[bytes]) -> object:
                cursor.execute(statement, {"payloads": batch}, prepare=True)
                if cursor.rowcount != len(batch):
                    raise LookupError(f"partition {partition} has no counter: the batch was not written")
                return None

            yield write

    @contextmanager
    def reader(self, url: str, log: int, partition: int, shape: Shape) -> Iterator[Fetch]:
        statement = read_statement(log, partition, sql.Placeholder("start"), sql.Placeholder("end"))
        with connect(url) as connection:
            cursor = connection.cursor(binary=True)
            of_rows = _payloads if shape == "columns" else _payloads_of_records(log, partition)

            def fetch(offset: int, count: int) -> list[list[bytes]]:
                window = {"start": offset, "end": offset + count}
                return [of_rows(cursor.execute(statement, window, prepare=True).fetchall())]

            yield fetch


def _each_table(url: str, log: int, template: LiteralString) -> None:
    with connect(url) as connection:
        found = connection.execute(
            "select tablename from pg_tables where schemaname = %s", [schema_name(log)]
        ).fetchall()
        for (name,) in found:
            table = sql.Identifier(schema_name(log), name)
            connection.execute(sql.SQL(template).format(table=table))


def _payloads(rows: Sequence[tuple[Any, ...]]) -> list[bytes]:
    return [row[1] for row in rows]


def _payloads_of_records(log: int, partition: int) -> Callable[[Sequence[tuple[Any, ...]]], list[bytes]]:
    topic = schema_name(log)

    def payloads(rows: Sequence[tuple[Any, ...]]) -> list[bytes]:
        records = [
            Record(topic, partition, offset, None, payload, (), created_at) for offset, payload, created_at in rows
        ]
        return [record.payload for record in records]

    return payloads


def connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection as our own client has it: autocommit, one type for whole numbers, times in UTC."""
    connection = psycopg.connect(url, autocommit=True)
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    connection.execute("set timezone to 'UTC'")
    return connection


def write_statement(log: int, partition: int, payloads: sql.Composable) -> sql.Composed:
    """One batch into one partition. Also what pgbench is given."""
    return composed(_WRITE, log, partition, payloads=payloads)


def read_statement(log: int, partition: int, start: sql.Composable, end: sql.Composable) -> sql.Composed:
    """What our own reads give as well: offset, payload and time, from ``start`` to before ``end``. Also for pgbench."""
    return composed(_READ, log, partition, start=start, end=end)


def schema_name(log: int) -> str:
    return f"rows_{log}"


def composed(template: LiteralString, log: int, partition: int = 0, **parts: sql.Composable) -> sql.Composed:
    schema = schema_name(log)
    return sql.SQL(template).format(
        schema=sql.Identifier(schema),
        table=sql.Identifier(schema, f"topicpartition{partition}"),
        partition=sql.Literal(partition),
        **parts,
    )
