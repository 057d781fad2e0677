"""Fixtures for pytest, there as soon as the package is installed beside it.

    def test_orders_are_sent(trunkline_memory):
        trunkline_memory.create_topic("orders")
        ...                                       # trunkline.open_topic("memory://orders")

    def test_orders_are_stored(trunkline_embedded):
        with trunkline.connect(trunkline_embedded) as tl: ...

Nothing is started, and nothing of the package is imported, before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trunkline.drivers.memory.broker import MemoryBroker

TEMPLATE = "trunkline_embedded_template"


@pytest.fixture
def trunkline_memory() -> Iterator[MemoryBroker]:
    """An empty memory broker, which ``memory://`` URLs without a ``broker`` parameter mean. Its clock is the test's."""
    from trunkline.drivers.memory.broker import MemoryBroker

    with MemoryBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def trunkline_embedded_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    """Makes databases with the schema installed, on an embedded server of this run; their URLs."""
    import psycopg
    from psycopg import sql

    from trunkline.client.install import install
    from trunkline.server import start

    server = start(tmp_path_factory.mktemp("trunkline") / "data")
    numbers = count(1)

    def make() -> str:
        name = f"trunkline_embedded_{next(numbers)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            # A copy takes a tenth of the time of an installation.
            statement = sql.SQL("create database {} template {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
        return server.database_url(name)

    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(TEMPLATE)))
        install(server.database_url(TEMPLATE))
        yield make
    finally:
        server.stop()


@pytest.fixture
def trunkline_embedded(trunkline_embedded_databases: Callable[[], str]) -> str:
    """The URL of a database of the test's own, with the schema installed, on a Postgres that this run has started."""
    return trunkline_embedded_databases()
