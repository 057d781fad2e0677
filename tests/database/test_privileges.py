"""Who may do what: the privilege matrix, and functions that cannot be hijacked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import trunkline
from trunkline import errors
from trunkline.server import Server
from trunkline.sql import script

KINDS = ("producer", "consumer", "admin")


@pytest.fixture
def logins(server: Server, db_url: str) -> Iterator[dict[str, str]]:
    """The URL of a login with each role, and of one with none."""
    urls = {}
    with psycopg.connect(server.url, autocommit=True) as connection:
        for kind in (*KINDS, "nobody"):
            name = sql.Identifier(f"login_{kind}")
            connection.execute(sql.SQL("create role {} login password 'secret'").format(name))
            if kind in KINDS:
                connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(f"trunkline_{kind}"), name))
            parts = {**conninfo_to_dict(db_url), "user": f"login_{kind}", "password": "secret"}
            urls[kind] = make_conninfo("", **parts)
    yield urls
    with psycopg.connect(server.url, autocommit=True) as connection:
        # A pooler keeps their sessions; and one that was closed may still be taking its temporary tables away.
        ended = connection.execute(
            r"select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename like 'login\_%'"
        )
        assert all(is_gone for (is_gone,) in ended)
        for kind in (*KINDS, "nobody"):
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(f"login_{kind}")))


def _consume(tl: trunkline.Client, delivery: Literal["at_most_once", "at_least_once"]) -> None:
    """Read everything there is as a member of a group, and commit."""
    with tl.consumer("orders", group=delivery, create=True, delivery=delivery) as consumer:
        consumer.poll()
        if delivery == "at_least_once":
            consumer.commit()


def test_each_role_may_do_its_own_and_nothing_else(db_url: str, logins: dict[str, str]) -> None:
    with trunkline.connect(db_url) as owner:
        owner.create_topic("orders", partitions=2)
    reads_in_groups = {"consume", "claim", "create group", "groups", "describe group"}
    allowed = {
        "producer": {"publish", "publish_many", "topic", "offsets"},
        "consumer": {"read", "offsets", "topic", "pin", *reads_in_groups},
        "admin": {
            "publish",
            "publish_many",
            "read",
            "offsets",
            "topic",
            "pin",
            "create",
            "alter",
            "delete",
            "retention",
            *reads_in_groups,
            "seek group",
            "delete group",
        },
    }
    for kind in KINDS:
        with trunkline.connect(logins[kind]) as tl:
            keyed = [trunkline.Message(b"x", key=str(n)) for n in range(9)]
            calls: dict[str, Callable[[], object]] = {
                "publish": partial(tl.publish, "orders", b"x"),
                "publish_many": partial(tl.publish_many, "orders", keyed),
                "read": partial(tl.read, "orders"),
                "offsets": partial(tl.offsets, "orders"),
                "topic": partial(tl.topic, "orders"),
                "pin": partial(tl.pin, "orders", 0, 1),
                "create": partial(tl.create_topic, "other"),
                "alter": partial(tl.alter_topic, "other", retention_bytes=1),
                "retention": tl.retention_run,
                "delete": partial(tl.delete_topic, "other"),
                "consume": partial(_consume, tl, "at_least_once"),
                "claim": partial(_consume, tl, "at_most_once"),
                "create group": partial(tl.create_group, f"of-{kind}", ["orders"]),
                "groups": tl.groups,
                "describe group": partial(tl.describe_group, "of-consumer"),
                "seek group": partial(tl.seek_group, "of-consumer", "orders", "start", execute=True),
                "delete group": partial(tl.delete_group, "of-consumer"),
            }
            done = set()
            for name, call in calls.items():
                try:
                    call()
                    done.add(name)
                except errors.PermissionDenied as error:
                    assert error.code == "TL035"  # noqa: PT017 - any other outcome fails below
            assert done == allowed[kind], kind
    with pytest.raises(errors.PermissionDenied):
        trunkline.connect(logins["nobody"])


def test_producers_and_consumers_have_functions_and_no_tables(db_url: str, logins: dict[str, str]) -> None:
    with trunkline.connect(db_url) as owner:
        owner.create_topic("orders")
        owner.publish("orders", b"x")
    for kind in ("producer", "consumer", "admin", "nobody"):
        with psycopg.connect(logins[kind], autocommit=True) as connection:
            for table in (
                "meta",
                "topic",
                "topic_partition",
                "segment",
                "segment_partition",
                "producer",
                "segment_1",
                "reader_group",
                "group_cursor",
                "group_ledger",
                "group_member",
                "group_swept",
                "session_beat",
            ):
                for statement in ("select from trunkline.{}", "delete from trunkline.{}"):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute(sql.SQL(statement).format(sql.Identifier(table)))


def test_what_a_role_may_call_is_what_the_headers_say(db_url: str) -> None:
    """Function by function, and no table, view or sequence for anybody."""
    functions = (
        "select coalesce(array_agg(proname::text), '{}') from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and has_function_privilege(%s, oid, 'execute')"
    )
    relations = (
        "select coalesce(array_agg(relname::text), '{}') from pg_class where relnamespace = 'trunkline'::regnamespace"
        " and case when relkind = 'S' then has_sequence_privilege(%s, oid, 'usage, select, update')"
        " when relkind in ('r', 'v') then has_table_privilege(%s, oid, 'select, insert, update, delete, truncate')"
        " end"
    )
    with psycopg.connect(db_url) as connection:
        for kind in (*KINDS, "public"):
            role = "public" if kind == "public" else f"trunkline_{kind}"
            expected = set() if kind == "public" else set(script.functions_of(kind))
            (called,) = connection.execute(functions, [role]).fetchone() or ([],)
            assert set(called) == expected, kind
            assert connection.execute(relations, [role, role]).fetchone() == ([],)
    assert {"group_commit", "group_take", "member_session", "group_claim"} <= set(script.functions_of("consumer"))
    assert not [name for name in script.functions_of("producer") if name.startswith(("group_", "member_"))]
    for administrators_only in ("group_seek", "group_delete"):
        assert administrators_only not in script.functions_of("consumer")


def test_a_producer_publishes_into_segments_that_were_made_later(db_url: str, logins: dict[str, str]) -> None:
    with trunkline.connect(logins["producer"]) as tl, trunkline.connect(logins["admin"]) as admin:
        admin.create_topic("orders", settings=trunkline.TopicSettings(segment_bytes=65536))
        for _ in range(5):
            tl.publish_many("orders", [os.urandom(1024) for _ in range(300)])
        assert len(admin.describe_topic("orders").segments) > 1


def test_nothing_is_executable_by_everybody_and_definers_fix_their_path(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
    with psycopg.connect(db_url) as connection:
        ours = "pronamespace = 'trunkline'::regnamespace"
        public = f"select proname from pg_proc where {ours} and has_function_privilege('public', oid, 'execute')"
        assert connection.execute(public.encode()).fetchall() == []
        unsafe = connection.execute(
            f"select proname from pg_proc where {ours} and prosecdef and coalesce(not proconfig @> "
            "array['search_path=pg_catalog, trunkline, pg_temp'], true)".encode()
        ).fetchall()
        assert unsafe == []
        twice = f"select proname from pg_proc where {ours} group by 1 having count(*) > 1"
        assert connection.execute(twice.encode()).fetchall() == []
        # A function of a trigger cannot be called.
        open_definers = connection.execute(
            f"select proname from pg_proc where {ours} and prosecdef and prorettype <> 'trigger'::regtype".encode()
        ).fetchall()
        granted = {name for kind in KINDS for name in script.functions_of(kind)}
        assert {name for (name,) in open_definers} - granted == {"segment_1_append"}


@pytest.mark.direct("the temporary tables would outlive the client that made them")
def test_a_temporary_table_does_not_hijack_a_function(db_url: str, logins: dict[str, str]) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with psycopg.connect(logins["producer"], autocommit=True) as connection:
            connection.execute("create temp table topic (like pg_class)")
            connection.execute("create temp table segment_1 (x int)")
            connection.execute("create function pg_temp.clock_now() returns timestamptz language sql as 'select now()'")
            connection.execute("select trunkline.log_publish('orders', 'x')")
        assert [record.payload for record in tl.read("orders")] == [b"x"]


@pytest.mark.direct("the temporary tables would outlive the client that made them")
def test_a_temporary_table_does_not_hijack_a_group(db_url: str, logins: dict[str, str]) -> None:
    """Also where the caller's own path puts its functions and tables first."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"x")
        with psycopg.connect(logins["consumer"], autocommit=True) as connection:
            for table in ("group_ledger", "group_cursor", "group_member", "reader_group", "session_beat", "topic"):
                connection.execute(sql.SQL("create temp table {} (x int)").format(sql.Identifier(table)))
            for function, kind in (("clock_now", "timestamptz"), ("lock_class", "integer")):
                statement = "create function pg_temp.{}() returns {} language sql as 'select null::{}'"
                connection.execute(sql.SQL(statement).format(*map(sql.SQL, (function, kind, kind))))
            connection.execute("set search_path = pg_temp, trunkline")
            connection.execute("select trunkline.group_enter('g', '{1}', true)")
            connection.execute("select trunkline.member_beat()")
            connection.execute("select trunkline.member_join(1, 1, 60, '{1}', 'm', 1)")
            assert connection.execute("select * from trunkline.group_take(1, '{1}')").fetchall() == [(1, 1, 1)]
            connection.execute("select trunkline.group_commit(1, '{1}', '{1}', '{2}')")
            connection.execute("select trunkline.group_sweep()")
        assert [(each.cursor, each.epoch) for each in tl.describe_group("g").partitions] == [(2, 1)]


def test_no_session_can_set_the_clock(db_url: str, logins: dict[str, str]) -> None:
    replace = "create or replace function trunkline.clock_now() returns timestamptz language sql as 'select now()'"
    with (
        psycopg.connect(logins["admin"], autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(replace)


def test_a_password_is_in_no_error_and_no_repr(db_url: str) -> None:
    parts = conninfo_to_dict(db_url)
    wrong = f"postgresql://{parts['user']}:s3cr3t-wrong@{parts['host']}:{parts['port']}/{parts['dbname']}"
    with pytest.raises(errors.PermissionDenied) as caught:
        trunkline.connect(wrong)
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(errors.InvalidArgument) as malformed:
        trunkline.connect("postgresql//user:s3cr3t@host/db")
    assert "s3cr3t" not in repr(malformed.value)
    with trunkline.connect(db_url) as tl:
        assert str(parts["password"]) not in repr(tl)
