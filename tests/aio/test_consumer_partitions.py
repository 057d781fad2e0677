"""Consumers that take certain partitions at most: the others of the group go by it, and what nobody takes waits."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline.aio
from trunkline import ClientSettings, ConsumerSettings, HandlerSettings, errors
from trunkline.aio import AsyncClient, AsyncConsumer

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


def only(*partitions: int) -> ConsumerSettings:
    return ConsumerSettings(partitions=partitions)


async def held(consumer: AsyncConsumer, wanted: list[int]) -> list[int]:
    """What it holds, once it is what is wanted; polls until then."""
    while (found := sorted(partition for _, partition in consumer.assignment)) != wanted:
        await consumer.poll(100, wait_s=0.05)
        await consumer.commit()
    return found


async def filled(tl: AsyncClient, partitions: int) -> None:
    await tl.create_topic("orders", partitions=partitions)
    for partition in range(partitions):
        await tl.publish("orders", b"%d" % partition, partition=partition)


async def test_it_takes_these_and_no_others_also_when_nobody_else_does(db_url: str) -> None:
    async with trunkline.aio.connect(db_url, settings=QUICK) as tl:
        await filled(tl, 4)
        async with tl.consumer("orders", group="g", create=True, settings=only(1, 3)) as consumer:
            assert sorted(record.payload for record in await consumer.poll(100)) == [b"1", b"3"]
            await consumer.commit()
            assert await consumer.poll(100) == []
            described = await tl.describe_group("g")
            assert [each.lag for each in described.partitions] == [1, 0, 1, 0]
            assert [member.name.endswith(" only 1,3") for member in described.members] == [True]


async def test_others_give_it_up_and_take_the_rest(db_url: str) -> None:
    async with (
        trunkline.aio.connect(db_url, settings=QUICK) as tl,
        trunkline.aio.connect(db_url, settings=QUICK) as tl2,
    ):
        await filled(tl, 3)
        async with tl.consumer("orders", group="g", create=True) as free:
            assert await held(free, [0, 1, 2]) == [0, 1, 2]
            async with tl2.consumer("orders", group="g", settings=only(2)) as fixed:
                assert await held(free, [0, 1]) == [0, 1]
                assert await held(fixed, [2]) == [2]
                await tl.publish("orders", b"more", partition=2)
                assert [record.payload for record in await fixed.poll(10, wait_s=30)] == [b"more"]
                await fixed.commit()
            assert await held(free, [0, 1, 2]) == [0, 1, 2]


async def test_S4_10_of_two_that_take_the_same_one_stands_by_and_takes_over(db_url: str) -> None:
    async with (
        trunkline.aio.connect(db_url, settings=QUICK) as tl,
        trunkline.aio.connect(db_url, settings=QUICK) as tl2,
    ):
        await filled(tl, 2)
        first = tl.consumer("orders", group="g", create=True, settings=only(0))
        async with first, tl2.consumer("orders", group="g", settings=only(0)) as second:
            assert await held(first, [0]) == [0]
            assert await second.poll(10) == []
            assert second.assignment == []
            await first.close()
            assert await held(second, [0]) == [0]


async def test_partitions_that_make_no_sense_are_refused(db_url: str) -> None:
    bad: list[Any] = [(), (-1,), (2**31,), [0], (True,), (1.5,), ("0",), 0]
    for partitions in bad:
        for kind in (ConsumerSettings, HandlerSettings):
            with pytest.raises(errors.InvalidArgument, match="partitions must be a tuple"):
                kind(partitions=partitions)
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=2)
        with pytest.raises(errors.NotFound, match="topic orders has no partition 2: its partitions are 0 to 1"):
            async with tl.consumer("orders", group="g", create=True, settings=only(0, 2)):
                raise AssertionError
        with pytest.raises(errors.InvalidArgument, match="share every partition"):
            tl.consumer("orders", group="g", delivery="at_most_once", settings=only(0))
        assert await tl.groups() == []
