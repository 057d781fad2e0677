"""A signal that raises finds a thread anywhere in a call, and tasks are cancelled at any moment: whoever comes next
must not wait for them, and is not told that something was done that was not."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import trunkline
import trunkline.aio
from trunkline import errors
from trunkline.client.aio.queue_calls import QueueCalls
from trunkline.client.sync.connection import ServerConnection
from trunkline.client.sync.queue_lane import QueueLane

GUARD_S = 60
"""Only guards against hanging."""


def advance_clock(db_url: str, seconds: float) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
            f"$$ select clock_timestamp() + interval '{seconds} seconds' $$".encode()
        )


@pytest.mark.parametrize("place", ["_lead", "_take", "_call", "_hand_over"])
def test_whoever_comes_after_an_interrupted_call_goes_on(
    db_url: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1"])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (first,) = queue.receive()
            original = getattr(QueueLane, place)

            def interrupted(lane: QueueLane, *given: object) -> object:
                monkeypatch.setattr(QueueLane, place, original)
                if place == "_hand_over":
                    original(lane, *given)
                raise KeyboardInterrupt

            monkeypatch.setattr(QueueLane, place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                first.ack()
            (second,) = queue.receive()
            assert second.payload == b"1"
            second.ack()


def test_after_an_interrupted_settlement_nothing_of_its_claim_is_called_settled(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: the signal comes when the server has done it, and the reader does not know yet."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1"])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            first, second = queue.receive(2)
            with monkeypatch.context() as patched:
                for name in ("queue_step", "queue_next"):
                    patched.setattr(ServerConnection, name, _interrupted(getattr(ServerConnection, name)))
                with pytest.raises(KeyboardInterrupt):
                    first.ack()
            for delivery in (first, second):
                with pytest.raises(errors.ClaimLost):
                    delivery.ack()
            advance_clock(db_url, 31)
            assert [(each.offset, each.attempt) for each in queue.receive(5)] == [(2, 2)]


def _interrupted(call: Any) -> Any:
    def interrupted(connection: ServerConnection, *values: Any) -> None:
        call(connection, *values)
        raise KeyboardInterrupt

    return interrupted


@pytest.mark.parametrize("turns", range(8))
async def test_whoever_comes_after_all_tasks_were_cancelled_goes_on(db_url: str, turns: int) -> None:
    """Method: as an application does that is told to end, everything is cancelled, so many turns of the loop after two
    records were being acknowledged."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", [b"0", b"1", b"2"])
        queue = tl.queue("orders", "billing", prefetch=0)
        deliveries = [each for _ in range(3) for each in await queue.receive()]
        before = asyncio.all_tasks()
        acking = [asyncio.create_task(each.ack()) for each in deliveries[:2]]
        for _ in range(turns):
            await asyncio.sleep(0)
        begun = asyncio.all_tasks() - before
        for task in begun:
            task.cancel()
        await asyncio.gather(*acking, *begun, return_exceptions=True)
        async with asyncio.timeout(GUARD_S):
            await deliveries[2].ack()
            await queue.close()
        done = {deliveries[2].offset}
        done |= {each.offset for each, task in zip(deliveries, acking, strict=False) if not task.cancelled()}
        advance_clock(db_url, 31)
        async with tl.queue("orders", "billing", prefetch=0) as other:
            again = {each.offset for _ in range(3) for each in await other.receive(3)}
        assert not again & done


async def test_nobody_waits_for_ever_where_one_after_the_other_was_to_be_done(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: what was ordered together is refused; then it is tried one by one, and the first is cancelled."""
    made: list[int] = []

    async def refuse(calls: QueueCalls, settlements: Any, *values: Any) -> None:
        made.append(len(settlements))
        if len(made) == 1:
            raise errors.FailedPrecondition("not together")
        raise asyncio.CancelledError

    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", [b"0", b"1"])
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            deliveries = [each for _ in range(2) for each in await queue.receive()]
            with monkeypatch.context() as patched:
                patched.setattr(QueueCalls, "next", refuse)
                async with asyncio.timeout(GUARD_S):
                    found = await asyncio.gather(*(each.ack() for each in deliveries), return_exceptions=True)
            assert made == [2, 1]
            assert [type(each) for each in found] == [asyncio.CancelledError, errors.OutcomeUnknown]
            for each in deliveries:
                with pytest.raises(errors.ClaimLost):
                    await each.ack()
