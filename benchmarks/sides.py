"""The two sides of a comparison: Trunkline, and the tables that it replaces. Both are driven by the same jobs.

A side makes a log with partitions, and opens writers and readers of it, each with one connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import psycopg
from psycopg import sql

import trunkline
from trunkline import Client, ClientSettings

Write = Callable[[list[bytes]], object]
"""Writes one batch; returns when it is durable."""

Fetch = Callable[[int, int], list[list[bytes]]]
"""The payloads from an offset on, about as many as asked for, in pieces as they come."""

Shape = Literal["columns", "records"]
"""Whether a reader makes an object for each record before it gives its payload."""

ONE_CONNECTION = ClientSettings(connections_max=1, deadline_s=120.0, statement_timeout_s=60.0)


class Side(Protocol):
    """Ways to write and to read one kind of log. Logs are told apart by a number."""

    @property
    def name(self) -> str: ...

    def create(self, url: str, log: int, partitions: int) -> None: ...

    def drop(self, url: str, log: int) -> None: ...

    def analyse(self, url: str, log: int) -> None:
        """Let the planner know the tables, as it would in a log that has been there for a while."""

    def settle(self, url: str, log: int) -> None:
        """What autovacuum has done some time after the log was written."""

    def disk_bytes(self, url: str, log: int) -> int:
        """The size of every table and index; what counts is how it grows."""

    def writer(self, url: str, log: int, partition: int) -> AbstractContextManager[Write]: ...

    def reader(self, url: str, log: int, partition: int, shape: Shape) -> AbstractContextManager[Fetch]: ...


@dataclass(frozen=True)
class Ours:
    """Trunkline through its sync client. ``compression``: None for what the schema picks by itself."""

    compression: Literal["pglz"] | None = None
    name: str = "ours"

    def create(self, url: str, log: int, partitions: int) -> None:
        with trunkline.connect(url) as client:
            topic = client.create_topic(topic_name(log), partitions=partitions)
        if self.compression is not None:
            _compress(url, topic.open_segment_id, self.compression)

    def drop(self, url: str, log: int) -> None:
        with trunkline.connect(url) as client:
            client.delete_topic(topic_name(log))

    def analyse(self, url: str, log: int) -> None:
        """Nothing: no plan of ours depends on statistics."""

    def settle(self, url: str, log: int) -> None:
        """Nothing: a segment is read as it was written."""

    def disk_bytes(self, url: str, log: int) -> int:  # noqa: ARG002 - catalogues are shared by all logs
        return schema_bytes(url, "trunkline")

    @contextmanager
    def writer(self, url: str, log: int, partition: int) -> Iterator[Write]:
        topic = topic_name(log)
        with trunkline.connect(url, settings=ONE_CONNECTION) as client:

            def write(batch: list[bytes]) -> object:
                if len(batch) == 1:
                    return client.publish(topic, batch[0], partition=partition)
                return client.publish_many(topic, batch, partition=partition)

            yield write

    @contextmanager
    def reader(self, url: str, log: int, partition: int, shape: Shape) -> Iterator[Fetch]:
        with trunkline.connect(url, settings=ONE_CONNECTION) as client:
            yield _columns(client, log, partition) if shape == "columns" else _records(client, log, partition)


def _columns(client: Client, log: int, partition: int) -> Fetch:
    topic = topic_name(log)

    def fetch(offset: int, count: int) -> list[list[bytes]]:
        batches = client.read_batches(topic, partition=partition, offset=offset, max_records=count)
        return [batch.payloads for batch in batches]

    return fetch


def _records(client: Client, log: int, partition: int) -> Fetch:
    topic = topic_name(log)

    def fetch(offset: int, count: int) -> list[list[bytes]]:
        records = client.read(topic, partition=partition, offset=offset, max_records=count)
        return [[record.payload for record in records]]

    return fetch


def topic_name(log: int) -> str:
    return f"bench-{log}"


def schema_bytes(url: str, schema: str) -> int:
    """Tables with their indexes and TOAST, and sequences."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "select sum(pg_total_relation_size(c.oid))::bigint from pg_class c "
            "where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'S')",
            [schema],
        ).fetchone()
    assert row is not None
    return int(row[0])


def _compress(url: str, segment_id: int, method: str) -> None:
    """Make a segment as a server without lz4 would have made it. As owner, and before anything is written."""
    columns = ("keys", "payloads", "header_counts", "header_names", "header_values")
    changes = [sql.SQL("alter {} set compression {}").format(*map(sql.Identifier, (c, method))) for c in columns]
    with psycopg.connect(url, autocommit=True) as connection:
        table = sql.Identifier("trunkline", f"segment_{segment_id}")
        connection.execute(sql.SQL("alter table {} {}").format(table, sql.SQL(", ").join(changes)))
