"""`trunkline consume`, `tail` and `get`: which records come, in which order, and how they are written."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime

import psycopg
import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from trunkline import Client, Message, TopicSettings


def lines(text: str) -> list[str]:
    return [json.loads(line)["payload"] for line in text.splitlines()]


@pytest.fixture
def orders(tl: Client) -> None:
    """Two partitions with the records 0-1 to 0-20, and 1-1 to 1-5."""
    tl.create_topic("orders", partitions=2)
    tl.publish_many("orders", [b"0-%d" % number for number in range(1, 21)], partition=0)
    tl.publish_many("orders", [b"1-%d" % number for number in range(1, 6)], partition=1)


@pytest.mark.parametrize(
    ("span", "numbers"),
    [
        ("start", range(1, 21)),
        ("end", range(0)),
        ("18", range(18, 21)),
        ("+18", range(19, 21)),
        ("-3", range(18, 21)),
        ("-500", range(1, 21)),
        ("5:8", range(5, 8)),
        (":3", range(1, 3)),
        ("19:end", range(19, 21)),
        ("+2:-15", range(3, 6)),
        ("@-1h", range(1, 21)),
        ("@-1h:end", range(1, 21)),
        ("@2020-01-01:2020-01-02", range(0)),
        ("21", range(0)),
    ],
)
def test_a_span_gives_exactly_its_records(run: Run, orders: None, span: str, numbers: range) -> None:
    done = run("consume", "orders", "-p", 0, "-o", span, "-e")
    assert done.exit_code == 0, done.stderr
    assert lines(done.stdout) == [f"0-{number}" for number in numbers]


@pytest.mark.parametrize("span", ["5:8", ":end", "-2:end", "@-1h:end", "@:2020-01-01"])
def test_a_span_that_ends_needs_no_exit_at_end(run: Run, orders: None, span: str) -> None:
    assert run("consume", "orders", "-p", 0, "-o", span).exit_code == 0


def test_all_partitions_come_each_in_order(run: Run, orders: None) -> None:
    found = lines(run("consume", "orders", "-e").stdout)
    assert [text for text in found if text.startswith("0-")] == [f"0-{number}" for number in range(1, 21)]
    assert [text for text in found if text.startswith("1-")] == [f"1-{number}" for number in range(1, 6)]
    assert len(found) == 25


def test_a_count_ends_it_without_an_end(run: Run, orders: None) -> None:
    assert len(lines(run("consume", "orders", "-n", 7).stdout)) == 7
    assert run("consume", "orders", "-n", 0).stdout == ""


def test_times_cut_where_records_were_appended(run: Run, tl: Client) -> None:
    tl.create_topic("timed")
    tl.publish("timed", b"before")
    (before,) = tl.read("timed")
    between = max(before.append_time, datetime.now(UTC))
    while tl.read("timed")[-1].append_time <= between:
        tl.publish("timed", b"after")
    count = len(tl.read("timed"))
    stamp = between.isoformat().replace("+00:00", "Z")
    earlier = lines(run("consume", "timed", "-o", f"@:{stamp}").stdout)
    later = lines(run("consume", "timed", "-o", f"@{stamp}", "-e").stdout)
    assert earlier[0] == "before"
    assert later[-1] == "after"
    assert len(earlier) + len(later) == count


def test_json_keeps_bytes_that_are_no_text(run: Run, tl: Client) -> None:
    tl.create_topic("binary")
    tl.publish_many(
        "binary",
        [
            Message(b"text\0\n", key="k", headers=[("n", b"1"), ("n", b"\xff")]),
            Message(b"\xff\xfe", key=b"\xfd"),
            Message(b""),
        ],
    )
    first, second, third = (json.loads(line) for line in run("consume", "binary", "-e").stdout.splitlines())
    assert (first["topic"], first["partition"], first["offset"]) == ("binary", 0, 1)
    assert (first["key"], first["payload"]) == ("k", "text\0\n")
    assert first["headers"] == [{"name": "n", "value": "1"}, {"name": "n", "value_base64": "/w=="}]
    assert datetime.fromisoformat(first["append_time"]).utcoffset() is not None
    assert (second["key_base64"], second["payload_base64"]) == ("/Q==", "//4=")
    assert "payload" not in second
    assert (third["key"], third["payload"], third["headers"]) == (None, "", [])


def test_a_format_writes_exactly_what_it_says(run: Run, tl: Client) -> None:
    tl.create_topic("binary")
    tl.publish("binary", b"\xff\0", key="k", headers={"a": "1"})
    done = run("consume", "binary", "-e", "-f", r"%t %p %o %k %v %h\n")
    assert done.stdout_bytes == b"binary 0 1 k \xff\0 a=1\n"


def test_get_shows_one_record_or_its_bytes(run: Run, tl: Client) -> None:
    tl.create_topic("binary")
    tl.publish_many("binary", [b"first", bytes(range(256))])
    assert json.loads(run("get", "binary", "0:1").stdout)["payload"] == "first"
    assert run("get", "binary", "0:2", "--raw").stdout_bytes == bytes(range(256))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("consume", "nope", "-e"), 3, "[TL002]: topic nope does not exist"),
        (("tail", "nope"), 3, "[TL002]: topic nope does not exist"),
        (("get", "nope", "0:1"), 3, "[TL002]: topic nope does not exist"),
        (("consume", "orders", "-p", "2"), 3, "[TL002]: topic orders has no partition 2"),
        (("tail", "orders", "-p", "9"), 3, "[TL002]: topic orders has no partition 9"),
        (("get", "orders", "2:1"), 3, "[TL002]: topic orders has no partition 2"),
        (("consume", "orders", "-o", "500"), 3, "[TL005]: partition 0 holds the offsets 1 to 20, not 500"),
        (("consume", "orders", "-o", "0", "-p", "1"), 3, "[TL005]: partition 1 holds the offsets 1 to 5, not 0"),
        (("get", "orders", "0:21"), 3, "[TL005]"),
        (("get", "orders", "0:0"), 3, "[TL005]"),
        (("get", "orders", "0:999999999999999999"), 3, "[TL005]"),
        (("get", "orders", "0"), 2, "[TL001]: not a position: '0'"),
        (("get", "orders", "0:-1"), 2, "[TL001]: not a position"),
        (("get", "orders", "a:b"), 2, "[TL001]: not a position"),
        (("consume", "orders", "-o", "soon"), 2, "[TL001]: not an offset: 'soon'"),
        (("consume", "orders", "-o", "8:5"), 2, "[TL001]"),
        (("consume", "orders", "-o", "@1h"), 2, "lies in the future"),
        (("consume", "orders", "-o", str(2**63)), 2, "[TL001]"),
        (("consume", "orders", "-f", "%z"), 2, "[TL001]: the format has no '%z'"),
        (("consume", "orders", "-f", "%v", "--json"), 2, "exclude each other"),
        (("consume", "orders", "-n", "-1"), 2, "is not in the range"),
        (("consume", "orders", "-p", "1.5"), 2, "is not a valid integer"),
        (("tail", "orders", "-n", "10001"), 2, "is not in the range"),
        (("consume", "orders", "--ofset", "1"), 2, "Did you mean '--offset'?"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_writes_nothing(
    run: Run, orders: None, command: tuple[str, ...], code: int, said: str
) -> None:
    refused = run(*command)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert refused.stdout == ""


def test_following_gives_new_records_and_new_partitions(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"old")
    process = start("consume", "orders", "-f", r"%p:%o %v\n")
    assert process.stdout is not None
    assert process.stdout.readline() == b"0:1 old\n"
    tl.publish("orders", b"new")
    assert process.stdout.readline() == b"0:2 new\n"
    tl.add_partitions("orders", 2)
    tl.publish("orders", b"elsewhere", partition=1)
    assert process.stdout.readline() == b"1:1 elsewhere\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130


def test_an_exact_end_is_waited_for(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"1")
    process = start("consume", "orders", "-o", "1:3", "-f", r"%v\n")
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    tl.publish_many("orders", [b"2", b"3"])
    assert process.communicate(timeout=DEADLINE_S)[0] == b"2\n"
    assert process.returncode == 0


def test_tail_shows_the_newest_of_all_partitions_and_follows(start: Start, tl: Client) -> None:
    tl.create_topic("orders", partitions=2)
    for number in range(1, 7):
        tl.publish("orders", b"%d" % number, partition=number % 2)
    process = start("tail", "orders", "-n", "3", "-f", r"%v\n")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == [b"4\n", b"5\n", b"6\n"]
    tl.publish("orders", b"7", partition=0)
    assert process.stdout.readline() == b"7\n"
    process.terminate()
    assert process.wait(DEADLINE_S) == 143


def test_a_topic_that_is_deleted_ends_its_follower(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"1")
    process = start("consume", "orders", "-f", r"%v\n")
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    tl.delete_topic("orders")
    _, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, b"error [TL002]" in said) == (3, True)


def test_retention_that_overtakes_a_follower_is_an_error(start: Start, tl: Client, db_url: str) -> None:
    """Goal: records that were dropped before they were read are never skipped in silence. Method: the reader is
    stopped while retention takes what it has not read."""
    tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
    tl.publish("orders", b"1")
    process = start("consume", "orders", "-f", r"%v\n")
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    process.send_signal(signal.SIGSTOP)
    tl.publish("orders", b"2")
    with psycopg.connect(db_url, autocommit=True) as connection:
        open_segment_id = tl.topic("orders").open_segment_id
        connection.execute("select trunkline.segment_roll(%s, true)", [open_segment_id])
    tl.retention_run("orders")
    tl.publish("orders", b"3")
    process.send_signal(signal.SIGCONT)
    written, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, b"error [TL005]" in said) == (3, True)
    assert written == b""
