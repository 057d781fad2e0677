"""`trunkline dlq` against a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.conftest import Run
from trunkline import Client, Record
from trunkline.engine.dead_letters import dead_letter

DEAD = "orders.dead"


@pytest.fixture
def letters(tl: Client) -> None:
    """Topic orders.dead with two ValueErrors and a KeyError of orders."""
    tl.create_topic("orders")
    tl.create_topic(DEAD)
    put_away(tl, 1, 2, reason="ValueError: no")
    put_away(tl, 3, reason="KeyError: 'x'")


def put_away(tl: Client, *numbers: int, reason: str) -> None:
    now = datetime.now(UTC)
    records = [Record("orders", 0, each, b"key-%d" % each, b"%d" % each, (("a", b"b"),), now) for each in numbers]
    tl.publish_many(DEAD, [dead_letter(record, attempts=5, reason=reason, time=now) for record in records])


def orders(tl: Client) -> list[bytes]:
    return [record.payload for record in tl.read("orders", max_records=1_000)]


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_list_shows_the_dead_letters_of_queues(run: Run, tl: Client, letters: None) -> None:
    assert run("dlq", "list").stdout.splitlines() == ["topic\tletters\tto see to\tnewest\tqueues"]
    assert run("queue", "create", "orders", "billing", "--set", f"dead_letter={DEAD}").exit_code == 0
    assert run("queue", "create", "orders", "mail", "--set", "dead_letter=mail.dead").exit_code == 0
    _, mail, dead = lines(run("dlq", "list").stdout)
    assert mail == ["mail.dead", "missing", "-", "-", "orders/mail"]
    assert (dead[:3], dead[4]) == ([DEAD, "3", "3"], "orders/billing")

    run("dlq", "redrive", DEAD)
    found = objects(run("dlq", "list", "--json").stdout)[1]
    assert (found["topic"], found["letters"], found["waiting"], found["queues"]) == (DEAD, 3, 0, ["orders/billing"])


def test_list_shows_what_was_redriven_without_a_queue(run: Run, letters: None) -> None:
    run("dlq", "redrive", DEAD, "--max", "1")
    assert lines(run("dlq", "list").stdout)[1][:3] == [DEAD, "3", "3"]


def test_view_shows_why_and_where_from(run: Run, letters: None) -> None:
    first, second, third = objects(run("dlq", "view", DEAD).stdout)
    assert (first["payload"], first["key"], first["offset"], first["is_done"]) == ("1", "key-1", 1, False)
    said = first["dead_letter"]
    assert (said["topic"], said["partition"], said["offset"], said["attempts"]) == ("orders", "0", "1", "5")
    assert (second["dead_letter"]["reason"], third["dead_letter"]["reason"]) == ("ValueError: no", "KeyError: 'x'")

    assert [each["payload"] for each in objects(run("dlq", "view", DEAD, "--limit", "2").stdout)] == ["1", "2"]
    assert [each["payload"] for each in objects(run("dlq", "view", DEAD, "--reason", "Key*").stdout)] == ["3"]
    assert [each["payload"] for each in objects(run("dlq", "view", DEAD, "--key", r"key-\x32").stdout)] == ["2"]
    assert run("dlq", "view", DEAD, "--origin", "refunds").stdout == ""
    assert len(objects(run("dlq", "view", DEAD, "--since", "-1h").stdout)) == 3


def test_view_on_a_terminal_lets_no_letter_command_it(
    on_terminal: Callable[..., tuple[int, str]], tl: Client, letters: None
) -> None:
    put_away(tl, 4, reason="bad \x1b[31m")
    code, said = on_terminal("dlq", "view", DEAD, "--reason", "bad*")
    assert code == 0
    assert re.search(r"reason +bad \\x1b\[31m", said)
    assert re.search(r"origin +orders 0:4, 5 attempts", said)
    assert re.search(r"header +a=b", said)
    assert "trunkline-dl-" not in said


def test_redrive_sends_each_letter_once(run: Run, tl: Client, letters: None) -> None:
    tried = run("dlq", "redrive", DEAD, "--dry-run")
    assert (tried.exit_code, tried.stdout) == (0, "topic\twould be sent\norders\t3\n")
    assert "nothing was changed" in tried.stderr
    assert (orders(tl), tl.groups()) == ([], [])

    only = run("dlq", "redrive", DEAD, "--reason", "KeyError*", "--rate", "100/s")
    assert only.stdout == "topic\tsent\norders\t1\n"
    assert "2 do not match and stay" in only.stderr
    assert orders(tl) == [b"3"]
    assert [each["payload"] for each in objects(run("dlq", "view", DEAD).stdout)] == ["1", "2"]

    some = run("dlq", "redrive", DEAD, "--max", "1")
    assert ("there are more; run it again" in some.stderr, orders(tl)) == (True, [b"3", b"1"])
    (report,) = objects(run("dlq", "redrive", DEAD, "--json").stdout)
    assert (report["sent"], report["topics"], report["is_complete"]) == (1, {"orders": 1}, True)
    (again,) = objects(run("dlq", "redrive", DEAD, "--json").stdout)
    assert (again["sent"], orders(tl)) == (0, [b"3", b"1", b"2"])
    done = objects(run("dlq", "view", DEAD, "--all").stdout)
    assert [each["is_done"] for each in done] == [True, True, True]


def test_redrive_goes_elsewhere_when_told(run: Run, tl: Client, letters: None) -> None:
    tl.create_topic("repaired")
    assert run("dlq", "redrive", DEAD, "--to", "repaired").stdout == "topic\tsent\nrepaired\t3\n"
    (record,) = tl.read("repaired", max_records=1)
    assert record.headers == (("a", b"b"), ("trunkline-redriven", b"orders.dead/0/1"))


def test_redrive_says_what_stays_because_it_cannot_go_back(run: Run, tl: Client, letters: None) -> None:
    tl.publish(DEAD, b"no letter")
    done = run("dlq", "redrive", DEAD)
    assert "1 cannot go back, and stay; the first: orders.dead 0:4 does not say where it came from" in done.stderr
    assert len(objects(run("dlq", "view", DEAD).stdout)) == 1


def test_an_origin_that_is_gone_is_an_error_with_the_next_step(run: Run, tl: Client, letters: None) -> None:
    tl.delete_topic("orders")
    failed = run("dlq", "redrive", DEAD)
    assert (failed.exit_code, "came from topic orders, which does not exist; create it" in failed.stderr) == (3, True)
    tl.create_topic("orders")
    assert run("dlq", "redrive", DEAD).stdout == "topic\tsent\norders\t3\n"


def test_purge_passes_over_what_is_there(run: Run, tl: Client, letters: None) -> None:
    kept = run("dlq", "purge", DEAD, stdin="n\n")
    assert (kept.exit_code, "which holds 3?" in kept.stdout) == (1, True)
    assert len(objects(run("dlq", "view", DEAD).stdout)) == 3
    purged = run("dlq", "purge", DEAD, "--yes")
    assert purged.stdout == "passed over 3 dead letters of orders.dead; its retention takes the records\n"
    assert run("dlq", "view", DEAD).stdout == ""
    put_away(tl, 4, reason="new")
    assert run("dlq", "redrive", DEAD).stdout == "topic\tsent\norders\t1\n"
    assert objects(run("dlq", "purge", DEAD, "--yes", "--json").stdout) == [{"topic": DEAD, "passed_over": 0}]
    assert tl.offsets(DEAD)[0].start == 1


def test_doctor_does_not_ask_who_reads_for_a_redrive(run: Run, tl: Client, letters: None) -> None:
    run("dlq", "redrive", DEAD)
    put_away(tl, 4, reason="new")
    assert "trunkline.redrive" not in run("doctor").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["redrive", "missing"], 3, "missing"),
        (["view", "missing"], 3, "missing"),
        (["purge", "missing", "--yes"], 3, "missing"),
        (["redrive", DEAD, "--to", DEAD], 2, "cannot be redriven to itself"),
        (["redrive", DEAD, "--rate", "0/s"], 2, "not a rate"),
        (["redrive", DEAD, "--rate", "fast"], 2, "not a rate"),
        (["redrive", DEAD, "--since", "42"], 2, "not a time"),
        (["redrive", DEAD, "--since", "start"], 2, "not a time"),
        (["redrive", DEAD, "--reason", ""], 2, "reason must be a pattern"),
        (["redrive", DEAD, "--origin", "a b"], 2, "not a topic name"),
        (["redrive", DEAD, "--max", "0"], 2, "0 is not in the range"),
        (["view", DEAD, "--limit", "0"], 2, "0 is not in the range"),
    ],
)
def test_bad_input(run: Run, tl: Client, letters: None, arguments: list[str], code: int, said: str) -> None:
    failed = run("dlq", *arguments)
    assert (failed.exit_code, said in failed.stderr) == (code, True), failed.stderr
    assert (orders(tl), tl.groups()) == ([], [])
