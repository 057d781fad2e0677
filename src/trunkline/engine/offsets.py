"""Where reading begins and ends, as people write it on a command line.

    start            from the first record that is still there
    end              from the end on: only what comes later
    42               from offset 42 on
    +5               from five records after the start on
    -10              from ten records before the end on: the last ten, then what comes later
    42:90            offsets 42 to 89; the second one is not included, as in every range of ours
    :90   42:end     a missing first bound is the start; `end` is where the log ends now
    @-1h             from an hour ago on
    @2026-01-01      a day, in UTC; also 2026-01-01T12:30:00Z, and 10 or 13 digits as seconds or milliseconds of Unix
    @-1h:-5m         between two times; a time is that of the record's append
    @2026-01-01:6h   a second bound without a minus counts from a first one that is a date
    @-1h:end         from an hour ago until where the log ends now

Every bound is a position in the log of one partition, so a span is resolved for each partition on its own. An exact
offset outside the log is an error; a relative one is cut to the log. Nothing here knows the time: it is handed in.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from trunkline.errors import InvalidArgument, OffsetOutOfRange
from trunkline.records import PartitionRange

OFFSET_MAX = 2**63 - 1

Kind = Literal["start", "end", "exact", "after_start", "before_end", "time"]

_SIGNS: dict[str, Kind] = {"+": "after_start", "-": "before_end"}
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PART = r"\d+(?:\.\d+)?(?:ms|s|m|h|d|w)"
_DURATION = rf"-?(?:{_PART})+"
_CLOCK = r"T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})"
_TIME = rf"\d{{4}}-\d{{2}}-\d{{2}}(?:{_CLOCK})?|\d{{13}}|\d{{10}}|{_DURATION}"
_TIME_SPAN = re.compile(rf"@(?P<first>{_TIME})?(?P<colon>:(?P<second>{_TIME}|end)?)?", re.ASCII)
_POSITION = re.compile(r"start|end|[+-]?\d{1,19}", re.ASCII)
_PLACE = re.compile(rf"start|end|\d{{1,19}}|-(?:{_PART})+|@(?:{_TIME})", re.ASCII)
_GRAMMAR = "write for example start, end, 42, +5, -10, 42:90, @-1h, @2026-01-01T00:00:00Z or @-1h:-5m"


class Bound(msgspec.Struct, frozen=True):
    """One position, not yet looked up: ``value`` belongs to exact, after_start and before_end, ``time`` to time."""

    kind: Kind
    value: int = 0
    time: datetime | None = None


class Span(msgspec.Struct, frozen=True):
    """From ``first`` on, up to but not including ``stop``; without ``stop`` there is no end."""

    first: Bound
    stop: Bound | None = None


START = Bound("start")
END = Bound("end")


def parse_span(text: str, *, now: datetime) -> Span:
    """What a span says; InvalidArgument where it says nothing, ends before it begins, or lies in the future."""
    if text.startswith("@"):
        return _time_span(text, now)
    first, colon, stop = text.partition(":")
    if not colon:
        return Span(_position(text, first))
    if not first and not stop:
        raise _malformed(text)
    span = Span(
        _position(text, first) if first else START,
        _position(text, stop) if stop else None,
    )
    if _is_empty(span):
        raise InvalidArgument(f"offset {text!r} ends before it begins: nothing is in it")
    return span


def parse_place(text: str, *, now: datetime) -> Bound:
    """One place that means something in every partition: ``start``, ``end``, ``42``, or a time, ``@2026-01-01`` or
    ``@-1h``, for which ``-1h`` is enough. InvalidArgument for anything else, and for a time that lies in the future."""
    if not _PLACE.fullmatch(text):
        raise InvalidArgument(f"not a place: {text!r}; write for example start, end, 42, -1h or @2026-01-01T00:00:00Z")
    return parse_span(f"@{text}" if text.startswith("-") else text, now=now).first


def parse_duration(text: str) -> timedelta:
    """``90s``, ``12h``, ``7d``, ``1h30m``, ``250ms``; a minus in front makes it negative."""
    if not re.fullmatch(_DURATION, text, re.ASCII):
        raise InvalidArgument(f"not a duration: {text!r}; write for example 250ms, 90s, 30m, 12h, 7d or 1h30m")
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", text)
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError as error:
        raise InvalidArgument(f"{text!r} is too long a time") from error


def offset_of(bound: Bound, log: PartitionRange, *, at_time: int | None = None) -> int:
    """The offset that a bound means in a partition's log; ``at_time`` is what the log has at its time.

    OffsetOutOfRange for an exact one outside the log; use ``stop_of`` where reading ends.
    """
    if bound.kind == "exact" and not log.start <= bound.value <= log.end:
        raise OffsetOutOfRange(
            f"partition {log.partition} holds the offsets {log.start} to {log.end - 1}, not {bound.value}; "
            "choose partitions with -p, or begin at start or end"
            if log.end > log.start
            else f"partition {log.partition} holds no records and begins at {log.start}, not at {bound.value}",
            start=log.start,
            end=log.end,
        )
    return stop_of(bound, log, at_time=at_time)


def stop_of(bound: Bound, log: PartitionRange, *, at_time: int | None = None) -> int:
    """As ``offset_of``, but an exact offset may be one that the log has not reached yet."""
    if bound.kind == "exact":
        return bound.value
    if bound.kind == "time":
        assert at_time is not None, "a bound by time has to be looked up first"
        return at_time
    if bound.kind == "after_start":
        return min(log.start + bound.value, log.end)
    if bound.kind == "before_end":
        return max(log.end - bound.value, log.start)
    return log.start if bound.kind == "start" else log.end


def _is_empty(span: Span) -> bool:
    if span.stop is None or span.stop == START:
        return span.stop is not None
    return span.first.kind == span.stop.kind == "exact" and span.stop.value <= span.first.value


def _position(text: str, part: str) -> Bound:
    if not _POSITION.fullmatch(part):
        raise _malformed(text)
    if part in ("start", "end"):
        return START if part == "start" else END
    value = abs(int(part))
    if value > OFFSET_MAX:
        raise InvalidArgument(f"offset {text!r}: {part} is beyond the highest offset, {OFFSET_MAX}")
    return Bound(_SIGNS.get(part[0], "exact"), value)


def _time_span(text: str, now: datetime) -> Span:
    found = _TIME_SPAN.fullmatch(text)
    if not found or not (found["first"] or found["second"]):
        raise _malformed(text)
    first = _time(text, found["first"], now) if found["first"] else None
    from_date = first is not None and not _is_duration(found["first"])
    second = found["second"]
    stop: Bound | None = END if second == "end" else None
    if second and second != "end":
        base = first if from_date and _is_duration(second) and first else now
        stop = Bound("time", time=_not_future(text, _time(text, second, base), now))
    if first is not None and stop is not None and stop.time is not None and stop.time <= first:
        raise InvalidArgument(f"offset {text!r} ends before it begins: nothing is in it")
    return Span(Bound("time", time=_not_future(text, first, now)) if first is not None else START, stop)


def _is_duration(part: str) -> bool:
    return part[-1] in "smhdw"


def _time(text: str, part: str, base: datetime) -> datetime:
    """A point in time; a duration counts from ``base``."""
    try:
        if _is_duration(part):
            return (base + parse_duration(part)).astimezone(UTC)
        if part.isdecimal():
            return datetime.fromtimestamp(int(part) / (1000 if len(part) == 13 else 1), UTC)
        moment = datetime.fromisoformat(part)
        return (moment if "T" in part else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"offset {text!r}: there is no time {part!r}") from error


def _not_future(text: str, moment: datetime, now: datetime) -> datetime:
    if moment > now:
        raise InvalidArgument(
            f"offset {text!r}: {moment.isoformat()} lies in the future; "
            "-1h is an hour ago, and what is still to come follows without a second bound"
        )
    return moment


def _malformed(text: str) -> InvalidArgument:
    return InvalidArgument(f"not an offset: {text!r}; {_GRAMMAR}")
