"""`trunkline db` against databases of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

import trunkline
from tests.cli.conftest import Run
from trunkline import Client
from trunkline.sql import script


@pytest.fixture
def db_url(make_database: Callable[[], str]) -> str:
    """A database of the test's own: these tests change, or count, what is in the schema."""
    return make_database()


@pytest.fixture
def plain_role(empty_url: str) -> Iterator[str]:
    """A role that may do nothing; what it was granted goes with the database it was granted in."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("create role cli_plain")
        yield "cli_plain"
        connection.execute("drop owned by cli_plain")
        connection.execute("drop role cli_plain")


def test_install_verify_and_uninstall(run: Run, empty_url: str) -> None:
    installed = run("db", "install", "--roles", "none", "--url", empty_url)
    assert (installed.exit_code, installed.stdout) == (0, f"installed schema version {script.schema_version()}\n")
    again = run("db", "install", "--roles", "none", "--url", empty_url)
    assert (again.exit_code, "was installed before" in again.stdout) == (0, True)
    assert run("db", "upgrade", "--url", empty_url).exit_code == 0
    verified = run("db", "verify", "--url", empty_url)
    assert (verified.exit_code, "as it should be" in verified.stdout) == (0, True), verified.output
    with trunkline.connect(empty_url) as client:
        client.create_topic("orders")
        client.publish("orders", b"x")
    kept = run("db", "uninstall", "--url", empty_url, stdin="n\n")
    assert kept.exit_code == 1
    assert "password" not in kept.output
    assert run("db", "uninstall", "--yes", "--url", empty_url).stdout == "removed the schema with 1 segment\n"
    gone = run("db", "verify", "--url", empty_url)
    assert (gone.exit_code, "error [TL020]" in gone.stderr) == (6, True)


def test_existing_roles_are_granted_their_part(run: Run, empty_url: str, plain_role: str) -> None:
    done = run("db", "install", "--roles", f"producer={plain_role}", "--url", empty_url)
    assert f"role {plain_role} is a producer" in done.stdout
    with psycopg.connect(empty_url) as connection:
        may = "select has_function_privilege(%s, p.oid, 'execute') from pg_proc p where p.proname = %s"
        assert connection.execute(may, [plain_role, "log_append"]).fetchone() == (True,)
        assert connection.execute(may, [plain_role, "topic_delete"]).fetchone() == (False,)


def test_roles_that_cannot_be_are_refused(run: Run, empty_url: str) -> None:
    for roles in ("", "all", "producer", "producer=", "writer=x", "producer=a,create"):
        refused = run("db", "install", "--roles", roles, "--url", empty_url)
        assert (refused.exit_code, "error [TL001]" in refused.stderr) == (2, True), roles
    with psycopg.connect(empty_url) as connection:
        assert connection.execute("select to_regnamespace('trunkline')").fetchone() == (None,)


def test_a_role_that_does_not_exist_leaves_nothing_installed(run: Run, empty_url: str) -> None:
    refused = run("db", "install", "--roles", "admin=nobody_of_that_name", "--url", empty_url)
    assert (refused.exit_code, "error [TL002]" in refused.stderr) == (3, True)
    with psycopg.connect(empty_url) as connection:
        assert connection.execute("select to_regnamespace('trunkline')").fetchone() == (None,)


def test_the_script_installs_the_same(run: Run, empty_url: str) -> None:
    script = run("db", "sql", "--roles", "none", TRUNKLINE_URL=None).stdout
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(script.encode())
    verified = run("db", "verify", "--url", empty_url)
    assert verified.exit_code == 0, verified.output


def test_a_foreign_schema_is_refused(run: Run, empty_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("create schema trunkline; create table trunkline.theirs ()")
    refused = run("db", "install", "--roles", "none", "--url", empty_url)
    assert (refused.exit_code, "error [TL023]" in refused.stderr) == (6, True)


def test_after_a_restore_the_log_epoch_is_raised(run: Run) -> None:
    assert run("db", "after-restore").stdout == "the log epoch is now 2\n"


def test_damage_is_listed(run: Run, tl: Client, db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("drop function trunkline.log_pin")
    damaged = run("db", "verify")
    assert (damaged.exit_code, "error [TL024]" in damaged.stderr) == (1, True)
    assert "missing: function trunkline.log_pin" in damaged.stderr
