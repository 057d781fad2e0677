"""The grammar of `consume -o`: what each form means, what is refused, and that nothing else gets through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.offsets import (
    END,
    OFFSET_MAX,
    START,
    Bound,
    Span,
    offset_of,
    parse_duration,
    parse_place,
    parse_span,
    stop_of,
)
from trunkline.errors import InvalidArgument, OffsetOutOfRange
from trunkline.records import PartitionRange

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LOG = PartitionRange(0, 11, 101)


def at(*ago: float, **parts: float) -> Bound:
    return Bound("time", time=NOW - timedelta(*ago, **parts))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", Span(START)),
        ("end", Span(END)),
        ("42", Span(Bound("exact", 42))),
        ("42:", Span(Bound("exact", 42))),
        ("+5", Span(Bound("after_start", 5))),
        ("-10", Span(Bound("before_end", 10))),
        ("42:90", Span(Bound("exact", 42), Bound("exact", 90))),
        (":90", Span(START, Bound("exact", 90))),
        (":end", Span(START, END)),
        ("42:end", Span(Bound("exact", 42), END)),
        ("+5:-5", Span(Bound("after_start", 5), Bound("before_end", 5))),
        ("-10:-5", Span(Bound("before_end", 10), Bound("before_end", 5))),
        ("@-1h", Span(at(hours=1))),
        ("@-1h:", Span(at(hours=1))),
        ("@-1h:-5m", Span(at(hours=1), at(minutes=5))),
        ("@-1h:end", Span(at(hours=1), END)),
        ("@:-5m", Span(START, at(minutes=5))),
        ("@-1h30m", Span(at(minutes=90))),
        ("@-1.5h", Span(at(minutes=90))),
        ("@-250ms", Span(at(milliseconds=250))),
        ("@-2w", Span(at(days=14))),
        ("@2026-02-28", Span(Bound("time", time=datetime(2026, 2, 28, tzinfo=UTC)))),
        ("@2026-02-28T12:00:00Z", Span(at(days=1))),
        ("@2026-02-28T12:00Z", Span(at(days=1))),
        ("@2026-02-28T14:00:00+02:00", Span(at(days=1))),
        ("@2026-02-28T11:59:59.750000Z", Span(at(days=1, seconds=0.25))),
        ("@2026-02-28T12:00:00Z:2026-03-01T00:00:00Z", Span(at(days=1), at(hours=12))),
        ("@2026-02-28T12:00:00Z:6h", Span(at(days=1), at(hours=18))),
        ("@1772366400", Span(Bound("time", time=NOW))),
        ("@1772366400000", Span(Bound("time", time=NOW))),
    ],
)
def test_each_form_means_what_the_manual_says(text: str, span: Span) -> None:
    assert parse_span(text, now=NOW) == span


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ":", "@", "@:", "begin", "START", "1.5", "1e3", "0x10", "--5", "+-5", "5-", "5:6:7", "٣"),
        *("90:42", "42:42", "42:start", ":start", "12345678901234567890", str(OFFSET_MAX + 1)),
        *("@1h", "@now", "@-1", "@-1y", "@-h", "@2026-13-01", "@2026-02-30", "@2026-02-28T25:00:00Z"),
        *("@2026-02-28T12:00:00", "@2026-02-28 12:00:00Z", "@2027-01-01", "@-5m:-1h", "@-1h:5m", "@-1h:2027-01-01"),
        *("@-99999999999999w", "@0001-01-01T00:00:00+14:00", "42\n", "@-1h\n", "@123456789012"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_span(text, now=NOW)


@given(st.text(alphabet="startend0123456789+-:@.hmsdwTZ ", max_size=24))
def test_a_text_is_a_span_or_an_invalid_argument(text: str) -> None:
    try:
        span = parse_span(text, now=NOW)
    except InvalidArgument:
        return
    for bound in (span.first, span.stop):
        if bound is not None and bound.time is not None:
            assert bound.time <= NOW


positions = st.one_of(
    st.sampled_from(["start", "end"]),
    st.integers(0, OFFSET_MAX).map(str),
    st.integers(0, OFFSET_MAX).map("+{}".format),
    st.integers(0, OFFSET_MAX).map("-{}".format),
)


@given(positions, st.integers(1, 1_000), st.integers(0, 1_000))
def test_a_relative_position_is_always_inside_the_log(text: str, start: int, length: int) -> None:
    log = PartitionRange(0, start, start + length)
    bound = parse_span(text, now=NOW).first
    if bound.kind == "exact" and not log.start <= bound.value <= log.end:
        with pytest.raises(OffsetOutOfRange) as caught:
            offset_of(bound, log)
        assert (caught.value.start, caught.value.end) == (log.start, log.end)
    else:
        assert log.start <= offset_of(bound, log) <= log.end


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("start", 11),
        ("end", 101),
        ("11", 11),
        ("101", 101),
        ("+0", 11),
        ("+5", 16),
        ("+500", 101),
        ("-0", 101),
        ("-10", 91),
        ("-500", 11),
    ],
)
def test_a_position_counts_from_the_log_it_is_looked_up_in(text: str, offset: int) -> None:
    assert offset_of(parse_span(text, now=NOW).first, LOG) == offset


@pytest.mark.parametrize("text", ["0", "10", "102"])
def test_an_exact_offset_outside_the_log_is_an_error_with_the_valid_range(text: str) -> None:
    with pytest.raises(OffsetOutOfRange, match="11 to 100") as caught:
        offset_of(parse_span(text, now=NOW).first, LOG)
    assert (caught.value.start, caught.value.end) == (11, 101)


def test_an_exact_stop_may_lie_beyond_the_end() -> None:
    span = parse_span("42:5000", now=NOW)
    assert span.stop is not None
    assert stop_of(span.stop, LOG) == 5000


def test_a_time_is_what_was_looked_up_for_it() -> None:
    assert offset_of(parse_span("@-1h", now=NOW).first, LOG, at_time=57) == 57


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("start", START),
        ("end", END),
        ("42", Bound("exact", 42)),
        ("-1h", at(hours=1)),
        ("@-1h", at(hours=1)),
        ("-1h30m", at(minutes=90)),
        ("@2026-02-28T12:00:00Z", at(days=1)),
        ("@1772366400", Bound("time", time=NOW)),
    ],
)
def test_a_place_is_one_position_that_every_partition_has(text: str, bound: Bound) -> None:
    assert parse_place(text, now=NOW) == bound


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ":", "soon", "42:", ":42", "42:90", "@-1h:", "@-1h:end", "+5", "-10", "-", "--1h", "1h", "-1h\n"),
        *("@1h", "@2027-01-01", "@", "12345678901234567890", str(OFFSET_MAX + 1), "-99999999999999w"),
    ],
)
def test_what_is_not_one_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_place(text, now=NOW)


@given(st.integers(0, 10_000), st.sampled_from(["ms", "s", "m", "h", "d", "w"]))
def test_a_negative_duration_is_the_opposite_of_a_positive_one(amount: int, unit: str) -> None:
    assert parse_duration(f"-{amount}{unit}") == -parse_duration(f"{amount}{unit}")


@pytest.mark.parametrize("text", ["", "5", "h", "5 h", "5H", "-", "1h-5m", "5h\n"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_duration(text)
