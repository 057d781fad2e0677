"""What tests of queues have in common."""

from __future__ import annotations

import psycopg

import trunkline.aio


def sql(db_url: str, statement: str) -> object:
    with psycopg.connect(db_url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def advance_clock(db_url: str, seconds: float) -> None:
    sql(
        db_url,
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
        f"$$ select clock_timestamp() + interval '{seconds} seconds' $$",
    )


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def all_of(queue: trunkline.aio.AsyncQueue, count: int) -> list[trunkline.aio.AsyncDelivery]:
    """Receive until so many have come; the wait only guards against hanging."""
    found: list[trunkline.aio.AsyncDelivery] = []
    while len(found) < count:
        got = await queue.receive(count - len(found), wait_s=30)
        assert got, f"only {len(found)} of {count} came"
        found += got
    return found
