"""Sessions on the test's own database, servers that may be killed, seeds that are printed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping

import psycopg
import pytest
from psycopg import sql

from tests.concurrency.sessions import Sessions, opened
from trunkline.client.install import install
from trunkline.server import Server, start
from trunkline.sql import script

StartServer = Callable[..., Server]

OTHERS = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> %s"
EMPTY = (
    "select trunkline.group_delete(name, cut_off => true) from trunkline.reader_group",
    "delete from trunkline.session_beat",
    "select trunkline.topic_delete(name) from trunkline.topic",
    "select trunkline.segment_drop(segment_id) from trunkline.segment",
    script.functions()["clock_now"].replace("create function", "create or replace function"),
)


@pytest.fixture(scope="module")
def module_url(server: Server, template: str, database_names: Iterator[str]) -> Iterator[str]:
    """A database for the tests of one file."""
    name = next(database_names)
    with psycopg.connect(server.url, autocommit=True) as connection:
        statement = sql.SQL("create database {} template {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        yield server.database_url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def db_url(module_url: str) -> Iterator[str]:
    """The file's database, without topics and groups. Emptying takes a tenth of making, and here are many tests."""
    yield module_url
    with psycopg.connect(module_url, autocommit=True) as connection:
        connection.execute(OTHERS, [connection.info.backend_pid])
        for statement in EMPTY:
            connection.execute(statement)


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
