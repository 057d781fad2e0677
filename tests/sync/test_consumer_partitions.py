# Generated from tests/aio/test_consumer_partitions.py by tools/twins.py (make fix). Change the source, not this file.
"""Consumers that take certain partitions at most: the others of the group go by it, and what nobody takes waits."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline
from trunkline import Client, ClientSettings, Consumer, ConsumerSettings, HandlerSettings, errors

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


def only(*partitions: int) -> ConsumerSettings:
    return ConsumerSettings(partitions=partitions)


def held(consumer: Consumer, wanted: list[int]) -> list[int]:
    """What it holds, once it is what is wanted; polls until then."""
    while (found := sorted(partition for _, partition in consumer.assignment)) != wanted:
        consumer.poll(100, wait_s=0.05)
        consumer.commit()
    return found


def filled(tl: Client, partitions: int) -> None:
    tl.create_topic("orders", partitions=partitions)
    for partition in range(partitions):
        tl.publish("orders", b"%d" % partition, partition=partition)


def test_it_takes_these_and_no_others_also_when_nobody_else_does(db_url: str) -> None:
    with trunkline.connect(db_url, settings=QUICK) as tl:
        filled(tl, 4)
        with tl.consumer("orders", group="g", create=True, settings=only(1, 3)) as consumer:
            assert sorted(record.payload for record in consumer.poll(100)) == [b"1", b"3"]
            consumer.commit()
            assert consumer.poll(100) == []
            described = tl.describe_group("g")
            assert [each.lag for each in described.partitions] == [1, 0, 1, 0]
            assert [member.name.endswith(" only 1,3") for member in described.members] == [True]


def test_others_give_it_up_and_take_the_rest(db_url: str) -> None:
    with (
        trunkline.connect(db_url, settings=QUICK) as tl,
        trunkline.connect(db_url, settings=QUICK) as tl2,
    ):
        filled(tl, 3)
        with tl.consumer("orders", group="g", create=True) as free:
            assert held(free, [0, 1, 2]) == [0, 1, 2]
            with tl2.consumer("orders", group="g", settings=only(2)) as fixed:
                assert held(free, [0, 1]) == [0, 1]
                assert held(fixed, [2]) == [2]
                tl.publish("orders", b"more", partition=2)
                assert [record.payload for record in fixed.poll(10, wait_s=30)] == [b"more"]
                fixed.commit()
            assert held(free, [0, 1, 2]) == [0, 1, 2]


def test_S4_10_of_two_that_take_the_same_one_stands_by_and_takes_over(db_url: str) -> None:
    with (
        trunkline.connect(db_url, settings=QUICK) as tl,
        trunkline.connect(db_url, settings=QUICK) as tl2,
    ):
        filled(tl, 2)
        first = tl.consumer("orders", group="g", create=True, settings=only(0))
        with first, tl2.consumer("orders", group="g", settings=only(0)) as second:
            assert held(first, [0]) == [0]
            assert second.poll(10) == []
            assert second.assignment == []
            first.close()
            assert held(second, [0]) == [0]


def test_partitions_that_make_no_sense_are_refused(db_url: str) -> None:
    bad: list[Any] = [(), (-1,), (2**31,), [0], (True,), (1.5,), ("0",), 0]
    for partitions in bad:
        for kind in (ConsumerSettings, HandlerSettings):
            with pytest.raises(errors.InvalidArgument, match="partitions must be a tuple"):
                kind(partitions=partitions)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        with pytest.raises(errors.NotFound, match="topic orders has no partition 2: its partitions are 0 to 1"):
            with tl.consumer("orders", group="g", create=True, settings=only(0, 2)):
                raise AssertionError
        with pytest.raises(errors.InvalidArgument, match="share every partition"):
            tl.consumer("orders", group="g", delivery="at_most_once", settings=only(0))
        assert tl.groups() == []
