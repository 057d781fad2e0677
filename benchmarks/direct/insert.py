"""One record a call, directly: an autocommitted, prepared INSERT into a table with an identity and a payload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg

CREATE = "create table if not exists direct_insert (id bigint generated always as identity primary key, payload bytea)"
INSERT = "insert into direct_insert (payload) values (%b)"


@contextmanager
def inserter(url: str) -> Iterator[Callable[[bytes], object]]:
    """Inserts one payload a call; it is durable when the call returns."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CREATE)
        cursor = connection.cursor()
        yield lambda payload: cursor.execute(INSERT, (payload,), prepare=True)


@asynccontextmanager
async def async_inserter(url: str) -> AsyncIterator[Callable[[bytes], Awaitable[object]]]:
    """The same on an async connection."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(CREATE)
        cursor = connection.cursor()
        yield lambda payload: cursor.execute(INSERT, (payload,), prepare=True)
