"""What every test stands on: one real server for the run, and a fresh database with the schema for each test."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.conftest_acceptance import pytest_terminal_summary as pytest_terminal_summary
from tests.conftest_async import pytest_pyfunc_call as pytest_pyfunc_call
from tests.conftest_place import server_folder as server_folder
from tests.conftest_pooler import database_url as database_url
from tests.conftest_pooler import direct_url as direct_url
from tests.conftest_pooler import narrow_pooler as narrow_pooler
from tests.conftest_pooler import pgbouncer_program as pgbouncer_program
from tests.conftest_pooler import pooled_url as pooled_url
from tests.conftest_pooler import pooler as pooler
from tests.conftest_pooler import pytest_addoption as pytest_addoption
from tests.conftest_pooler import pytest_collection_modifyitems as pytest_collection_modifyitems
from tests.conftest_pooler import through_pooler as through_pooler
from tests.conftest_pooler import unprepared as unprepared
from tests.conftest_workers import pytest_report_to_serializable as pytest_report_to_serializable
from tests.conftest_workers import pytest_xdist_auto_num_workers as pytest_xdist_auto_num_workers
from tests.conftest_workers import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from trunkline.client.install import install
from trunkline.server import Server, start

TEMPLATE = "trunkline_template"
SETTINGS = {"min_wal_size": "80MB", "max_wal_size": "256MB"}
"""The log of a server whose data may lie in memory stays small."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    """Spark's Javas, whoever starts them, compile at once and without optimising: none of them lives for long."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
            if name not in os.environ:
                patch.setenv(name, QUICK_JAVA)
        yield


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> None:
    """Started in the background of a script, this process ignores Ctrl-C, and so would every process of a test."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def server(server_folder: Path) -> Iterator[Server]:
    """The server that tests share. A test that stops or kills one starts its own."""
    running = start(server_folder / "data", settings=SETTINGS)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """A database with the schema installed, to be copied: copying takes a tenth of installing."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
    install(server.database_url(TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def database_names() -> Iterator[str]:
    return (f"test_{number}" for number in count(1))


@pytest.fixture
def make_database(
    server: Server, template: str, database_names: Iterator[str], database_url: Callable[[str], str]
) -> Iterator[Callable[[], str]]:
    """Makes databases with the schema installed; gone after the test."""
    made: list[str] = []

    def make() -> str:
        name = next(database_names)
        with psycopg.connect(server.url, autocommit=True) as connection:
            # File by file, as before version 15: for a database that lies in memory that takes half the time.
            how = " strategy file_copy" if connection.info.server_version >= 150_000 else ""
            statement = sql.SQL("create database {} template {}" + how)
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        made.append(name)
        return database_url(name)

    yield make
    with psycopg.connect(server.url, autocommit=True) as connection:
        for name in made:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def db_url(make_database: Callable[[], str]) -> str:
    """A database of the test's own with the schema installed."""
    return make_database()


@pytest.fixture
def still_server(server: Server) -> Iterator[None]:
    """The shared server without autovacuum, which takes transaction ids when it likes."""
    workers = "select count(*) from pg_stat_activity where backend_type = 'autovacuum worker'"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("alter system set autovacuum = off")
        connection.execute("select pg_reload_conf()")
        while connection.execute(workers).fetchone() != (0,):
            pass
        yield
        connection.execute("alter system reset autovacuum")
        connection.execute("select pg_reload_conf()")
