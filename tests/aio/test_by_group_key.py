"""Records by key and group key: handled together in one savepoint, put away together, and kept waiting together."""

from __future__ import annotations

from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

import trunkline.aio
from tests.aio.projector import CURSOR, EFFECTS, WAITING, app_of, ask, prepared, texts_of, write
from trunkline import HandlerSettings, Message, Record, errors

# -- keys of two parts --


async def test_a_group_key_travels_with_its_record_whoever_publishes_it(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl, await psycopg.AsyncConnection.connect(db_url) as conn:
        await tl.create_topic("events", partitions=4)
        at = await tl.publish("events", b"1", key="a", group_key="x", headers={"h": "1"})
        await tl.publish_many("events", [Message(b"2", key="a", group_key=b"\x00\xff"), Message(b"3", key="a")])
        await tl.publish("events", b"4", key="a", group_key="x", conn=conn)
        await conn.execute("select trunkline.outbox_publish('events', '5', key => 'a', group_key => 'y')")
        await conn.commit()
        found = await tl.read("events", partition=at.partition)
        assert [record.group_key for record in found] == [b"x", b"\x00\xff", None, b"x", b"y"]
        assert found[0].headers == (("h", b"1"), ("trunkline-group-key", b"x"))
        await tl.publish("events", b"6", partition=0, headers=found[0].headers, group_key="z")
        (again,) = await tl.read("events", partition=0, offset=(await tl.offsets("events"))[0].end - 1)
        assert (again.group_key, again.headers) == (b"z", (("h", b"1"), ("trunkline-group-key", b"z")))
        for wrong in (1, 1.5, ["x"]):
            with pytest.raises(errors.InvalidArgument):
                await tl.publish("events", b"7", group_key=wrong)  # type: ignore[call-overload]
        with pytest.raises(errors.TooLarge):
            await tl.publish("events", b"8", group_key="x" * 9_000)


async def test_a_call_gets_all_records_of_a_key_and_group_key_in_their_order(db_url: str) -> None:
    await prepared(db_url, "a/x1", "b/x1", "a/x2", "a/y1", "-/1", "a/1", "b/x2", "a/2", "a/x3", "-/2", "-/z1", "-/z2")
    app = app_of(db_url)
    calls: list[list[str]] = []

    @app.on("events", group="projector", create=True, delivery="exactly_once", by="group_key")
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        calls.append(texts_of(records))
        await write(records, conn)
        if sum(map(len, calls)) == 12:
            app.stop()

    await app.run()
    assert calls == [
        ["a/x1", "a/x2", "a/x3"],
        ["b/x1", "b/x2"],
        ["a/y1"],
        ["-/1"],
        ["a/1", "a/2"],
        ["-/2"],
        ["-/z1", "-/z2"],
    ]
    assert (await ask(db_url, CURSOR), len(await ask(db_url, EFFECTS))) == (13, 12)


async def test_S4_05_and_S4_06_readers_get_every_record_once_also_when_partitions_are_added(db_url: str) -> None:
    """Three consumers in one group: what they get is all there is, and nobody gets what another has."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("events", partitions=5)
        await tl.publish_many("events", [Message(b"%d" % number, key=f"{number % 17}") for number in range(300)])
        got: list[list[tuple[int, int]]] = [[], [], []]
        async with AsyncExitStack() as stack:
            readers = [tl.consumer("events", group="projector", create=True) for _ in got]
            for reader in readers:
                await stack.enter_async_context(reader)
            deadline = monotonic() + 60
            while sum(map(len, got)) < 600:
                assert monotonic() < deadline, got
                for reader, mine in zip(readers, got, strict=True):
                    mine += [(record.partition, record.offset) for record in await reader.poll(20)]
                    await reader.commit()
                if sum(map(len, got)) == 300 and max(partition for each in got for partition, _ in each) < 5:
                    await tl.add_partitions("events", 8, break_key_order=True)
                    many = [Message(b"%d" % number, key=f"{number % 17}") for number in range(300)]
                    await tl.publish_many("events", many)
        ends = await tl.offsets("events")
    everything = [(each.partition, offset) for each in ends for offset in range(each.start, each.end)]
    assert sorted(place for each in got for place in each) == everything
    assert [len(each) > 0 for each in got] == [True] * 3


# -- what is refused --


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "user"}, "by must be"),
        ({"by": "group_key", "delivery": "at_least_once"}, "delivery='exactly_once'"),
        ({"settings": WAITING}, "by='group_key'"),
        ({"by": "group_key", "concurrency": 2}, "concurrency"),
    ],
    ids=str,
)
def test_what_can_never_work_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    app = trunkline.aio.App()

    async def project(records: list[Record], conn: object) -> None:
        raise AssertionError

    with pytest.raises(errors.InvalidArgument, match=said):
        app.on(**{"topics": "events", "group": "projector", "delivery": "exactly_once", **options})(project)
    with pytest.raises(errors.InvalidArgument, match="blocked_keys"):
        HandlerSettings(blocked_keys=1)  # type: ignore[arg-type]


async def test_S4_16_a_dead_letter_topic_that_is_missing_at_the_start_is_refused(db_url: str) -> None:
    await prepared(db_url)
    app = app_of(db_url)

    @app.on("events", group="projector", create=True, delivery="exactly_once", by="group_key", dead_letter="no.topic")
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        raise AssertionError

    with pytest.raises(errors.NotFound, match=r"no\.topic"):
        await app.run()


async def test_a_redrive_of_what_is_not_there_is_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        for call in (tl.blocked_keys, tl.redrive_group):
            with pytest.raises(errors.NotFound, match="projector"):
                await call("projector")
        with pytest.raises(errors.InvalidArgument, match="execute"):
            await tl.redrive_group("projector", execute=1)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidArgument, match="a key must be"):
            await tl.redrive_group("projector", key=1)  # type: ignore[arg-type]
