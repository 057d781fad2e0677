"""What a record looks like in the dead letter topic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.checks import check_headers, check_key, check_limits
from trunkline.engine.dead_letters import REASON_CHARACTERS_MAX, dead_letter, fitted, reason_of
from trunkline.records import HeaderPairs, Record, Topic

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)


def record(headers: HeaderPairs) -> Record:
    return Record("orders", 3, 42, b"key", b"\x00payload", headers, NOW)


def test_a_dead_letter_keeps_the_record_and_says_where_it_stood_and_why_it_failed() -> None:
    letter = dead_letter(record((("a", b"1"), ("a", b"\xff"))), attempts=5, reason="ValueError: no", time=NOW)
    assert (letter.key, letter.body) == (b"key", b"\x00payload")
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


def topic(**limits: int) -> Topic:
    given = {
        "record_bytes_max": 1_000,
        "batch_bytes_max": 1_000,
        "batch_records_max": 10,
        "key_bytes_max": 1_000,
        "header_count_max": 64,
        "header_bytes_max": 8_192,
    }
    facts: dict[str, Any] = dict.fromkeys(Topic.__struct_fields__, 0)
    return Topic(**{**facts, "name": "dead", "partitions": 1, **given, **limits})


SMALL = st.integers(1, 40)


@given(
    limits=st.fixed_dictionaries(
        dict.fromkeys(
            ("record_bytes_max", "batch_bytes_max", "key_bytes_max", "header_count_max", "header_bytes_max"), SMALL
        )
    ),
    key=st.none() | st.binary(max_size=50),
    payload=st.binary(max_size=50),
    headers=st.lists(st.tuples(st.text("aä", min_size=1), st.binary(max_size=50)), max_size=10),
)
def test_S4_16_a_letter_fits_whatever_the_limits_of_its_topic_are(
    limits: dict[str, int], key: bytes | None, payload: bytes, headers: list[tuple[str, bytes]]
) -> None:
    dead = topic(**limits)
    found = Record("orders", 3, 42, key, payload, tuple(headers), NOW)
    letter = dead_letter(found, attempts=5, reason="ValueError: no", time=NOW)
    fits = fitted(letter, dead)
    check_limits(dead, check_key(fits.key), fits.body, check_headers(fits.headers))
    assert len(fits.body) <= dead.batch_bytes_max
    assert fits.body in (payload, b"")
    assert fits.key in (key, None)


def test_S4_16_a_letter_that_fits_is_not_changed_and_a_stub_says_what_is_left_out() -> None:
    letter = dead_letter(record((("a", b"1" * 100),)), attempts=5, reason="no", time=NOW)
    assert fitted(letter, topic()) == letter
    assert fitted(letter, topic(header_count_max=7)) == letter
    stub = fitted(letter, topic(record_bytes_max=3, key_bytes_max=2, header_count_max=7))
    assert (stub.body, stub.key) == (b"", None)
    headers = dict(check_headers(stub.headers))
    assert headers["trunkline-dl-cut"] == b"a payload of 8 bytes, a key of 3 bytes, 1 headers"
    assert (headers["trunkline-dl-offset"], "a" in headers) == (b"42", False)
    assert "a" not in dict(check_headers(fitted(letter, topic(header_bytes_max=50)).headers))
