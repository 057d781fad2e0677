"""Records by key and group key: handled together in one savepoint, put away together, and kept waiting together."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

import trunkline.aio
from tests.aio.shim import Gate, pause, wait_until
from trunkline import BlockedKey, ClientSettings, HandlerSettings, Message, Record, TopicSettings, errors
from trunkline.aio import AsyncClient

QUICK: dict[str, Any] = {"retry_first_s": 0.001, "retry_max_s": 0.01, "max_attempts": 2}
WAITING = HandlerSettings(**QUICK, blocked_keys=True)
INSERT = 'insert into effect ("offset", payload, odd) values (%s, %s, %s)'
DEAD = "events.dead"
CURSOR = "select cursor::int from trunkline.group_describe('projector')"
EFFECTS = "select coalesce(array_agg(convert_from(payload, 'UTF8') order by seq), '{}') from effect"
"""What has been done, in the order in which it was."""
KILL = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
BEHIND = """
    select (select sum("end" - cursor) from trunkline.group_describe('projector')) > 0
        or exists (select from trunkline.parked_list('projector') where due_at is not null)
"""


def app_of(db_url: str) -> trunkline.aio.App:
    """An app that notices lost members within seconds."""
    return trunkline.aio.App(db_url, settings=ClientSettings(heartbeat_s=0.2, session_timeout_s=5.0))


def event(text: str) -> Message:
    """``a/x1`` is an event of tenant a and user x; ``a/1`` of no user, ``-/1`` of no tenant either."""
    tenant, _, rest = text.partition("/")
    user = rest.rstrip("0123456789")
    return Message(text.encode(), key=None if tenant == "-" else tenant, group_key=user or None)


async def publish(tl: AsyncClient, *texts: str) -> None:
    await tl.publish_many("events", [event(text) for text in texts])


async def prepared(db_url: str, *texts: str, settings: TopicSettings | None = None) -> None:
    with psycopg.connect(db_url) as connection:
        connection.execute(
            'create table effect (seq serial, "offset" bigint unique, payload bytea, '
            "odd boolean unique deferrable initially deferred)"
        )
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("events")
        await tl.create_topic(DEAD, partitions=3, settings=settings)
        await publish(tl, *texts)


async def write(records: list[Record], conn: AsyncConnection[Any], *, odd: bool | None = None) -> None:
    for record in records:
        await conn.execute(INSERT, [record.offset, record.payload, odd])


async def ask(db_url: str, statement: str) -> Any:
    async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as conn:
        ((found,),) = await (await conn.execute(statement)).fetchall()
        return found


async def until(db_url: str, statement: str, wanted: object) -> None:
    """Ask until the answer is the wanted one; the bound only guards against hanging."""
    deadline = monotonic() + 60
    # Not prepared: behind a pooler the next statement may reach another session.
    async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as conn:
        while (rows := await (await conn.execute(statement)).fetchall()) != [(wanted,)]:
            assert monotonic() < deadline, rows
            await pause()


async def letters(tl: AsyncClient) -> list[Record]:
    found = [await tl.read(DEAD, partition=partition) for partition in range(3)]
    return [letter for each in found for letter in each]


def reason_of(letter: Record) -> str:
    return dict(letter.headers)["trunkline-dl-reason"].decode()


def texts_of(records: list[Record]) -> list[str]:
    return [record.payload.decode() for record in records]


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


# -- failures --


async def test_S4_14_a_failing_group_goes_to_the_dead_letters_as_a_whole_and_the_others_commit(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1", "a/x2", "b/x1", "a/x3")
    app = app_of(db_url)
    tried: Counter[str] = Counter()

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**{**QUICK, "max_attempts": 3}),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        tried[records[0].payload.decode()] += 1
        await write(records, conn)
        if records[-1].payload == b"a/x3":
            raise ValueError("no such user")

    async with app:
        await until(db_url, CURSOR, 6)
    assert await ask(db_url, EFFECTS) == ["a/y1", "b/x1"]
    # The others are handled to find out, and once more to commit: not for each attempt of the one that fails.
    assert tried == {"a/x1": 3, "a/y1": 2, "b/x1": 2}
    async with trunkline.aio.connect(db_url) as tl:
        found = await letters(tl)
        assert texts_of(found) == ["a/x1", "a/x2", "a/x3"]
        assert {(letter.partition, letter.key, letter.group_key) for letter in found} == {
            (found[0].partition, b"a", b"x")
        }
        assert [dict(letter.headers)["trunkline-dl-offset"] for letter in found] == [b"1", b"3", b"5"]
        assert {reason_of(letter) for letter in found} == {"ValueError: no such user"}
        failures = (await tl.describe_group("projector")).failures
        assert (failures.failed_records, failures.last_offset, failures.last_topic) == (3, 1, "events")
        assert failures.last_reason == "ValueError: no such user"
        assert (failures.blocked_keys, failures.parked_records) == (0, 0)
        assert failures.last_at is not None


async def test_S4_14_letters_are_there_if_and_only_if_the_others_commit(db_url: str) -> None:
    """The first three commits fail with what will pass, after the letters were written: they went with them."""
    await prepared(db_url, "a/x1", "a/y1")
    with psycopg.connect(db_url) as connection:
        connection.execute("create sequence commits")
        connection.execute(
            "create function not_yet() returns trigger language plpgsql as $$ begin if nextval('commits') <= 3 then"
            " raise exception 'not yet' using errcode = '40001'; end if; return null; end $$"
        )
        connection.execute(
            "create constraint trigger not_yet after insert on effect deferrable initially deferred"
            " for each row execute function not_yet()"
        )
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        if records[0].group_key == b"x":
            raise ValueError
        await write(records, conn)

    async with app:
        await until(db_url, CURSOR, 3)
    assert await ask(db_url, "select last_value::int from commits") == 4
    async with trunkline.aio.connect(db_url) as tl:
        assert texts_of(await letters(tl)) == ["a/x1"]
        assert (await tl.describe_group("projector")).failures.failed_records == 1


async def test_S4_14_letters_of_a_group_without_a_key_stand_in_one_partition_in_order(db_url: str) -> None:
    await prepared(db_url, *(f"-/x{number}" for number in range(1, 9)))
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        raise ValueError

    async with app:
        await until(db_url, CURSOR, 9)
    async with trunkline.aio.connect(db_url) as tl:
        found = await letters(tl)
    assert texts_of(found) == [f"-/x{number}" for number in range(1, 9)]
    assert len({letter.partition for letter in found}) == 1


async def test_a_group_that_fails_is_tried_again_and_what_it_wrote_before_is_not_there_twice(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1", "a/x2")
    app = app_of(db_url)
    tried: Counter[bytes | None] = Counter()

    @app.on("events", group="projector", create=True, delivery="exactly_once", by="group_key", dead_letter=DEAD)
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        tried[records[0].group_key] += 1
        await write(records, conn)
        if records[0].group_key == b"x" and tried[b"x"] < 3:
            raise ValueError("not yet")

    app.handlers  # noqa: B018 - it has one
    async with app:
        await until(db_url, CURSOR, 4)
    assert sorted(await ask(db_url, EFFECTS)) == ["a/x1", "a/x2", "a/y1"]
    async with trunkline.aio.connect(db_url) as tl:
        assert await letters(tl) == []


@pytest.mark.parametrize(
    "failure",
    [
        psycopg.errors.SerializationFailure("40001"),
        psycopg.errors.DeadlockDetected("40P01"),
        psycopg.errors.LockNotAvailable("55P03"),
        psycopg.errors.CannotConnectNow("57P03"),
        psycopg.errors.TooManyConnections("53300"),
        psycopg.errors.ReadOnlySqlTransaction("25006"),
        psycopg.OperationalError("connection refused"),
        errors.DeadlineExceeded("our own time-out"),
        "terminated",
    ],
    ids=str,
)
async def test_S4_15_an_error_that_will_pass_is_never_put_away_and_counts_against_nobody(
    db_url: str, failure: Exception | str
) -> None:
    """With the connection, where the server really ends it."""
    await prepared(db_url, "a/x1", "a/y1", "a/x2")
    app = app_of(db_url)
    tried: Counter[bytes | None] = Counter()

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        tried[records[0].group_key] += 1
        await write(records, conn)
        if records[0].group_key == b"y" and tried[b"y"] < 6:
            if isinstance(failure, str):
                await conn.execute("select pg_terminate_backend(pg_backend_pid())")
            else:
                raise failure

    async with app:
        await until(db_url, CURSOR, 4)
    assert sorted(await ask(db_url, EFFECTS)) == ["a/x1", "a/x2", "a/y1"]
    async with trunkline.aio.connect(db_url) as tl:
        assert await letters(tl) == []
        assert (await tl.describe_group("projector")).failures.failed_records == 0


async def test_S4_15_a_statement_that_somebody_cancelled_is_held_against_its_group(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        await write(records, conn)
        if records[0].group_key == b"x":
            await conn.execute("select set_config('statement_timeout', '1', true)")
            await conn.execute("select count(*) from generate_series(1, 100000000)")

    async with app:
        await until(db_url, CURSOR, 3)
    assert await ask(db_url, EFFECTS) == ["a/y1"]
    async with trunkline.aio.connect(db_url) as tl:
        (letter,) = await letters(tl)
    assert "QueryCanceled" in reason_of(letter)


async def test_a_group_that_breaks_a_constraint_at_the_commit_is_the_one_that_is_put_away(db_url: str) -> None:
    """x and y break it together: whoever comes second is the one."""
    await prepared(db_url, "a/x1", "a/y1", "a/z1", "a/y2")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        await write(records, conn, odd=None if records[0].group_key == b"z" else True)

    await prepared_odd(db_url)
    async with app:
        await until(db_url, CURSOR, 5)
    assert await ask(db_url, EFFECTS) == ["a/x1", "a/z1"]
    async with trunkline.aio.connect(db_url) as tl:
        found = await letters(tl)
    assert texts_of(found) == ["a/y1", "a/y2"]
    assert "UniqueViolation" in reason_of(found[0])


async def prepared_odd(db_url: str) -> None:
    """Let two records of one group be odd together, but not two groups."""
    with psycopg.connect(db_url) as connection:
        connection.execute("alter table effect drop constraint effect_odd_key")
        connection.execute(
            "alter table effect add column who text"
            " generated always as (split_part(encode(payload, 'escape'), '/', 2)) stored"
        )
        connection.execute(
            "create function odd() returns trigger language plpgsql as $$ begin"
            " if (select count(distinct left(who, 1)) from effect where odd) > 1 then"
            " raise unique_violation; end if; return null; end $$"
        )
        connection.execute(
            "create constraint trigger odd after insert on effect deferrable initially deferred"
            " for each row execute function odd()"
        )


async def test_a_handler_that_hides_a_failed_statement_has_failed(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        await write(records, conn)
        if records[0].group_key == b"x":
            try:
                await conn.execute("select 1 / 0")
            except psycopg.Error:
                return

    async with app:
        await until(db_url, CURSOR, 3)
    assert await ask(db_url, EFFECTS) == ["a/y1"]
    async with trunkline.aio.connect(db_url) as tl:
        (letter,) = await letters(tl)
    assert "the handler went on" in reason_of(letter)


async def test_without_a_place_for_what_fails_the_app_ends_and_nothing_is_committed(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        await write(records, conn)
        if records[0].group_key == b"y":
            raise ValueError

    with pytest.raises(errors.HandlerFailed, match="offset 2 failed 2 times"):
        await app.run()
    assert (await ask(db_url, EFFECTS), await ask(db_url, CURSOR)) == ([], 1)


async def test_a_call_that_does_not_return_ends_the_app_and_nothing_is_committed(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1")
    app, gate = app_of(db_url), Gate()

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        settings=HandlerSettings(handler_timeout_s=1),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        await write(records, conn)
        if records[0].group_key == b"y":
            await gate.wait()

    with pytest.raises(errors.HandlerStuck, match="offset 2"):
        await app.run()
    gate.open()
    assert (await ask(db_url, EFFECTS), await ask(db_url, CURSOR)) == ([], 1)


# -- letters that cannot be written --


async def test_S4_16_a_record_that_is_too_large_for_the_dead_letters_leaves_a_stub(db_url: str) -> None:
    small = TopicSettings(record_bytes_max=10, key_bytes_max=5, header_count_max=8, header_bytes_max=30)
    await prepared(db_url, settings=small)
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        raise ValueError("a reason that is longer than thirty bytes")

    async with trunkline.aio.connect(db_url) as tl:
        await tl.publish("events", b"x" * 11, key="a" * 6, group_key="x", headers={"h": "1"})
        await tl.publish("events", b"y", key="a" * 6, group_key="x")
        async with app:
            await until(db_url, CURSOR, 3)
        first, second = await letters(tl)
        assert (first.payload, first.key, second.payload, second.partition) == (b"", None, b"y", first.partition)
        assert dict(first.headers)["trunkline-dl-offset"] == b"1"
        assert reason_of(first) == "ValueError: a reason that is l"
        assert dict(first.headers)["trunkline-dl-cut"] == b"a payload of 11 bytes, a key o"
        assert (await tl.describe_group("projector")).failures.parked_records == 0


@pytest.mark.parametrize("gone", ["before", "at the commit"])
async def test_S4_16_where_there_is_no_dead_letter_topic_any_more_records_are_parked_and_the_rest_goes_on(
    db_url: str, gone: str
) -> None:
    await prepared(db_url, "a/x1", "a/y1", "a/x2")
    app = app_of(db_url)
    tried: Counter[bytes | None] = Counter()

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**{**QUICK, "max_attempts": 1}),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        tried[records[0].group_key] += 1
        if records[0].group_key == b"x" and tried[b"x"] == 1 and gone == "before":
            await app.client.delete_topic(DEAD)
        if records[0].group_key == b"y" and gone == "at the commit":
            await conn.execute("insert into public.last_wish default values")
        await write(records, conn)
        if records[0].group_key == b"x" and tried[b"x"] == 1:
            raise ValueError("no")

    with psycopg.connect(db_url) as connection:
        # Deferred to the commit, and so after the letters were taken.
        connection.execute("create table public.last_wish (id serial)")
        connection.execute(
            "create function public.delete_topic() returns trigger language plpgsql security definer as $$ begin"
            f" perform trunkline.topic_delete('{DEAD}') where exists ("
            f" select from trunkline.topic where name = '{DEAD}'); return null; end $$"
        )
        connection.execute(
            "create constraint trigger last_wish after insert on public.last_wish deferrable initially deferred"
            " for each row execute function public.delete_topic()"
        )
    async with app:
        await until(db_url, CURSOR, 4)
        assert await ask(db_url, EFFECTS) == ["a/y1"]
        (blocked,) = await app.client.blocked_keys("projector")
        assert (blocked.key, blocked.group_key, blocked.record_count, blocked.failed_count) == (b"a", b"x", 2, 2)
        assert (blocked.reason, blocked.first_offset) == ("ValueError: no", 1)
        # Keys are not blocked: what comes after goes on. They are redriven all the same.
        await publish(app.client, "a/x3")
        await until(db_url, EFFECTS, ["a/y1", "a/x3"])
        await app.client.redrive_group("projector", execute=True)
        await until(db_url, EFFECTS, ["a/y1", "a/x3", "a/x1", "a/x2"])
        assert await app.client.blocked_keys("projector") == []


async def test_S4_16_odd_keys_never_stop_a_partition(db_url: str) -> None:
    await prepared(db_url)
    odd: list[bytes | None] = [
        b"",
        b"\x00",
        b"\xff\xfe",
        b"x" * 8_000,
        "ä/💥".encode(),
        b"'; drop table x; --",
        None,
    ]
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=HandlerSettings(**QUICK, blocked_keys=True),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        if records[0].payload != b"good":
            raise ValueError("\0 \udcff")
        await write(records, conn)

    async with trunkline.aio.connect(db_url) as tl:
        await tl.publish_many("events", [Message(b"%d" % n, key=key, group_key=key) for n, key in enumerate(odd)])
        await tl.publish("events", b"good", key="good")
        async with app:
            await until(db_url, CURSOR, len(odd) + 2)
        assert {letter.group_key for letter in await letters(tl)} == set(odd)
        assert {blocked.key for blocked in await tl.blocked_keys("projector")} == set(odd)
        assert await tl.redrive_group("projector", key=b"\x00") == [
            blocked for blocked in await tl.blocked_keys("projector") if blocked.key == b"\x00"
        ]
    assert await ask(db_url, EFFECTS) == ["good"]


# -- blocked keys --


class Projector:
    """An app whose keys are blocked when they fail; ``bad`` are the texts that do."""

    def __init__(self, db_url: str, *bad: str) -> None:
        self.app = app_of(db_url)
        self.bad = set(bad)
        self.calls: list[list[str]] = []
        self.url = db_url

        @self.app.on(
            "events",
            group="projector",
            create=True,
            delivery="exactly_once",
            by="group_key",
            settings=WAITING,
        )
        async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
            self.calls.append(texts_of(records))
            await write(records, conn)
            if self.bad.intersection(texts_of(records)):
                raise ValueError("bad")

    async def until_read(self, end: int) -> None:
        await until(self.url, CURSOR, end)

    async def blocked(self) -> list[BlockedKey]:
        return await self.app.client.blocked_keys("projector")

    async def redrive(self, **options: Any) -> None:
        await self.app.client.redrive_group("projector", execute=True, **options)


async def test_S4_16_later_records_of_a_blocked_key_wait_and_a_redrive_keeps_their_order(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/y1", "b/x1")
    projector = Projector(db_url, "a/x1")
    app = projector.app
    async with app:
        await projector.until_read(4)
        await publish(app.client, "a/x2", "a/y2", "b/x2")
        await projector.until_read(7)
        await publish(app.client, "a/x3")
        await projector.until_read(8)
        assert await ask(db_url, EFFECTS) == ["a/y1", "b/x1", "a/y2", "b/x2"]
        (blocked,) = await projector.blocked()
        assert (blocked.key, blocked.group_key, blocked.first_offset) == (b"a", b"x", 1)
        assert (blocked.record_count, blocked.failed_count, blocked.attempts, blocked.reason) == (
            3,
            1,
            2,
            "ValueError: bad",
        )
        failures = (await app.client.describe_group("projector")).failures
        assert (failures.blocked_keys, failures.parked_records, failures.failed_records) == (1, 3, 1)
        # Nothing is changed by looking, and one that fails again stays parked.
        assert [each.due_at for each in await app.client.redrive_group("projector")] == [None]
        await projector.redrive(key="b")
        assert [each.due_at for each in await projector.blocked()] == [None]
        await projector.redrive(key="a", group_key="x")
        await wait_until(lambda: projector.calls[-1] == ["a/x1", "a/x2", "a/x3"])
        await until(db_url, "select attempts from trunkline.parked_list('projector') where due_at is null", 3)
        assert await ask(db_url, EFFECTS) == ["a/y1", "b/x1", "a/y2", "b/x2"]
        projector.bad.clear()
        await projector.redrive()
        await until(db_url, EFFECTS, ["a/y1", "b/x1", "a/y2", "b/x2", "a/x1", "a/x2", "a/x3"])
        assert await projector.blocked() == []
        await publish(app.client, "a/x4")
        await until(db_url, EFFECTS, ["a/y1", "b/x1", "a/y2", "b/x2", "a/x1", "a/x2", "a/x3", "a/x4"])


async def test_S4_16_with_a_dead_letter_topic_what_waits_says_behind_which_offset(db_url: str) -> None:
    await prepared(db_url, "a/x1", "a/x2")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        dead_letter=DEAD,
        settings=WAITING,
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        raise ValueError("bad")

    async with app:
        await until(db_url, CURSOR, 3)
        await publish(app.client, "a/x3")
        await until(db_url, CURSOR, 4)
        found = await letters(app.client)
    assert texts_of(found) == ["a/x1", "a/x2", "a/x3"]
    assert [reason_of(letter) for letter in found[:2]] == ["ValueError: bad"] * 2
    assert "waits behind offset 1" in reason_of(found[2])


async def test_what_failed_can_be_discarded_and_what_stood_behind_it_is_redriven(db_url: str) -> None:
    await prepared(db_url, "a/x1", "b/y1")
    projector = Projector(db_url, "a/x1", "b/y1")
    async with projector.app as app:
        await projector.until_read(3)
        await publish(app.client, "a/x2", "a/x3")
        await projector.until_read(5)
        await projector.redrive(discard_failed=True)
        await until(db_url, EFFECTS, ["a/x2", "a/x3"])
        assert await projector.blocked() == []


async def test_parked_records_outlive_the_log_and_a_redrive_takes_many_in_pieces(db_url: str) -> None:
    many = [f"a/x{number}" for number in range(1, 26)]
    await prepared(db_url, *many[:20])
    app = app_of(db_url)
    calls: list[list[str]] = []
    is_bad = [True]

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        settings=HandlerSettings(**QUICK, blocked_keys=True, in_hand_max=10),
    )
    async def project(records: list[Record], conn: AsyncConnection[Any]) -> None:
        if is_bad[0]:
            raise ValueError
        calls.append(texts_of(records))
        await write(records, conn)

    async with app:
        await until(db_url, CURSOR, 21)
        await app.client.alter_topic("events", retention_age_s=1)
        with psycopg.connect(db_url) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
            connection.execute(
                "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as"
                " $$ select clock_timestamp() + interval '1 hour' $$"
            )
        await publish(app.client, *many[20:])
        await app.client.retention_run()
        await app.client.retention_run()
        (left,) = await app.client.offsets("events")
        assert left.start > 1
        is_bad[0] = False
        await app.client.redrive_group("projector", execute=True)
        await until(db_url, EFFECTS, many)
    assert await ask(db_url, EFFECTS) == many
    assert max(map(len, calls)) <= 10


async def test_S4_16_whatever_fails_and_is_redriven_each_key_is_handled_once_and_in_order(db_url: str) -> None:
    """A random history against its model: two apps share the group, keys fail and recover, redrives come at any time,
    and now and then the server ends every session. At the end, when all is well again, each key has all of its records,
    once, in order."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    await prepared(db_url)
    projectors = [Projector(db_url), Projector(db_url)]
    bad = projectors[1].bad = projectors[0].bad
    given: defaultdict[str, list[str]] = defaultdict(list)
    count = 0
    async with trunkline.aio.connect(db_url) as tl:
        await tl.add_partitions("events", 2)
        async with projectors[0].app, projectors[1].app:
            for _ in range(30):
                texts = []
                for _ in range(rng.randrange(6)):
                    count += 1
                    who = f"{rng.choice('ab')}/{rng.choice('xyz')}"
                    given[who].append(f"{who}{count}")
                    texts.append(f"{who}{count}")
                    if rng.random() < 0.2:
                        bad.add(f"{who}{count}")
                await publish(tl, *texts)
                if rng.random() < 0.4:
                    await until(db_url, BEHIND, False)
                if rng.random() < 0.4:
                    bad -= set(rng.sample(sorted(bad), len(bad) // 2))
                if rng.random() < 0.2:
                    await ask(db_url, KILL)
                if rng.random() < 0.5:
                    await tl.redrive_group("projector", key=rng.choice([None, "a", "b"]), execute=True)
            bad.clear()
            await until(db_url, BEHIND, False)
            # What was read while a key failed is parked, also after the last redrive was asked for.
            await tl.redrive_group("projector", execute=True)
            await until(db_url, BEHIND, False)
        assert await tl.blocked_keys("projector") == []
    done: defaultdict[str, list[str]] = defaultdict(list)
    for text in await ask(db_url, EFFECTS):
        done[text.rstrip("0123456789")].append(text)
    assert done == given


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
