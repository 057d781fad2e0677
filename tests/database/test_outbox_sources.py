"""Attached tables as the database sees them: who may attach, what an upgrade, an uninstall and a dump do with them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import trunkline
from trunkline import OutboxColumns, errors
from trunkline.client import install as installer
from trunkline.server import Server

TABLE = "create table public.outbox_message_t (id serial, payload text)"
INSERT = "insert into public.outbox_message_t (payload) values (%s)"
COLUMNS = OutboxColumns(payload="payload")
TRIGGERS = "select count(*) from pg_trigger where tgname = 'trunkline_outbox'"


@pytest.fixture
def attached(db_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as connection:
        tl.create_topic("orders")
        connection.execute(TABLE)
        tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
        yield connection


@pytest.fixture
def admin(server: Server, db_url: str) -> Iterator[str]:
    """The URL of an administrator of ours who owns no table."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create role table_admin login password 'secret' in role trunkline_admin")
        yield make_conninfo("", **{**conninfo_to_dict(db_url), "user": "table_admin", "password": "secret"})
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("reassign owned by table_admin to current_user")
        connection.execute("drop owned by table_admin")
        connection.execute("drop role table_admin")


def payloads(url: str) -> list[bytes]:
    with trunkline.connect(url) as tl:
        return [record.payload for record in tl.read("orders")]


@pytest.mark.direct("roles log in by themselves")
def test_attaching_needs_the_privilege_to_put_a_trigger_on_the_table(db_url: str, admin: str) -> None:
    """An administrator of topics is not one of tables: it has its own rights there, not ours."""
    with trunkline.connect(db_url) as owner, psycopg.connect(db_url, autocommit=True) as connection:
        owner.create_topic("orders")
        connection.execute(TABLE)
        connection.execute(INSERT, ["old"])
        with trunkline.connect(admin) as tl:
            with pytest.raises(errors.PermissionDenied, match=r"grant trigger on .* to table_admin$"):
                tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
            connection.execute("grant trigger on outbox_message_t to table_admin")
            with pytest.raises(errors.PermissionDenied):
                tl.outbox_attach("outbox_message_t", "orders", COLUMNS, order_by="id")
            assert owner.outbox_sources() == []
            tl.outbox_attach("outbox_message_t", "orders", COLUMNS)
            assert [source.attached_by for source in tl.outbox_sources()] == ["table_admin"]
            connection.execute(INSERT, ["new"])
            with pytest.raises(errors.PermissionDenied, match="run it as the owner of the table"):
                tl.outbox_detach("outbox_message_t")
            connection.execute("alter table outbox_message_t owner to table_admin")
            assert tl.outbox_detach("outbox_message_t") == "orders"
    assert payloads(db_url) == [b"new"]


@pytest.mark.direct("roles log in by themselves")
def test_rows_that_a_policy_hides_are_an_error_and_not_left_out(db_url: str, admin: str) -> None:
    with trunkline.connect(db_url) as owner, psycopg.connect(db_url, autocommit=True) as connection:
        owner.create_topic("orders")
        connection.execute(TABLE)
        connection.execute(INSERT, ["hidden"])
        connection.execute("alter table outbox_message_t enable row level security")
        connection.execute("grant trigger, select on outbox_message_t to table_admin")
        with trunkline.connect(admin) as tl, pytest.raises(errors.TrunklineError, match="row-level security"):
            tl.outbox_attach("outbox_message_t", "orders", COLUMNS, order_by="id")


def test_an_upgrade_keeps_the_triggers(attached: psycopg.Connection[tuple[object, ...]], db_url: str) -> None:
    installer.install(db_url)
    attached.execute(INSERT, ["after"])
    assert payloads(db_url) == [b"after"]
    assert installer.verify(db_url) == len(installer.expected_catalogue())


def test_an_uninstall_takes_the_triggers_away(attached: psycopg.Connection[tuple[object, ...]], db_url: str) -> None:
    installer.uninstall(db_url)
    assert attached.execute(TRIGGERS).fetchone() == (0,)
    attached.execute(INSERT, ["after"])


def test_a_trigger_without_a_source_says_what_to_do(attached: psycopg.Connection[tuple[object, ...]]) -> None:
    """As on a copy of the table whose trigger was copied by hand."""
    attached.execute("create table public.copied (payload text)")
    attached.execute(
        "create trigger t after insert on copied referencing new table as new_rows for each statement "
        "execute function trunkline.outbox_relay()"
    )
    with pytest.raises(psycopg.Error, match="is attached to no topic") as caught:
        attached.execute("insert into copied values ('x')")
    assert "drop trigger t on public.copied" in str(caught.value.diag.message_hint)


def test_code_of_the_table_s_owner_does_not_run_with_our_rights(
    attached: psycopg.Connection[tuple[object, ...]], db_url: str
) -> None:
    """A type with a cast to JSON, or to text, is the way to try it: the column is changed after it was attached."""
    attached.execute("create type public.evil as (a text)")
    attached.execute(
        "create function public.leak(public.evil) returns json language sql as $$ select to_json(current_user) $$"
    )
    attached.execute("create cast (public.evil as json) with function public.leak(public.evil)")
    attached.execute("alter table outbox_message_t alter payload type public.evil using row(payload)::public.evil")
    with pytest.raises(psycopg.Error, match="which cannot be the payload"):
        attached.execute("insert into outbox_message_t (payload) values (row('x'))")
    assert payloads(db_url) == []


@pytest.mark.direct("the temporary tables would outlive the client that made them")
def test_a_temporary_table_does_not_hijack_the_trigger(
    attached: psycopg.Connection[tuple[object, ...]], db_url: str
) -> None:
    for name in ("outbox_source", "topic", "outbox_stage", "new_rows", "n"):
        attached.execute(sql.SQL("create temp table {} (x integer)").format(sql.Identifier(name)))
    attached.execute("set search_path = pg_temp, trunkline, public")
    attached.execute(INSERT, ["x"])
    assert payloads(db_url) == [b"x"]
