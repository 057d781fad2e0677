"""`trunkline group lag` and `check`: what operators and monitors see."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import termios
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from tests.cli.grouped import lines, objects
from tests.concurrency.proxy import Proxy
from trunkline import Client, Consumer, TopicSettings
from trunkline.server import Server

GONE = "select trunkline.member_join(g.group_id, 2147483647, null, array[t.topic_id], 'lost:1', 7)"


# -- lag --


def test_lag_shows_who_holds_what_and_how_far_behind_it_is(run: Run, tl: Client, reader: Consumer) -> None:
    reader.commit()
    tl.publish_many("orders", [b"x"] * 3, partition=1)
    tl.create_group("audit", "orders", start=5)
    header, *rows = lines(run("group", "lag").stdout)
    assert header == ["group", "topic", "partition", "cursor", "end", "lag", "holder"]
    assert [row[:6] for row in rows] == [
        ["audit", "orders", "0", "5", "11", "6"],
        ["audit", "orders", "1", "5", "14", "9"],
        ["billing", "orders", "0", "11", "11", "0"],
        ["billing", "orders", "1", "11", "14", "3"],
    ]
    assert [re.sub(r"#\d+", "#1", row[6]) for row in rows] == ["-", "-", "#1 reader:1", "#1 reader:1"]
    assert lines(run("group", "lag", "billing").stdout)[1:] == rows[2:]
    (first, second) = objects(run("group", "lag", "billing", "--json").stdout)
    assert (first["lag"], second["lag"], second["held"], second["consumed_per_s"]) == (0, 3, "held", None)


def test_lag_of_one_topic(run: Run, tl: Client, billing: None) -> None:
    tl.create_topic("refunds")
    tl.create_group("both", ["orders", "refunds"])
    assert [row[:3] for row in lines(run("group", "lag", "--topic", "refunds").stdout)[1:]] == [
        ["both", "refunds", "0"]
    ]
    assert len(lines(run("group", "lag", "both", "--topic", "orders").stdout)) == 3
    for wrong, said in (
        (("billing", "--topic", "refunds"), "group billing does not read refunds"),
        (("billing", "--topic", "nope"), "topic nope does not exist"),
        (("--topic", "nope"), "topic nope does not exist"),
    ):
        refused = run("group", "lag", *wrong)
        assert (refused.exit_code, said in refused.stderr) == (3, True)


def test_a_partition_of_a_dead_member_and_one_that_is_shared_are_marked(
    run: Run, tl: Client, db_url: str, billing: None
) -> None:
    join(db_url)
    with tl.consumer("orders", group="shared", create=True, delivery="at_most_once") as shared:
        assert len(shared.poll()) == 20
    rows = lines(run("group", "lag").stdout)[1:]
    assert [re.sub(r"#\d+", "#1", row[6]) for row in rows] == ["#1 lost:1 (gone)"] * 2 + ["shared"] * 2


def join(url: str) -> None:
    """Let a member whose process is not there take all partitions of billing."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            f"{GONE} from trunkline.reader_group g, trunkline.topic t where g.name = 'billing' and t.name = 'orders'"
        ).fetchone()
        assert found is not None
        connection.execute(
            "select trunkline.group_take(%s, array(select c.cursor_id from trunkline.group_cursor c"
            " join trunkline.reader_group g using (group_id) where g.name = 'billing'))",
            found,
        )


def test_watching_writes_lines_with_rates_until_ctrl_c(start: Start, tl: Client, reader: Consumer) -> None:
    process = start("group", "lag", "billing", "--watch", "--interval", "20ms")
    assert process.stdout is not None
    assert process.stdout.readline().split(b"\t")[-2:] == [b"read/s", b"new/s\n"]
    first = process.stdout.readline().decode().rstrip("\n").split("\t")
    assert (first[1:7], first[8:]) == (["billing", "orders", "0", "1", "11", "10"], ["-", "-"])
    assert datetime.fromisoformat(first[0]) <= datetime.now(UTC)
    reader.commit()
    tl.publish_many("orders", [b"x"] * 5, partition=0)
    rates: dict[str, list[str]] = {"consumed": [], "published": []}
    for line in process.stdout:
        *_, consumed, published = line.decode().split()
        rates["consumed"].append(consumed)
        rates["published"].append(published)
        if all(any(rate not in ("-", "0") for rate in seen) for seen in rates.values()):
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130


def test_watching_in_json_writes_an_object_a_line_until_nobody_reads_it(start: Start, billing: None) -> None:
    process = start("group", "lag", "billing", "--watch", "--interval", "10ms", "--json")
    assert process.stdout is not None
    looks = [json.loads(process.stdout.readline()) for _ in range(4)]
    assert [(look["group"], look["partition"]) for look in looks] == [("billing", 0), ("billing", 1)] * 2
    assert [look["consumed_per_s"] for look in looks] == [None, None, 0.0, 0.0]
    assert looks[0]["time"] < looks[2]["time"]
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 141


def test_watching_reports_a_server_that_is_away_and_goes_on(
    start: Start, server: Server, direct_url: str, billing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_DEADLINE_S", "3")
    with Proxy(server.port) as proxy:
        through = ("--url", proxy.url(direct_url))
        process = start("group", "lag", "billing", "--watch", "--interval", "10ms", *through)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        proxy.darken()
        assert process.stderr.readline().startswith(b"error [TL03")
        proxy.darken(dark=False)
        before = datetime.now(UTC)
        assert any(datetime.fromisoformat(line.decode().split()[0]) > before for line in process.stdout)


def test_watching_a_group_that_is_deleted_ends_with_not_found(start: Start, tl: Client, billing: None) -> None:
    process = start("group", "lag", "billing", "--watch", "--interval", "10ms")
    assert process.stdout is not None
    process.stdout.readline()
    tl.delete_group("billing")
    assert process.wait(DEADLINE_S) == 3


def test_watching_on_a_terminal_keeps_one_table_up_to_date(start: Start, tl: Client, billing: None) -> None:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = start("group", "lag", "--watch", "--interval", "10ms", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    read_until(ours, r"read/s.+new/s")
    read_until(ours, r"billing +orders +1 +1 +11 +10 +- +0 +0")
    tl.publish_many("orders", [b"x"] * 100, partition=1)
    read_until(ours, r"billing +orders +1 +1 +111 +110")
    process.send_signal(signal.SIGINT)
    read_until(ours, r"\?25h")  # the terminal's cursor is back
    assert process.wait(DEADLINE_S) == 130
    os.close(ours)


def read_until(descriptor: int, pattern: str) -> None:
    """Until the terminal has got this."""
    said = ""
    while not re.search(pattern, said):
        assert select.select([descriptor], [], [], DEADLINE_S)[0], said
        said += os.read(descriptor, 65536).decode()


@pytest.mark.parametrize("interval", ["0", "-1s", "soon", ""])
def test_an_interval_that_cannot_be_is_wrong_usage(run: Run, interval: str) -> None:
    refused = run("group", "lag", "--watch", "--interval", interval)
    assert (refused.exit_code, "'--interval'" in refused.stderr) == (2, True)


# -- check --


def test_a_group_within_its_limits_is_ok(run: Run, tl: Client, reader: Consumer) -> None:
    reader.commit()
    done = run("group", "check", "billing", "--lag-max", 0, "--age-max", "1ms", "--members-min", 1)
    assert (done.exit_code, lines(done.stdout)) == (
        0,
        [["ok", "groups", "billing, 0 records behind, 1 member is alive", ""]],
    )
    tl.publish_many("orders", [b"x"] * 2, partition=0)
    assert run("group", "check", "--lag-max", 2, "--age-max", "1h").exit_code == 0


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (("--lag-max", "19"), "billing: 20 records behind, more than 19"),
        (("--age-max", "1ms"), "billing: its oldest record has waited for"),
        (("--members-min", "2"), "billing: 1 member is alive, fewer than 2"),
    ],
)
def test_a_limit_that_is_passed_is_a_problem(run: Run, reader: Consumer, limits: tuple[str, ...], said: str) -> None:
    failed = run("group", "check", *limits)
    assert failed.exit_code == 1
    ((level, subject, text, _),) = lines(failed.stdout)
    assert (level, subject, said in text) == ("problem", "groups", True)
    report = json.loads(run("group", "check", "billing", *limits, "--json").stdout)
    assert [found["level"] for found in report["findings"]] == ["problem"]
    assert (report["groups"][0]["lag"], report["groups"][0]["members_alive"]) == (20, 1)
    assert all(each["waiting_since"] <= report["at"] for each in report["groups"][0]["partitions"])


def test_without_limits_warnings_are_shown_and_leave_the_exit_code(run: Run, billing: None, db_url: str) -> None:
    join(db_url)
    done = run("group", "check")
    assert (done.exit_code, [line[0] for line in lines(done.stdout)]) == (0, ["warning", "note"])
    assert "billing: nobody reads with it, and 20 records wait" in done.stdout


def test_a_group_that_retention_has_passed_is_a_problem_and_its_cure_works(
    run: Run, tl: Client, db_url: str, billing: None
) -> None:
    tl.create_group("ahead", "orders", start="latest")
    tl.alter_topic("orders", retention_bytes=0)
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
    tl.retention_run()
    failed = run("group", "check")
    assert failed.exit_code == 1
    problem = lines(failed.stdout)[0]
    assert problem[2] == "billing: retention passed it in partitions 0, 1 of orders: 20 records went unread"
    assert "groups" in [line[1] for line in lines(run("doctor").stdout) if line[0] == "problem"]
    cure = problem[3].partition("trunkline ")[2].split()
    assert run(*cure).exit_code == 0
    assert run("group", "check").exit_code == 0


def test_a_record_waits_from_its_append_on_and_what_retention_took_no_longer(run: Run, tl: Client, db_url: str) -> None:
    tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
    for _ in range(3):
        tl.publish("orders", b"x")
    tl.create_group("billing", "orders", start=2)

    def waiting() -> datetime | None:
        ((partition,),) = [
            group["partitions"] for group in json.loads(run("group", "check", "--json").stdout)["groups"]
        ]
        since = partition["waiting_since"]
        return None if since is None else datetime.fromisoformat(since)

    assert waiting() == tl.read("orders", offset=2)[0].append_time
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
    tl.retention_run()
    assert waiting() is None
    tl.publish("orders", b"x")
    assert waiting() == tl.read("orders", offset=4)[0].append_time
    tl.seek_group("billing", "orders", "end", execute=True)
    assert waiting() is None


def test_readers_at_most_once_are_not_members(run: Run, tl: Client, orders: None) -> None:
    with tl.consumer("orders", group="shared", create=True, delivery="at_most_once") as shared:
        shared.poll(max_records=5)
        assert lines(run("group", "check", "shared").stdout) == [
            ["ok", "groups", "shared, 15 records behind, read at most once", ""]
        ]
        assert "are not members" in run("group", "check", "--members-min", 1).stdout


def test_checking_nothing_is_ok(run: Run) -> None:
    assert (run("group", "check").exit_code, run("group", "check").stdout) == (0, "")


@pytest.mark.parametrize(
    "limit",
    [
        *(("--lag-max", "-1"), ("--lag-max", "many"), ("--members-min", "-1"), ("--members-min", "1.5")),
        *(("--age-max", "-5m"), ("--age-max", "0"), ("--age-max", "soon")),
    ],
)
def test_a_limit_that_cannot_be_is_wrong_usage(run: Run, limit: tuple[str, str]) -> None:
    refused = run("group", "check", *limit)
    assert (refused.exit_code, f"'{limit[0]}'" in refused.stderr) == (2, True)


def test_a_name_that_cannot_be_is_refused(run: Run) -> None:
    for command in (("describe", "a b"), ("lag", "../x"), ("check", "x" * 201), ("delete", "", "--yes")):
        assert run("group", *command).exit_code == 2


def test_on_a_terminal_there_are_tables(on_terminal: Any, tl: Client) -> None:
    assert "There are no groups." in on_terminal("group", "list")[1]
    assert "There are no groups." in on_terminal("group", "lag")[1]
    tl.create_topic("orders", settings=TopicSettings())
    tl.create_group("billing", "orders")
    for command in (("list",), ("lag",), ("describe", "billing"), ("check",)):
        code, said = on_terminal("group", *command)
        assert (code, "billing" in said, "\t" in said) == (0, True, False)
    code, said = on_terminal("group", "seek", "billing", "--topic", "orders", "--to", "end")
    assert (code, "nothing was changed; add --execute" in said) == (0, True)
