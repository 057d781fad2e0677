"""`trunkline group` against a real server."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.cli.conftest import DEADLINE_S, Run
from tests.cli.grouped import lines, objects
from trunkline import Client, Consumer, Record, errors


def cursors(tl: Client, group: str = "billing") -> list[int]:
    return [each.cursor for each in tl.describe_group(group).partitions]


# -- create, list, describe, delete --


def test_create_list_describe_delete(run: Run, tl: Client, orders: None) -> None:
    tl.create_topic("refunds")
    made = run("group", "create", "billing", "--topic", "refunds", "--topic", "orders")
    assert (made.exit_code, made.stdout) == (0, "created group billing, which reads orders, refunds\n")

    header, billing = lines(run("group", "list").stdout)
    assert header == ["group", "topics", "members", "partitions", "lag", "created"]
    assert billing[:5] == ["billing", "orders, refunds", "0", "3", "20"]

    described = lines(run("group", "describe", "billing").stdout)
    assert described[:3] == [["group", "billing"], ["lag", "20"], ["members", "0"]]
    assert ["orders", "1", "1", "1", "11", "10", "-", "0", "begun"] in [line[:9] for line in described]

    kept = run("group", "delete", "billing", stdin="n\n")
    assert (kept.exit_code, "which is 20 records behind?" in kept.stdout) == (1, True)
    assert [group.name for group in tl.groups()] == ["billing"]
    assert run("group", "delete", "billing", "--yes").stdout == "deleted group billing\n"
    assert tl.groups() == []
    assert len(tl.read("orders")) == 10


def test_json_is_one_object_a_line(run: Run, reader: Consumer) -> None:
    made = json.loads(run("group", "create", "audit", "--topic", "orders", "--json").stdout)
    assert (made["name"], made["lag"], made["members_alive"], len(made["partitions"])) == ("audit", 20, 0, 2)
    listed = objects(run("group", "list", "--json").stdout)
    assert [(each["name"], each["members"]) for each in listed] == [("audit", 0), ("billing", 1)]
    (described,) = objects(run("group", "describe", "billing", "--json").stdout)
    assert [(each["held"], each["lag"], each["moved"]) for each in described["partitions"]] == [
        ("held", 10, "taken"),
        ("held", 10, "taken"),
    ]
    assert [member["name"] for member in described["members"]] == ["reader:1"]
    assert json.loads(run("group", "delete", "audit", "--yes", "--json").stdout) == {"deleted": "audit"}


def test_a_new_group_begins_where_it_is_told(run: Run, tl: Client, orders: None) -> None:
    between = tl.read("orders", partition=1)[0].append_time.isoformat().replace("+00:00", "Z")
    starts = {"earliest": [1, 1], "latest": [11, 11], "7": [7, 7], f"@{between}": [11, 1], "-1h": [1, 1]}
    for number, (start, expected) in enumerate(starts.items()):
        made = run("group", "create", f"group-{number}", "--topic", "orders", "--start", start)
        assert (made.exit_code, cursors(tl, f"group-{number}")) == (0, expected), start


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("billing",), 2),
        (("billing", "--topic", "nope"), 3),
        (("a b", "--topic", "orders"), 2),
        (("billing", "--topic", "../x"), 2),
        (("billing", "--topic", "orders", "--start", "12"), 3),
        *(
            (("billing", "--topic", "orders", "--start", start), 2)
            for start in ("", "soon", "0", "-5", "+5", "1:2", "1h")
        ),
        (("billing", "--topic", "orders", "--start", "@2999-01-01"), 2),
    ],
)
def test_what_cannot_be_created_is_refused_and_nothing_is_made(
    run: Run, tl: Client, orders: None, arguments: tuple[str, ...], code: int
) -> None:
    assert run("group", "create", *arguments).exit_code == code
    assert tl.groups() == []


def test_exit_codes_of_what_is_not_there_and_what_is_there_already(run: Run, billing: None) -> None:
    assert run("group", "create", "billing", "--topic", "orders").exit_code == 6
    for command in (
        ("describe", "nope"),
        ("lag", "nope"),
        ("seek", "nope", "--topic", "orders", "--to", "end"),
        ("delete", "nope", "--yes"),
        ("delete", "nope"),
        ("check", "billing", "nope"),
    ):
        missing = run("group", *command)
        assert (missing.exit_code, "error [TL002]: group nope does not exist" in missing.stderr) == (3, True), command
        assert missing.stdout == ""


def test_a_group_with_living_members_is_deleted_only_by_cutting_them_off(
    run: Run, tl: Client, reader: Consumer
) -> None:
    refused = run("group", "delete", "billing", "--yes")
    assert (refused.exit_code, "error [TL016]: group billing has 1 living members" in refused.stderr) == (6, True)
    assert run("group", "delete", "billing", "--yes", "--cut-off").exit_code == 0
    with pytest.raises(errors.Fenced):
        reader.commit()
    assert tl.groups() == []


# -- seek --


def test_a_seek_is_a_dry_run_until_it_is_executed(run: Run, tl: Client, billing: None) -> None:
    dry = run("group", "seek", "billing", "--topic", "orders", "--to", 4)
    assert lines(dry.stdout) == [
        ["topic", "partition", "from", "to", "effect"],
        ["orders", "0", "1", "4", "skips 3"],
        ["orders", "1", "1", "4", "skips 3"],
    ]
    assert (dry.exit_code, dry.stderr) == (0, "nothing was changed; add --execute\n")
    assert cursors(tl) == [1, 1]
    done = run("group", "seek", "billing", "--topic", "orders", "--to", 4, "--execute")
    assert (done.stdout, done.stderr) == (dry.stdout, "moved group billing\n")
    assert cursors(tl) == [4, 4]
    back = run("group", "seek", "billing", "--topic", "orders", "--to", "start", "--partition", 1, "--execute")
    assert lines(back.stdout)[1:] == [["orders", "1", "4", "1", "repeats 3"]]
    assert cursors(tl) == [4, 1]


def test_where_a_seek_leads(run: Run, tl: Client, billing: None) -> None:
    tl.create_group("audit", "orders", start=6)
    second = tl.read("orders", partition=1)[0].append_time.isoformat()
    places = {"end": [11, 11], "start": [1, 1], "11": [11, 11], "-1h": [1, 1], "@-1h": [1, 1], f"@{second}": [11, 1]}
    for place, expected in places.items():
        done = run("group", "seek", "billing", "--topic", "orders", "--to", place, "--execute")
        assert (done.exit_code, cursors(tl)) == (0, expected), place
    done = run("group", "seek", "billing", "--topic", "orders", "--like", "audit", "--execute", "--json")
    assert json.loads(done.stdout) == {
        "group": "billing",
        "executed": True,
        "members_alive": 0,
        "moves": [
            {"topic": "orders", "partition": 0, "from_offset": 11, "to_offset": 6},
            {"topic": "orders", "partition": 1, "from_offset": 1, "to_offset": 6},
        ],
    }
    assert cursors(tl) == [6, 6]


def test_a_seek_says_that_living_members_lose_what_they_have_in_hand(run: Run, tl: Client, reader: Consumer) -> None:
    seek = ("group", "seek", "billing", "--topic", "orders", "--to", "start")
    lose = "lose what they have in hand, and go on at the new place"
    assert run(*seek).stderr == f"nothing was changed; add --execute: its 1 living member will {lose}\n"
    reader.commit()
    assert cursors(tl) == [11, 11]
    assert run(*seek, "--execute").stderr == f"moved group billing; its 1 living member {lose}\n"
    tl.publish("orders", b"x", partition=0)
    got: list[Record] = []
    while len(got) < 21:
        got += reader.poll(wait_s=DEADLINE_S)
    assert [record.offset for record in got if record.partition == 1] == list(range(1, 11))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "one of --to and --like"),
        (("--to", "end", "--like", "audit"), 2, "one of --to and --like"),
        (("--to", "0"), 2, "to must be 1 to"),
        (("--to", "-5"), 2, "not a place: '-5'"),
        (("--to", "+5"), 2, "not a place"),
        (("--to", "2:5"), 2, "not a place"),
        (("--to", ""), 2, "not a place"),
        (("--to", "soon"), 2, "not a place"),
        (("--to", "@1h"), 2, "lies in the future"),
        (("--to", "9223372036854775808"), 2, "beyond the highest offset"),
        (("--to", "12"), 3, "error [TL005]"),
        (("--like", "nope"), 3, "group nope does not exist"),
        (("--like", "elsewhere"), 3, "does not read partition 0"),
        (("--like", "a b"), 2, "not a group name"),
        (("--to", "end", "--partition", "2"), 3, "group billing does not read orders partition 2"),
        (("--to", "end", "--partition", "-1"), 2, "'--partition'"),
        (("--to", "end", "--partition", "1.5"), 2, "'--partition'"),
        (("--to", "end", "--topic", "refunds"), 3, "group billing does not read refunds"),
        (("--to", "end", "--topic", "nope"), 3, "topic nope does not exist"),
    ],
)
def test_a_seek_that_cannot_be_moves_nothing(
    run: Run, tl: Client, billing: None, arguments: tuple[str, ...], code: int, said: str
) -> None:
    tl.create_topic("refunds")
    tl.create_group("elsewhere", "refunds")
    refused = run("group", "seek", "billing", "--topic", "orders", *arguments, "--execute")
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert cursors(tl) == [1, 1]


def test_a_seek_needs_a_topic(run: Run, billing: None) -> None:
    assert run("group", "seek", "billing", "--to", "end").exit_code == 2


# -- blocked, redrive --


@pytest.fixture
def parked(tl: Client, billing: None, db_url: str) -> None:
    """One record of group billing that failed and one behind it, of a tenant and a user that is no text."""
    with psycopg.connect(db_url) as connection:
        cursor = "(select min(cursor_id) from trunkline.group_cursor)"
        connection.execute(f"select trunkline.failure_add({cursor}, 3, 1, 'acme', '\\xff00', 5, 'ValueError: no')")
        for offset, behind in ((3, None), (7, 3)):
            connection.execute(
                f"select trunkline.parked_add({cursor}, 'acme', '\\xff00', 5, 'ValueError: no', %s, array[%s]::int8[],"
                " array['x'::bytea], array[0], '{}', '{}', array[now()])",
                [behind, offset],
            )


def test_S4_22_lag_the_last_error_and_what_is_parked_are_shown(run: Run, tl: Client, parked: None) -> None:
    described = dict(line[:2] for line in lines(run("group", "describe", "billing").stdout)[:8] if len(line) == 2)
    assert (described["lag"], described["failed"], described["parked records"]) == ("20", "1", "2")
    assert described["last error"] == "ValueError: no (orders, partition 0, offset 3)"
    (found,) = objects(run("group", "describe", "billing", "--json").stdout)
    assert (found["failures"]["last_reason"], found["failures"]["blocked_keys"]) == ("ValueError: no", 1)
    assert "2 records of 1 key parked; the last one: ValueError: no" in run("group", "check", "billing").stdout


def test_keys_that_are_blocked_are_shown_and_redriven_when_asked_for(run: Run, tl: Client, parked: None) -> None:
    _, row = lines(run("group", "blocked", "billing").stdout)
    assert row[:8] == ["orders", "0", "acme", r"\xff\x00", "3", "2", "1", "5"]
    (found,) = objects(run("group", "blocked", "billing", "--json").stdout)
    assert (found["key"], found["group_key_base64"], found["reason"]) == ("acme", "/wA=", "ValueError: no")
    (asked,) = objects(run("group", "redrive", "billing", "--json").stdout)
    assert (asked["executed"], [each["due_at"] for each in asked["keys"]]) == (False, [None])
    assert tl.blocked_keys("billing")[0].due_at is None
    run("group", "redrive", "billing", "--key", "other", "--execute")
    assert tl.blocked_keys("billing")[0].due_at is None
    assert "nothing was changed" in run("group", "redrive", "billing", "--discard-failed").stderr
    run("group", "redrive", "billing", "--key", "acme", "--group-key", r"\xff\x00", "--discard-failed", "--execute")
    (left,) = tl.blocked_keys("billing")
    assert (left.record_count, left.failed_count, left.first_offset) == (1, 0, 7)
    assert left.due_at is not None
    assert run("group", "blocked", "nope").exit_code == 3
