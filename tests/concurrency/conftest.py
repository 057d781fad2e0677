"""Sessions on the test's own database, servers that may be killed, seeds that are printed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping

import psycopg
import pytest

from tests.concurrency.sessions import Sessions, opened
from trunkline.client.install import install
from trunkline.server import Server, start

StartServer = Callable[..., Server]


@pytest.fixture
def sessions(db_url: str) -> Iterator[Sessions]:
    """Opens sessions that can be left waiting."""
    with opened(db_url) as made:
        yield made


@pytest.fixture
def topic_id(db_url: str) -> int:
    """The id of a topic ``t`` with two partitions."""
    with psycopg.connect(db_url, autocommit=True) as connection:
        row = connection.execute("select trunkline.topic_create('t', 2)").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers of the test's own, with the schema installed: it may kill them."""
    started: list[Server] = []

    def begin(settings: Mapping[str, str] | None = None) -> Server:
        server = start(tmp_path_factory.mktemp("own") / "data", settings=settings)
        started.append(server)
        install(server.url)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def seed() -> int:
    """What all of a test's chance comes from. Printed; TRUNKLINE_SEED repeats a run."""
    chosen = int(os.environ.get("TRUNKLINE_SEED") or random.randrange(2**32))
    print(f"TRUNKLINE_SEED={chosen}")
    return chosen
