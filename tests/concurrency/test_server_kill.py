"""kill -9 of the server under load. Idempotent writers go on through it; the checker finds nothing lost, doubled,
missing or changed."""

from __future__ import annotations

import random

import pytest

import trunkline
from tests.checker.history import Outcome
from tests.checker.invariants import assert_clean
from tests.concurrency.conftest import StartServer
from tests.concurrency.workload import Load, client_writer, reader, running
from trunkline.errors import OutcomeUnknown, Unavailable
from trunkline.settings import ClientSettings, TopicSettings

PATIENT = ClientSettings(deadline_s=90, connect_timeout_s=5)


def _patient_writer(load: Load, name: str, chance: random.Random) -> None:
    with trunkline.connect(load.url, settings=PATIENT) as tl:
        client_writer(load, name, chance, tl=tl)


def _roller(load: Load, name: str, chance: random.Random) -> None:
    """Rolls, seals and drops through all of it, so that crashes fall into these too."""
    with trunkline.connect(load.url, settings=PATIENT) as tl:
        while not load.stopped.wait(0.05):
            try:
                tl.retention_run(load.topic)
            except (Unavailable, OutcomeUnknown):
                continue


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.chaos)])
def test_kill_of_the_server_under_load_loses_and_doubles_nothing(
    start_server: StartServer, seed: int, kills: int
) -> None:
    """Four writers and two readers; the server and all its children are killed with SIGKILL in the middle of it, and
    started again. Every publish that was acknowledged before or after is there once, at its offset, for every reader;
    no writer gets an error or an unknown outcome, because there is time to find out."""
    chance = random.Random(seed)
    server = start_server()
    with trunkline.connect(server.url) as tl:
        small = TopicSettings(segment_bytes=65536)
        tl.create_topic("t", partitions=3, settings=small)
    with running(server.url, "t", seed, partitions=3) as load:
        load.start(_patient_writer, times=4)
        load.start(reader, times=2)
        load.start(_roller)
        for _ in range(kills):
            load.wait_for_progress(chance.randint(20, 200))
            url = server.url
            server.kill()
            load.recorder.crashed("server")
            server.restart()
            assert server.url == url
        load.wait_for_progress(50)
        history = load.finish()
    assert_clean(history)
    assert sum(1 for _ in history.crashes()) == kills
    outcomes: set[Outcome] = {publish.outcome for publish in history.publishes()}
    assert outcomes == {"acknowledged"}
