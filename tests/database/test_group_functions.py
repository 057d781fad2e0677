"""The SQL functions of groups as any language calls them: what they refuse, and that it writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from trunkline.sql import script

LARGEST = 2**63 - 1
LONG = "n" * 201
NAMES = ["null", "''", "' '", "'a b'", "'-a'", "'.a'", "'/a'", "'a..b'", f"'{LONG}'", "'a\nb'", "'é'", "'a''b'"]
TIMEOUTS = ["0", "-1", "NaN", "Infinity", "1e300", "86401"]

# Topic 1 is t, with partition 0 (offsets 1 to 3) and 1 (empty). Group 1 is g, whose cursors 1 and 2 a living member 1
# holds in epoch 1; group 2 is empty and reads nothing; group 3 is shared, with the cursors 3 and 4, which nobody holds.
REFUSED: dict[str, list[tuple[str, str]]] = {
    "group_create": [
        *((name, "TL001") for name in NAMES),
        ("'g'", "TL003"),
        ("'x', '{nobody}'", "TL002"),
        ("'x', '{t,null}'", "TL001"),
        ("'x', '{t}', 'middle'", "TL001"),
        ("'x', '{t}', null", "TL001"),
        ("'x', '{t}', 'offset'", "TL001"),
        ("'x', '{t}', 'time'", "TL001"),
        ("'x', '{t}', 'offset', 2", "TL005"),
        ("'x', '{t}', 'offset', 0", "TL005"),
        ("'x', '{t}', 'offset', -1", "TL005"),
        (f"'x', '{{t}}', 'offset', {LARGEST}", "TL005"),
    ],
    "group_enter": [
        *((f"{name}, '{{1}}', true", "TL001") for name in NAMES),
        ("'x', '{1}', false", "TL002"),
        ("'x', '{1}', null", "TL002"),
        ("'x', '{1,99}', true", "TL002"),
        ("'x', '{1,null}', true", "TL002"),
        ("'x', '{}', true", "TL001"),
        ("'x', null, true", "TL001"),
        ("'x', '{1}', true, 'middle'", "TL001"),
        (f"'x', '{{1}}', true, 'offset', {LARGEST}", "TL005"),
    ],
    "group_begin": [
        ("null, 1", "TL002"),
        ("99, 1", "TL002"),
        ("-1, 1", "TL002"),
        ("2, null", "TL002"),
        ("2, 99", "TL002"),
        ("2, 1, 'middle'", "TL001"),
        ("2, 1, null", "TL001"),
        ("2, 1, 'offset'", "TL001"),
        ("2, 1, 'time'", "TL001"),
        ("2, 1, 'offset', 2", "TL005"),
        ("2, 1, 'offset', -1", "TL005"),
        (f"2, 1, 'offset', {LARGEST}", "TL005"),
    ],
    "group_report": [
        *((f"{name}, '{{1}}', '{{0}}', '{{1}}'", "TL001") for name in NAMES),
        ("'x', '{1}', '{0}', '{0}'", "TL001"),
        ("'x', '{1}', '{0}', '{-1}'", "TL001"),
        ("'x', '{1}', '{0}', '{null}'", "TL001"),
        ("'x', '{1}', '{0}', null", "TL001"),
        ("'x', '{1}', null, '{1}'", "TL001"),
        ("'x', null, '{0}', '{1}'", "TL001"),
        ("'x', '{1}', '{0,1}', '{1}'", "TL001"),
        ("'x', '{1,1}', '{0,0}', '{1,1}'", "TL001"),
        ("'x', '{1}', '{2}', '{1}'", "TL001"),
        ("'x', '{1}', '{null}', '{1}'", "TL001"),
        ("'x', '{99}', '{0}', '{1}'", "TL002"),
        ("'x', '{null}', '{0}', '{1}'", "TL002"),
        ("'g', '{1}', '{0}', '{1}'", "TL016"),
    ],
    "group_claim": [
        ("null, 1", "TL002"),
        ("99, 1", "TL002"),
        ("-1, 1", "TL002"),
        ("1, 1", "TL013"),
        ("3, 0", "TL001"),
        ("3, -1", "TL001"),
        ("3, null", "TL001"),
        ("3, 1, 'sometimes'", "TL001"),
        ("3, 1, null", "TL001"),
    ],
    "group_take": [
        ("null, '{1}'", "TL002"),
        ("99, '{1}'", "TL002"),
        ("1, null", "TL001"),
        ("1, '{null}'", "TL001"),
        ("1, '{1,null}'", "TL001"),
    ],
    "group_release": [("1, null", "TL001"), ("1, '{null}'", "TL001"), ("1, '{1,null}'", "TL001")],
    "group_commit": [
        ("1, null, null, null", "TL001"),
        ("1, '{}', '{}', '{}'", "TL001"),
        ("1, '{1}', null, '{2}'", "TL001"),
        ("1, '{1,2}', '{1}', '{2,2}'", "TL001"),
        ("1, '{1}', '{1,1}', '{2}'", "TL001"),
        ("1, '{1,2}', '{1,1}', '{2}'", "TL001"),
        ("1, '{1}', '{1}', '{2,2}'", "TL001"),
        ("1, '{1}', '{1}', '{2}', '{}'", "TL001"),
        ("1, '{1}', '{1}', '{2}', '{1,1}'", "TL001"),
        ("1, '{1}', '{1}', '{3}', '{2}'", "TL001"),
        ("1, '{1,1}', '{1,1}', '{2,3}'", "TL001"),
        ("1, '{2,1,2}', '{1,1,1}', '{1,2,1}'", "TL001"),
        ("1, '{null}', '{1}', '{2}'", "TL001"),
        ("1, '{1,null}', '{1,1}', '{2,2}'", "TL001"),
        ("1, '{1}', '{1}', '{null}'", "TL001"),
        ("1, '{1}', '{1}', '{0}'", "TL001"),
        ("1, '{1}', '{1}', '{-1}'", "TL001"),
        ("1, '{1,2}', '{1,1}', '{3,0}'", "TL001"),
        ("1, '{1}', '{null}', '{2}'", "TL013"),
        ("1, '{1}', '{2}', '{2}'", "TL013"),
        ("1, '{99}', '{1}', '{2}'", "TL013"),
        ("1, '{3}', '{0}', '{2}'", "TL013"),
        ("null, '{1}', '{1}', '{2}'", "TL013"),
        ("99, '{1}', '{1}', '{2}'", "TL013"),
    ],
    "group_move": [
        ("1, null, null, null", "TL001"),
        ("1, '{1}', '{1}', null", "TL001"),
        ("1, '{1,2}', '{1}', '{2,2}'", "TL001"),
        ("1, '{1}', '{1}', '{2,2}'", "TL001"),
        ("1, '{1,1}', '{1,1}', '{2,3}'", "TL001"),
        ("1, '{null}', '{1}', '{2}'", "TL001"),
        ("1, '{1}', '{1}', '{null}'", "TL001"),
        ("1, '{1}', '{1}', '{0}'", "TL001"),
        ("1, '{1,2}', '{1,1}', '{2,-1}'", "TL001"),
        ("1, '{1}', '{0}', '{2}'", "TL013"),
        ("1, '{1}', '{null}', '{2}'", "TL013"),
        ("1, '{99}', '{1}', '{2}'", "TL013"),
        ("null, '{1}', '{1}', '{2}'", "TL013"),
        ("99, '{1}', '{1}', '{2}'", "TL013"),
    ],
    "group_seek": [
        *((f"{name}, 't', null, 'end', execute => true", "TL001") for name in NAMES),
        ("'nobody', 't', null, 'end', execute => true", "TL002"),
        ("'g', null, null, 'end', execute => true", "TL001"),
        ("'g', 'nothing', null, 'end', execute => true", "TL002"),
        ("'g', 't', 2, 'end', execute => true", "TL002"),
        ("'g', 't', -1, 'end', execute => true", "TL002"),
        ("'empty', 't', null, 'end', execute => true", "TL002"),
        ("'g', 't', null, null, execute => true", "TL001"),
        ("'g', 't', null, 'middle', execute => true", "TL001"),
        ("'g', 't', null, 'offset', execute => true", "TL001"),
        ("'g', 't', null, 'time', execute => true", "TL001"),
        ("'g', 't', null, 'group', execute => true", "TL001"),
        ("'g', 't', null, 'group', like_group => 'nobody', execute => true", "TL002"),
        ("'g', 't', null, 'group', like_group => 'empty', execute => true", "TL002"),
        ("'g', 't', null, 'offset', 2, execute => true", "TL005"),
        ("'g', 't', 0, 'offset', 5, execute => true", "TL005"),
        ("'g', 't', 0, 'offset', -1, execute => true", "TL005"),
        (f"'g', 't', 0, 'offset', {LARGEST}, execute => true", "TL005"),
    ],
    "group_delete": [
        *((name, "TL001") for name in NAMES),
        ("'nobody'", "TL002"),
        ("'g'", "TL016"),
        ("'g', null", "TL016"),
    ],
    "group_describe": [*((name, "TL001") for name in NAMES), ("'nobody'", "TL002")],
    "group_waiting": [*((name, "TL001") for name in NAMES), ("'nobody'", "TL002")],
    "group_sweep": [("0", "TL001"), ("-1", "TL001"), ("null", "TL001")],
    "member_join": [
        ("null, 1, 1, '{1}', 'm', 7", "TL002"),
        ("99, 1, 1, '{1}', 'm', 7", "TL002"),
        ("1, null, 1, '{1}', 'm', 7", "TL001"),
        ("1, 0, 1, '{1}', 'm', 7", "TL001"),
        ("1, -1, 1, '{1}', 'm', 7", "TL001"),
        *((f"1, 1, '{seconds}', '{{1}}', 'm', 7", "TL001") for seconds in TIMEOUTS),
        ("1, 1, 1, null, 'm', 7", "TL001"),
        ("1, 1, 1, '{}', 'm', 7", "TL001"),
        ("1, 1, 1, '{null}', 'm', 7", "TL001"),
        ("1, 1, 1, '{1,null}', 'm', 7", "TL001"),
        ("1, 1, 1, '{1}', 'm', null", "TL001"),
    ],
    "member_beat": [("0", "TL001"), ("-1", "TL001")],
    "member_session": [("0", "TL001"), ("-1", "TL001")],
    "member_list": [*((name, "TL001") for name in NAMES), ("'nobody'", "TL002")],
    "log_more": [
        ("null, null", "TL001"),
        ("'{1}', null", "TL001"),
        ("'{1,2}', '{1}'", "TL001"),
        ("'{1}', '{1,1}'", "TL001"),
    ],
    "topic_ring": [("null", "TL001"), ("'nobody'", "TL002")],
}  # fmt: skip

# What asks for nothing, or for what is not there, does nothing; so does what has been lost already.
NOTHING: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("group_cursors(null)", []),
    ("group_cursors(99)", []),
    ("group_view(null)", []),
    ("group_view(-1, 99)", []),
    ("group_take(1, '{}')", []),
    ("group_take(1, '{99,-1,3}')", []),
    ("group_release(1, '{}')", [(0,)]),
    ("group_release(99, '{1}')", [(0,)]),
    ("group_release(null, '{1}')", [(0,)]),
    ("group_release(1, '{99,3}')", [(0,)]),
    ("group_move(1, '{}', '{}', '{}')", []),
    ("member_leave(null)", [(0,)]),
    ("member_leave('{}')", [(0,)]),
    ("member_leave('{null,99,-1}')", [(0,)]),
    ("member_leave('{1}', only_dead => true)", [(0,)]),
    ("log_more('{}', '{}')", []),
    ("log_more('{99,null,1}', '{1,1,null}')", []),
    ("group_claim(4, 2147483647)", [(1, 1)]),
    ("group_seek('g', 't', null, 'end')", [(0, 1, 4), (1, 1, 1)]),
]
WRITTEN = (
    "select (select array_agg(g.name order by g.group_id) from trunkline.reader_group g),"
    " (select count(*) from trunkline.group_cursor), (select max(cursor_id) from trunkline.group_swept),"
    " (select string_agg(l::text, ' ' order by l.cursor_id, l.seq) from trunkline.group_ledger l),"
    " (select string_agg(m::text, ' ' order by m.member_id) from trunkline.group_member m),"
    " (select string_agg(b::text, ' ' order by b.at) from trunkline.session_beat b)"
)


@pytest.fixture
def connection(db_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db_url, autocommit=True) as opened:
        for statement in (
            "select trunkline.topic_create('t', 2)",
            "select trunkline.log_publish('t', 'x', partition => 0) from generate_series(1, 3)",
            "select trunkline.group_create('g', '{t}')",
            "select trunkline.group_create('empty')",
            "select trunkline.group_create('shared', '{t}')",
            "select trunkline.member_beat()",
            "select trunkline.member_join(1, 1, 3600, '{1}', 'm', 1)",
            "select * from trunkline.group_take(1, '{1,2}')",
        ):
            opened.execute(statement)
        yield opened


@pytest.mark.parametrize("function", REFUSED)
def test_wrong_arguments_are_a_typed_error_and_nothing_is_written(
    connection: psycopg.Connection[Any], function: str
) -> None:
    before = connection.execute(WRITTEN).fetchone()
    for arguments, state in REFUSED[function]:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(f"select * from trunkline.{function}({arguments})".encode())
        assert caught.value.sqlstate == state, arguments
    assert connection.execute(WRITTEN).fetchone() == before


def test_asking_for_nothing_does_nothing(connection: psycopg.Connection[Any]) -> None:
    before = connection.execute(WRITTEN).fetchone()
    for call, rows in NOTHING:
        assert connection.execute(f"select * from trunkline.{call}".encode()).fetchall() == rows, call
    assert connection.execute(WRITTEN).fetchone() == before


def test_every_public_function_of_groups_is_asked_wrongly_here() -> None:
    granted = {name for role in script.ROLES for name in script.functions_of(role)}
    public = {name for name in granted if name.startswith(("group_", "member_"))}
    asked = REFUSED.keys() | {call.partition("(")[0] for call, _ in NOTHING}
    assert public - asked == {"group_list"}, "which takes no arguments"


@pytest.mark.parametrize("seconds", [0.001, 86400])
def test_a_timeout_is_at_most_a_day(connection: psycopg.Connection[Any], seconds: float) -> None:
    row = connection.execute("select trunkline.member_join(1, 1, %s, '{1}', null, 2)", [seconds]).fetchone()
    assert row == (2,)
    assert connection.execute("select name from trunkline.member_list('g')").fetchall() == [("m",), ("",)]


def test_cursors_beyond_the_end_do_not_break_the_list(connection: psycopg.Connection[Any]) -> None:
    """Somebody has set both cursors to the largest number there is. The group has nothing left to read then; the lag
    of others is as it was."""
    connection.execute(f"select trunkline.group_commit(1, '{{1,2}}', '{{1,1}}', '{{{LARGEST},{LARGEST}}}')".encode())
    assert connection.execute("select name, lag from trunkline.group_list()").fetchall() == [
        ("empty", 0),
        ("g", 0),
        ("shared", 3),
    ]
    described = connection.execute("select cursor, \"end\" from trunkline.group_describe('g')").fetchall()
    assert described == [(LARGEST, 4), (LARGEST, 1)]
    for call in (f"group_commit(1, '{{1}}', '{{1}}', '{{{LARGEST}}}')", "group_release(1, '{1,2}')"):
        connection.execute(f"select trunkline.{call}".encode())
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from trunkline.group_claim(1, 2147483647)")
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("TL005", "[1, 4)")
    claimed = connection.execute("select * from trunkline.group_claim(1, 2147483647, 'earliest')").fetchone()
    assert claimed == (1, 4)


def test_names_that_look_alike_are_different_groups(connection: psycopg.Connection[Any]) -> None:
    names = ["Foo", "foo", "select", "a" * 63 + "x", "a" * 63 + "y", "0", "_", "a/b.c-d", "z" * 200]
    for name in names:
        connection.execute("select trunkline.group_create(%s, '{t}')", [name])
    listed = connection.execute("select name from trunkline.group_list()").fetchall()
    assert {name for (name,) in listed} == {*names, "g", "empty", "shared"}


IDLE = [
    "group_view(1)",
    "group_view(1, 1)",
    "group_cursors(1)",
    "group_describe('g')",
    "group_waiting('shared')",
    "group_list()",
    "member_list('g')",
    "log_more('{1,2}', '{4,1}')",
    "log_more('{1,2}', '{1,1}')",
    "group_claim(4, 10)",
    "group_enter('g', '{1}', true)",
    "group_seek('g', 't', null, 'start')",
]


@pytest.mark.direct("the counts are those of one session")
def test_idle_looks_write_nothing_and_take_no_transaction_id(connection: psycopg.Connection[Any], db_url: str) -> None:
    """After one look that settles hint bits; with a member that lives by beats, one that lives by a session, and one
    that is dead. The server counts WAL for the statement alone."""
    connection.execute("select trunkline.member_session(7)")
    with psycopg.connect(db_url) as idle:
        for number, token in ((7, 2), (8, 3)):
            idle.execute("select trunkline.member_join(1, %s, null, '{1}', 'm', %s)", [number, token])
        idle.commit()
        for is_settled in (False, True):
            for call in IDLE:
                plan = idle.execute(
                    f"explain (analyze, wal, timing off, costs off) select * from trunkline.{call}".encode()
                )
                if is_settled:
                    assert "WAL" not in "\n".join(line for (line,) in plan), call
                assert idle.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,), call
            idle.commit()
        view = idle.execute("select member_ids, dead_ids from trunkline.group_view(1)").fetchone()
        assert view == ([1, 2], [3])
        written = idle.execute("explain (analyze, wal, timing off) select trunkline.group_claim(3, 1)").fetchall()
        assert "WAL" in "\n".join(line for (line,) in written), "EXPLAIN shows WAL where there is some"
