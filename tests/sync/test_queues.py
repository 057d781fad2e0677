# Generated from tests/aio/test_queues.py by tools/twins.py (make fix). Change the source, not this file.
"""Queues: each record acknowledged by itself, delivered again where it was not."""

from __future__ import annotations

import psycopg

import trunkline


def advance_clock(db_url: str, seconds: float) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
            f"$$ select clock_timestamp() + interval '{seconds} seconds' $$".encode()
        )


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_smoke(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        with tl.queue("orders", "billing") as queue:
            got = queue.receive(10)
            assert [each.payload for each in got] == numbered(10)
            queue.ack(got[:5])
            got[5].ack()
            got[6].nack()
            assert [each.offset for each in queue.receive(10)] == [7]
