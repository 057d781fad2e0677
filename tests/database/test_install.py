"""Installing, upgrading, verifying and removing the schema."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import trunkline
from trunkline import errors
from trunkline.client import install as installer
from trunkline.client import protocol
from trunkline.server import Server
from trunkline.sql import script


@pytest.fixture
def empty_url(server: Server) -> Iterator[str]:
    """A database without the schema."""
    name = "empty"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield server.database_url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_a_fresh_install_is_what_verify_expects(empty_url: str) -> None:
    """If this fails after a change of SQL, run: python -m tools.catalogue"""
    done = installer.install(empty_url)
    assert (done.before, done.after) == (0, script.schema_version())
    assert installer.verify(empty_url) == len(installer.expected_catalogue())


def test_installing_again_and_upgrading_keep_topics_and_records(empty_url: str) -> None:
    installer.install(empty_url)
    with trunkline.connect(empty_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        installer.install(empty_url)
        installer.upgrade(empty_url)
        assert tl.publish("orders", b"b").offset == 2
        assert [record.payload for record in tl.read("orders")] == [b"a", b"b"]
    installer.verify(empty_url)


def test_two_installers_at_once_are_safe(empty_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: installer.install(empty_url), range(4)))
    assert sorted(one.before for one in done) == [0, *[script.schema_version()] * 3]
    installer.verify(empty_url)


def test_the_printed_script_installs_the_same_schema(empty_url: str, server: Server) -> None:
    psql = server.binaries / "psql"
    if not psql.exists():
        pytest.skip("no psql beside the server's binaries")
    text = installer.install_sql()
    subprocess.run([psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", empty_url], input=text, text=True, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    installer.verify(empty_url)
    with trunkline.connect(empty_url) as tl:
        tl.create_topic("orders")
        assert tl.publish("orders", b"a").offset == 1


def test_a_schema_that_is_not_ours_is_refused(empty_url: str) -> None:
    for statement in ("create table trunkline.meta (x int)", "create table trunkline.other (x int)"):
        with psycopg.connect(empty_url, autocommit=True) as connection:
            connection.execute("drop schema if exists trunkline cascade; create schema trunkline")
            connection.execute(statement.encode())
        with pytest.raises(errors.SchemaForeign) as caught:
            installer.install(empty_url)
        assert caught.value.code == "TL023"
        with psycopg.connect(empty_url) as connection:
            tables = connection.execute("select count(*) from pg_class where relnamespace = 'trunkline'::regnamespace")
            assert tables.fetchone() == (1,)


def test_an_empty_schema_that_somebody_made_for_us_is_used(empty_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("create schema trunkline")
    installer.install(empty_url)
    installer.verify(empty_url)


def test_a_missing_schema_says_how_to_install_it(empty_url: str) -> None:
    for call in (trunkline.connect, installer.verify, installer.upgrade, installer.uninstall):
        with pytest.raises(errors.SchemaMissing, match=r"trunkline db install|nothing to remove") as caught:
            call(empty_url)
        assert caught.value.code == "TL020"


def test_verify_names_what_was_changed(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("alter table trunkline.topic add column extra int")
        connection.execute("drop function trunkline.log_pin")
        connection.execute("grant execute on function trunkline.topic_list to public")
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql as 'select now()'"
        )
    with pytest.raises(errors.SchemaDamaged) as caught:
        installer.verify(db_url)
    text = str(caught.value)
    for words in (
        "not ours: column topic.extra",
        "missing: function trunkline.log_pin",
        "changed: function trunkline.clock_now",
        "missing: privilege trunkline.topic_list",
    ):
        assert words in text
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("alter table trunkline.topic drop column extra")
    installer.install(db_url)
    installer.verify(db_url)


def test_only_a_client_that_is_too_old_is_refused(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("update trunkline.meta set schema_version = 99")
        with trunkline.connect(db_url) as tl:
            tl.create_topic("orders")
            assert tl.publish("orders", b"a").offset == 1
        with pytest.raises(errors.SchemaOutdated, match="pip install --upgrade"):
            installer.upgrade(db_url)
        connection.execute("update trunkline.meta set oldest_client = %s", [protocol.CLIENT_PROTOCOL + 1])
    with pytest.raises(errors.ClientOutdated, match="pip install --upgrade trunkline") as caught:
        trunkline.connect(db_url)
    assert caught.value.code == "TL022"


def test_a_schema_that_is_too_old_says_how_to_upgrade(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("update trunkline.meta set schema_version = 0")
    with pytest.raises(errors.SchemaOutdated, match="trunkline db upgrade"):
        trunkline.connect(db_url)


def test_uninstall_leaves_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        tl.create_topic("other")
    assert installer.uninstall(db_url) == 2
    with psycopg.connect(db_url) as connection:
        assert connection.execute("select to_regnamespace('trunkline')").fetchone() == (None,)
    installer.install(db_url)
    installer.verify(db_url)


@pytest.mark.parametrize("text", ["", "producer", "producer=", "prducer=x", "producer=a,,", "CREATE"])
def test_roles_that_cannot_be(text: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        installer.parse_roles(text)


def test_roles_are_created_named_or_left_out(empty_url: str) -> None:
    assert installer.parse_roles("create") is None
    assert installer.parse_roles("none") == {}
    assert installer.parse_roles("producer=a,admin=b") == {"producer": "a", "admin": "b"}
    with pytest.raises(errors.NotFound, match="role no_such_role does not exist"):
        installer.install(empty_url, roles={"producer": "no_such_role"})
    with psycopg.connect(empty_url) as connection:
        assert connection.execute("select to_regnamespace('trunkline')").fetchone() == (None,)
    installer.install(empty_url, roles={})
    with psycopg.connect(empty_url) as connection:
        assert connection.execute("select count(*) from trunkline.grantee").fetchone() == (0,)


def test_where_roles_may_not_be_created_the_other_ways_are_named(empty_url: str, server: Server, template: str) -> None:
    """As on managed servers: an owner of the database who is no superuser and may not create roles."""
    assert template
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("alter role trunkline_admin rename to trunkline_admin_aside")
        connection.execute("create role plain_owner login password 'plain-secret'")
        connection.execute("alter database empty owner to plain_owner")
    try:
        parts = psycopg.conninfo.conninfo_to_dict(empty_url)
        plain = psycopg.conninfo.make_conninfo("", **{**parts, "user": "plain_owner", "password": "plain-secret"})
        with pytest.raises(errors.PermissionDenied, match="--roles none"):
            installer.install(plain)
        installer.install(plain, roles={})
        with trunkline.connect(plain) as tl:
            tl.create_topic("orders", partitions=2)
            assert tl.publish("orders", b"a", partition=1).offset == 1
            assert tl.retention_run() == []
    finally:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("alter role trunkline_admin_aside rename to trunkline_admin")
            connection.execute("alter database empty owner to current_user")
        with psycopg.connect(empty_url, autocommit=True) as connection:
            connection.execute("drop owned by plain_owner cascade; drop role plain_owner")


def test_S3_08_the_schema_needs_no_extension_and_one_unique_index_on_the_offset(db_url: str) -> None:
    """`make test-matrix` runs this on PostgreSQL 14 to 18, with the script as it is."""
    with psycopg.connect(db_url) as connection:
        assert connection.execute("select extname from pg_extension").fetchall() == [("plpgsql",)]
        connection.execute("select trunkline.topic_create('orders')")
        unique = connection.execute(
            "select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'trunkline.segment_1'::regclass "
            "and indisunique and pg_get_indexdef(indexrelid) like '%first_offset%'"
        ).fetchall()
        assert len(unique) == 1
        assert "(partition, first_offset)" in unique[0][0]


def test_every_function_says_what_it_promises_and_whom_it_serves() -> None:
    for name, text in script.functions().items():
        assert text.startswith("-- "), name
        assert re.search(r"^-- grants: ((producer|consumer|admin)(, )?)+$|^-- grants: none$", text, re.MULTILINE), name
    assert {"log_append", "log_publish"} <= set(script.functions_of("producer"))
    assert "log_read" not in script.functions_of("producer")
    assert "log_append" not in script.functions_of("consumer")


def dump_binaries(server: Server) -> Path:
    if not (server.binaries / "pg_dump").exists():
        pytest.skip("no pg_dump beside the server's binaries")
    return server.binaries


def test_a_dump_restored_into_a_new_database_works_and_says_that_it_diverged(
    db_url: str, empty_url: str, server: Server, tmp_path: Path
) -> None:
    """A position taken after the dump is beyond the restored log; one taken before it is fine. Once the restored log
    has grown past it with other records, it is another batch at that offset."""
    binaries = dump_binaries(server)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [b"a", b"b"], partition=0)
        early = tl.pin("orders", 0, 3)
        dump = tmp_path / "dump"
        subprocess.run([binaries / "pg_dump", "-Fc", "-n", "trunkline", "-f", dump, db_url], check=True)
        tl.publish_many("orders", [b"c", b"d"], partition=0)
        late = tl.pin("orders", 0, 5)
        tl.check(early)
        tl.check(late)
    environment = {**os.environ, "PGOPTIONS": "-c client_min_messages=warning"}
    subprocess.run([binaries / "pg_restore", "-d", empty_url, dump], check=True, env=environment)
    assert installer.after_restore(empty_url) == 2
    installer.verify(empty_url)
    with trunkline.connect(empty_url) as tl:
        tl.check(early)
        with pytest.raises(errors.LogDiverged, match="beyond the end"):
            tl.check(late)
        assert tl.publish_many("orders", [b"x", b"y", b"z"], partition=0)[0].offset == 3
        with pytest.raises(errors.LogDiverged, match="another record") as caught:
            tl.check(late)
        assert caught.value.code == "TL006"
        assert [record.payload for record in tl.read("orders")] == [b"a", b"b", b"x", b"y", b"z"]
