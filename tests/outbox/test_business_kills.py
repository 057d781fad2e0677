"""Business transactions under SIGKILL, of applications and of the server: a row is there if and only if its events
are, once, in commit order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.checker.outbox_invariants import assert_outbox_clean
from tests.concurrency.conftest import StartServer
from tests.outbox.applications import applications

PROCESSES = 3
PARTITIONS = 3


@pytest.mark.parametrize(
    ("transactions", "kills"),
    [pytest.param(2_000, 5, id="short"), pytest.param(20_000, 60, id="long", marks=pytest.mark.chaos)],
)
def test_the_row_exists_if_and_only_if_its_event_does_whoever_is_killed(
    start_server: StartServer, tmp_path: Path, seed: int, transactions: int, kills: int
) -> None:
    """Several processes insert rows and publish their events. Now one of them is killed, now the server with all its
    children; whoever lost the answer to its COMMIT looks its row up. The rows of keys are locked by who changes them,
    so that the order of commits is known, and the events must stand in it."""
    chance = random.Random(seed)
    server = start_server()
    with applications(server.url, tmp_path, seed, partitions=PARTITIONS) as business:
        for _ in range(PROCESSES):
            business.start()
        moments = sorted(chance.randrange(50, transactions) for _ in range(kills))
        for number, moment in enumerate(moments):
            business.wait_for(moment)
            if number % 3 == 1:
                server.kill()
                server.restart()
            else:
                chance.choice(business.living).kill()
                business.start()
        business.wait_for(transactions)
        business.end()
        print(business.cuts())
        history = business.history()
    assert_outbox_clean(history)
    assert len(history.rows) > transactions * 0.8
