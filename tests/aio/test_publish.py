"""Publishing through the client: positions, order, sharing of batches, each caller's own error."""

from __future__ import annotations

import trunkline.aio
from trunkline import Message


async def test_S0_01_offsets_of_two_batches_follow_each_other(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        first = await tl.publish_many("orders", [b"a", b"b", b"c"])
        second = await tl.publish_many("orders", [Message(b"d"), b"e"])
        assert [at.offset for at in first + second] == [1, 2, 3, 4, 5]
        assert [record.payload for record in await tl.read("orders")] == [b"a", b"b", b"c", b"d", b"e"]
