# Generated from tests/aio/grouped.py by tools/twins.py (make fix). Change the source, not this file.
"""What tests of groups have in common."""

from __future__ import annotations

import trunkline


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def all_of(consumer: trunkline.Consumer, count: int) -> list[trunkline.Record]:
    """Poll until so many records have come; the wait only guards against hanging."""
    records: list[trunkline.Record] = []
    while len(records) < count:
        got = consumer.poll(wait_s=30)
        assert got, f"only {len(records)} of {count} records came"
        records += got
    return records
