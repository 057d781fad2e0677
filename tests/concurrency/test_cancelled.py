"""Tasks that publish are cancelled at any moment, all of them: those who come later are not held up by it."""

from __future__ import annotations

import asyncio

import pytest

import trunkline.aio

GUARD_S = 20.0
"""It only guards against hanging: a publish that waits for nobody's turn does so for deadline_s."""


@pytest.mark.parametrize("which", ["all tasks", "callers"])
@pytest.mark.parametrize("turns", range(8))
async def test_whoever_publishes_after_others_were_cancelled_goes_on(db_url: str, turns: int, which: str) -> None:
    """Method: as an application does that is told to end, everything is cancelled, so many turns of the loop after
    three records were being published. What was answered is there, and nothing is there twice."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"before")
        before = asyncio.all_tasks()
        publishing = [asyncio.create_task(tl.publish("orders", b"%d" % number)) for number in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        begun = asyncio.all_tasks() - before if which == "all tasks" else set(publishing)
        for task in begun:
            task.cancel()
        await asyncio.gather(*publishing, *begun, return_exceptions=True)
        async with asyncio.timeout(GUARD_S):
            await tl.publish("orders", b"after")
    async with trunkline.aio.connect(db_url) as tl:
        found = [record.payload for record in await tl.read("orders")]
    assert len(found) == len(set(found))
    answered = [b"%d" % number for number, task in enumerate(publishing) if not task.cancelled()]
    assert {b"before", b"after", *answered} <= set(found)
