"""`trunkline topic` against a real server."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run
from trunkline import Client


def test_create_list_describe_alter_delete(run: Run, tl: Client) -> None:
    made = run("topic", "create", "orders", "-p", 4, "--set", "retention_age_s=7d", "--set", "retention_bytes=10GiB")
    assert (made.exit_code, made.stdout) == (0, "created topic orders with 4 partitions\n")
    topic = tl.topic("orders")
    assert (topic.partitions, topic.retention_age_s, topic.retention_bytes) == (4, 604800, 10 * 2**30)

    listed = run("topic", "list").stdout.splitlines()
    assert listed[0].split("\t") == ["topic", "partitions", "retention_age", "retention_bytes", "created"]
    assert listed[1].split("\t")[:4] == ["orders", "4", "7 d", "10.0 GiB"]

    altered = run("topic", "alter", "orders", "--set", "retention_age_s=none", "--set", "segment_bytes=1MiB")
    assert altered.stdout == "topic orders: retention_age_s = none, segment_bytes = 1.0 MiB\n"
    assert tl.topic("orders").retention_age_s is None

    tl.publish_many("orders", [b"a", b"b"], partition=1)
    described = run("topic", "describe", "orders").stdout
    assert "1\t1\t3\t2" in described.splitlines()
    assert json.loads(run("topic", "describe", "orders", "--json").stdout)["ranges"][1] == {
        "partition": 1,
        "start": 1,
        "end": 3,
    }

    assert run("topic", "add-partitions", "orders", 6).stdout == "topic orders has 6 partitions\n"
    kept = run("topic", "delete", "orders", stdin="n\n")
    assert (kept.exit_code, "its 2 records" in kept.stdout) == (1, True)
    assert run("topic", "delete", "orders", "--yes").exit_code == 0
    assert tl.topics() == []


def test_json_is_one_object_a_line(run: Run) -> None:
    made = json.loads(run("topic", "create", "b", "--json").stdout)
    assert (made["name"], made["partitions"]) == ("b", 1)
    run("topic", "create", "a")
    lines = run("topic", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["a", "b"]


def test_adding_partitions_to_a_keyed_topic_has_to_be_asked_for(run: Run, tl: Client) -> None:
    tl.create_topic("orders", partitions=2)
    tl.publish("orders", b"x", key="k")
    refused = run("topic", "add-partitions", "orders", 3)
    assert (refused.exit_code, "error [TL010]" in refused.stderr) == (6, True)
    assert run("topic", "add-partitions", "orders", 3, "--break-key-order").exit_code == 0


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "/a", ".a", "a..b", "a\n", "'; drop table x", "x" * 201, "ü"])
def test_what_cannot_be_a_name_is_refused_and_nothing_is_made(run: Run, tl: Client, name: str) -> None:
    refused = run("topic", "create", "--", name)
    assert (refused.exit_code, "error [TL001]" in refused.stderr) == (2, True)
    assert tl.topics() == []


@pytest.mark.parametrize("count", ["0", "-1", "1025", "2147483648", "1.5", "ten", ""])
def test_a_number_out_of_range_is_wrong_usage(run: Run, count: str) -> None:
    refused = run("topic", "create", "orders", "-p", count)
    assert (refused.exit_code, "'-p' / '--partitions'" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("retention_age=7d", "did you mean 'retention_age_s'?"),
        ("retention_age_s=soon", "retention_age_s: not a duration: 'soon'"),
        ("retention_age_s=-1", "out of range"),
        ("segment_bytes=1kB", "out of range"),
        ("record_bytes_max=65MiB", "out of range"),
        ("retention_bytes", "is not NAME=VALUE"),
        ("=5", "is not NAME=VALUE"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_nothing_is_made(run: Run, tl: Client, setting: str, said: str) -> None:
    refused = run("topic", "create", "orders", "--set", setting)
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    assert tl.topics() == []


def test_exit_codes_of_what_is_not_there_and_what_is_there_already(run: Run, tl: Client) -> None:
    tl.create_topic("orders")
    assert run("topic", "create", "orders").exit_code == 6
    for command in (
        ("describe", "nope"),
        ("alter", "nope", "--set", "retention_age_s=1d"),
        ("add-partitions", "nope", "2"),
        ("delete", "nope", "--yes"),
    ):
        missing = run("topic", *command)
        assert (missing.exit_code, "error [TL002]: topic nope does not exist" in missing.stderr) == (3, True)
        assert missing.stdout == ""
