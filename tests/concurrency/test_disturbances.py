"""What else happens to a log in use: sessions are ended and stopped, partitions added, topics made again."""

from __future__ import annotations

import os
import random
import signal

import psycopg
import pytest

import trunkline
from tests.checker.history import History, Publish
from tests.checker.invariants import CHECKS, assert_clean
from tests.concurrency.sessions import WAIT_S, Sessions, wait_until
from tests.concurrency.workload import (
    Load,
    assert_no_deadlock,
    client_writer,
    deadlocks,
    publish,
    reader,
    running,
    sql_writer,
)
from trunkline.errors import NotFound
from trunkline.records import Message
from trunkline.settings import ClientSettings, TopicSettings

DURATIONS = [pytest.param(2.0, id="short"), pytest.param(60.0, id="long", marks=pytest.mark.chaos)]
BACKENDS = (
    "select pid from pg_stat_activity where datname = current_database() and application_name = 'trunkline'"
    " and pid <> pg_backend_pid() and state <> 'idle'"
)


def _ender(load: Load, name: str, chance: random.Random) -> None:
    """Terminates or cancels a busy session of some client, over and over."""
    with psycopg.connect(load.url, autocommit=True) as connection:
        while not load.stopped.wait(chance.random() * 0.05):
            busy = [pid for (pid,) in connection.execute(BACKENDS).fetchall()]
            if busy:
                how = chance.choice(["pg_terminate_backend", "pg_cancel_backend"])
                connection.execute(f"select {how}(%s)", [chance.choice(busy)])


@pytest.mark.parametrize("duration_s", DURATIONS)
def test_sessions_that_are_ended_at_random_moments_lose_and_double_nothing(
    db_url: str, seed: int, duration_s: float
) -> None:
    """An administrator terminates and cancels the sessions of four writers and two readers in the middle of what they
    do. No writer gets an error: there is time to find out about every publish, and each is there once."""
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=3) as load:
        tl.create_topic("t", partitions=3, settings=TopicSettings(segment_bytes=65536))
        load.start(client_writer, times=4)
        load.start(reader, times=2)
        load.wait_for_everyone()
        load.start(_ender)
        load.run_for(duration_s)
        history = load.finish()
    assert_clean(history)
    assert {publish.outcome for publish in history.publishes()} == {"acknowledged"}


def test_a_backend_that_is_stopped_and_goes_on_later_doubles_nothing(
    db_url: str, sessions: Sessions, topic_id: int
) -> None:
    """The server process that serves a publish is stopped (SIGSTOP) while it waits for the partition, and is given the
    partition in that state. The client gives up on it and tries again on another connection; then the process goes on
    (SIGCONT) and commits what it was told to. The record is there once, and the client learns its place."""
    a, other = sessions.open("a"), sessions.open("other", autocommit=True)
    settings = ClientSettings(application_name="stopped", statement_timeout_s=1.0, deadline_s=WAIT_S)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.publish("t", b"1", partition=0)
        a.append(topic_id, {0: [b"2"]}).result(WAIT_S)
        publishing = other.do(lambda: tl.publish("t", b"3", partition=0))
        waiting = "select pid from pg_stat_activity where application_name = 'stopped' and wait_event = 'advisory'"
        stopped = int(wait_until(lambda: sessions.watcher.ask(waiting), "the publish waits"))
        os.kill(stopped, signal.SIGSTOP)
        try:
            a.commit()
            again = "select count(*) from pg_stat_activity where application_name = 'stopped' and pid <> %s"
            wait_until(lambda: sessions.watcher.ask(again, [stopped]), "the client tries again")
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert publishing.result(WAIT_S).offset == 3
        assert tl.publish("t", b"4", partition=0).offset == 4
        assert [record.payload for record in tl.read("t")] == [b"1", b"2", b"3", b"4"]


def _administrator(load: Load, name: str, chance: random.Random) -> None:
    """Adds partitions, alters the topic, rolls and seals, over and over."""
    with trunkline.connect(load.url) as tl:
        for more in range(load.partitions + 1, load.partitions + 40):
            tl.add_partitions(load.topic, more, break_key_order=True)
            tl.alter_topic(load.topic, segment_bytes=chance.choice([65536, 1_000_000]))
            tl.retention_run(load.topic)
            if load.stopped.wait(0.05):
                return


@pytest.mark.parametrize("duration_s", DURATIONS)
def test_partitions_are_added_and_segments_rolled_under_load(db_url: str, seed: int, duration_s: float) -> None:
    """Partitions are added, with leave to break the order of keys, while writers route by key, write SQL and read: no
    deadlock, nobody is refused, and everything else that holds, holds."""
    before = deadlocks(db_url)
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=2) as load:
        tl.create_topic("t", partitions=2)
        load.start(client_writer, times=3)
        load.start(sql_writer)
        load.start(reader)
        load.start(_administrator)
        load.run_for(duration_s)
        wait_until(lambda: load.failures or len(tl.offsets("t")) > 2, "a partition was added")
        history = load.finish()
        assert len(tl.offsets("t")) > 2
    assert_clean(history, [check for kind, check in CHECKS.items() if kind != "key-order"])
    assert_no_deadlock(db_url, before)


def _stubborn_writer(load: Load, name: str, chance: random.Random) -> None:
    """Publishes through a client of its own; while the topic is gone it tries again."""
    with trunkline.connect(load.url) as tl:
        while not load.stopped.is_set():
            try:
                client_writer(load, f"{name}.{load.recorder.tick()}", chance, tl=tl)
            except NotFound:
                continue


def test_a_topic_that_is_made_again_under_load_keeps_nothing_and_loses_nothing_new(db_url: str, seed: int) -> None:
    """The topic is deleted and made again five times while three writers publish. They learn that it is gone, or find
    the new one; what was acknowledged to calls that began after the last time is there, once, without a gap."""
    with trunkline.connect(db_url) as tl, running(db_url, "t", seed, partitions=2) as load:
        tl.create_topic("t", partitions=2)
        load.start(_stubborn_writer, times=3)
        made = 0
        for _ in range(5):
            load.wait_for_progress(15)
            tl.delete_topic("t")
            tl.create_topic("t", partitions=2)
            made = load.recorder.tick()
        load.wait_for_progress(30)
        history = load.finish()
    print(history.summary())
    later = [event for event in history.events if isinstance(event, Publish) and event.invoked > made]
    assert later
    assert_clean(History([*later], history.final), [CHECKS["lost-write"], CHECKS["gap"], CHECKS["duplicate"]])


def test_a_held_snapshot_stops_nobody_and_sees_its_own_log_or_an_error(db_url: str, seed: int) -> None:
    """A session that holds an old snapshot does not stop writers, readers, rolls or retention; what it reads itself is
    the log as it was then, or a serialization failure, never less."""
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as holder:
        topic = tl.create_topic("t", settings=TopicSettings(retention_bytes=0, segment_bytes=65536))
        with running(db_url, "t", seed, partitions=1) as load:
            old = [Message(b"old %d" % number) for number in range(10)]
            publish(load, tl, "old", old)
            holder.execute("begin isolation level repeatable read")
            holder.execute("select 1")
            load.start(client_writer, times=2)
            load.start(reader)
            load.wait_for_progress(60)
            tl.retention_run("t")
            assert_clean(load.finish())
        statement = "select payloads from trunkline.log_read(%s, 0, 1, 1, 100000)"
        try:
            rows = holder.execute(statement, [topic.topic_id]).fetchall()
        except psycopg.errors.SerializationFailure:
            return
        assert rows == [([message.body for message in old],)]
