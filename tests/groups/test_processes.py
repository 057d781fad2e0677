"""Groups of real processes that are killed, stopped, resumed and started at random; what they wrote down is judged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.checker.group_invariants import assert_group_clean
from tests.groups.fleet import Fleet, fleet, publishing

ROUNDS = [pytest.param(8, id="short"), pytest.param(150, id="long", marks=pytest.mark.chaos)]
PARTITIONS = 3


def _disturb(group: Fleet, chance: random.Random, *, is_loop: bool) -> str:
    """Do something to one of the processes. At least one is left that works, and there are never more than four."""
    working = group.working
    stopped = [process for process in group.living if process.is_stopped]
    able = ["start"] if len(group.living) < 4 else []
    able += ["resume", "resume", "kill the stopped"] if stopped else []
    able += ["kill", "stop", "stop"] if len(working) > 1 else []
    action = chance.choice(able)
    match action:
        case "start":
            group.start(is_loop=is_loop and chance.random() < 0.5)
        case "resume":
            chance.choice(stopped).resume()
        case "kill the stopped":
            chance.choice(stopped).kill()
        case "kill":
            chance.choice(working).kill()
        case "stop":
            chance.choice(working).stop()
    return action


def _chaos(group: Fleet, chance: random.Random, rounds: int, *, is_loop: bool = False) -> None:
    """Disturb the group so many times, each time after it has gone on a bit; then let it read to the end."""
    for process in [group.start_soon(is_loop=is_loop) for _ in range(3)]:
        process.wait_for("begun")
    for _ in range(rounds):
        group.wait_for_progress(chance.randint(1, 30))
        print(_disturb(group, chance, is_loop=is_loop), end=", ")
    for process in group.living:
        process.resume()


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("style", ["poll", "loop"])
def test_S0_10_at_least_once_nothing_is_lost_and_only_the_uncommitted_comes_again(
    db_url: str, tmp_path: Path, seed: int, style: str, rounds: int
) -> None:
    """Processes that poll and commit, or iterate, are killed (SIGKILL), stopped and resumed while records are
    published. Every record reaches the group in order; what comes again was not committed; a commit of one who has
    lost its partition is refused."""
    with fleet(db_url, tmp_path, seed, partitions=PARTITIONS) as group:
        with publishing(db_url, seed, partitions=PARTITIONS):
            _chaos(group, random.Random(seed), rounds, is_loop=style == "loop")
        group.read_to_the_end()
        assert_group_clean(group.history())


@pytest.mark.parametrize("rounds", ROUNDS)
def test_at_most_once_no_record_is_handed_out_twice(db_url: str, tmp_path: Path, seed: int, rounds: int) -> None:
    """As before, with processes that share the cursors: ranges never overlap and leave nothing out, but for what a
    process was killed with."""
    with fleet(db_url, tmp_path, seed, delivery="at_most_once", partitions=PARTITIONS) as group:
        with publishing(db_url, seed, partitions=PARTITIONS):
            _chaos(group, random.Random(seed), rounds)
        group.read_to_the_end()
        assert_group_clean(group.history())


@pytest.mark.parametrize("rounds", ROUNDS)
def test_exactly_once_every_record_has_one_effect(db_url: str, tmp_path: Path, seed: int, rounds: int) -> None:
    """As before, with effects in the transaction that moves the cursor, and applications that fail now and then:
    every record has its effect once, in a table that would take it twice."""
    with fleet(db_url, tmp_path, seed, delivery="exactly_once", partitions=PARTITIONS) as group:
        with publishing(db_url, seed, partitions=PARTITIONS):
            _chaos(group, random.Random(seed), rounds)
        group.read_to_the_end()
        history = group.history()
        assert_group_clean(history)
        assert len(history.effects) == len(set(history.effects)) == sum(end - 1 for end in history.ends.values())
