"""How much a consumer reads at a time, and in which form. What a read finds decides about the next one, and never about
what is delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

import trunkline
from tests.concurrency.sessions import wait_until
from trunkline import ClientSettings
from trunkline.client.sync import fetching
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.client.sync.server import Server


class Asked(NamedTuple):
    """A read: how many records at most, and whether batches of one may come as one."""

    records_max: int
    merges: bool


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Every read of the log, as it is asked for."""
    reads: list[Asked] = []
    read = Server.read

    def noted(server: Server, values: Sequence[int], *, merge_small: bool = True) -> Any:
        reads.append(Asked(values[3], merge_small))
        return read(server, values, merge_small=merge_small)

    monkeypatch.setattr(Server, "read", noted)
    return reads


@pytest.fixture
def quiet(db_url: str) -> Iterator[Client]:
    """A topic, a group, and a client that does not ring: reads happen when the test polls, and only then."""
    with trunkline.connect(db_url, settings=ClientSettings(ring=False)) as tl:
        tl.create_topic("t", partitions=1)
        tl.create_group("g", "t")
        yield tl


def _settle(consumer: Consumer, asked: list[Asked]) -> None:
    """Whoever begins to listen looks once more: after that nothing is read unasked."""
    watch = consumer._rooms.watch
    wait_until(lambda: len(watch._listening) == 3, "it listens to its partition, its topic and its group")
    assert consumer.poll() == []
    asked.clear()


def _publish(tl: Client, count: int) -> None:
    for _ in range(count):
        tl.publish("t", b"x")


def _polled(consumer: Consumer) -> list[int]:
    """The first and the last offset of what there is, and in how many batches it came."""
    found = consumer.poll_batches()
    consumer.commit()
    return [found[0].first_offset, found[-1].end - 1, len(found)]


def test_few_single_records_are_not_looked_at_twice(quiet: Client, asked: list[Asked]) -> None:
    """To find that there are too few to be merged costs the server as much again: it is asked to merge only where the
    last read brought many, or nothing is known."""
    many = fetching.MANY_RECORDS
    with quiet.consumer("t", group="g") as consumer:
        _settle(consumer, asked)
        _publish(quiet, many)
        assert _polled(consumer) == [1, many, many]
        _publish(quiet, many)
        assert _polled(consumer) == [many + 1, 2 * many, 1]
        _publish(quiet, 1)
        assert _polled(consumer) == [2 * many + 1, 2 * many + 1, 1]
        _publish(quiet, 1)
        assert _polled(consumer) == [2 * many + 2, 2 * many + 2, 1]
        consumer.seek("t", 0, 1)
        assert _polled(consumer) == [1, 2 * many + 2, 1]
    assert [each.merges for each in asked] == [False, True, True, False, True]


def test_who_is_behind_reads_more_at_a_time(quiet: Client, asked: list[Asked], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_RECORDS", 10)
    monkeypatch.setattr(fetching, "FETCH_BEHIND_RECORDS", 25)
    with quiet.consumer("t", group="g") as consumer:
        _settle(consumer, asked)
        for _ in range(16):
            quiet.publish_many("t", [b"x"] * 5)
        offsets: list[int] = []
        while len(offsets) < 80:
            offsets += [record.offset for record in consumer.poll(max_records=3)]
            consumer.commit()
        assert offsets == list(range(1, 81))
        _publish(quiet, 1)
        assert [record.offset for record in consumer.poll(max_records=3)] == [81]
    assert [each.records_max for each in asked] == [10, 25, 25, 25, 10]
