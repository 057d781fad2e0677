"""From the first version of the schema to this one: nothing is lost, and everybody is told what to run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import trunkline
from trunkline import errors
from trunkline.client import install as installer
from trunkline.server import Server
from trunkline.sql import script

FIRST_VERSION = Path(__file__).parent / "schemas" / "1.sql"
FILLED = (
    "select trunkline.topic_create('orders', 2, '{\"retention_age_s\": 3600}')",
    "select trunkline.log_publish('orders', ('a' || i)::bytea, partition => 0) from generate_series(1, 3) i",
    "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic",
    "select trunkline.log_publish('orders', ('b' || i)::bytea, partition => i % 2) from generate_series(1, 4) i",
    "select trunkline.segment_seal(1)",
    "select trunkline.topic_create('empty')",
)
NUMBERED = (
    "select first_offsets from trunkline.log_append(1, null, '{0}', '{1}', null, array['n'::bytea], null, null, null,"
    " '00000000-0000-0000-0000-000000000001', 0, '{1}')"
)


@pytest.fixture
def old_url(server: Server) -> Iterator[str]:
    """A database with the first version of the schema, two topics, and an idempotent producer."""
    name = "first_version"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        url = server.database_url(name)
        with psycopg.connect(url, autocommit=True) as old:
            old.execute(FIRST_VERSION.read_bytes())
            for statement in FILLED:
                old.execute(statement)
            assert old.execute(NUMBERED).fetchone() == ([6],)
        yield url
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _records(url: str) -> list[tuple[Any, ...]]:
    """Everything that is in the log, as plain SQL shows it."""
    with psycopg.connect(url) as connection:
        return [
            row
            for partition in (0, 1)
            for row in connection.execute(
                "select partition, \"offset\", payload, append_time from trunkline.records('orders', %s, 1)",
                [partition],
            ).fetchall()
        ]


def test_a_client_of_today_says_what_to_run_on_the_first_version(old_url: str) -> None:
    for call in (trunkline.connect, installer.verify):
        with pytest.raises(errors.SchemaOutdated, match="run: trunkline db upgrade") as caught:
            call(old_url)
        assert caught.value.code == "TL021"


def test_a_function_that_only_an_upgrade_brings_is_missed_with_a_next_step(db_url: str) -> None:
    """Functions may be newer than the schema's version tells."""
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as connection:
        tl.create_topic("orders")
        connection.execute("drop function trunkline.outbox_put_one")
        with connection.transaction(), pytest.raises(errors.SchemaMissing, match="trunkline db install"):
            tl.publish("orders", b"x", conn=connection)
        installer.upgrade(db_url)
        with connection.transaction():
            tl.publish("orders", b"x", conn=connection)
        assert [record.payload for record in tl.read("orders")] == [b"x"]


def test_an_upgrade_keeps_topics_and_records_and_is_as_a_fresh_install(old_url: str) -> None:
    before = _records(old_url)
    assert len(before) == 8
    done = installer.upgrade(old_url)
    assert (done.before, done.after) == (1, script.schema_version())
    assert installer.verify(old_url) == len(installer.expected_catalogue())
    assert _records(old_url) == before
    with trunkline.connect(old_url) as tl, psycopg.connect(old_url, autocommit=True) as connection:
        assert sorted(topic.name for topic in tl.topics()) == ["empty", "orders"]
        orders = tl.topic("orders")
        assert (orders.retention_age_s, orders.retention_consumed, orders.notify_in_commit) == (3600, False, False)
        assert connection.execute(NUMBERED).fetchone() == ([6],), "a retry of the old producer is still known"
        assert tl.publish("orders", b"new", partition=0).offset == 7
        with tl.consumer("orders", group="billing", create=True) as consumer:
            assert len(consumer.poll(wait_s=30)) == 9


def test_an_upgrade_refuses_clients_of_the_first_version_and_tells_them_what_to_run(old_url: str) -> None:
    hello = "select schema_version from trunkline.schema_hello(1)"
    with psycopg.connect(old_url, autocommit=True) as old:
        assert old.execute(hello).fetchone() == (1,)
        installer.upgrade(old_url)
        with pytest.raises(psycopg.Error) as caught:
            old.execute(hello)
        assert caught.value.sqlstate == "TL022"
        assert caught.value.diag.message_hint == "update the client: pip install --upgrade trunkline"


def test_roles_that_were_granted_before_get_the_functions_that_are_new(old_url: str) -> None:
    """Ours and one that somebody named; nobody gets more than its kind, and nothing is open to everybody."""
    may = (
        "select array_agg(distinct proname::text) from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and has_function_privilege(%s, oid, 'execute') and proname !~ '^segment_[0-9]+_append$'"
    )
    with psycopg.connect(old_url, autocommit=True) as connection:
        connection.execute("create role first_reader")
        try:
            connection.execute("select trunkline.role_grant('consumer', 'first_reader', '{log_read}')")
            installer.upgrade(old_url)
            for kind, role in [*installer.CREATED_ROLES.items(), ("consumer", "first_reader")]:
                granted = connection.execute(may, [role]).fetchone()
                assert granted is not None
                assert set(granted[0]) == set(script.functions_of(kind)), role
            assert connection.execute(may, ["public"]).fetchone() == (None,)
        finally:
            connection.execute("drop owned by first_reader")
            connection.execute("drop role first_reader")


def test_an_upgrade_by_somebody_else_leaves_everything_to_its_owner(server: Server) -> None:
    """Functions call each other as their owner, and the first one's must not become those of a superuser."""
    owners = (
        "select pg_get_userbyid(proowner)::text from pg_proc where pronamespace = 'trunkline'::regnamespace union"
        " select pg_get_userbyid(relowner)::text from pg_class where relnamespace = 'trunkline'::regnamespace"
    )
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("create role first_owner login password 'x'")
        admin.execute("create database of_another owner first_owner")
        try:
            url = server.database_url("of_another")
            own = make_conninfo(url, user="first_owner", password="x")
            with psycopg.connect(own, autocommit=True) as connection:
                connection.execute(FIRST_VERSION.read_bytes())
                connection.execute("select trunkline.topic_create('orders')")
            for _ in range(2):
                installer.upgrade(url)
                with psycopg.connect(own, autocommit=True) as connection:
                    connection.execute("select trunkline.outbox_publish('orders', 'x')")
                    assert connection.execute(owners).fetchall() == [("first_owner",)]
        finally:
            admin.execute("drop database of_another with (force)")
            admin.execute("drop role first_owner")


def test_an_upgrade_waits_for_a_publish_that_is_under_way(old_url: str) -> None:
    """A transaction of the first version has published and not committed: the upgrade waits, and the record is kept."""
    with psycopg.connect(old_url) as old, psycopg.connect(old_url, autocommit=True) as watcher:
        old.execute("select trunkline.log_publish('orders', 'late', partition => 0)")
        upgrading = threading.Thread(target=installer.upgrade, args=[old_url])
        upgrading.start()
        waiting = "select from pg_locks where not granted"
        while watcher.execute(waiting, prepare=False).fetchone() is None:
            assert upgrading.is_alive()
        old.commit()
        upgrading.join()
    installer.verify(old_url)
    with trunkline.connect(old_url) as tl:
        assert [record.payload for record in tl.read("orders", partition=0)][-1] == b"late"
        assert tl.publish("orders", b"next", partition=0).offset == 8
