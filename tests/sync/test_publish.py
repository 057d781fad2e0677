# Generated from tests/aio/test_publish.py by tools/twins.py (make fix). Change the source, not this file.
"""Publishing through the client: positions, order, sharing of batches, each caller's own error."""

from __future__ import annotations

import trunkline
from trunkline import Message


def test_S0_01_offsets_of_two_batches_follow_each_other(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        first = tl.publish_many("orders", [b"a", b"b", b"c"])
        second = tl.publish_many("orders", [Message(b"d"), b"e"])
        assert [at.offset for at in first + second] == [1, 2, 3, 4, 5]
        assert [record.payload for record in tl.read("orders")] == [b"a", b"b", b"c", b"d", b"e"]
