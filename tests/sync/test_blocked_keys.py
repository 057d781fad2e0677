# Generated from tests/aio/test_blocked_keys.py by tools/twins.py (make fix). Change the source, not this file.
"""Handlers by group key with `blocked_keys`: what follows a failure waits for a redrive."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import psycopg
from psycopg import Connection

import trunkline
from tests.sync.projector import (
    CURSOR,
    DEAD,
    EFFECTS,
    QUICK,
    WAITING,
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
from tests.sync.shim import wait_until
from trunkline import BlockedKey, HandlerSettings, Record

KILL = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


BEHIND = """
    select (select sum("end" - cursor) from trunkline.group_describe('projector')) > 0
        or exists (select from trunkline.parked_list('projector') where due_at is not null)
"""


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
        def project(records: list[Record], conn: Connection[Any]) -> None:
            self.calls.append(texts_of(records))
            write(records, conn)
            if self.bad.intersection(texts_of(records)):
                raise ValueError("bad")

    def until_read(self, end: int) -> None:
        until(self.url, CURSOR, end)

    def blocked(self) -> list[BlockedKey]:
        return self.app.client.blocked_keys("projector")

    def redrive(self, **options: Any) -> None:
        self.app.client.redrive_group("projector", execute=True, **options)


def test_S4_16_later_records_of_a_blocked_key_wait_and_a_redrive_keeps_their_order(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/y1", "b/x1")
    projector = Projector(db_url, "a/x1")
    app = projector.app
    with app:
        projector.until_read(4)
        publish(app.client, "a/x2", "a/y2", "b/x2")
        projector.until_read(7)
        publish(app.client, "a/x3")
        projector.until_read(8)
        assert ask(db_url, EFFECTS) == ["a/y1", "b/x1", "a/y2", "b/x2"]
        (blocked,) = projector.blocked()
        assert (blocked.key, blocked.group_key, blocked.first_offset) == (b"a", b"x", 1)
        assert (blocked.record_count, blocked.failed_count, blocked.attempts, blocked.reason) == (
            3,
            1,
            2,
            "ValueError: bad",
        )
        failures = app.client.describe_group("projector").failures
        assert (failures.blocked_keys, failures.parked_records, failures.failed_records) == (1, 3, 1)
        # Nothing is changed by looking, and one that fails again stays parked.
        assert [each.due_at for each in app.client.redrive_group("projector")] == [None]
        projector.redrive(key="b")
        assert [each.due_at for each in projector.blocked()] == [None]
        projector.redrive(key="a", group_key="x")
        wait_until(lambda: projector.calls[-1] == ["a/x1", "a/x2", "a/x3"])
        until(db_url, "select attempts from trunkline.parked_list('projector') where due_at is null", 3)
        assert ask(db_url, EFFECTS) == ["a/y1", "b/x1", "a/y2", "b/x2"]
        projector.bad.clear()
        projector.redrive()
        until(db_url, EFFECTS, ["a/y1", "b/x1", "a/y2", "b/x2", "a/x1", "a/x2", "a/x3"])
        assert projector.blocked() == []
        publish(app.client, "a/x4")
        until(db_url, EFFECTS, ["a/y1", "b/x1", "a/y2", "b/x2", "a/x1", "a/x2", "a/x3", "a/x4"])


def test_S4_16_with_a_dead_letter_topic_what_waits_says_behind_which_offset(db_url: str) -> None:
    prepared(db_url, "a/x1", "a/x2")
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        raise ValueError("bad")

    with app:
        until(db_url, CURSOR, 3)
        publish(app.client, "a/x3")
        until(db_url, CURSOR, 4)
        found = letters(app.client)
    assert texts_of(found) == ["a/x1", "a/x2", "a/x3"]
    assert [reason_of(letter) for letter in found[:2]] == ["ValueError: bad"] * 2
    assert "waits behind offset 1" in reason_of(found[2])


def test_what_failed_can_be_discarded_and_what_stood_behind_it_is_redriven(db_url: str) -> None:
    prepared(db_url, "a/x1", "b/y1")
    projector = Projector(db_url, "a/x1", "b/y1")
    with projector.app as app:
        projector.until_read(3)
        publish(app.client, "a/x2", "a/x3")
        projector.until_read(5)
        projector.redrive(discard_failed=True)
        until(db_url, EFFECTS, ["a/x2", "a/x3"])
        assert projector.blocked() == []


def test_parked_records_outlive_the_log_and_a_redrive_takes_many_in_pieces(db_url: str) -> None:
    many = [f"a/x{number}" for number in range(1, 26)]
    prepared(db_url, *many[:20])
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
    def project(records: list[Record], conn: Connection[Any]) -> None:
        if is_bad[0]:
            raise ValueError
        calls.append(texts_of(records))
        write(records, conn)

    with app:
        until(db_url, CURSOR, 21)
        app.client.alter_topic("events", retention_age_s=1)
        with psycopg.connect(db_url) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
            connection.execute(
                "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as"
                " $$ select clock_timestamp() + interval '1 hour' $$"
            )
        publish(app.client, *many[20:])
        app.client.retention_run()
        app.client.retention_run()
        (left,) = app.client.offsets("events")
        assert left.start > 1
        is_bad[0] = False
        app.client.redrive_group("projector", execute=True)
        until(db_url, EFFECTS, many)
    assert ask(db_url, EFFECTS) == many
    assert max(map(len, calls)) <= 10


def test_S4_16_whatever_fails_and_is_redriven_each_key_is_handled_once_and_in_order(db_url: str) -> None:
    """A random history against its model: two apps share the group, keys fail and recover, redrives come at any time,
    and now and then the server ends every session. At the end, when all is well again, each key has all of its records,
    once, in order."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    prepared(db_url)
    projectors = [Projector(db_url), Projector(db_url)]
    bad = projectors[1].bad = projectors[0].bad
    given: defaultdict[str, list[str]] = defaultdict(list)
    count = 0
    with trunkline.connect(db_url) as tl:
        tl.add_partitions("events", 2)
        with projectors[0].app, projectors[1].app:
            for _ in range(30):
                texts = []
                for _ in range(rng.randrange(6)):
                    count += 1
                    who = f"{rng.choice('ab')}/{rng.choice('xyz')}"
                    given[who].append(f"{who}{count}")
                    texts.append(f"{who}{count}")
                    if rng.random() < 0.2:
                        bad.add(f"{who}{count}")
                publish(tl, *texts)
                if rng.random() < 0.4:
                    until(db_url, BEHIND, False)
                if rng.random() < 0.4:
                    bad -= set(rng.sample(sorted(bad), len(bad) // 2))
                if rng.random() < 0.2:
                    ask(db_url, KILL)
                if rng.random() < 0.5:
                    tl.redrive_group("projector", key=rng.choice([None, "a", "b"]), execute=True)
            bad.clear()
            until(db_url, BEHIND, False)
            # What was read while a key failed is parked, also after the last redrive was asked for.
            tl.redrive_group("projector", execute=True)
            until(db_url, BEHIND, False)
        assert tl.blocked_keys("projector") == []
    done: defaultdict[str, list[str]] = defaultdict(list)
    for text in ask(db_url, EFFECTS):
        done[text.rstrip("0123456789")].append(text)
    assert done == given
