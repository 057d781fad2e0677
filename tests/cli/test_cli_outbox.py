"""`trunkline outbox`: tables that are attached, workers that are real processes, units that systemd understands."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from itertools import count
from pathlib import Path
from shutil import which
from typing import Any

import msgspec
import psycopg
import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from tests.concurrency.sessions import wait_until
from trunkline import Client, Message

PLAIN = """
import os
import trunkline
from tests.cli import told

tl = None


def handle(record):
    global tl
    tl = tl or trunkline.connect()
    tl.publish("begun", record.payload)
    {body}
    tl.publish("ended", record.payload, key=record.key)
"""
ASYNC = (
    PLAIN.replace("import trunkline", "import trunkline.aio")
    .replace("tl or trunkline.connect()", "tl or await trunkline.aio.connect()")
    .replace("def ", "async def ")
    .replace("tl.publish", "await tl.publish")
)
UNTIL_TOLD = {
    PLAIN: "told.until_nothing_begins()",
    ASYNC: "await told.until_nothing_begins_async()",
}
WORLDS = pytest.mark.parametrize("text", [PLAIN, ASYNC], ids=["plain", "async"])
NAMES = (f"handling_{number}" for number in count())
CONFIG = "topic: orders\ngroup: billing\ncreate: true\nhandler: {module}:handle\n"
TABLE = "create table public.outbox_message_t (id serial primary key, host_id text, payload jsonb)"

Write = Callable[..., str]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module with a handler, and a file of a worker for it, into the current folder; the file's name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRUNKLINE_HEARTBEAT_S", "0.2")
    monkeypatch.setenv("TRUNKLINE_SESSION_TIMEOUT_S", "5")

    def write(text: str = "", more: str = "", *, config: str = CONFIG) -> str:
        module = next(NAMES)
        Path(f"{module}.py").write_text(text or PLAIN.format(body=""), encoding="utf-8")
        Path(f"{module}.yml").write_text(config.format(module=module) + more, encoding="utf-8")
        return f"{module}.yml"

    return write


@pytest.fixture
def topics(tl: Client) -> Client:
    for name in ("begun", "ended", "dead"):
        tl.create_topic(name)
    tl.create_topic("orders", partitions=2)
    return tl


@pytest.fixture
def table(db_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A table of an application's, and a connection that writes it; both are gone after the test."""
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(TABLE)
        yield connection
        connection.execute("drop table if exists public.outbox_message_t")
        connection.execute("delete from trunkline.outbox_source")


def payloads(tl: Client, topic: str) -> list[bytes]:
    return [record.payload for log in tl.offsets(topic) for record in tl.read(topic, partition=log.partition)]


def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


def wait_for(tl: Client, topic: str, wanted: list[bytes], process: subprocess.Popen[bytes]) -> None:
    def has_come() -> bool:
        found = payloads(tl, topic)
        assert len(found) <= len(wanted), found
        return found == wanted

    watch(has_come, process)


def watch(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Until a condition holds, as long as the process lives."""

    def holds() -> bool:
        if condition():
            return True
        assert process.poll() is None, said(process)
        return False

    wait_until(holds, "what the worker does", deadline_s=DEADLINE_S)


def wait_for_members(tl: Client, members: int, process: subprocess.Popen[bytes]) -> None:
    """Until that many living members hold everything there is, or all that they take."""

    def are_there() -> bool:
        if "billing" not in [group.name for group in tl.groups()]:
            return False
        found = tl.describe_group("billing").members
        return sum(member.is_alive and member.partitions > 0 for member in found) >= members

    watch(are_there, process)


# -- tables --


def test_a_table_is_attached_shown_and_detached(
    run: Run, tl: Client, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    tl.create_topic("orders")
    table.execute("insert into outbox_message_t (host_id, payload) values ('b', '2'), ('a', '1')")
    options = ("--topic", "orders", "--key", "host_id", "--payload", "payload", "--existing", "--order-by", "host_id")
    done = run("outbox", "attach", "outbox_message_t", *options)
    assert (done.exit_code, done.output) == (
        0,
        "attached outbox_message_t to topic orders; 2 rows were there and have been published\n",
    )
    table.execute("insert into outbox_message_t (host_id, payload) values ('c', '3')")
    assert [(record.key, record.payload) for record in tl.read("orders")] == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    shown = run("outbox", "status")
    head, row = (line.split("\t") for line in shown.stdout.splitlines())
    assert head == ["table", "topic", "payload", "key", "group key", "headers", "attached", "state"]
    assert (row[:6], row[7]) == (["public.outbox_message_t", "orders", "payload", "host_id", "-", "-"], "ok")
    table.execute("alter table outbox_message_t disable trigger all")
    (source,) = (msgspec.json.decode(line) for line in run("outbox", "status", "--json").stdout.splitlines())
    assert (source["table"], "disabled" in source["problem"]) == ("public.outbox_message_t", True)
    assert run("outbox", "detach", "outbox_message_t").output == "detached outbox_message_t from topic orders\n"
    assert run("outbox", "status", "--json").stdout == ""


def test_progress_is_shown_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], tl: Client, table: psycopg.Connection[tuple[Any, ...]]
) -> None:
    tl.create_topic("orders")
    table.execute("insert into outbox_message_t (payload) select to_jsonb(i) from generate_series(1, 2500) i")
    options = ("--topic", "orders", "--payload", "payload", "--existing", "--order-by", "id")
    code, shown = on_terminal("outbox", "attach", "outbox_message_t", *options)
    assert (code, "\r2,000 rows" in shown, "2,500 rows were there" in shown) == (0, True, True), shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("attach", "outbox_message_t", "--topic", "orders"), 2, "--payload"),
        (("attach", "outbox_message_t", "--topic", "orders", "--payload", "payload", "--existing"), 2, "--order-by"),
        (("attach", "outbox_message_t", "--topic", "orders", "--payload", "p", "--order-by", "id"), 2, "--existing"),
        (("attach", "outbox_message_t", "--topic", "orders", "--payload", "paylod"), 3, "has no column paylod"),
        (("attach", "outbox_message_t", "--topic", "none", "--payload", "payload"), 3, "trunkline topic create none"),
        (("attach", "nothing", "--topic", "orders", "--payload", "payload"), 3, "there is no table nothing"),
        (("attach", "trunkline.topic", "--topic", "orders", "--payload", "name"), 2, "not a table of an application"),
        (("detach", "outbox_message_t"), 3, "is not attached; see which are: trunkline outbox status"),
    ],
)
def test_what_cannot_be_attached_is_refused(
    run: Run, tl: Client, table: object, arguments: tuple[str, ...], code: int, words: str
) -> None:
    tl.create_topic("orders")
    refused = run("outbox", *arguments)
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output


# -- the worker --


@WORLDS
@pytest.mark.direct("it waits for the doorbell, and a pooler keeps sessions of its own")
def test_S4_19_a_worker_that_waits_ends_at_once_and_leaves_nothing_behind(
    text: str, config: Write, start: Start, topics: Client, db_url: str
) -> None:
    """It looks for records every ten minutes, and is told of them by the doorbell: an end that waited for the next look
    would be killed by the test's deadline."""
    process = start("outbox", "worker", "--config", config(text.format(body=""), "wait_s: 600\n"))
    wait_for_members(topics, 1, process)
    topics.publish("orders", b"x")
    wait_for(topics, "ended", [b"x"], process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0, said(process)
    assert topics.describe_group("billing").members == []
    assert topics.describe_group("billing").lag == 0
    own = "select count(*) from pg_stat_activity where datname = current_database() and application_name ~ 'trunkline'"
    topics.close()
    with psycopg.connect(db_url) as connection:
        while connection.execute(own).fetchone() != (0,):
            pass


@WORLDS
def test_S4_19_a_worker_finishes_what_it_has_in_hand(text: str, config: Write, start: Start, topics: Client) -> None:
    process = start("outbox", "worker", "--config", config(text.format(body=UNTIL_TOLD[text])))
    topics.publish_many("orders", [Message(b"first", key="k"), Message(b"second", key="k")])
    wait_for(topics, "begun", [b"first"], process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0, said(process)
    assert payloads(topics, "ended") == [b"first"]
    assert topics.describe_group("billing").lag == 1


def test_S4_19_a_worker_exactly_once_rolls_back_what_it_has_not_finished(
    config: Write, start: Start, topics: Client, db_url: str
) -> None:
    """Told to stop at its first record of two, it takes neither back half: the transaction is rolled back whole."""
    handler = """
import trunkline
from tests.cli import told

def handle(record, connection):
    connection.execute("insert into public.effects values (%s)", [record.payload])
    with trunkline.connect() as tl:
        tl.publish("begun", record.payload)
    told.until_stopped()
"""
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("create table public.effects (payload bytea)")
        try:
            topics.publish_many("orders", [Message(b"first", key="k"), Message(b"second", key="k")])
            process = start("outbox", "worker", "--config", config(handler, "delivery: exactly_once\nbatch_size: 10\n"))
            wait_for(topics, "begun", [b"first"], process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0, said(process)
            assert connection.execute("select * from public.effects").fetchall() == []
            assert topics.describe_group("billing").lag == 2
        finally:
            connection.execute("drop table public.effects")


def test_S4_10_a_worker_of_one_partition_takes_no_other_and_a_second_one_stands_by(
    config: Write, start: Start, topics: Client
) -> None:
    at = {topics.publish("orders", key.encode(), key=key).partition: key.encode() for key in "abcdefgh"}
    assert sorted(at) == [0, 1]
    counted = {log.partition: log.end - log.start for log in topics.offsets("orders")}
    more = "partition: 1\ntotal_partitions: 2\n"
    first = start("outbox", "worker", "--config", config(more=more))
    watch(lambda: len(payloads(topics, "ended")) >= counted[1], first)
    second = start("outbox", "worker", "--config", config(more=more))
    watch(lambda: len(topics.describe_group("billing").members) >= 2, second)
    first.kill()
    first.wait(DEADLINE_S)
    topics.publish("orders", b"after", partition=1, key=at[1])
    watch(lambda: payloads(topics, "ended")[-1:] == [b"after"], second)
    lags = {each.partition: each.lag for each in topics.describe_group("billing").partitions}
    assert lags[0] == counted[0]
    assert {record.key for record in topics.read("ended")} == {
        record.key for record in topics.read("orders", partition=1)
    }


def test_S4_22_lag_last_error_and_dead_letters_are_shown(config: Write, start: Start, topics: Client, run: Run) -> None:
    text = PLAIN.format(body="assert record.payload != b'bad', 'no account'")
    file = config(text, "dead_letter: dead\nmax_attempts: 1\npartition: 0\n")
    process = start("outbox", "worker", "--config", file)
    topics.publish("orders", b"bad", partition=0)
    topics.publish("orders", b"good", partition=0)
    topics.publish("orders", b"not taken", partition=1)
    wait_for(topics, "ended", [b"good"], process)
    facts: dict[str, str] = {}
    while facts.get("lag") != "1":
        assert process.poll() is None, said(process)
        shown = run("outbox", "status", "--config", file).stdout.splitlines()
        facts = dict(line.split("\t") for line in shown[2:])
    del facts["at"]
    assert facts == {
        "group": "billing",
        "lag": "1",
        "members": "1",
        "partitions held": "1 of 2",
        "dead letters": "1",
        "last error": "AssertionError: no account",
    }
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ("groupId: g", 2, ":5: 'groupId' is called group here"),
        ("batchSize: 5", 2, ":5: 'batchSize' is called batch_size here"),
        ("totalPartitions: 5", 2, "is called total_partitions here"),
        ("partitionId: 0", 2, "is called partition here"),
        ("waitPeriodMs: 10000", 2, "is called wait_s, in seconds: 10000 ms is wait_s: 10 here"),
        ("\nbatchsize: 5", 2, ":6: a worker has no 'batchsize'; did you mean 'batch_size'?"),
        ("topics: [orders]", 2, "topic and topics"),
        (
            "total_partitions: 8\npartition: 8",
            2,
            ":6: partition 8 is not one of 8: they count from 0",
        ),
        ("partition: -1", 2, ":5: partition: must be a whole number from 0 on"),
        ("partition: all", 2, ":5: partition: there is no 'all' here"),
        ("batch_size: 0", 2, ":5: batch_size: must be a whole number from 1 on"),
        ("batch_size: 10001", 2, "at most 10000"),
        ("batch_size: many", 2, ":5: batch_size: must be a whole number, not text"),
        ("wait_s: 0", 2, ":5: wait_s: must be a number of seconds above 0"),
        ("wait_s: soon", 2, ":5: wait_s: must be a number of seconds, not text"),
        ("delivery: once", 2, "there is no 'once' here"),
        ("delivery: exactly_once\nconcurrency: 2", 2, ":6: exactly_once handles one record after the other"),
        ("dead_letter: orders", 2, ":5: records that fail would come back at once"),
        ("dead_letter: ../x", 2, ":5: dead_letter:"),
        ("url: nonsense", 2, ":5: url: this is not a PostgreSQL URL"),
        ("group: other", 2, "stands here for the second time; the first is in line 2"),
        ("batch_size: [", 2, "this is not YAML"),
    ],
)
def test_S4_20_a_file_with_a_fault_is_refused_with_its_line_and_the_next_step(
    run: Run, config: Write, more: str, code: int, words: str
) -> None:
    file = config(more=more + "\n")
    for how in (("worker", "--check"), ("worker",), ("unit",)):
        refused = run("outbox", *how, "--config", file)
        assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output
        assert file in refused.stderr


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 2, "is empty; a worker needs topic, group and handler"),
        ("group: g\nhandler: m:f\n", 2, "needs one of topic, topics"),
        ("topic: t\nhandler: m:f\n", 2, "needs 'group', like group: user-query"),
        ("topic: t\ngroup: g\n", 2, "needs 'handler', like handler: package.module:function"),
        ("topic: t\ngroup: g\nhandler: m\n", 2, ":3: handler: 'm' is no handler: write package.module:function"),
        ("topic: t\ngroup: g\nhandler: no_such_module:f\n", 3, "there is no module no_such_module here"),
        ("topic: ''\ngroup: g\nhandler: m:f\n", 2, ":1: topic: is empty"),
        ("topic: a b\ngroup: g\nhandler: m:f\n", 2, ":1: topic:"),
        ("topic: t\ngroup: g\nhandler: m:f\ncreate: maybe", 2, ":4: create: must be true or false, not text"),
        ("- topic\n", 2, "must be a block of names and values, not a list"),
    ],
)
def test_S4_20_a_file_that_lacks_something_is_refused(
    run: Run, config: Write, text: str, code: int, words: str
) -> None:
    refused = run("outbox", "worker", "--check", "--config", config(config=text))
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("other = 1", 3, "has no handle; correct handler"),
        ("handle = 1", 2, "is no function, but int"),
        ("def handle(): ...", 2, "is called with a record, which it does not take"),
        ("1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_a_handler_that_is_none_is_refused(run: Run, config: Write, text: str, code: int, words: str) -> None:
    refused = run("outbox", "worker", "--check", "--config", config(text))
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output


def test_without_yaml_it_says_what_to_install(run: Run, config: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config()
    for module in ("trunkline.nodes", "trunkline.client.worker"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    for command in ("worker", "unit", "status"):
        refused = run("outbox", command, "--config", file)
        assert (refused.exit_code, "pip install 'trunkline[worker]'" in refused.stderr) == (3, True), refused.output


def test_a_check_needs_no_server(run: Run, config: Write) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    fine = run("outbox", "worker", "--check", "--config", config(), TRUNKLINE_URL=nowhere)
    assert (fine.exit_code, "handles orders for group billing" in fine.stdout) == (0, True), fine.output
    assert run("outbox", "worker", "--config", config(), TRUNKLINE_URL=nowhere).exit_code == 4
    assert run("outbox", "worker", "--config", "none.yml").exit_code == 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("total_partitions: 8", "total_partitions is 8, and topic orders has 2 partitions; correct the file, or run:"),
        ("total_partitions: 1", "total_partitions is 1, and topic orders has 2 partitions; correct the file, or leave"),
        ("partition: 2", "partition is 2, and topic orders has 2, 0 to 1; correct the file"),
    ],
)
def test_S4_20_partitions_that_the_topic_does_not_have_are_refused(
    run: Run, config: Write, topics: Client, more: str, words: str
) -> None:
    refused = run("outbox", "worker", "--config", config(more=more + "\n"))
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output


def test_a_password_in_the_file_is_not_shown(run: Run, config: Write) -> None:
    file = config(more="url: postgresql://app:s3cr3t@127.0.0.1:1/none\n")
    refused = run("outbox", "worker", "--config", file)
    assert (refused.exit_code, "s3cr3t" in refused.output) == (4, False)
    assert "s3cr3t" not in run("outbox", "unit", "--config", file).output


def test_the_file_of_the_document_is_well_formed(run: Run, config: Write, tmp_path: Path) -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "outbox-worker.md"
    text = document.read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "queries.py").write_text("def update(record): ...", encoding="utf-8")
    fine = run("outbox", "worker", "--check", "--config", config(config=text))
    assert (fine.exit_code, "shop.queries:update handles orders" in fine.stdout) == (0, True), fine.output


# -- the unit --


def test_a_unit_runs_the_worker_from_anywhere_and_holds_no_secret(run: Run, config: Write, tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder" of 100%'
    folder.mkdir()
    file = Path(config())
    file.rename(folder / file)
    shown = run("outbox", "unit", "--config", folder / file, "--user", "nobody")
    assert shown.exit_code == 0, shown.output
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(shown.stdout)
    service = unit["Service"]
    assert service["ExecStart"].split()[0].startswith("/")
    assert """a \\"folder\\" of 100%%/""" in service["ExecStart"]
    assert (service["User"], service["Restart"], service["TimeoutStopSec"]) == ("nobody", "on-failure", "315")
    assert service["EnvironmentFile"].startswith("/")
    assert service["WorkingDirectory"] == str(tmp_path)
    assert {"NoNewPrivileges", "ProtectSystem", "PrivateTmp"} < set(service)


@pytest.mark.skipif(which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_understands_the_unit(run: Run, config: Write, tmp_path: Path) -> None:
    shown = run("outbox", "unit", "--config", config(), "--user", "root")
    unit = tmp_path / "trunkline-worker.service"
    unit.write_text(shown.stdout, encoding="utf-8")
    unit.chmod(0o644)
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in verified.stderr.splitlines() if "trunkline-worker" in line]
    assert complaints == [], verified.stderr
