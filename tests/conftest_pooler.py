"""The suite once more, through PgBouncer: `pytest --through-pooler`.

`tests/conftest.py` imports the hooks and the fixtures. With the option `db_url` and everything else that comes from
`database_url` lead through a pooler, and tests that use none of it are left out; databases are still made and dropped
directly. A test that makes no sense there says why: `@pytest.mark.direct("why")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.pooler import pgbouncer, program
from tests.pooler.pgbouncer import Pooler
from trunkline.server import Server

OPTION = "--through-pooler"
REACHED_BY = "database_url"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="reach the tests' databases through PgBouncer")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption(OPTION):
        return
    chosen = [item for item in items if isinstance(item, pytest.Function) and REACHED_BY in item.fixturenames]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    for item in items:
        marker = item.get_closest_marker("direct")
        if marker is not None:
            (why,) = marker.args
            item.add_marker(pytest.mark.skip(reason=f"not through a pooler: {why}"))


@pytest.fixture(scope="session")
def through_pooler(pytestconfig: pytest.Config) -> bool:
    """Whether `db_url` leads through a pooler."""
    return bool(pytestconfig.getoption(OPTION))


@pytest.fixture(scope="session", autouse=True)
def unprepared(through_pooler: bool) -> Iterator[None]:
    """Connections of the tests' own prepare nothing, as whoever goes through a PgBouncer before 1.21 has to see to: its
    next transaction may find a session without it. The client has a class of its own, which looks after itself."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (psycopg.Connection, psycopg.AsyncConnection) if through_pooler else ():
            patch.setattr(kind, "connect", classmethod(_unprepared(kind)))
        patch.setattr(psycopg, "connect", psycopg.Connection.connect)
        yield


def _unprepared(kind: Any) -> Callable[..., Any]:
    connect = kind.connect.__func__

    def connect_unprepared(cls: Any, *args: Any, **options: Any) -> Any:
        return connect(cls, *args, **({"prepare_threshold": None} if cls is kind else {}), **options)

    return connect_unprepared


@pytest.fixture(scope="session")
def database_url(server: Server, request: pytest.FixtureRequest, through_pooler: bool) -> Callable[[str], str]:
    """The URL at which tests reach a database of the shared server."""
    if not through_pooler:
        return server.database_url
    pooler: Pooler = request.getfixturevalue("pooler")
    return lambda name: pooler.through(server.database_url(name))


@pytest.fixture
def direct_url(server: Server, db_url: str) -> str:
    """The test's database without a pooler between, for those who look on: sessions that last, prepared statements."""
    return server.database_url(str(conninfo_to_dict(db_url)["dbname"]))


@pytest.fixture(scope="session")
def pgbouncer_program() -> str:
    """The path of PgBouncer. Where it cannot be had, the test is skipped with the reason."""
    try:
        return program.find()
    except program.NotToBeHad as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def pooler(pgbouncer_program: str, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooler]:
    """A pooler in front of the shared server, as `--through-pooler` uses it."""
    with pgbouncer.running(pgbouncer_program, server.url, tmp_path_factory.mktemp("pooler") / "run") as started:
        yield started


@pytest.fixture(scope="session")
def narrow_pooler(pgbouncer_program: str, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooler]:
    """One with a single session for all clients of a database: what one of them leaves behind, the next one finds."""
    folder = tmp_path_factory.mktemp("narrow-pooler") / "run"
    with pgbouncer.running(pgbouncer_program, server.url, folder, pool_size=1) as started:
        yield started


@pytest.fixture
def pooled_url(narrow_pooler: Pooler, db_url: str) -> str:
    """The test's database through the narrow pooler."""
    return narrow_pooler.through(db_url)
