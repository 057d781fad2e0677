"""`trunkline doctor`: what it finds on a real server, and what facts mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from tests.cli.conftest import Run
from tests.concurrency.proxy import Proxy
from trunkline import Client, TopicSettings
from trunkline.server import Server
from trunkline.status import findings
from trunkline.status.facts import LockHolder, RetentionState, ServerFacts, SessionCount, SnapshotHolder
from trunkline.status.findings import Finding

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SERVER = ServerFacts("15.1", 150001, False, True, True, "on", True, True, "", 10, 2000, NOW)
QUIET = RetentionState("orders", 3600, None, 1, 0, 0, 1000, None, None, None, None, None)
LOCK = LockHolder("orders", 0, 7, True, None, "app", "web", "idle in transaction", NOW, NOW)
SESSION = SnapshotHolder("session", None, 7, "bi", "report", "active", NOW, NOW, 5)


@pytest.fixture
def db_url(make_database: Callable[[], str]) -> str:
    """A database of the test's own: these tests change, or count, what is in the schema."""
    return make_database()


def facts(run: Run, *arguments: str) -> dict[str, Any]:
    done = run("doctor", "--json", *arguments)
    report = json.loads(done.stdout)
    assert done.exit_code == (1 if any(found["level"] == "problem" for found in report["findings"]) else 0)
    return {**report["facts"], "findings": report["findings"]}


def test_a_healthy_server_has_no_problem(run: Run, tl: Client) -> None:
    tl.create_topic("orders", settings=TopicSettings(retention_age_s=3600))
    done = run("doctor")
    assert done.exit_code == 0, done.stdout
    found = [line.split("\t")[:2] for line in done.stdout.splitlines()]
    assert {subject for _, subject in found} == {
        *(
            "schema",
            "connection",
            "server",
            "lz4",
            "durability",
            "segments",
            "snapshots",
            "retention",
            "locks",
            "groups",
        )
    }
    assert {level for level, _ in found} <= {"ok", "note"}


def test_facts_are_those_of_the_server(run: Run, tl: Client, server: Server, through_pooler: bool) -> None:
    tl.create_topic("orders")
    known = facts(run)
    assert known["server"]["server_version"].startswith(server.version)
    assert (known["server"]["fsync"], known["server"]["segments"], known["pooled"]) == (True, 1, through_pooler)
    (topic,) = known["retention"]
    assert (topic["topic"], topic["segments"], topic["segments_released"]) == ("orders", 1, 0)
    notes = [found["text"] for found in known["findings"] if found["level"] == "note"]
    assert "kept for ever: orders" in notes


def test_a_pooler_is_named_with_what_it_costs(run: Run, server: Server, direct_url: str) -> None:
    """Method: a proxy looks like a pooler; the server sees another port than the client's."""
    with Proxy(server.port) as proxy:
        known = facts(run, "--url", proxy.url(direct_url))
    assert known["pooled"] is True
    ((level, text),) = [
        (found["level"], found["text"]) for found in known["findings"] if found["subject"] == "connection"
    ]
    assert (level, "readers poll" in text, "a row at every heartbeat" in text) == ("note", True, True)


def test_groups_are_looked_at(run: Run, tl: Client) -> None:
    def groups() -> list[tuple[str, str]]:
        return [(each["level"], each["text"]) for each in facts(run)["findings"] if each["subject"] == "groups"]

    assert groups() == [("ok", "there are none")]
    tl.create_topic("orders")
    tl.publish("orders", b"x")
    with tl.consumer("orders", group="billing", create=True):
        assert groups() == [("ok", "1; furthest behind: billing, 1 record behind, 1 member is alive")]
        (known,) = facts(run)["groups"]
        assert (known["name"], known["members_alive"], known["partitions"][0]["held"]) == ("billing", 1, "held")
    ((level, text),) = groups()
    assert (level, text.startswith("billing: nobody reads with it, and 1 record waits")) == ("warning", True)


def test_whoever_holds_a_snapshot_is_named(run: Run, db_url: str) -> None:
    with psycopg.connect(db_url, application_name="nightly report") as holder:
        holder.execute("set transaction isolation level repeatable read")
        ((pid,),) = holder.execute("select pg_backend_pid() from pg_class limit 1").fetchall()
        (found,) = facts(run)["snapshots"]
        assert (found["pid"], found["application"]) == (pid, "nightly report")
        assert (found["user_name"], found["state"]) == ("trunkline", "idle in transaction")
        assert datetime.fromisoformat(found["since"]) <= datetime.now(UTC)
    assert facts(run)["snapshots"] == []


def test_whoever_holds_or_awaits_a_partition_is_named(run: Run, tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    with psycopg.connect(db_url, application_name="stuck") as holder:
        lock = "select pg_backend_pid(), trunkline.lock_partition(%s)"
        ((pid, _),) = holder.execute(lock, [tl.topic("orders").partition_ids[1]]).fetchall()
        (held,) = facts(run)["locks"]
        assert (held["topic"], held["partition"], held["granted"]) == ("orders", 1, True)
        assert (held["pid"], held["application"]) == (pid, "stuck")
    assert facts(run)["locks"] == []


def test_whoever_holds_or_awaits_a_groups_cursor_is_named(run: Run, tl: Client, db_url: str) -> None:
    """A transaction that has committed a cursor and goes on; somebody seeks the group meanwhile."""
    tl.create_topic("orders", partitions=2)
    tl.create_group("billing", ["orders"])
    lock = "select trunkline.lock_cursors(array[cursor_id]) from trunkline.group_cursors(1) where partition = 1"
    with (
        psycopg.connect(db_url, application_name="stuck") as holder,
        psycopg.connect(db_url, application_name="seeking") as other,
        ThreadPoolExecutor(1) as threads,
    ):
        holder.execute(lock)
        waiting = threads.submit(other.execute, lock)
        while len(held := facts(run)["locks"]) < 2:
            assert not waiting.done()
        holder.rollback()
        waiting.result()
    assert {(each["topic"], each["partition"], each["group_name"]) for each in held} == {("orders", 1, "billing")}
    assert [(each["application"], each["granted"]) for each in held] == [("stuck", True), ("seeking", False)]
    assert facts(run)["locks"] == []


def test_released_and_moving_segments_are_counted(run: Run, tl: Client, db_url: str) -> None:
    tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
    tl.publish("orders", b"x")
    with psycopg.connect(db_url, autocommit=True) as connection:
        ((first,),) = connection.execute("select open_segment_id from trunkline.topic").fetchall()
        connection.execute("select trunkline.segment_roll(%s, true)", [first])
        (moving,) = facts(run)["retention"]
        assert (moving["segments"], moving["segments_moving"]) == (2, 1)
        assert moving["moving_since"] is not None
        connection.execute("select trunkline.segment_seal(%s)", [first])
        (sealed,) = facts(run)["retention"]
        assert (sealed["segments_moving"], sealed["bytes_over"] > 0) == (0, True)
        connection.execute("select trunkline.retention_release(topic_id) from trunkline.topic")
        (released,) = facts(run)["retention"]
        assert (released["segments_released"], released["released_since"] is not None) == (1, True)


def test_a_missing_schema_is_a_problem_with_its_cure(run: Run, empty_url: str) -> None:
    known = facts(run, "--url", empty_url)
    assert [found["subject"] for found in known["findings"]] == ["schema"]
    assert "trunkline db install" in known["findings"][0]["text"]


def test_a_changed_function_is_a_problem(run: Run, db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("create function trunkline.theirs() returns int language sql as 'select 1'")
    problems = [found for found in facts(run)["findings"] if found["level"] == "problem"]
    assert [found["subject"] for found in problems] == ["schema"]
    assert "trunkline.theirs" in problems[0]["text"]
    assert problems[0]["next_step"].startswith("run: trunkline db install")


@pytest.fixture
def login(server: Server, db_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a user who is a member of the role that the test names, and of nothing else."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create role cli_login login password 'cli' in role {request.param}")
        password = server.url.split("@")[0].rpartition(":")[2]
        yield db_url.replace("trunkline:", "cli_login:", 1).replace(password, "cli")
        connection.execute("drop role cli_login")


@pytest.mark.parametrize("login", ["trunkline_admin"], indirect=True)
def test_an_admin_sees_all_but_the_insides_of_other_users_sessions(run: Run, db_url: str, login: str) -> None:
    with psycopg.connect(db_url) as other:
        other.execute("select 1")
        known = facts(run, "--url", login)
    assert all(known[name] is not None for name in ("server", "sessions", "snapshots", "retention", "locks", "groups"))
    assert known["sessions"]["hidden"] >= 1
    assert any("pg_read_all_stats" in found["next_step"] for found in known["findings"])


@pytest.mark.parametrize("login", ["trunkline_consumer"], indirect=True)
def test_a_consumer_is_told_what_it_may_not_see(run: Run, login: str) -> None:
    known = facts(run, "--url", login)
    assert (known["snapshots"], known["locks"]) == (None, None)
    assert known["server"] is not None
    assert known["groups"] == []
    hidden = {found["subject"] for found in known["findings"] if found["text"] == "this role may not see it"}
    assert hidden == {"sessions", "snapshots", "locks"}


def levels(found: Iterator[Finding]) -> list[str]:
    return [finding.level for finding in found]


def changed(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


@pytest.mark.parametrize(
    ("fields", "worst"),
    [
        ({}, "ok"),
        ({"has_lz4": False}, "note"),
        ({"is_standby": True}, "note"),
        ({"synchronous_commit": "off"}, "note"),
        ({"full_page_writes": False}, "warning"),
        ({"fsync": False}, "problem"),
        ({"segments": 1500}, "warning"),
        ({"segments": 1900}, "problem"),
    ],
)
def test_what_the_server_s_facts_mean(fields: dict[str, Any], worst: str) -> None:
    found = findings.worst_first(list(findings.about_server(changed(SERVER, **fields))))
    assert found[0].level == worst


@pytest.mark.parametrize(
    ("holder", "level"),
    [
        (SESSION, "ok"),
        (changed(SESSION, since=NOW - timedelta(hours=2)), "warning"),
        (changed(SESSION, since=None), "ok"),
        (changed(SESSION, holder="prepared", name="x", pid=None, since=NOW - timedelta(minutes=6)), "warning"),
        (changed(SESSION, holder="slot", name="s", pid=None, since=None), "warning"),
        (changed(SESSION, holder="slot", name="s", pid=9, since=None), "ok"),
    ],
)
def test_a_snapshot_becomes_a_warning_when_it_is_old(holder: SnapshotHolder, level: str) -> None:
    assert levels(findings.about_snapshots([holder], SessionCount(1, 0), NOW)) == [level]


def test_the_oldest_snapshot_is_described_by_who_holds_it() -> None:
    old = changed(SESSION, since=NOW - timedelta(days=1, hours=2), query_start=NOW - timedelta(minutes=5))
    (found,) = findings.about_snapshots([old], SessionCount(1, 0), NOW)
    assert found.text == "pid 7 of bi (report), active, 1 d 2 h old, query began 5 min ago, 5 transactions behind"
    assert "pg_terminate_backend(7)" in found.next_step


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["ok"]),
        ({"retention_age_s": None}, ["note", "ok"]),
        ({"expired_since": NOW - timedelta(minutes=5)}, ["ok"]),
        ({"expired_since": NOW - timedelta(hours=2)}, ["warning"]),
        ({"moving_since": NOW - timedelta(hours=2)}, ["warning"]),
        ({"released_since": NOW - timedelta(hours=2)}, ["warning"]),
        ({"roll_due_since": NOW - timedelta(hours=2)}, ["warning"]),
        ({"retention_age_s": None, "roll_due_since": NOW - timedelta(hours=2)}, ["note", "ok"]),
        ({"bytes_over": 5}, ["note"]),
    ],
)
def test_retention_becomes_a_warning_when_it_is_late(fields: dict[str, Any], expected: list[str]) -> None:
    assert levels(findings.about_retention([changed(QUIET, **fields)], NOW)) == expected


@pytest.mark.parametrize(
    ("holder", "waits_s", "expected"),
    [
        (LOCK, None, ["ok"]),
        (changed(LOCK, transaction_since=NOW - timedelta(seconds=10)), None, ["warning"]),
        (changed(LOCK, transaction_since=NOW - timedelta(minutes=2)), None, ["problem"]),
        (changed(LOCK, pid=None, transaction_since=None), None, ["ok"]),
        (changed(LOCK, pid=None, transaction_since=None), 70, ["problem"]),
        (changed(LOCK, pid=None, transaction_since=None, group_name="billing"), 70, ["ok"]),
        (changed(LOCK, transaction_since=NOW - timedelta(minutes=2), group_name="billing"), None, ["problem"]),
    ],
)
def test_a_lock_becomes_a_problem_when_it_is_held_for_long(
    holder: LockHolder, waits_s: int | None, expected: list[str]
) -> None:
    waiting = [changed(LOCK, granted=False, waiting_since=NOW - timedelta(seconds=waits_s))] if waits_s else []
    assert levels(findings.about_locks([holder, *waiting], NOW)) == expected
