"""`trunkline produce`: every byte arrives as it was given, and what cannot be published is refused."""

from __future__ import annotations

import json
import subprocess
from io import UnsupportedOperation
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import DEADLINE_S, Run, Start
from trunkline import Client, TopicSettings
from trunkline.cli import produce as produce_module
from trunkline.errors import TooLarge


@pytest.fixture(autouse=True)
def topic(tl: Client) -> None:
    tl.create_topic("orders")


def payloads(tl: Client) -> list[bytes]:
    return [record.payload for record in tl.read("orders", max_records=10_000)]


def test_arguments_are_records_whatever_quotes_they_have(run: Run, tl: Client) -> None:
    given_payloads = ["plain", "", "it's", '{"a": "b"}', "$(rm -rf /)", "'; drop table x; --", "%s %d", "grün\n"]
    done = run("produce", "orders", "--", *given_payloads)
    assert done.stdout == "".join(f"0:{offset}\n" for offset in range(1, len(given_payloads) + 1))
    assert payloads(tl) == [payload.encode() for payload in given_payloads]


def test_lines_of_standard_input_are_records(run: Run, tl: Client) -> None:
    assert run("produce", "orders", stdin=b"a\n\nc\r\nlast").exit_code == 0
    assert payloads(tl) == [b"a", b"", b"c\r", b"last"]


def test_empty_input_publishes_nothing_and_says_so(run: Run, tl: Client) -> None:
    done = run("produce", "orders", stdin=b"")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing was published" in done.stderr
    assert payloads(tl) == []


def test_a_file_and_a_dash_are_inputs(run: Run, tl: Client, tmp_path: Path) -> None:
    file = tmp_path / "records"
    file.write_bytes(b"a\nb\n")
    run("produce", "orders", "-f", file)
    run("produce", "orders", "-f", "-", stdin=b"c\n")
    assert payloads(tl) == [b"a", b"b", b"c"]


def test_whole_input_is_one_record_with_every_byte(run: Run, tl: Client) -> None:
    every = bytes(range(256)) * 300 + b"\n\0\n"
    assert run("produce", "orders", "--whole", stdin=every).stdout == "0:1\n"
    assert payloads(tl) == [every]


def test_a_whole_empty_input_is_an_empty_record(run: Run, tl: Client) -> None:
    assert run("produce", "orders", "--whole", stdin=b"").stdout == "0:1\n"
    assert payloads(tl) == [b""]


def test_binary_lines_with_nul_bytes_arrive_as_they_are(start: Start, tl: Client) -> None:
    process = start("produce", "orders", "-q", stdin=subprocess.PIPE)
    process.communicate(b"\0\xff\xfe\n\x1b[31m\0\n", timeout=DEADLINE_S)
    assert process.returncode == 0
    assert payloads(tl) == [b"\0\xff\xfe", b"\x1b[31m\0"]


def test_an_argument_that_is_not_utf8_arrives_as_its_bytes(start: Start, tl: Client) -> None:
    process = start("produce", "orders", b"\xff\xfe", "-k", b"\xfd")
    assert process.wait(DEADLINE_S) == 0
    (record,) = tl.read("orders")
    assert (record.payload, record.key) == (b"\xff\xfe", b"\xfd")


def test_key_headers_and_partition(run: Run, tl: Client) -> None:
    tl.add_partitions("orders", 3)
    done = run("produce", "orders", "x", "-k", "k", "-H", "a=1", "-H", "a=2=3", "-H", "empty=", "-p", 2, "--json")
    assert json.loads(done.stdout) == {"topic": "orders", "partition": 2, "offset": 1}
    (record,) = tl.read("orders", partition=2)
    assert (record.key, record.headers) == (b"k", (("a", b"1"), ("a", b"2=3"), ("empty", b"")))


def test_the_key_stands_before_the_delimiter(run: Run, tl: Client) -> None:
    assert run("produce", "orders", "-K", r"\t", "-q", stdin=b"k1\ta\tb\n\tno key text\n").exit_code == 0
    assert [(record.key, record.payload) for record in tl.read("orders")] == [
        (b"k1", b"a\tb"),
        (b"", b"no key text"),
    ]


def test_a_line_without_the_delimiter_is_refused_and_named(run: Run, tl: Client) -> None:
    refused = run("produce", "orders", "-K", ":", stdin=b"k:a\nnothing\n")
    assert (refused.exit_code, "record 2 has no key delimiter" in refused.stderr) == (2, True)
    assert payloads(tl) == []


def test_lines_are_published_as_they_come(start: Start, tl: Client) -> None:
    """Goal: a slow writer's line does not wait for the next one. Method: the second is written after the first's
    position was printed."""
    process = start("produce", "orders", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for offset, line in enumerate((b"first\n", b"second\n"), start=1):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline() == b"0:%d\n" % offset
    process.stdin.close()
    assert process.wait(DEADLINE_S) == 0
    assert payloads(tl) == [b"first", b"second"]


def test_long_input_is_published_in_order(run: Run, tl: Client) -> None:
    lines = [b"%d" % number for number in range(5_000)]
    done = run("produce", "orders", stdin=b"\n".join(lines))
    assert done.stdout.splitlines() == [f"0:{offset}" for offset in range(1, 5_001)]
    assert payloads(tl) == lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-f", "/nowhere/at/all"), "No such file or directory"),
        (("-f", "/"), "Is a directory"),
        (("x", "-f", "-"), "not both"),
        (("x", "--whole"), "not both"),
        (("-K", ":", "-k", "k"), "does not go with"),
        (("-K", ""), "must not be empty"),
        (("-K", r"\q"), "no escape"),
        (("x", "-H", "novalue"), "is not NAME=VALUE"),
        (("x", "-p", "-1"), "is not in the range"),
        (("x", "-p", "2147483648"), "is not in the range"),
        (("x", "--partitions", "1"), "Did you mean '--partition'?"),
    ],
)
def test_wrong_usage_publishes_nothing(run: Run, tl: Client, arguments: tuple[str, ...], said: str) -> None:
    refused = run("produce", "orders", *arguments, stdin=b"y\n")
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.stderr
    assert payloads(tl) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nope", "x"), 3, "[TL002]: topic nope does not exist"),
        (("orders", "x", "-p", "7"), 3, "[TL002]: topic orders has no partition 7"),
        (("no such name", "x"), 2, "[TL001]"),
        (("orders", "x", "-k", "k" * 9_000), 2, "[TL004]"),
        (("orders", "x", "-H", "h=" + "v" * 9_000), 2, "[TL004]"),
        (("orders", "x", *["-H", "h=v"] * 65), 2, "[TL004]"),
    ],
)
def test_what_the_topic_cannot_take_is_refused(
    run: Run, tl: Client, arguments: tuple[str, ...], code: int, said: str
) -> None:
    refused = run("produce", *arguments)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.stderr
    assert refused.stdout == ""
    assert payloads(tl) == []
    assert run("produce", "orders", "works afterwards").exit_code == 0


def test_input_over_the_limit_is_refused_without_reading_it_all(run: Run, tl: Client) -> None:
    tl.create_topic("small", settings=TopicSettings(record_bytes_max=1_000))
    whole = run("produce", "small", "--whole", stdin=b"x" * 1_001)
    assert (whole.exit_code, "[TL004]" in whole.stderr) == (2, True)
    line = run("produce", "small", stdin=b"ok\n" + b"x" * 20_000)
    assert (line.exit_code, "[TL004]" in line.stderr) == (2, True)
    assert line.stdout == "0:1\n"
    assert "at least the first 1 records are in the log" in line.stderr
    assert run("produce", "small", "--whole", stdin=b"x" * 1_000).exit_code == 0


class Slices:
    """A stream that gives what it has in pieces of its own choosing."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    read = read1

    def fileno(self) -> int:
        raise UnsupportedOperation


@given(st.lists(st.sampled_from([b"a", b"\n", b"bc", b"\0\xff", b"\r\n", b"long" * 10]), max_size=30))
def test_lines_are_the_same_however_the_stream_is_cut(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    read = produce_module.read_lines(Slices(pieces), 10_000)  # type: ignore[arg-type]
    assert [line for lines in read for line in lines] == expected


def test_a_line_without_an_end_is_given_up_at_the_limit() -> None:
    taken = iter(range(1_000))
    endless = Slices([])
    endless.read1 = lambda _: b"x" * (10 if next(taken) < 100 else 0)  # type: ignore[method-assign]
    endless.read = endless.read1  # type: ignore[method-assign]
    with pytest.raises(TooLarge):
        list(produce_module.read_lines(endless, 500))  # type: ignore[arg-type]
    assert next(taken) <= 52
