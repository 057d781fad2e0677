# Generated from tests/aio/test_by_group_key_failures.py by tools/twins.py (make fix). Change the source, not this file.
"""Handlers by group key whose transactions fail: what is tried again, what becomes a letter, what cannot be written."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import trunkline
from tests.sync.projector import (
    CURSOR,
    DEAD,
    EFFECTS,
    QUICK,
    app_of,
    ask,
    letters,
    prepared,
    publish,
    reason_of,
    texts_of,
    until,
    write,
)
from tests.sync.shim import Gate
from trunkline import HandlerSettings, Message, Record, TopicSettings, errors

# -- failures --


def test_S4_14_a_failing_group_goes_to_the_dead_letters_as_a_whole_and_the_others_commit(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1", "a/x2", "b/x1", "a/x3")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        tried[records[0].payload.decode()] += 1
        write(records, conn)
        if records[-1].payload == b"a/x3":
            raise ValueError("no such user")

    with app:
        until(db_url, CURSOR, 6)
    assert ask(db_url, EFFECTS) == ["a/y1", "b/x1"]
    # The others are handled to find out, and once more to commit: not for each attempt of the one that fails.
    assert tried == {"a/x1": 3, "a/y1": 2, "b/x1": 2}
    with trunkline.connect(db_url) as tl:
        found = letters(tl)
        assert texts_of(found) == ["a/x1", "a/x2", "a/x3"]
        assert {(letter.partition, letter.key, letter.group_key) for letter in found} == {
            (found[0].partition, b"a", b"x")
        }
        assert [dict(letter.headers)["trunkline-dl-offset"] for letter in found] == [b"1", b"3", b"5"]
        assert {reason_of(letter) for letter in found} == {"ValueError: no such user"}
        failures = tl.describe_group("projector").failures
        assert (failures.failed_records, failures.last_offset, failures.last_topic) == (3, 1, "events")
        assert failures.last_reason == "ValueError: no such user"
        assert (failures.blocked_keys, failures.parked_records) == (0, 0)
        assert failures.last_at is not None


def test_S4_14_letters_are_there_if_and_only_if_the_others_commit(db_url: str) -> None:
    """The first three commits fail with what will pass, after the letters were written: they went with them."""
    prepared(db_url, "a/x1", "a/y1")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        if records[0].group_key == b"x":
            raise ValueError
        write(records, conn)

    with app:
        until(db_url, CURSOR, 3)
    assert ask(db_url, "select last_value::int from commits") == 4
    with trunkline.connect(db_url) as tl:
        assert texts_of(letters(tl)) == ["a/x1"]
        assert tl.describe_group("projector").failures.failed_records == 1


def test_S4_14_letters_of_a_group_without_a_key_stand_in_one_partition_in_order(db_url: str) -> None:
    prepared(db_url, *(f"-/x{number}" for number in range(1, 9)))
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        raise ValueError

    with app:
        until(db_url, CURSOR, 9)
    with trunkline.connect(db_url) as tl:
        found = letters(tl)
    assert texts_of(found) == [f"-/x{number}" for number in range(1, 9)]
    assert len({letter.partition for letter in found}) == 1


def test_a_group_that_fails_is_tried_again_and_what_it_wrote_before_is_not_there_twice(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1", "a/x2")
    app = app_of(db_url)
    tried: Counter[bytes | None] = Counter()

    @app.on("events", group="projector", create=True, delivery="exactly_once", by="group_key", dead_letter=DEAD)
    def project(records: list[Record], conn: Connection[Any]) -> None:
        tried[records[0].group_key] += 1
        write(records, conn)
        if records[0].group_key == b"x" and tried[b"x"] < 3:
            raise ValueError("not yet")

    app.handlers  # noqa: B018 - it has one
    with app:
        until(db_url, CURSOR, 4)
    assert sorted(ask(db_url, EFFECTS)) == ["a/x1", "a/x2", "a/y1"]
    with trunkline.connect(db_url) as tl:
        assert letters(tl) == []


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
def test_S4_15_an_error_that_will_pass_is_never_put_away_and_counts_against_nobody(
    db_url: str, failure: Exception | str
) -> None:
    """With the connection, where the server really ends it."""
    prepared(db_url, "a/x1", "a/y1", "a/x2")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        tried[records[0].group_key] += 1
        write(records, conn)
        if records[0].group_key == b"y" and tried[b"y"] < 6:
            if isinstance(failure, str):
                conn.execute("select pg_terminate_backend(pg_backend_pid())")
            else:
                raise failure

    with app:
        until(db_url, CURSOR, 4)
    assert sorted(ask(db_url, EFFECTS)) == ["a/x1", "a/x2", "a/y1"]
    with trunkline.connect(db_url) as tl:
        assert letters(tl) == []
        assert tl.describe_group("projector").failures.failed_records == 0


def test_S4_15_a_statement_that_somebody_cancelled_is_held_against_its_group(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        write(records, conn)
        if records[0].group_key == b"x":
            conn.execute("select set_config('statement_timeout', '1', true)")
            conn.execute("select count(*) from generate_series(1, 100000000)")

    with app:
        until(db_url, CURSOR, 3)
    assert ask(db_url, EFFECTS) == ["a/y1"]
    with trunkline.connect(db_url) as tl:
        (letter,) = letters(tl)
    assert "QueryCanceled" in reason_of(letter)


def test_a_group_that_breaks_a_constraint_at_the_commit_is_the_one_that_is_put_away(db_url: str) -> None:
    """x and y break it together: whoever comes second is the one."""
    prepared(db_url, "a/x1", "a/y1", "a/z1", "a/y2")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        write(records, conn, odd=None if records[0].group_key == b"z" else True)

    prepared_odd(db_url)
    with app:
        until(db_url, CURSOR, 5)
    assert ask(db_url, EFFECTS) == ["a/x1", "a/z1"]
    with trunkline.connect(db_url) as tl:
        found = letters(tl)
    assert texts_of(found) == ["a/y1", "a/y2"]
    assert "UniqueViolation" in reason_of(found[0])


def prepared_odd(db_url: str) -> None:
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


def test_a_handler_that_hides_a_failed_statement_has_failed(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        write(records, conn)
        if records[0].group_key == b"x":
            try:
                conn.execute("select 1 / 0")
            except psycopg.Error:
                return

    with app:
        until(db_url, CURSOR, 3)
    assert ask(db_url, EFFECTS) == ["a/y1"]
    with trunkline.connect(db_url) as tl:
        (letter,) = letters(tl)
    assert "the handler went on" in reason_of(letter)


def test_without_a_place_for_what_fails_the_app_ends_and_nothing_is_committed(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1")
    app = app_of(db_url)

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        settings=HandlerSettings(**QUICK),
    )
    def project(records: list[Record], conn: Connection[Any]) -> None:
        write(records, conn)
        if records[0].group_key == b"y":
            raise ValueError

    with pytest.raises(errors.HandlerFailed, match="offset 2 failed 2 times"):
        app.run()
    assert (ask(db_url, EFFECTS), ask(db_url, CURSOR)) == ([], 1)


def test_a_call_that_does_not_return_ends_the_app_and_nothing_is_committed(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1")
    app, gate = app_of(db_url), Gate()

    @app.on(
        "events",
        group="projector",
        create=True,
        delivery="exactly_once",
        by="group_key",
        settings=HandlerSettings(handler_timeout_s=1),
    )
    def project(records: list[Record], conn: Connection[Any]) -> None:
        write(records, conn)
        if records[0].group_key == b"y":
            gate.wait()

    with pytest.raises(errors.HandlerStuck, match="offset 2"):
        app.run()
    gate.open()
    assert (ask(db_url, EFFECTS), ask(db_url, CURSOR)) == ([], 1)


# -- letters that cannot be written --


def test_S4_16_a_record_that_is_too_large_for_the_dead_letters_leaves_a_stub(db_url: str) -> None:
    small = TopicSettings(record_bytes_max=10, key_bytes_max=5, header_count_max=8, header_bytes_max=30)
    prepared(db_url, settings=small)
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        raise ValueError("a reason that is longer than thirty bytes")

    with trunkline.connect(db_url) as tl:
        tl.publish("events", b"x" * 11, key="a" * 6, group_key="x", headers={"h": "1"})
        tl.publish("events", b"y", key="a" * 6, group_key="x")
        with app:
            until(db_url, CURSOR, 3)
        first, second = letters(tl)
        assert (first.payload, first.key, second.payload, second.partition) == (b"", None, b"y", first.partition)
        assert dict(first.headers)["trunkline-dl-offset"] == b"1"
        assert reason_of(first) == "ValueError: a reason that is l"
        assert dict(first.headers)["trunkline-dl-cut"] == b"a payload of 11 bytes, a key o"
        assert tl.describe_group("projector").failures.parked_records == 0


@pytest.mark.parametrize("gone", ["before", "at the commit"])
def test_S4_16_where_there_is_no_dead_letter_topic_any_more_records_are_parked_and_the_rest_goes_on(
    db_url: str, gone: str
) -> None:
    prepared(db_url, "a/x1", "a/y1", "a/x2")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        tried[records[0].group_key] += 1
        if records[0].group_key == b"x" and tried[b"x"] == 1 and gone == "before":
            app.client.delete_topic(DEAD)
        if records[0].group_key == b"y" and gone == "at the commit":
            conn.execute("insert into public.last_wish default values")
        write(records, conn)
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
    with app:
        until(db_url, CURSOR, 4)
        assert ask(db_url, EFFECTS) == ["a/y1"]
        (blocked,) = app.client.blocked_keys("projector")
        assert (blocked.key, blocked.group_key, blocked.record_count, blocked.failed_count) == (b"a", b"x", 2, 2)
        assert (blocked.reason, blocked.first_offset) == ("ValueError: no", 1)
        # Keys are not blocked: what comes after goes on. They are redriven all the same.
        publish(app.client, "a/x3")
        until(db_url, EFFECTS, ["a/y1", "a/x3"])
        app.client.redrive_group("projector", execute=True)
        until(db_url, EFFECTS, ["a/y1", "a/x3", "a/x1", "a/x2"])
        assert app.client.blocked_keys("projector") == []


def test_S4_16_odd_keys_never_stop_a_partition(db_url: str) -> None:
    prepared(db_url)
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        if records[0].payload != b"good":
            raise ValueError("\0 \udcff")
        write(records, conn)

    with trunkline.connect(db_url) as tl:
        tl.publish_many("events", [Message(b"%d" % n, key=key, group_key=key) for n, key in enumerate(odd)])
        tl.publish("events", b"good", key="good")
        with app:
            until(db_url, CURSOR, len(odd) + 2)
        assert {letter.group_key for letter in letters(tl)} == set(odd)
        assert {blocked.key for blocked in tl.blocked_keys("projector")} == set(odd)
        assert tl.redrive_group("projector", key=b"\x00") == [
            blocked for blocked in tl.blocked_keys("projector") if blocked.key == b"\x00"
        ]
    assert ask(db_url, EFFECTS) == ["good"]
