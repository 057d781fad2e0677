"""`trunkline bridge` and `trunkline driver`, as commands and as processes that are killed."""

from __future__ import annotations

import json
import random
import re
import signal
from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import pytest

import trunkline
from tests.checker.queue_history import QueueHistory
from tests.checker.queue_invariants import assert_queue_clean
from tests.cli.conftest import DEADLINE_S, Run, Start
from tests.concurrency.sessions import wait_until
from tests.portable.places import place
from tests.queues.audit import add_rows, keep
from trunkline import Client, Message

KINDS = pytest.mark.parametrize("kind", [{"queue": "copy"}, {"group": "copy"}], ids=["queue", "group"])


@pytest.fixture
def ready(tl: Client) -> Client:
    """A topic with a queue and a group, and a topic to copy to."""
    tl.create_topic("orders", partitions=2)
    tl.create_topic("copies", partitions=2)
    tl.create_group("copy", "orders")
    with tl.queue("orders", "copy"):
        pass
    return tl


def everything(tl: Client, topic: str) -> list[trunkline.Record]:
    ranges = tl.offsets(topic)
    return [record for each in ranges for record in tl.read(topic, partition=each.partition, max_records=100_000)]


# -- the bridge --


@KINDS
def test_it_moves_what_there_is_and_says_how_much(run: Run, ready: Client, db_url: str, kind: dict[str, str]) -> None:
    headers = [("source", b"web"), ("raw", b"\xff"), ("é", b"")]
    ready.publish_many("orders", [Message(b"%d" % n, key=b"k%d" % (n % 7), headers=headers) for n in range(50)])
    urls = ("--from", place(db_url, "orders", **kind), "--to", place(db_url, "copies"))
    done = run("bridge", *urls, "--idle", "3s", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"moved": 50, "late": 0, "refused": 0, "ended": "idle"})
    before, after = everything(ready, "orders"), everything(ready, "copies")
    assert [(each.key, each.payload, each.headers) for each in before] == [
        (each.key, each.payload, each.headers) for each in after
    ], "in the order of each key, with headers that are no text"
    again = run("bridge", *urls, "--until-empty")
    assert (again.exit_code, again.stdout) == (0, "moved\t0\nlate\t0\nrefused\t0\nended\tempty\n")


def test_from_the_server_that_is_named_by_the_environment(run: Run, ready: Client) -> None:
    ready.publish_many("orders", [b"x"] * 10)
    urls = ("--from", "trunkline:///orders?queue=copy", "--to", "trunkline:///copies")
    done = run("bridge", *urls, "--max", 4, "--id-attribute", "origin", "--json")
    assert json.loads(done.stdout) == {"moved": 4, "late": 0, "refused": 0, "ended": "max"}
    ids = {dict(each.headers)["origin"] for each in everything(ready, "copies")}
    assert len(ids) == 4
    assert all(re.fullmatch(rb"orders/[01]/\d+", each) for each in ids)


def test_what_the_target_refuses_ends_it_and_stays(run: Run, ready: Client, db_url: str) -> None:
    ready.alter_topic("copies", record_bytes_max=100)
    ready.publish_many("orders", [b"1", b"x" * 101, b"2"], partition=0)
    urls = ("--from", place(db_url, "orders", queue="copy"), "--to", place(db_url, "copies"))
    refused = run("bridge", *urls, "--idle", "1s")
    assert refused.exit_code == 2
    assert "error [TL004]: message orders/0/2 of trunkline://" in refused.stderr
    assert "2 messages were moved" in refused.stderr
    ready.alter_topic("copies", record_bytes_max=1000)
    assert run("bridge", *urls, "--idle", "3s").stdout.startswith("moved\t1\n")


def test_what_the_target_refuses_is_put_aside_where_there_is_a_place_for_it(
    start: Start, ready: Client, db_url: str
) -> None:
    """As a process: what is refused is named on its stderr."""
    ready.alter_topic("copies", record_bytes_max=100)
    ready.create_topic("aside", partitions=1)
    ready.publish_many("orders", [b"1", b"x" * 101, b"2"], partition=0)
    urls = ("--from", place(db_url, "orders", queue="copy"), "--to", place(db_url, "copies"))
    process = start("bridge", *urls, "--max", "3", "--refused-to", place(db_url, "aside"))
    said, refused = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (0, b"moved\t3\nlate\t0\nrefused\t1\nended\tmax\n"), refused
    assert refused.startswith(b"message orders/0/2 was refused, and put aside: ")
    assert sorted(each.payload for each in everything(ready, "copies")) == [b"1", b"2"]
    (aside,) = everything(ready, "aside")
    assert aside.payload == b"x" * 101
    assert dict(aside.headers)["trunkline-refused-reason"].startswith(b"TL004: ")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--from", "trunkline:///orders?queue=copy"), 2, "--to"),
        (("--from", "nothing", "--to", "trunkline:///copies"), 2, "not a URL"),
        (("--from", "amqq://x", "--to", "trunkline:///copies"), 2, "no driver for amqq://"),
        (("--from", "trunkline:///orders?queue=none", "--to", "trunkline:///copies"), 3, "TL002"),
        (("--from", "trunkline:///orders?queue=copy", "--to", "trunkline:///none"), 3, "TL002"),
        (("--from", "trunkline:///orders", "--to", "trunkline:///copies"), 2, "neither which queue nor group"),
        (("--from", "trunkline:///orders?queue=copy", "--to", "trunkline:///copies", "--max", "0"), 2, "--max"),
        (
            (
                "--from",
                "trunkline:///orders?queue=copy",
                "--to",
                "trunkline:///copies",
                "--until-empty",
                "--idle",
                "1s",
            ),
            2,
            "until_empty",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(
    run: Run, ready: Client, arguments: tuple[str, ...], code: int, said: str
) -> None:
    refused = run("bridge", *arguments)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr


def test_a_password_is_never_shown(run: Run, ready: Client, db_url: str) -> None:
    password = urlsplit(db_url).password
    assert password is not None
    wrong = db_url.replace(password, "guessed-secret")
    urls = ("--from", place(wrong, "orders", queue="copy"), "--to", place(wrong, "copies"))
    refused = run("bridge", *urls)
    assert (refused.exit_code, "guessed-secret" in refused.output) == (5, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(start: Start, ready: Client, number: int) -> None:
    ready.publish_many("orders", [b"x"] * 10)
    process = start("bridge", "--from", "trunkline:///orders?queue=copy", "--to", "trunkline:///copies")
    wait_until(lambda: len(everything(ready, "copies")) == 10, "all are moved", deadline_s=DEADLINE_S)
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == 0
    assert process.stdout is not None
    assert process.stdout.read() == b"moved\t10\nlate\t0\nrefused\t0\nended\tstopped\n"


def test_on_a_terminal_it_shows_how_far_it_is(on_terminal: Callable[..., tuple[int, str]], ready: Client) -> None:
    ready.publish_many("orders", [b"x"] * 1_500)
    urls = ("--from", "trunkline:///orders?queue=copy", "--to", "trunkline:///copies")
    code, said = on_terminal("bridge", *urls, "--idle", "3s")
    assert code == 0
    assert re.search(r"moved 1,500 messages, [\d,]+ a second", said)
    assert re.search(r"moved 1,500 messages in [\d.]+ s: nothing came any more\r\n$", said)


@KINDS
@pytest.mark.parametrize("kills", [pytest.param(3, id="short"), pytest.param(40, id="long", marks=pytest.mark.chaos)])
def test_killed_and_started_again_it_loses_nothing(
    start: Start,
    make_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    kind: dict[str, str],
    kills: int,
) -> None:
    """From one database to another. The process is killed with SIGKILL when something has arrived, and replaced. In the
    end every record is at the target, those that were sent twice carry the same id, and the source is done with."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    # A process that is gone is noticed soon, behind a pooler too.
    monkeypatch.setenv("TRUNKLINE_HEARTBEAT_S", "0.2")
    monkeypatch.setenv("TRUNKLINE_SESSION_TIMEOUT_S", "1")
    source_url, target_url = make_database(), make_database()
    keep(source_url)
    arguments = ("bridge", "--from", place(source_url, "t", **kind), "--to", place(target_url, "copies"))
    with trunkline.connect(source_url) as source, trunkline.connect(target_url) as target:
        source.create_topic("t", partitions=3)
        source.create_group("copy", "t")
        with source.queue("t", "copy", ack_deadline_s=1):
            pass
        target.create_topic("copies", partitions=2)

        def arrived() -> int:
            return sum(each.end - each.start for each in target.offsets("copies"))

        for number in range(kills):
            batch = [Message(b"%d %d" % (number, n), key=b"%d" % (n % 11)) for n in range(2_500)]
            source.publish_many("t", batch)
            wanted = arrived() + chance.choice([1, 1, 700, 1_400])
            process = start(*arguments, "--id-attribute", "origin")
            wait_until(lambda: arrived() >= wanted, "something has arrived", deadline_s=60)  # noqa: B023 - called at once
            process.kill()
            process.wait(DEADLINE_S)
        last = start(*arguments, "--id-attribute", "origin", "--idle", "4s", "--json")
        assert last.wait(DEADLINE_S) == 0
        sent = {b"t/%d/%d" % (each.partition, each.offset): each for each in everything(source, "t")}
        copies = everything(target, "copies")
        print(f"{len(sent)} records, {len(copies)} copies")
        for copy in copies:
            original = sent[dict(copy.headers)["origin"]]
            assert (copy.payload, copy.key) == (original.payload, original.key)
        assert {dict(copy.headers)["origin"] for copy in copies} == sent.keys(), "nothing is lost"
        if "group" in kind:
            assert source.describe_group("copy").lag == 0
            return
    history = QueueHistory()
    with psycopg.connect(source_url, autocommit=True) as connection:
        add_rows(connection, history)
    assert_queue_clean(history)


# -- drivers --


def test_drivers_are_listed(run: Run) -> None:
    lines = run("driver", "list").stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["driver", "asyncio", "blocking"]
    assert [line.split("\t")[:3] for line in lines[1:]] == [["memory", "yes", "yes"], ["trunkline", "yes", "yes"]]
    rows = [json.loads(line) for line in run("driver", "list", "--json").stdout.splitlines()]
    assert [row["driver"] for row in rows] == ["memory", "trunkline"]
    assert "queue" in rows[1]["subscription_parameters"]


def test_a_driver_that_cannot_be_loaded_is_listed_with_its_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from trunkline.portable import registry

    broken = EntryPoint(name="broken", value="no.such.module:DRIVER", group=registry.GROUP)
    monkeypatch.setattr(registry, "_registered", lambda: [broken])
    listed = run("driver", "list")
    assert listed.exit_code == 0
    assert "cannot be loaded" in listed.stdout.splitlines()[1]


def test_capabilities_are_those_of_what_is_opened(run: Run, ready: Client) -> None:
    def shown(*arguments: str) -> dict[str, object]:
        done = run("driver", "capabilities", *arguments, "--json")
        assert done.exit_code == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    assert shown("trunkline")["seek"] is True
    assert shown("trunkline:///orders")["transactions"] is True
    assert shown("trunkline:///orders?queue=copy")["ordering"] == "none"
    assert shown("trunkline:///orders?group=copy")["ordering"] == "key"
    assert shown("trunkline:///orders?group=copy")["nack_delay"] is False
    assert "nack_delay\tno\n" in run("driver", "capabilities", "trunkline:///orders?group=copy").stdout
    assert run("driver", "capabilities", "trunkline:///orders", "--as", "subscription").exit_code == 2
    assert run("driver", "capabilities", "trunkline:///none").exit_code == 3
    assert run("driver", "capabilities", "trunklin").exit_code == 2
    assert "trunkline" in run("driver", "capabilities", "trunklin").stderr
