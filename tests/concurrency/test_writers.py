"""Many writers at once, with readers beside them; the checker judges what they wrote down."""

from __future__ import annotations

import functools
import random

import pytest

import trunkline
from tests.checker.invariants import assert_clean
from tests.concurrency import workload
from tests.concurrency.sessions import wait_until
from tests.concurrency.workload import Load, assert_no_deadlock, client_writer, deadlocks, reader, running, sql_writer
from trunkline.client.sync.client import Client
from trunkline.settings import ClientSettings, TopicSettings

DURATIONS = [pytest.param(2.5, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.chaos)]


@pytest.mark.parametrize("duration_s", DURATIONS)
def test_S0_03_writers_on_one_partition_leave_no_gap_and_lose_nothing(
    db_url: str, seed: int, duration_s: float
) -> None:
    """Eight writers on one partition (three of them share a client, one writes plain SQL) and two readers:
    count = max - min + 1, and every acknowledged record is there once."""
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=1) as load:
        tl.create_topic("t")
        shared = functools.partial(client_writer, tl=tl)
        functools.update_wrapper(shared, client_writer)
        load.start(shared, times=3)
        load.start(client_writer, times=4)
        load.start(sql_writer)
        load.start(reader, times=2)
        load.wait_for_progress(51)
        load.run_for(duration_s)
        history = load.finish()
    assert_clean(history)
    offsets = [record.offset for record in history.final[0].records]
    assert len(offsets) == max(offsets) - min(offsets) + 1
    assert sum(1 for publish in history.publishes() if publish.outcome == "acknowledged") > 50


@pytest.mark.parametrize("duration_s", DURATIONS)
def test_eight_writers_with_random_partition_sets_never_deadlock(db_url: str, seed: int, duration_s: float) -> None:
    """Eight writers, four in SQL with transactions over random sets of partitions and four through clients with
    keys, and two readers: no deadlock, no failure, gapless, no transaction torn."""
    before = deadlocks(db_url)
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=6) as load:
        tl.create_topic("t", partitions=6)
        load.start(sql_writer, times=4)
        load.start(client_writer, times=4)
        load.start(reader, times=2)
        load.run_for(duration_s)
        history = load.finish()
    assert_clean(history)
    assert_no_deadlock(db_url, before)
    outcomes = {publish.outcome for publish in history.publishes() if publish.session.startswith("client")}
    assert outcomes == {"acknowledged"}


def _maintenance(load: Load, name: str, chance: random.Random) -> None:
    """Runs retention over and over; now and then changes how much is kept."""
    with trunkline.connect(load.url) as tl:
        while not load.stopped.is_set():
            tl.alter_topic(load.topic, retention_bytes=chance.choice([0, 200_000, 1_000_000]))
            tl.retention_run(load.topic)


def _has_rolled(tl: Client, first_segment_id: int) -> bool:
    """So often that little of it is left, in every partition."""
    description = tl.describe_topic("t")
    rolls = description.topic.open_segment_id - first_segment_id
    return rolls >= 20 and all(held.start > 1 for held in description.ranges)


@pytest.mark.parametrize("duration_s", DURATIONS)
def test_rolls_and_retention_under_load_leave_no_trace_in_the_log(db_url: str, seed: int, duration_s: float) -> None:
    """Segments of 64 KiB, so that the topic rolls all the time, two retention loops that drop them, writers and
    readers: nobody is refused, nobody reads fewer records than there are, and the tables that are left are few."""
    settings = ClientSettings(deadline_s=60)
    with trunkline.connect(db_url, settings=settings) as tl, running(db_url, "t", seed, partitions=3) as load:
        tl.create_topic("t", partitions=3, settings=TopicSettings(segment_bytes=65536))
        first = tl.topic("t").open_segment_id
        load.start(client_writer, times=3)
        load.start(sql_writer, times=2)
        load.start(reader, times=2)
        load.start(_maintenance, times=2)
        load.run_for(duration_s)
        # However long that takes here.
        wait_until(lambda: load.failures or _has_rolled(tl, first), "segments were rolled and dropped")
        history = load.finish()
        assert_clean(history)
        tl.retention_run("t")
        description = tl.describe_topic("t")
        rolls = description.topic.open_segment_id - first
        print(f"{rolls} rolls, {len(description.segments)} segments left")
        assert rolls >= 3
        assert all(held.start > 1 for held in description.ranges)
        assert len(description.segments) < rolls
    assert {publish.outcome for publish in history.publishes() if publish.session.startswith("client")} == {
        "acknowledged"
    }


def test_the_workload_records_rollbacks_as_failures(db_url: str, seed: int) -> None:
    """The checker's view of a rolled back transaction is fed: some of the SQL writer's are."""
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=2) as load:
        tl.create_topic("t", partitions=2)
        load.start(workload.sql_writer)
        load.wait_for_progress(100)
        history = load.finish()
    assert_clean(history)
    assert any(publish.outcome == "failed" for publish in history.publishes())
