"""The doorbell: who waits is woken, rings are gathered, and whoever ends the session that listens delays nothing for
long."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial

import psycopg
import pytest

import trunkline
from tests.concurrency.sessions import wait_until
from tests.groups.fleet import shown
from tests.groups.scene import DOORBELLS, Admin, read
from trunkline import ClientSettings
from trunkline.client.aio.doorbell import RING_INTERVAL_S
from trunkline.client.sync.consumer import Consumer
from trunkline.errors import Fenced

NEVER_POLLS = ClientSettings(poll_max_s=3600)
DEFAULT_POLL_S = ClientSettings().poll_max_s
GUARD_S = max(30.0, 30 * DEFAULT_POLL_S)
"""No delivery may come later. A guard against hanging, and not a measurement."""


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
