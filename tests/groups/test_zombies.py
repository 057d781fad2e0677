"""Processes that are stopped long enough to be taken for dead, and go on: whatever they commit then is refused."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

import trunkline
from tests.checker.group_invariants import assert_group_clean
from tests.concurrency.sessions import wait_until
from tests.groups.fleet import WAIT_S, Fleet, Process, fleet, shown

ZOMBIES = [pytest.param(10, id="short"), pytest.param(200, id="long", marks=pytest.mark.chaos)]


def _publish(url: str, count: int = 3) -> None:
    with trunkline.connect(url) as tl:
        tl.publish_many("t", [b"x"] * count)


def _wait_or_get(heir: Process, waits: int, handed: int) -> None:
    """Return once the heir has waited in vain. A process that is so slow that it is taken for dead before it is stopped
    loses what it has, and then the heir never waits."""
    wait_until(
        lambda: len(heir.notes("waiting")) > waits or len(heir.notes("handed")) > handed, "it waits", deadline_s=WAIT_S
    )


def _commit_late(zombie: Process, heir: Process) -> float:
    """The zombie has records in hand. It is stopped until the heir has got the same ones, and then commits at once,
    before anything tells it what has happened. Returns how long the heir had to wait for them."""
    had = zombie.ask("poll", "handed")
    heirs, answers = len(heir.notes("handed")), len(zombie.notes("commit"))
    waits = len(heir.notes("waiting"))
    heir.tell("poll")
    _wait_or_get(heir, waits, heirs)
    zombie.stop()
    stopped_at = time.monotonic_ns()
    got = heir.wait_for("handed", heirs + 1)
    zombie.tell("commit")
    zombie.resume()
    assert zombie.wait_for("commit", answers + 1)["answer"] == "refused"
    assert [place[3:] for place in got["ranges"]] == [place[3:] for place in had["ranges"]], "again, and in order"
    return float((got["at"] - stopped_at) / 1e9)


@pytest.mark.parametrize("zombies", ZOMBIES)
def test_S4_10_every_late_commit_of_a_stopped_process_is_refused(
    db_url: str, tmp_path: Path, seed: int, zombies: int
) -> None:
    """Two processes share one partition: one works, the other stands by. The one that works is stopped, the other
    takes over and gets what was not committed; the first goes on and commits: refused, nothing written. Then the roles
    change."""
    took: list[float] = []
    with fleet(db_url, tmp_path, seed, partitions=1) as group:
        zombie, heir = group.start(is_told=True), group.start(is_told=True)
        for _ in range(zombies):
            _publish(db_url)
            took.append(_commit_late(zombie, heir))
            while heir.ask("commit", "commit")["answer"] != "acknowledged":
                heir.ask("poll", "handed")
            zombie, heir = heir, zombie
        group.end()
        history = group.history()
        print(f"taken over after SIGSTOP, session_timeout_s = {zombie.task.session_timeout_s}: {shown(took)}")
        assert_group_clean(history)
        assert sum(commit.answer == "refused" for commit in history.commits) >= zombies


@pytest.mark.parametrize("kills", [pytest.param(2, id="short"), pytest.param(50, id="long", marks=pytest.mark.chaos)])
def test_S0_10_what_a_killed_process_had_not_committed_comes_again_in_order(
    db_url: str, tmp_path: Path, seed: int, kills: int
) -> None:
    """The process that works is killed between its poll and its commit, or its handler calls os._exit; the one that
    stands by gets the same records, without waiting for a time-out: the server knows that the session has ended."""
    took: list[float] = []
    with fleet(db_url, tmp_path, seed, partitions=1) as group:
        worker = group.start(is_told=True)
        for number in range(kills):
            _publish(db_url)
            if not worker.notes("handed"):
                worker.ask("poll", "handed")
            heir = group.start(is_told=True)
            heir.tell("poll")
            _wait_or_get(heir, 0, 0)
            if number % 2:
                worker.tell("exit")
            else:
                worker.kill()
            killed_at = time.monotonic_ns()
            got = heir.wait_for("handed")
            took.append((got["at"] - killed_at) / 1e9)
            assert [place[3] for place in got["ranges"]] == [1], "from the first that was not committed"
            worker = heir
        assert worker.ask("commit", "commit")["answer"] == "acknowledged"
        group.end()
        print(f"taken over after SIGKILL: {shown(took)}")
        assert_group_clean(group.history())


@pytest.mark.parametrize("zombies", [pytest.param(3, id="short"), pytest.param(50, id="long", marks=pytest.mark.chaos)])
def test_a_transaction_that_is_stopped_blocks_nobody_and_leaves_no_effect(
    db_url: str, tmp_path: Path, seed: int, zombies: int
) -> None:
    """A process is stopped inside its transaction, after it has written effects that no other may write too. The server
    ends the transaction, the other process writes them, and the first one's end of the block is refused."""
    with fleet(db_url, tmp_path, seed, delivery="exactly_once", partitions=1) as group:
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute('create unique index on public.effect (partition, "offset")')
        zombie, heir = group.start(is_told=True), group.start(is_told=True)
        for number in range(zombies):
            _publish(db_url)
            if number == 0:
                zombie.ask("poll", "written")
            _stop_inside(group, zombie, heir)
            zombie, heir = heir, zombie
        while zombie.ask("go on", "commit")["answer"] != "acknowledged":
            # The server gives it up as well, where it is slow.
            zombie.ask("poll", "written")
        group.end()
        history = group.history()
        assert_group_clean(history)
        assert len(history.effects) == 3 * zombies


def _stop_inside(group: Fleet, zombie: Process, heir: Process) -> None:
    written, answers = len(heir.notes("written")), len(zombie.notes("commit"))
    heir.tell("poll")
    zombie.stop()
    heir.wait_for("written", written + 1)
    zombie.tell("go on")
    zombie.resume()
    assert zombie.wait_for("commit", answers + 1)["answer"] == "refused"
