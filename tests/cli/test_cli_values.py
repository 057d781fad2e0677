"""Values with units, and formats with escapes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.cli.escapes import compile_format, unescape
from trunkline.cli.output import bytes_text, duration_text, printable, readable
from trunkline.cli.values import parse_bytes, parse_seconds, parse_setting, parse_settings
from trunkline.errors import InvalidArgument
from trunkline.records import Record

RECORD = Record(
    "orders", 3, 42, b"k\xff", b'{"a": 1}\0', (("n", b"1"), ("n", b"\xfe")), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("65536", 65536),
        ("1B", 1),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("500MB", 500_000_000),
        ("10GiB", 10 * 1024**3),
        ("1.5 gib", 3 * 1024**3 // 2),
        ("2TB", 2 * 10**12),
    ],
)
def test_sizes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1.5", "10G", "1 0", "GiB", "0x10", "1e3", "9" * 30, "1.0000001kB", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "value"), [("7d", 604800), ("12h", 43200), ("1h30m", 5400), ("90", 90), ("-1", -1)])
def test_durations(text: str, value: int) -> None:
    assert parse_seconds(text) == value


@pytest.mark.parametrize("text", ["", "1.5", "250ms", "7 d", "1y", "9" * 30, "²"])
def test_what_is_no_duration_in_seconds_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_seconds(text)


def test_the_name_of_a_setting_says_its_unit() -> None:
    assert parse_settings([("retention_age_s", "7d"), ("retention_bytes", "NONE"), ("header_count_max", "5")]) == {
        "retention_age_s": 604800,
        "retention_bytes": None,
        "header_count_max": 5,
    }


def test_an_error_in_a_setting_names_it() -> None:
    with pytest.raises(InvalidArgument, match="header_count_max: not a whole number"):
        parse_setting("header_count_max", "1.5")
    with pytest.raises(InvalidArgument, match="did you mean 'retention_bytes'"):
        parse_settings([("retention_byte", "1")])
    with pytest.raises(InvalidArgument, match="twice"):
        parse_settings([("retention_bytes", "1"), ("retention_bytes", "2")])


def test_sizes_and_durations_are_shown_in_their_largest_units() -> None:
    assert [bytes_text(count) for count in (0, 1023, 1024, 3 * 2**29, 2**45)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 GiB",
        "32.0 TiB",
    ]
    assert [duration_text(seconds) for seconds in (None, 0, 45, 5400, 604800)] == [
        "-",
        "0 s",
        "45 s",
        "1 h 30 min",
        "7 d",
    ]


@given(st.binary())
def test_what_a_person_reads_never_commands_the_terminal(value: bytes) -> None:
    assert readable(value).isprintable()


def test_text_stays_readable_and_controls_are_escaped() -> None:
    assert printable("grün ✓") == "grün ✓"
    assert printable("a\x1b[31m\tb\n") == r"a\x1b[31m\tb\n"
    assert readable(b"\xffok") == r"\xffok"


def test_a_format_writes_every_field_as_its_bytes() -> None:
    written = compile_format(r"%t %p:%o %k=%v %h %T 100%%\t\x00\\\n")(RECORD)
    assert written == (b'orders 3:42 k\xff={"a": 1}\0 n=1,n=\xfe 2026-01-02T03:04:05.000006Z 100%\t\0\\\n')


@pytest.mark.parametrize("text", ["%", "%x", "%q", "\\", r"\q", r"\x0", r"\xzz", "a%"])
def test_an_escape_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        compile_format(text)


@given(st.binary(max_size=20))
def test_every_byte_can_be_written_as_an_escape(value: bytes) -> None:
    assert unescape("".join(f"\\x{byte:02x}" for byte in value)) == value


def test_outside_formats_a_percent_sign_is_a_percent_sign() -> None:
    assert unescape(r"%\t%p") == b"%\t%p"
