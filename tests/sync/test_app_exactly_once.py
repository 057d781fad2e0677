# Generated from tests/aio/test_app_exactly_once.py by tools/twins.py (make fix). Change the source, not this file.
"""Handlers whose effects are exactly once, and what an app refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import trunkline
from tests.sync.apps import app_of, cursors, publish, settings
from tests.sync.shim import Gate, handler_of_the_other_world
from trunkline import HandlerSettings, Record, errors


def effects(db_url: str) -> list[tuple[int, bytes]]:
    with psycopg.connect(db_url) as connection:
        return connection.execute('select "offset", payload from effect order by "offset"').fetchall()


def make_effects(db_url: str) -> None:
    with psycopg.connect(db_url) as connection:
        connection.execute(
            'create table effect ("offset" bigint primary key, payload bytea, '
            "odd boolean unique deferrable initially deferred)"
        )


Effect = Callable[[Record, Connection[Any]], None]


def write(odd: bool | None = None) -> Effect:
    def effect(record: Record, conn: Connection[Any]) -> None:
        conn.execute("insert into effect values (%s, %s, %s)", [record.offset, record.payload, odd])

    return effect


def test_exactly_once_what_a_handler_writes_is_there_once_and_a_failure_leaves_nothing(db_url: str) -> None:
    publish(db_url, *(b"%d" % number for number in range(1, 8)))
    publish(db_url, topic="orders.dead")
    make_effects(db_url)
    app, insert = app_of(db_url), write()
    tried: Counter[bytes] = Counter()

    @app.on(
        "orders",
        group="billing",
        create=True,
        delivery="exactly_once",
        dead_letter="orders.dead",
        settings=settings(max_attempts=2),
    )
    def bill(record: Record, conn: Connection[Any]) -> None:
        tried[record.payload] += 1
        insert(record, conn)
        if record.payload == b"3" or (record.payload == b"5" and tried[b"5"] < 2):
            raise ValueError(record.payload)
        if record.payload == b"7":
            app.stop()

    app.run()
    assert [payload for _, payload in effects(db_url)] == [b"1", b"2", b"4", b"5", b"6", b"7"]
    assert (tried[b"3"], tried[b"5"]) == (2, 2)
    assert cursors(db_url) == {0: 8}
    with trunkline.connect(db_url) as tl:
        (letter,) = tl.read("orders.dead")
    assert (letter.payload, dict(letter.headers)["trunkline-dl-attempts"]) == (b"3", b"2")


def test_exactly_once_a_record_that_fails_at_the_commit_is_the_one_that_is_put_away(db_url: str) -> None:
    """A deferred constraint that records 2 and 4 break together is told by nobody before the commit."""
    publish(db_url, b"1", b"2", b"3", b"4", b"5")
    publish(db_url, topic="orders.dead")
    make_effects(db_url)
    app, plain, odd = app_of(db_url), write(), write(odd=True)
    tried: list[bytes] = []

    @app.on(
        "orders",
        group="billing",
        create=True,
        delivery="exactly_once",
        dead_letter="orders.dead",
        settings=settings(max_attempts=2),
    )
    def bill(record: Record, conn: Connection[Any]) -> None:
        (odd if record.payload in (b"2", b"4") else plain)(record, conn)
        tried.append(record.payload)
        if tried.count(b"5") == 2:
            app.stop()

    app.run()
    assert cursors(db_url) == {0: 6}
    assert [payload for _, payload in effects(db_url)] == [b"1", b"2", b"3", b"5"]
    with trunkline.connect(db_url) as tl:
        assert [letter.payload for letter in tl.read("orders.dead")] == [b"4"]


def test_exactly_once_a_handler_that_does_not_return_ends_the_app(db_url: str) -> None:
    publish(db_url, b"1", b"2")
    make_effects(db_url)
    app, gate, insert = app_of(db_url), Gate(), write()

    @app.on("orders", group="billing", create=True, delivery="exactly_once", settings=settings(handler_timeout_s=1))
    def bill(record: Record, conn: Connection[Any]) -> None:
        insert(record, conn)
        if record.payload == b"2":
            gate.wait()

    with pytest.raises(errors.HandlerStuck, match="offset 2"):
        app.run()
    gate.open()
    assert (cursors(db_url), effects(db_url)) == ({0: 1}, [])


def test_what_an_app_needs_is_missed_at_its_start(db_url: str) -> None:
    publish(db_url, b"x")

    def made(**options: Any) -> trunkline.App:
        app = app_of(db_url)

        @app.on(**{"topics": "orders", "group": "billing", **options})
        def bill(record: Record) -> None:
            raise AssertionError

        return app

    for app, missing in [
        (made(), "group billing"),
        (made(topics="refunds", create=True), "refunds"),
        (made(dead_letter="orders.dead", create=True), "orders.dead"),
    ]:
        with pytest.raises(errors.NotFound, match=missing):
            with app:
                raise AssertionError
    with pytest.raises(errors.InvalidArgument, match="handles nothing"):
        app_of(db_url).run()
    running = made(create=True)
    with running:
        with pytest.raises(errors.InvalidArgument, match="running already"):
            running.run()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topics": []}, "topic"),
        ({"topics": "../x"}, "not a topic name"),
        ({"group": ""}, "group"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 10_000}, "concurrency"),
        ({"delivery": "at_most_once"}, "use a consumer"),
        ({"delivery": "twice"}, "delivery"),
        ({"delivery": "exactly_once", "concurrency": 2}, "leave concurrency at 1"),
        ({"delivery": "exactly_once"}, "a record and a connection"),
        ({"settings": HandlerSettings(start="middle")}, "start must be"),  # type: ignore[arg-type]
        ({"dead_letter": "orders"}, "would come back at once"),
        ({"dead_letter": ""}, "not a topic name"),
    ],
    ids=str,
)
def test_what_can_never_work_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    app = trunkline.App()

    def bill(record: Record) -> None:
        raise AssertionError

    with pytest.raises(errors.InvalidArgument, match=said):
        app.on(**{"topics": "orders", "group": "billing", **options})(bill)
    assert app.handlers == ()


def test_a_function_that_cannot_be_a_handler_is_refused() -> None:
    app = trunkline.App()

    def without_arguments() -> None:
        raise AssertionError

    for function in (without_arguments, handler_of_the_other_world, None, "bill"):
        with pytest.raises(errors.InvalidArgument):
            app.on("orders", group="billing")(function)  # type: ignore[type-var]


def test_two_handlers_of_one_group_for_one_topic_are_refused() -> None:
    app = trunkline.App()

    def bill(record: Record) -> None:
        raise AssertionError

    app.on(["orders", "refunds"], group="billing")(bill)
    app.on("orders", group="audit")(bill)
    with pytest.raises(errors.InvalidArgument, match="take another group"):
        app.on("refunds", group="billing")(bill)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"retry_first_s": -1},
        {"retry_max_s": float("nan")},
        {"handler_timeout_s": 0},
        {"commit_interval_s": "1"},
        {"in_hand_max": 0},
        {"max_attempts": 1.5},
        {"in_hand_bytes_max": True},
        {"on_out_of_range": "whatever"},
    ],
    ids=str,
)
def test_settings_of_a_handler_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument, match=next(iter(wrong))):
        HandlerSettings(**wrong)
