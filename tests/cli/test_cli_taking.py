"""`trunkline consume -g` and `-q` with --ack: what was written is done, and nothing else."""

from __future__ import annotations

import json
import signal

import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from trunkline import Client


@pytest.fixture
def orders(run: Run, tl: Client) -> None:
    """Topic orders with five records, group billing, queue mail."""
    tl.create_topic("orders")
    tl.publish_many("orders", [b"%d" % number for number in range(5)])
    tl.create_group("billing", "orders")
    assert run("queue", "create", "orders", "mail").exit_code == 0


def payloads(text: str) -> list[str]:
    return [json.loads(line)["payload"] for line in text.splitlines()]


@pytest.mark.parametrize("whence", [("-g", "billing"), ("-q", "mail")])
def test_what_was_written_does_not_come_again(run: Run, tl: Client, orders: None, whence: tuple[str, str]) -> None:
    first = run("consume", "orders", *whence, "--ack", "-n", 2)
    assert (first.exit_code, payloads(first.stdout)) == (0, ["0", "1"])
    assert payloads(run("consume", "orders", *whence, "--ack", "-e").stdout) == ["2", "3", "4"]
    assert run("consume", "orders", *whence, "--ack", "-e").stdout == ""
    tl.publish("orders", b"5")
    assert run("consume", "orders", *whence, "--ack", "-e", "-f", r"%o %v\n").stdout == "6 5\n"


def test_a_queue_has_nothing_in_flight_afterwards(run: Run, orders: None) -> None:
    run("consume", "orders", "-q", "mail", "--ack", "-n", 2)
    found = json.loads(run("queue", "describe", "orders", "mail", "--json").stdout)
    assert (found["ready"], found["in_flight"], found["waiting"]) == (3, 0, 0)


@pytest.mark.parametrize("whence", [("-g", "billing"), ("-q", "mail")])
def test_it_waits_for_more_until_it_is_ended(start: Start, tl: Client, orders: None, whence: tuple[str, str]) -> None:
    process = start("consume", "orders", *whence, "--ack", "-f", r"%v\n")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(5)] == [b"%d\n" % number for number in range(5)]
    tl.publish("orders", b"later")
    assert process.stdout.readline() == b"later\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 143


@pytest.mark.parametrize("whence", [("-g", "billing"), ("-q", "mail")])
def test_a_closed_pipe_ends_it(start: Start, orders: None, whence: tuple[str, str]) -> None:
    process = start("consume", "orders", *whence, "--ack")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 141
    process.stdout = None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-g", "billing"], 2, "add --ack"),
        (["-q", "mail"], 2, "add --ack"),
        (["--ack"], 2, "--ack is for --group and --queue"),
        (["-g", "billing", "-q", "mail", "--ack"], 2, "exclude each other"),
        (["-q", "mail", "--ack", "-o", "end"], 2, "--offset is not for --ack"),
        (["-g", "billing", "--ack", "-p", "0"], 2, "--partition is not for --ack"),
        (["-g", "missing", "--ack", "-e"], 3, "missing"),
        (["-q", "missing", "--ack", "-e"], 3, "trunkline queue create"),
    ],
)
def test_bad_input(run: Run, orders: None, arguments: list[str], code: int, said: str) -> None:
    failed = run("consume", "orders", *arguments)
    assert (failed.exit_code, said in failed.stderr) == (code, True), failed.stderr
    assert failed.stdout == ""
