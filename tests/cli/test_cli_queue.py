"""`trunkline queue` against a real server."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Run
from trunkline import Client

NEXT = """
select n.* from trunkline.queue q join trunkline.topic t using (topic_id)
cross join lateral trunkline.queue_next(q.queue_id,
    array(select p.part_id from trunkline.queue_part p where p.queue_id = q.queue_id order by p.part_id),
    array[]::int8[], array[]::int8[], array[]::int4[], array[]::text[], array[]::text[], array[]::float8[],
    %s::int4, 1000000, null::int4, 'reader:1') n
where t.name = 'orders' and q.name = 'billing'
"""


@pytest.fixture
def orders(tl: Client) -> None:
    """Topic orders with two partitions and ten records in each."""
    tl.create_topic("orders", partitions=2)
    for partition in (0, 1):
        tl.publish_many("orders", [b"x"] * 10, partition=partition)


@pytest.fixture
def billing(run: Run, orders: None) -> None:
    assert run("queue", "create", "orders", "billing").exit_code == 0


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_create_list_describe_delete(run: Run, orders: None) -> None:
    made = run(
        "queue", "create", "orders", "billing", "--set", "ack_deadline_s=500ms", "--set", "dead_letter=orders.dead"
    )
    assert (made.exit_code, made.stdout) == (0, "created queue billing of orders\n")
    assert "topic orders.dead does not exist yet; create it: trunkline topic create orders.dead" in made.stderr

    header, row = lines(run("queue", "list").stdout)
    assert header[:4] == ["topic", "queue", "ready", "in flight"]
    assert row[:8] == ["orders", "billing", "20", "0", "0", "0", "orders.dead", "-"]

    (found,) = objects(run("queue", "describe", "orders", "billing", "--json").stdout)
    assert (found["ack_deadline_s"], found["max_attempts"], found["dead_letter"]) == (0.5, 5, "orders.dead")
    assert [(each["floor"], each["frontier"], each["end"]) for each in found["partitions"]] == [(1, 0, 11), (1, 0, 11)]
    assert "claims" not in found

    kept = run("queue", "delete", "orders", "billing", stdin="n\n")
    assert (kept.exit_code, "which has 20 records to deliver?" in kept.stdout) == (1, True)
    assert run("queue", "delete", "orders", "billing", "--yes").stdout == "deleted queue billing of orders\n"
    assert run("queue", "list", "--json").stdout == ""
    assert run("queue", "describe", "orders", "billing").exit_code == 3


def test_a_queue_begins_at_the_end_when_told(run: Run, orders: None) -> None:
    (made,) = objects(run("queue", "create", "orders", "billing", "--start", "latest", "--json").stdout)
    assert (made["ready"], made["ordered_by_key"]) == (0, False)


def test_list_shows_those_of_a_topic(run: Run, tl: Client, billing: None) -> None:
    tl.create_topic("refunds")
    run("queue", "create", "refunds", "mail")
    assert [each["name"] for each in objects(run("queue", "list", "--json").stdout)] == ["billing", "mail"]
    assert [each["name"] for each in objects(run("queue", "list", "--topic", "refunds", "--json").stdout)] == ["mail"]


@pytest.fixture
def held(db_url: str, billing: None) -> int:
    """Five records that a reader holds."""
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(NEXT, [5])
    return 5


def test_describe_shows_who_holds_what(run: Run, held: int) -> None:
    (found,) = objects(run("queue", "describe", "orders", "billing", "--claims", "--json").stdout)
    assert (found["in_flight"], found["ready"], found["waiting"]) == (held, 20 - held, 0)
    (claim,) = found["claims"]
    assert (claim["holder"], claim["attempt"], claim["record_count"]) == ("reader:1", 1, held)
    assert claim["claimed_at"] < claim["deadline"]

    text = lines(run("queue", "describe", "orders", "billing", "--claims").stdout)
    assert next(line for line in text if "reader:1" in line)[3:6] == ["5", "1", "reader:1"]
    assert "claims" not in objects(run("queue", "describe", "orders", "billing", "--json").stdout)[0]


def test_pause_and_resume(run: Run, db_url: str, billing: None) -> None:
    paused = run("queue", "pause", "orders", "billing", "--reason", "the bank is down")
    assert "go on: trunkline queue resume orders billing" in paused.stdout
    facts = dict(line[:2] for line in lines(run("queue", "describe", "orders", "billing").stdout) if len(line) == 2)
    assert facts["paused"].endswith(": the bank is down")
    with psycopg.connect(db_url, autocommit=True) as connection:
        rows = connection.execute(NEXT, [5]).fetchall()
    assert [row[2] for row in rows] == [None]  # only the row that ends the answer

    assert run("queue", "resume", "orders", "billing").stdout == "resumed queue billing of orders\n"
    assert run("queue", "resume", "orders", "billing").stdout == "was not paused: queue billing of orders\n"
    (found,) = objects(run("queue", "describe", "orders", "billing", "--json").stdout)
    assert (found["paused_at"], found["pause_reason"]) == (None, None)


def test_alter(run: Run, tl: Client, billing: None) -> None:
    tl.create_topic("orders.dead")
    changed = run(
        *("queue", "alter", "orders", "billing", "--set", "ack_deadline_s=2m", "--set", "dead_letter=orders.dead"),
        *(
            "--set",
            "pause_above=0.5",
            "--set",
            "ordered_by_key=on",
            "--set",
            "bury_expired=on",
            "--set",
            "max_attempts=3",
        ),
    )
    assert (changed.exit_code, changed.stderr) == (0, "")
    (found,) = objects(run("queue", "alter", "orders", "billing", "--set", "pause_above=none", "--json").stdout)
    assert (found["ack_deadline_s"], found["max_attempts"], found["dead_letter"]) == (120.0, 3, "orders.dead")
    assert (found["ordered_by_key"], found["bury_expired"], found["pause_above"]) == (True, True, None)


def test_doctor_looks_at_queues(run: Run, tl: Client, billing: None) -> None:
    assert "queues\t1; fullest: orders/billing, 20 records to be delivered" in run("doctor").stdout
    run("queue", "pause", "orders", "billing", "--reason", "the bank is down")
    run("queue", "alter", "orders", "billing", "--set", "dead_letter=orders.dead")
    said = run("doctor")
    assert "the bank is down" in said.stdout
    assert "go on: trunkline queue resume orders billing" in said.stdout
    assert "create it: trunkline topic create orders.dead" in said.stdout
    assert said.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["create", "missing", "billing"], 3, "missing"),
        (["create", "orders", "billing"], 6, "trunkline queue describe orders billing"),
        (["create", "orders", "a b"], 2, "not a queue name"),
        (["create", "orders", "other", "--set", "max_attempts=5"], 2, "dead letter topic"),
        (["create", "orders", "other", "--set", "ack_deadline=5"], 2, "ack_deadline_s"),
        (["create", "orders", "other", "--set", "ack_deadline_s=-1"], 2, "ack_deadline_s"),
        (["create", "orders", "other", "--set", "ack_deadline_s=2d"], 2, "ack_deadline_s"),
        (["create", "orders", "other", "--set", "pause_above=2"], 2, "pause_above"),
        (["create", "orders", "other", "--set", "ordered_by_key=maybe"], 2, "write on or off"),
        (["create", "orders", "other", "--set", "max_attempts=many"], 2, "not a whole number"),
        (["create", "orders", "other", "--set", "bury_expired=on", "--set", "bury_expired=off"], 2, "set twice"),
        (["alter", "orders", "other", "--set", "pause_above=0.5"], 3, "trunkline queue list"),
        (["describe", "orders", "other"], 3, "trunkline queue list"),
        (["pause", "orders", "other"], 3, "trunkline queue list"),
        (["resume", "orders", "other"], 3, "trunkline queue list"),
        (["delete", "orders", "other", "--yes"], 3, "trunkline queue list"),
        (["list", "--topic", "missing"], 3, "missing"),
    ],
)
def test_bad_input(run: Run, billing: None, arguments: list[str], code: int, said: str) -> None:
    failed = run("queue", *arguments)
    assert (failed.exit_code, said in failed.stderr) == (code, True), failed.stderr
    assert [each["name"] for each in objects(run("queue", "list", "--json").stdout)] == ["billing"]
