"""The doorbell: who waits is woken, rings are gathered, and whoever ends the session that listens delays nothing for
long."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial

import psycopg
import pytest

import trunkline
from tests.aio.shim import wait_until as until
from tests.concurrency.sessions import wait_until
from tests.groups.fleet import shown
from tests.groups.scene import DOORBELLS, Admin, read
from trunkline import ClientSettings, TopicSettings
from trunkline.client.aio.doorbell import RING_INTERVAL_S, RING_PAUSE_MAX_S, RING_SHARE
from trunkline.client.aio.doorbell import Ringer as AsyncRinger
from trunkline.client.sync import watch
from trunkline.client.sync.consumer import Consumer
from trunkline.client.sync.doorbell import Ringer
from trunkline.errors import Fenced

NEVER_POLLS = ClientSettings(poll_max_s=3600)
DEFAULT_POLL_S = ClientSettings().poll_max_s
GUARD_S = max(30.0, 30 * DEFAULT_POLL_S)
"""No delivery may come later. A guard against hanging, and not a measurement."""


@pytest.fixture(autouse=True)
def patient_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that a busy machine delays is not given up. Where nobody polls, nothing else would wake its readers."""
    monkeypatch.setattr("trunkline.client.sync.doorbell.RING_WAIT_S", GUARD_S)


def test_S4_07_an_idle_consumer_is_woken_by_a_ring(db_url: str, admin: Admin) -> None:
    """It would not look by itself for an hour."""
    with (
        trunkline.connect(db_url, settings=NEVER_POLLS) as tl,
        tl.consumer("t", group="g") as consumer,
        trunkline.connect(db_url) as other,
    ):
        read(consumer, 5)
        woken: list[int] = []
        for number in range(6, 9):
            waiting = threading.Thread(target=lambda: woken.extend(read(consumer, 1)))
            waiting.start()
            wait_until(lambda: consumer._seat is not None and consumer._seat.awaited, "it waits")
            other.publish("t", b"%d" % number)
            waiting.join(GUARD_S)
            assert woken[-1:] == [number]


def test_S4_07_where_rings_are_dropped_the_poll_interval_is_the_bound(db_url: str, admin: Admin) -> None:
    """The publisher does not ring; the consumer listens in vain, and looks by itself."""
    settings = ClientSettings(poll_max_s=0.2)
    with (
        trunkline.connect(db_url, settings=settings) as tl,
        tl.consumer("t", group="g") as consumer,
        trunkline.connect(db_url, settings=ClientSettings(ring=False)) as other,
    ):
        read(consumer, 5)
        for number in range(6, 9):
            begun = time.monotonic()
            other.publish("t", b"%d" % number)
            assert read(consumer, 1) == [number]
            assert time.monotonic() - begun < GUARD_S


def test_S4_08_rings_are_gathered(db_url: str, admin: Admin) -> None:
    """However fast records are published, there is no more than one ring in five milliseconds; and there is one."""
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as listener:
        listener.execute(f"listen trunkline_t{tl.topic('t').topic_id}".encode())
        begun = time.monotonic()
        for _ in range(300):
            tl.publish("t", b"x")
        tl.close()
        took = time.monotonic() - begun
        heard = len(list(listener.notifies(timeout=GUARD_S, stop_after=1)))
        heard += len(list(listener.notifies(timeout=0)))
    print(f"{heard} rings for 300 publishes in {took:.2f} s")
    assert 1 <= heard <= took / RING_INTERVAL_S + 2


def test_a_member_hears_of_its_own_partitions_alone(db_url: str, admin: Admin) -> None:
    """Goal: a ring wakes the processes that hold its partition, and no others. What a process listens to follows what
    it holds; nobody here polls."""
    with ExitStack() as stack:
        ours = [stack.enter_context(trunkline.connect(db_url, settings=NEVER_POLLS)) for _ in range(2)]
        other = stack.enter_context(trunkline.connect(db_url))
        other.create_topic("two", partitions=2)
        other.create_group("h", "two")
        consumers = [stack.enter_context(tl.consumer("two", group="h")) for tl in ours]

        def listens() -> bool:
            for tl, consumer in zip(ours, consumers, strict=False):
                consumer.poll()
                held = {f"trunkline_t{topic_id}_{partition}" for _, partition in consumer.assignment}
                held |= {f"trunkline_t{topic_id}_all"} if held else set()
                if {each for each in tl._watch._listening if each.startswith("trunkline_t")} != held:
                    return False
            return True

        topic_id = other.topic("two").topic_id
        wait_until(lambda: listens() and {len(each.assignment) for each in consumers} == {1}, "each has its own")
        for consumer in consumers:
            ((_, partition),) = consumer.assignment
            other.publish("two", b"x", partition=partition)
            assert [record.partition for record in consumer.poll(wait_s=GUARD_S)] == [partition]
            consumer.commit()
        gone = consumers.pop()
        gone.close()
        wait_until(lambda: listens() and len(consumers[0].assignment) == 2, "what the other had comes, and is heard of")
        wait_until(lambda: not ours[1]._watch._listening, "who has left hears nothing")


def test_a_ring_for_a_topic_reaches_partitions_that_its_sender_does_not_know(db_url: str) -> None:
    """Goal: who publishes in SQL and rings for the topic wakes the holders of partitions that others have added since
    it looked the topic up. Nobody here polls."""
    with (
        trunkline.connect(db_url) as ringer,
        trunkline.connect(db_url) as other,
        trunkline.connect(db_url, settings=NEVER_POLLS) as tl,
        psycopg.connect(db_url, autocommit=True) as publisher,
    ):
        other.create_topic("two", partitions=1)
        ringer.ring("two")
        added = f"trunkline_t{other.add_partitions('two', 2).topic_id}_1"
        with tl.consumer("two", group="h", create=True) as consumer:
            # Whoever begins to listen looks once more: the first may be found without a ring.
            wait_until(lambda: consumer.poll() == [] and added in tl._watch._listening, "it hears of what was added")
            for number in range(3):
                publisher.execute("select trunkline.log_publish('two', %s, partition => 1)", [f"{number}"])
                ringer.ring("two")
                assert [record.payload for record in consumer.poll(wait_s=GUARD_S)] == [b"%d" % number]


def test_a_ring_for_a_topic_that_was_made_again_reaches_its_readers(db_url: str) -> None:
    """Goal: who rings for a topic by its name wakes the readers of the topic that has it now. Nobody here polls."""
    with (
        trunkline.connect(db_url) as ringer,
        trunkline.connect(db_url) as other,
        trunkline.connect(db_url, settings=NEVER_POLLS) as tl,
        psycopg.connect(db_url, autocommit=True) as publisher,
    ):
        other.create_topic("two")
        ringer.ring("two")
        other.delete_topic("two")
        topic_id = other.create_topic("two", partitions=1).topic_id
        with tl.consumer("two", group="h", create=True) as consumer:
            wait_until(lambda: consumer.poll() == [] and f"trunkline_t{topic_id}_0" in tl._watch._listening, "it hears")
            for number in range(3):
                publisher.execute("select trunkline.log_publish('two', %s)", [f"{number}"])
                ringer.ring("two")
                assert [record.payload for record in consumer.poll(wait_s=GUARD_S)] == [b"%d" % number]
            other.delete_topic("two")
            ringer.ring("two")


def test_a_ring_places_records_of_partitions_that_its_sender_does_not_know(db_url: str) -> None:
    """Goal: with loose_commit_order a ring also places what waits in partitions that others have added."""
    with (
        trunkline.connect(db_url) as ringer,
        trunkline.connect(db_url) as other,
        trunkline.connect(db_url, settings=NEVER_POLLS) as tl,
        psycopg.connect(db_url) as conn,
    ):
        other.create_topic("two", partitions=1, settings=TopicSettings(loose_commit_order=True))
        ringer.ring("two")
        added = f"trunkline_t{other.add_partitions('two', 2).topic_id}_1"
        with tl.consumer("two", group="h", create=True) as consumer:
            wait_until(lambda: consumer.poll() == [] and added in tl._watch._listening, "it hears of what was added")
            for number in range(3):
                other.publish("two", b"%d" % number, partition=1, conn=conn)
                conn.commit()
                ringer.ring("two")
                assert [record.payload for record in consumer.poll(wait_s=GUARD_S)] == [b"%d" % number]


def test_what_is_rung_while_a_ring_is_under_way_is_sent_after_it(db_url: str, admin: Admin) -> None:
    """By a topic's name, and for partitions whose records wait for their place: they have it when the ring is heard.
    Nobody rings again."""
    with (
        trunkline.connect(db_url) as tl,
        psycopg.connect(db_url, autocommit=True) as listening,
        psycopg.connect(db_url) as conn,
    ):
        loose = tl.create_topic("loose", partitions=1, settings=TopicSettings(loose_commit_order=True))
        topic_id = tl.topic("t").topic_id
        listening.execute(f"listen trunkline_t{topic_id}_all")
        listening.execute(f"listen trunkline_t{loose.topic_id}_0")

        def heard(count: int) -> list[str]:
            return [each.channel for each in listening.notifies(timeout=GUARD_S, stop_after=count)]

        def end() -> int:
            ((end,),) = conn.execute('select "end" from trunkline.log_range(%s::int4)', [loose.topic_id])
            conn.commit()
            return int(end)

        tl.ring("t")
        assert heard(1) == [f"trunkline_t{topic_id}_all"]
        before = end()
        ringer = tl._ringer
        for under_way in range(1, 4):
            conn.execute("select trunkline.log_publish('loose', 'x')")
            conn.commit()
            conn.execute("lock table trunkline.topic in access exclusive mode")
            tl.ring("t")
            wait_until(lambda: not ringer._pending and not ringer._may_send, "the first is under way")
            tl.ring("t")
            ringer.ring_topic(loose.topic_id, [0], loose.partition_ids)
            conn.commit()
            assert heard(3) == [f"trunkline_t{topic_id}_all"] * 2 + [f"trunkline_t{loose.topic_id}_0"]
            assert end() == before + under_way


def test_a_ring_for_another_partition_wakes_nobody() -> None:
    """It is noted all the same: the partition may be the reader's by the time that it looks."""
    seat = watch.Seat()
    waiting = threading.Thread(target=seat.wait, args=({1: 5}, GUARD_S))
    waiting.start()
    wait_until(lambda: seat.awaited, "it waits")
    waiter = seat._waiter
    assert waiter is not None
    seat.hint([2])
    woken = [waiter.given]
    seat.hint([1])
    waiting.join(GUARD_S)
    assert [*woken, waiter.given] == [None, True]
    assert seat.take_hints() == {1, 2}


def test_a_hint_from_before_the_wait_ends_it_if_it_is_awaited() -> None:
    seat = watch.Seat()
    seat.hint([1, 2])
    seat.wait({2: 5}, 3600)
    begun: list[bool] = []
    other = watch.Seat(lambda: begun.append(True))
    other.hint([1])
    other.wait({2: 5}, 0.001)
    assert begun == [True], "what it does not wait for does not end its wait"


def test_who_is_behind_is_not_rung_and_is_again_once_it_waits(
    db_url: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no reader waits the watch hears nothing, here for an hour. A reader that begins to wait ends that, and
    misses neither what was rung before nor what comes after."""
    monkeypatch.setattr(watch, "BUSY_AFTER_S", 0.0)
    monkeypatch.setattr(watch, "DEAF_S", 3600.0)
    with (
        trunkline.connect(db_url, settings=NEVER_POLLS) as tl,
        tl.consumer("t", group="g") as consumer,
        trunkline.connect(db_url) as other,
    ):
        read(consumer, 5)
        for number in range(6, 12, 2):
            other.publish("t", b"before")
            wait_until(lambda: consumer._rooms.watch._deaf, "the watch hears nothing")
            assert read(consumer, 1) == [number]
            woken: list[int] = []
            waiting = threading.Thread(target=lambda found=woken: found.extend(read(consumer, 1)))
            waiting.start()
            wait_until(lambda: consumer._seat is not None and consumer._seat.awaited, "it waits")
            other.publish("t", b"after")
            waiting.join(GUARD_S)
            assert woken == [number + 1]


def test_what_is_rung_beside_a_publishers_own_ring_is_sent_after_it(db_url: str, admin: Admin) -> None:
    """Two publish before the background has looked: the first has sent its ring himself, and one wake stands for both.
    Nobody rings again."""

    async def rung() -> list[str]:
        ringer = AsyncRinger(db_url, ClientSettings())
        async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as listening:
            await listening.execute("listen trunkline_t7")
            ringer.ring_topic(7, [0])
            await until(lambda: ringer._may_send, GUARD_S)
            ringer.ring_topic(7, [1])
            ringer.ring_topic(7, [2])
            heard = [each.payload async for each in listening.notifies(timeout=GUARD_S, stop_after=3)]
        await ringer.close()
        return heard

    assert asyncio.run(rung()) == ["0", "1", "2"]


def test_how_quick_rings_were_before_a_connection_was_lost_says_nothing_about_the_next(
    db_url: str, admin: Admin
) -> None:
    """Goal: after a failover to a server that is further away, rings do not stay rare as if it were a busy one."""
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as killer:
        ringer = tl._ringer

        def ring() -> bool:
            tl.publish("t", b"x")
            return ringer._connection is not None and 1e-6 < ringer._quickest_s < float("inf")

        wait_until(ring, "it has rung")
        ringer._quickest_s = 1e-9
        killer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like '%ringer'"
        )
        wait_until(ring, "it has rung on another connection")


def test_rings_become_rare_where_they_take_longer_than_they_must() -> None:
    """The pause is a multiple of what a ring takes, and grows faster than that on a busy server; neither a server far
    away nor a single slow ring counts as one."""
    ringer = Ringer("", ClientSettings())
    assert ringer._pause_s(0.0004) == RING_INTERVAL_S
    assert ringer._pause_s(0.004) == pytest.approx(RING_SHARE * 0.004)
    assert ringer._pause_s(0.0016) == pytest.approx(RING_SHARE * 0.0016 * 4)
    assert ringer._pause_s(1.0) == ringer._pause_s(1.0) == RING_PAUSE_MAX_S
    assert ringer._pause_s(0.0004) == RING_INTERVAL_S
    far = Ringer("", ClientSettings())
    assert [far._pause_s(0.008) for _ in range(3)] == [pytest.approx(RING_SHARE * 0.008)] * 3


class Traffic:
    """A publisher that numbers its records, consumers that note when each came first, and when it was published."""

    def __init__(self) -> None:
        self.published: dict[int, float] = {}
        self.seen: dict[int, float] = {}
        self.published_all = threading.Event()
        self.ended = threading.Event()
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guard, args=(work,))
        self._threads.append(thread)
        thread.start()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by the test's own thread
            self._failures.append(error)

    def publish(self, url: str, chance: random.Random) -> None:
        number = 0
        with trunkline.connect(url) as tl:
            while not self.published_all.wait(chance.random() * 0.02):
                number += 1
                tl.publish("t", b"%d" % number)
                self.published[number] = time.monotonic()

    def read(self, consumer: Consumer) -> None:
        while not self.ended.is_set():
            for record in consumer.poll(wait_s=1):
                self.seen.setdefault(int(record.payload), time.monotonic())
            with suppress(Fenced):
                consumer.commit()

    def finish(self) -> list[float]:
        """How long each record took, once all have come."""
        self.published_all.set()
        self._threads[0].join()
        wait_until(lambda: self._failures or self.seen.keys() >= self.published.keys(), "every record has come")
        self.ended.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return [self.seen[number] - at for number, at in self.published.items()]


@pytest.mark.parametrize("kills", [pytest.param(10, id="short"), pytest.param(100, id="long", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("members", [1, 2])
def test_S4_08_a_listener_that_is_killed_comes_back_and_catches_up(
    db_url: str, seed: int, kills: int, members: int
) -> None:
    """The server process of a listening session is ended again and again while records are published. Everything is
    delivered, and nothing much later than the poll interval."""
    chance = random.Random(seed)
    traffic = Traffic()
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(db_url, autocommit=True))
        with trunkline.connect(db_url) as tl:
            tl.create_topic("t", partitions=2)
            tl.create_group("g", "t")
        clients = [stack.enter_context(trunkline.connect(db_url)) for _ in range(members)]
        consumers = [stack.enter_context(client.consumer("t", group="g")) for client in clients]
        traffic.start(partial(traffic.publish, db_url, chance))
        for consumer in consumers:
            traffic.start(partial(traffic.read, consumer))
        try:
            for _ in range(kills):
                _kill_one(admin, members, chance)
        finally:
            took = traffic.finish()
    print(f"published to delivered, {kills} kills, {members} members: {shown(took)}")
    assert max(took) < GUARD_S


def _kill_one(admin: Admin, members: int, chance: random.Random) -> None:
    """End one of the listening sessions, soon after all of them are there."""

    def all_there() -> list[int]:
        pids = [pid for (pid,) in admin.execute(DOORBELLS).fetchall()]
        return pids if len(pids) == members else []

    pids = wait_until(all_there, "every client listens")
    threading.Event().wait(chance.random() * 0.05)
    admin.execute("select pg_terminate_backend(%s)", [chance.choice(pids)])
    wait_until(lambda: all_there() not in ([], pids), "it listens again")
