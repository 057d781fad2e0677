# Generated from tests/aio/test_app.py by tools/twins.py (make fix). Change the source, not this file.
"""Handlers: order within a key, side by side otherwise, attempts, dead letters, and how an app ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime

import psycopg
import pytest

import trunkline
from tests.sync.apps import QUICK, app_of, cursors, publish, settings
from tests.sync.shim import Gate, in_the_background, wait_until
from trunkline import Message, Record, errors


def test_S4_04_records_of_a_key_come_in_order_while_other_keys_go_on(db_url: str) -> None:
    publish(db_url, *(Message(payload, key=payload[:1]) for payload in (b"a1", b"a2", b"b1", b"b2", b"a3")))
    app, gate = app_of(db_url), Gate()
    begun: list[bytes] = []
    ended: list[bytes] = []

    @app.on("orders", group="billing", concurrency=4, create=True, settings=QUICK)
    def bill(record: Record) -> None:
        begun.append(record.payload)
        if record.payload == b"a1":
            gate.wait()
        ended.append(record.payload)

    with app:
        wait_until(lambda: ended == [b"b1", b"b2"] and gate.count == 1)
        assert sorted(begun) == [b"a1", b"b1", b"b2"]
        gate.open()
        wait_until(lambda: len(ended) == 5)
    assert ended[2:] == [b"a1", b"a2", b"a3"]
    assert cursors(db_url) == {0: 6}


def test_many_keys_in_many_partitions_are_each_handled_in_order_and_once(db_url: str) -> None:
    keys = [f"key-{number % 13}" for number in range(400)]
    publish(db_url, *(Message(b"%d" % n, key=key) for n, key in enumerate(keys)), partitions=4)
    app = app_of(db_url)
    running: Counter[bytes | None] = Counter()
    peaks: Counter[bytes | None] = Counter()
    ended: list[tuple[bytes, int]] = []

    @app.on("orders", group="billing", concurrency=8, create=True, settings=settings(in_hand_max=20))
    def bill(record: Record) -> None:
        running[record.key] += 1
        peaks[record.key] = max(peaks[record.key], running[record.key])
        app.client.publish("bills", record.payload)
        ended.append((record.key or b"", int(record.payload)))
        running[record.key] -= 1

    with trunkline.connect(db_url) as tl:
        tl.create_topic("bills")
    with app:
        wait_until(lambda: len(ended) == 400)
    assert set(peaks.values()) == {1}
    # A stable sort by key leaves the records of each in the order in which they were handled.
    assert sorted(ended, key=lambda each: each[0]) == sorted((key.encode(), number) for number, key in enumerate(keys))
    assert sum(cursors(db_url).values()) == 400 + 4


def test_no_more_records_are_handled_at_once_than_the_app_says(db_url: str) -> None:
    publish(db_url, *(b"%d" % number for number in range(10)))
    app, gate = app_of(db_url), Gate()
    ended: list[bytes] = []
    at_once: list[int] = []

    @app.on("orders", group="billing", concurrency=3, create=True, settings=QUICK)
    def bill(record: Record) -> None:
        gate.wait()
        at_once.append(gate.count - len(ended))
        ended.append(record.payload)

    with app:
        wait_until(lambda: gate.count == 3)
        gate.open()
        wait_until(lambda: len(ended) == 10)
    assert max(at_once) == 3


def test_a_record_whose_handler_raises_is_tried_again_and_holds_up_its_key_alone(db_url: str) -> None:
    publish(db_url, Message(b"a1", key="a"), Message(b"a2", key="a"), Message(b"b1", key="b"))
    app, gate = app_of(db_url), Gate()
    tried: list[bytes] = []

    @app.on("orders", group="billing", create=True, settings=QUICK)
    def bill(record: Record) -> None:
        tried.append(record.payload)
        if record.payload == b"b1":
            gate.open()
        if record.payload == b"a1" and tried.count(b"a1") < 4:
            raise ValueError("not yet")

    with app:
        gate.wait()
        wait_until(lambda: tried[-1] == b"a2")
    assert [payload for payload in tried if payload != b"b1"] == [b"a1"] * 4 + [b"a2"]
    assert cursors(db_url) == {0: 4}


def test_a_record_that_keeps_failing_goes_to_the_dead_letter_topic_with_its_reason(db_url: str) -> None:
    publish(db_url, Message(b"bad", key="a", headers=[("h", "1"), ("h", "2")]), Message(b"good", key="a"))
    publish(db_url, topic="orders.dead")
    app = app_of(db_url)
    tried: list[bytes] = []

    @app.on("orders", group="billing", create=True, dead_letter="orders.dead", settings=settings(max_attempts=3))
    def bill(record: Record) -> None:
        tried.append(record.payload)
        if record.payload == b"bad":
            raise ValueError("no such account")

    with app:
        wait_until(lambda: tried[-1:] == [b"good"])
    assert tried == [b"bad"] * 3 + [b"good"]
    assert cursors(db_url) == {0: 3}
    with trunkline.connect(db_url) as tl:
        (letter,) = tl.read("orders.dead")
    assert (letter.key, letter.payload) == (b"a", b"bad")
    assert letter.headers[:-1] == (
        ("h", b"1"),
        ("h", b"2"),
        ("trunkline-dl-topic", b"orders"),
        ("trunkline-dl-partition", b"0"),
        ("trunkline-dl-offset", b"1"),
        ("trunkline-dl-attempts", b"3"),
        ("trunkline-dl-reason", b"ValueError: no such account"),
    )
    name, time = letter.headers[-1]
    assert name == "trunkline-dl-time"
    assert abs((datetime.fromisoformat(time.decode()) - letter.append_time).total_seconds()) < 60


@pytest.mark.parametrize(
    "failure",
    [
        errors.Unavailable("away"),
        psycopg.errors.SerializationFailure("40001"),
        psycopg.OperationalError("connection refused"),
        RuntimeError("wrapped by what stands between"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_S4_15_an_error_that_will_pass_is_not_held_against_the_record(db_url: str, failure: Exception) -> None:
    if isinstance(failure, RuntimeError):
        failure.__cause__ = psycopg.errors.DeadlockDetected("40P01")
    publish(db_url, b"x")
    publish(db_url, topic="orders.dead")
    app = app_of(db_url)
    tried: list[int] = []

    @app.on("orders", group="billing", create=True, dead_letter="orders.dead", settings=settings(max_attempts=2))
    def bill(record: Record) -> None:
        tried.append(record.offset)
        if len(tried) < 6:
            raise failure

    with app:
        wait_until(lambda: len(tried) == 6)
    assert cursors(db_url) == {0: 2}
    with trunkline.connect(db_url) as tl:
        assert tl.read("orders.dead") == []


def test_without_a_dead_letter_topic_the_app_ends_and_nothing_is_lost(db_url: str) -> None:
    publish(db_url, b"1", b"2", b"3")
    app = app_of(db_url)
    tried: list[bytes] = []

    @app.on("orders", group="billing", create=True, settings=settings(max_attempts=2))
    def bill(record: Record) -> None:
        tried.append(record.payload)
        if record.payload == b"2":
            raise KeyError("account")

    with pytest.raises(errors.HandlerFailed, match="partition 0, offset 2 failed 2 times") as failed:
        app.run()
    assert isinstance(failed.value.__cause__, KeyError)
    assert cursors(db_url) == {0: 2}

    again = app_of(db_url)
    seen: list[bytes] = []

    @again.on("orders", group="billing", settings=QUICK)
    def bill_again(record: Record) -> None:
        seen.append(record.payload)

    with again:
        wait_until(lambda: seen == [b"2", b"3"])
    assert cursors(db_url) == {0: 4}


def test_S4_19_a_handler_that_is_at_work_when_the_app_is_closed_is_finished_and_committed(db_url: str) -> None:
    publish(db_url, *(Message(b"%d" % number, key="a") for number in range(5)))
    app, gate = app_of(db_url), Gate()
    ended: list[bytes] = []

    @app.on("orders", group="billing", create=True, settings=QUICK)
    def bill(record: Record) -> None:
        app.stop()
        gate.wait()
        ended.append(record.payload)

    with app:
        app.wait()
        wait_until(lambda: gate.count == 1)
        gate.open()
    assert b"0" in ended
    assert cursors(db_url) == {0: len(ended) + 1}


def test_S4_19_an_app_that_waits_ends_when_it_is_told_to_and_leaves_nothing_behind(
    db_url: str, through_pooler: bool
) -> None:
    publish(db_url, b"x")
    app = app_of(db_url)
    seen: list[bytes] = []

    @app.on("orders", group="billing", create=True, concurrency=4, settings=settings(commit_interval_s=60.0))
    def bill(record: Record) -> None:
        seen.append(record.payload)
        app.stop()

    app.run()
    assert seen == [b"x"]
    assert cursors(db_url) == {0: 2}
    assert in_the_background() == []
    if not through_pooler:  # which keeps its sessions
        # Every look of its own transaction: within one, the statistics stay as they were first seen.
        with psycopg.connect(db_url, autocommit=True) as connection:
            sessions = (
                "select count(*) from pg_stat_activity "
                "where datname = current_database() and backend_type = 'client backend'"
            )
            wait_until(lambda: connection.execute(sessions).fetchone() == (1,))
    with pytest.raises(errors.Closed):
        _ = app.client


def test_two_apps_share_the_partitions_and_one_that_ends_hands_them_over(db_url: str) -> None:
    publish(db_url, partitions=4)
    seen: list[int] = []
    by: list[Counter[int]] = [Counter(), Counter()]

    def made(number: int) -> trunkline.App:
        app = app_of(db_url)

        @app.on("orders", group="billing", concurrency=2, create=True, settings=QUICK)
        def bill(record: Record) -> None:
            by[number][record.partition] += 1
            seen.append(int(record.payload))

        return app

    def feed(condition: Callable[[], bool]) -> None:
        with trunkline.connect(db_url) as tl:
            while not condition():
                count = feed_count[0] = feed_count[0] + 1
                tl.publish("orders", b"%d" % count, partition=count % 4)

    feed_count = [0]
    with made(0):
        feed(lambda: len(by[0]) == 4)
        with made(1):
            feed(lambda: len(by[1]) == 2)
        by[0].clear()
        feed(lambda: len(by[0]) == 4)
        wait_until(lambda: set(seen) == set(range(1, feed_count[0] + 1)))
    assert sum(cursors(db_url).values()) == feed_count[0] + 4
    # What was in hand while partitions moved was finished first: nothing came twice.
    assert len(seen) == feed_count[0]


def test_a_partition_moves_to_a_new_app_without_waiting_for_records_that_have_not_begun(db_url: str) -> None:
    publish(db_url, Message(b"slow", partition=0), partitions=2)
    # The consumer's own patience with what is in hand is longer than the test's.
    apps, gate = [app_of(db_url) for _ in range(2)], Gate()
    seen: list[tuple[int, bytes]] = []

    def handle(number: int) -> None:
        @apps[number].on("orders", group="billing", create=True, settings=QUICK)
        def bill(record: Record) -> None:
            if record.payload == b"slow":
                gate.wait()
            seen.append((number, record.payload))

    handle(0)
    handle(1)
    payloads = [b"%d" % number for number in range(50)]
    with apps[0]:
        wait_until(lambda: gate.count == 1)
        publish(db_url, *(Message(payload, partition=1) for payload in payloads))
        with apps[1]:
            wait_until(lambda: seen == [(1, payload) for payload in payloads])
        gate.open()
        wait_until(lambda: seen[-1] == (0, b"slow"))
    assert cursors(db_url) == {0: 2, 1: 51}


def test_a_handler_that_does_not_return_ends_the_app_and_its_record_goes_to_another(db_url: str) -> None:
    publish(db_url, Message(b"stuck", key="a"), Message(b"fine", key="b"))
    app, other, gate = app_of(db_url), app_of(db_url), Gate()
    seen: list[bytes] = []

    @app.on("orders", group="billing", concurrency=2, create=True, settings=settings(handler_timeout_s=1))
    def bill(record: Record) -> None:
        if record.payload == b"stuck":
            gate.wait()

    @other.on("orders", group="billing", settings=QUICK)
    def bill_too(record: Record) -> None:
        seen.append(record.payload)

    with pytest.raises(errors.HandlerStuck, match="bill of group billing at orders, partition 0, offset 1"):
        app.run()
    assert cursors(db_url) == {0: 1}
    with other:
        wait_until(lambda: seen == [b"stuck", b"fine"])
    gate.open()


def test_an_app_goes_on_when_all_its_connections_are_cut(db_url: str) -> None:
    publish(db_url, b"before")
    app = app_of(db_url)
    seen: list[bytes] = []

    @app.on("orders", group="billing", create=True, settings=QUICK)
    def bill(record: Record) -> None:
        seen.append(record.payload)

    with app:
        wait_until(lambda: b"before" in seen)
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
        publish(db_url, b"after")
        wait_until(lambda: b"after" in seen)
    assert cursors(db_url) == {0: 3}


def test_several_handlers_run_side_by_side_and_one_that_fails_ends_them_all(db_url: str) -> None:
    publish(db_url, b"x")
    publish(db_url, b"y", topic="refunds")
    app, gate = app_of(db_url), Gate()

    @app.on("orders", group="billing", create=True, settings=QUICK)
    def bill(record: Record) -> None:
        gate.open()

    @app.on("refunds", group="billing", create=True, settings=settings(max_attempts=1))
    def refund(record: Record) -> None:
        gate.wait()
        raise ValueError(record.payload)

    with pytest.raises(errors.HandlerFailed, match="refund of group billing"):
        app.run()
