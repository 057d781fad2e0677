"""Queues: each record acknowledged by itself, delivered again where it was not."""

from __future__ import annotations

import psycopg

import trunkline.aio


def advance_clock(db_url: str, seconds: float) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
            f"$$ select clock_timestamp() + interval '{seconds} seconds' $$".encode()
        )


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def test_smoke(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(10))
        async with tl.queue("orders", "billing") as queue:
            got = await queue.receive(10)
            assert [each.payload for each in got] == numbered(10)
            await queue.ack(got[:5])
            await got[5].ack()
            await got[6].nack()
            assert [each.offset for each in await queue.receive(10)] == [7]
