"""What a record looks like in the dead letter topic."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trunkline.engine.checks import check_headers
from trunkline.engine.dead_letters import REASON_CHARACTERS_MAX, dead_letter, reason_of
from trunkline.records import HeaderPairs, Record

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def record(headers: HeaderPairs) -> Record:
    return Record("orders", 3, 42, b"key", b"\x00payload", headers, NOW)


def test_a_dead_letter_keeps_the_record_and_says_where_it_stood_and_why_it_failed() -> None:
    letter = dead_letter(record((("a", b"1"), ("a", b"\xff"))), attempts=5, reason="ValueError: no", time=NOW)
    assert (letter.key, letter.payload) == (b"key", b"\x00payload")
    assert check_headers(letter.headers) == (
        ("a", b"1"),
        ("a", b"\xff"),
        ("trunkline-dl-topic", b"orders"),
        ("trunkline-dl-partition", b"3"),
        ("trunkline-dl-offset", b"42"),
        ("trunkline-dl-attempts", b"5"),
        ("trunkline-dl-reason", b"ValueError: no"),
        ("trunkline-dl-time", b"2026-01-01T12:30:00+00:00"),
    )


def test_headers_of_an_earlier_death_are_replaced() -> None:
    first = dead_letter(record((("a", b"1"),)), attempts=5, reason="first", time=NOW)
    second = dead_letter(record(check_headers(first.headers)), attempts=2, reason="second", time=NOW)
    found = dict(check_headers(second.headers))
    assert len(check_headers(second.headers)) == 7
    assert (found["trunkline-dl-reason"], found["trunkline-dl-attempts"]) == (b"second", b"2")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such account"), "ValueError: no such account"),
        (KeyError(), "KeyError"),
        (ValueError("nul \0 and \udcff"), "ValueError: nul \\0 and \\udcff"),
    ],
)
def test_a_reason_is_the_error_in_words_that_can_be_published(error: BaseException, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_reason_has_an_end() -> None:
    assert len(reason_of(ValueError("x" * 10_000))) == REASON_CHARACTERS_MAX
