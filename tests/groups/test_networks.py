"""Networks that go dark, servers that are restarted, processes that fork: under consumers."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trunkline
from tests.checker.group_invariants import assert_group_clean
from tests.concurrency.conftest import StartServer
from tests.concurrency.proxy import Fault, Proxy, between
from tests.concurrency.sessions import own_time, wait_until
from tests.groups.fleet import ROOT, fleet, publishing
from tests.groups.scene import (
    DOORBELLS,
    QUICK,
    Admin,
    catch_up,
    effects,
    read,
    remove_members,
    write,
)
from trunkline import ClientSettings
from trunkline.errors import DeadlineExceeded, OutcomeUnknown
from trunkline.settings import Delivery

DARK = ClientSettings(heartbeat_s=0.1, session_timeout_s=2, deadline_s=2.0, connect_timeout_s=2.0)
GUARD_S = 30.0
"""No delivery may come later. A guard against hanging, and not a measurement."""


@pytest.fixture
def pooled(db_url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy that clients take for a pooler, and the URL through it."""
    with between(db_url) as found:
        yield found


def _in_the_dark(call: Callable[[], object]) -> None:
    """It ends with a typed error within its deadline and a second."""
    with own_time() as took:
        with pytest.raises((DeadlineExceeded, OutcomeUnknown)):
            call()
        assert took() < DARK.deadline_s + 1


@pytest.mark.parametrize("mode", ["proxied", "pooled"])
def test_a_black_holed_consumer_gets_an_error_in_time_and_reads_on_when_the_network_is_back(
    db_url: str, admin: Admin, request: pytest.FixtureRequest, mode: str
) -> None:
    """Nothing comes back from the server any more, not even an end: polling, committing, seeking and asking end with a
    typed error within deadline + 1 s. When the network is back, so is the group, and nothing was lost."""
    proxy, url = request.getfixturevalue(mode)
    with trunkline.connect(url, settings=DARK) as tl, tl.consumer("t", group="g") as consumer:
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        proxy.darken()
        for call in (consumer.commit, consumer.poll, consumer.lag, lambda: consumer.seek("t", 0, "start")):
            _in_the_dark(call)
        proxy.darken(dark=False)
        with trunkline.connect(db_url) as other:
            other.publish("t", b"6")
        catch_up(tl, consumer)


def test_a_transaction_that_ends_in_the_dark_is_not_done_twice(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """The COMMIT was executed, its answer never comes, and nothing else is answered either: OutcomeUnknown, in time.
    When the network is back, the group goes on after it."""
    proxy, url = proxied
    with (
        trunkline.connect(url, settings=DARK, doorbell_url=db_url) as tl,
        tl.consumer("t", group="g", delivery="exactly_once") as consumer,
    ):
        proxy.after_answer = proxy.darken
        _in_the_dark(lambda: write(consumer, lambda: proxy.arm(Fault.REPLY_LOST)))
        proxy.darken(dark=False)
        with trunkline.connect(db_url) as other:
            other.publish("t", b"6")
        assert write(consumer) == [6]
        assert effects(admin) == [1, 2, 3, 4, 5, 6]


def test_a_commit_that_hangs_behind_a_pooler_does_not_keep_the_partition(
    db_url: str, admin: Admin, pooled: tuple[Proxy, str]
) -> None:
    """Behind a pooler a commit is a transaction of several statements. Its COMMIT never arrives, and neither side
    learns of it; the server ends the transaction, and another member takes over.

    Nothing but this commit goes through the proxy: no beat of a member can take what is meant for it."""
    proxy, url = pooled
    with (
        trunkline.connect(db_url, settings=QUICK) as tl,
        trunkline.connect(db_url, settings=QUICK) as other,
        trunkline.connect(url, settings=QUICK) as hung,
        tl.consumer("t", group="g") as consumer,
    ):
        assert read(consumer, 5) == [1, 2, 3, 4, 5]
        remove_members(admin)
        statement = "select trunkline.lock_cursors(array(select cursor_id from trunkline.group_cursor))"
        with hung._pool.connection(time.monotonic() + 60) as connection:
            proxy.arm(Fault.HELD)
            connection.deadline = time.monotonic() + 1
            with pytest.raises(DeadlineExceeded):
                connection.call(statement)
        with other.consumer("t", group="g") as heir:
            assert read(heir, 5) == [1, 2, 3, 4, 5]


# -- the listening connection --


def test_S0_14_a_listening_connection_that_dies_silently_delays_nothing_for_long(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """What lies between has forgotten the connection: neither rings nor answers come, nor an end. It is noticed, and
    replaced, and what was published meanwhile is found."""
    proxy, url = proxied
    with (
        trunkline.connect(db_url, settings=QUICK, doorbell_url=url) as tl,
        tl.consumer("t", group="g") as consumer,
        trunkline.connect(db_url) as other,
    ):
        read(consumer, 5)
        for number in range(6, 9):
            proxy.fall_silent()
            begun = time.monotonic()
            other.publish("t", b"%d" % number)
            assert number in read(consumer, 1)
            assert time.monotonic() - begun < GUARD_S


def test_S0_14_a_consumer_whose_listening_connection_does_not_come_back_polls(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """The way of the listening connection is dark and stays so, while the database can be reached."""
    proxy, url = proxied
    with (
        trunkline.connect(db_url, settings=QUICK, doorbell_url=url) as tl,
        tl.consumer("t", group="g") as consumer,
        trunkline.connect(db_url) as other,
    ):
        read(consumer, 5)
        proxy.darken()
        wait_until(lambda: not tl._watch.is_alive, "the watch has noticed")
        for number in range(6, 9):
            begun = time.monotonic()
            other.publish("t", b"%d" % number)
            assert read(consumer, 1) == [number]
            assert time.monotonic() - begun < GUARD_S
        consumer.commit()
        proxy.darken(dark=False)
        wait_until(lambda: tl._watch.is_alive, "it is back")


def test_a_member_that_was_removed_while_its_session_is_away_waits_for_it(
    db_url: str, admin: Admin, proxied: tuple[Proxy, str]
) -> None:
    """It knows that it was removed, and its listening session is gone: whatever it joined as would be dead at once. It
    joins once, when the session is back."""
    proxy, url = proxied
    with (
        trunkline.connect(db_url, settings=QUICK, doorbell_url=url) as tl,
        tl.consumer("t", group="g") as consumer,
    ):
        assert consumer._seat is not None
        read(consumer, 5)
        remove_members(admin)
        wait_until(lambda: consumer._seat is not None and consumer._seat.has_news, "the watch has seen it")
        proxy.darken()
        wait_until(lambda: not tl._watch.is_alive and not admin.execute(DOORBELLS).fetchall(), "the session is gone")
        assert consumer.poll(wait_s=0.5) == []
        assert admin.execute("select count(*) from trunkline.group_member").fetchone() == (0,)
        proxy.darken(dark=False)
        assert read(consumer, 5) == [1, 2, 3, 4, 5]


# -- servers and processes --


@pytest.mark.parametrize("restarts", [1, pytest.param(20, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once", "exactly_once"])
def test_a_server_that_is_restarted_under_a_group_loses_and_doubles_nothing(
    start_server: StartServer, tmp_path: Path, seed: int, delivery: Delivery, restarts: int
) -> None:
    """Killed or stopped, and started again, while records are published and three processes read."""
    chance = random.Random(seed)
    server = start_server()
    with fleet(server.url, tmp_path, seed, delivery=delivery) as group:
        for process in [group.start_soon() for _ in range(3)]:
            process.wait_for("begun")
        with publishing(server.url, seed, partitions=3):
            for _ in range(restarts):
                group.wait_for_progress(chance.randint(5, 40))
                if chance.random() < 0.5:
                    server.kill()
                server.restart()
            group.wait_for_progress(10)
        group.read_to_the_end()
        assert_group_clean(group.history())


FORK = """
import os, sys, trunkline
from trunkline.errors import Closed

tl = trunkline.connect(sys.argv[1])
tl.create_topic("t")
tl.publish("t", b"1")
consumer = tl.consumer("t", group="g", create=True)
assert len(consumer.poll(wait_s=30)) == 1
child = os.fork()
wakers = (tl._watch._waker, tl._ringer._waker)
if child == 0:
    refused = 0
    before = [waker._woken for waker in wakers]
    for call in (consumer.poll, consumer.commit, lambda: next(iter(consumer)), consumer.close, lambda: tl.ring("t")):
        try:
            call()
        except Closed:
            refused += 1
    tl.close()
    # A wake would go through the socket that the child shares with the parent's thread.
    os._exit(refused if [waker._woken for waker in wakers] == before else 99)
_, status = os.waitpid(child, 0)
consumer.commit()
tl.publish("t", b"2")
assert len(consumer.poll(wait_s=30)) == 1
consumer.close()
tl.close()
print(os.waitstatus_to_exitcode(status))
"""


def test_a_consumer_is_refused_in_a_forked_child_which_leaves_the_parents_alone(db_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, db_url], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "5\n", done.stderr
