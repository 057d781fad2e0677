"""What tests of groups have in common."""

from __future__ import annotations

import trunkline.aio


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


async def all_of(consumer: trunkline.aio.AsyncConsumer, count: int) -> list[trunkline.Record]:
    """Poll until so many records have come; the wait only guards against hanging."""
    records: list[trunkline.Record] = []
    while len(records) < count:
        got = await consumer.poll(wait_s=30)
        assert got, f"only {len(records)} of {count} records came"
        records += got
    return records
