"""What a user may set on ``format("trunkline")``: names and meanings are those of Spark's Kafka connector.

Spark hands every option over as text, and its own ones along with ours. An unknown name is an error that names the
nearest; what only means something to Kafka (``kafka.*``) is ignored with a warning.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from trunkline.client import target
from trunkline.engine.checks import check_group_name, check_topic_name, check_topic_names
from trunkline.errors import InvalidArgument, NotConfigured
from trunkline.nearest import nearest_name

T = TypeVar("T")

EARLIEST = -2
LATEST = -1
INT8_MAX = 2**63 - 1
READ_BYTES = 8 * 1024 * 1024
"""About how much one short read brings."""

_SPARKS_OWN = ("path", "paths", "checkpointLocation", "queryName", "mode", "__default__")
_KAFKAS_OWN = ("kafka.", "kafkaConsumer.", "fetchOffset.")
_SHARED = ("url",)
_SOURCE = (
    *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp"),
    *("endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"),
    *("startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "groupId", "groupIdPrefix"),
    *("readUrl", "readBytes", "pushFilters"),
)
_SINK = ("topic", "includeHeaders", "sinkId", "queryId", "writeId", "failOnChangedBatch", "batchRecords", "batchBytes")
_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|min|h|d|)\s*", re.ASCII)
_UNIT_S = {"ms": 0.001, "": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

Offsets = dict[str, dict[int, int]]
"""Topic → partition → offset; -2 is the earliest, -1 the latest."""


@dataclass(frozen=True)
class Bound:
    """Where to begin or to end: ``earliest`` or ``latest`` everywhere, or by partition, or by time (milliseconds)."""

    everywhere: int | None = None
    offsets: Offsets | None = None
    time_ms: int | None = None
    times_ms: Offsets | None = None


@dataclass(frozen=True)
class SourceOptions:
    """What to read. Exactly one of ``topics``, ``pattern`` and ``assigned`` is given."""

    url: str = field(repr=False)
    read_url: str = field(repr=False)
    topics: tuple[str, ...]
    pattern: str | None
    assigned: dict[str, tuple[int, ...]] | None
    starting: Bound
    ending: Bound
    time_beyond_end: str
    max_offsets: int | None
    min_offsets: int | None
    max_delay_s: float
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    include_headers: bool
    group_id: str | None
    group_prefix: str
    read_bytes: int
    push_filters: bool


@dataclass(frozen=True)
class SinkOptions:
    """Where to write, and under which name."""

    url: str = field(repr=False)
    topic: str | None
    sink_id: str | None
    query_id: str | None
    write_id: str | None
    fail_on_changed_batch: bool
    batch_records: int
    batch_bytes: int


class _Given:
    """Options as they came, by their proper names; asked for one by one."""

    def __init__(self, given: Mapping[str, object], known: Iterable[str]) -> None:
        self._values: dict[str, str] = {}
        proper = {name.lower(): name for name in (*_SHARED, *known)}
        sparks = {name.lower() for name in _SPARKS_OWN}
        for name, value in given.items():
            low = name.lower()
            if low in proper:
                self._values[proper[low]] = "" if value is None else str(value)
            elif low.startswith(tuple(prefix.lower() for prefix in _KAFKAS_OWN)):
                warnings.warn(f"option {name} means something to Kafka only, and is ignored here", stacklevel=4)
            elif low not in sparks:
                raise InvalidArgument(
                    f"format('trunkline') has no option {name!r}; {nearest_name(name, tuple(proper.values()))}"
                )

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def whole(self, name: str, *, least: int = 1, most: int = INT8_MAX) -> int | None:
        text = self._values.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?\d+", text.strip(), re.ASCII) or not least <= int(text) <= most:
            raise InvalidArgument(f"option {name} must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self._values.get(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise InvalidArgument(f"option {name} must be true or false, not {text!r}")
        return text.strip().lower() == "true"

    def seconds(self, name: str, default: float) -> float:
        text = self._values.get(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text)
        if not found:
            raise InvalidArgument(f"option {name} must be a time like 15m, 30s or 500ms, not {text!r}")
        return int(found[1]) * _UNIT_S[found[2]]

    def url(self) -> str:
        """As everywhere: what is given, else TRUNKLINE_URL, else a running `trunkline dev`."""
        found = self._values.get("url")
        if found:
            return _checked_url("url", found)
        try:
            return target.resolve()
        except NotConfigured as error:
            raise NotConfigured(
                "no server named: set option url, like .option('url', 'postgresql://user@host:5432/database'), or "
                "TRUNKLINE_URL, or start one for development with `trunkline dev --detach`"
            ) from error

    def read_url(self) -> str:
        found = self._values.get("readUrl")
        return _checked_url("readUrl", found) if found else self.url()


def source_options(given: Mapping[str, object], *, streaming: bool) -> SourceOptions:
    """Check what was given; InvalidArgument says which option is wrong, and what it may be."""
    options = _Given(given, _SOURCE)
    topics, pattern, assigned = _what(options)
    _check_kind(options, streaming=streaming)
    starting = _bound(options, "starting", everywhere=LATEST if streaming else EARLIEST)
    ending = _bound(options, "ending", everywhere=LATEST)
    _check_bounds(starting, ending, streaming=streaming)
    at_end = options.text("startingOffsetsByTimestampStrategy") or "error"
    if at_end not in ("error", "latest"):
        raise InvalidArgument(f"startingOffsetsByTimestampStrategy must be error or latest, not {at_end!r}")
    group_id, prefix = options.text("groupId"), options.text("groupIdPrefix") or "spark"
    check_group_name(prefix if group_id is None else group_id)
    min_offsets, max_offsets = options.whole("minOffsetsPerTrigger"), options.whole("maxOffsetsPerTrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise InvalidArgument(f"minOffsetsPerTrigger, {min_offsets}, is over maxOffsetsPerTrigger, {max_offsets}")
    url = options.url()
    return SourceOptions(
        url=url,
        read_url=options.read_url(),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        time_beyond_end=at_end,
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_delay_s=options.seconds("maxTriggerDelay", 900.0),
        min_partitions=options.whole("minPartitions"),
        max_records=options.whole("maxRecordsPerPartition"),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        include_headers=options.flag("includeHeaders", default=False),
        group_id=group_id,
        group_prefix=prefix,
        read_bytes=options.whole("readBytes", least=1, most=2**30) or READ_BYTES,
        push_filters=options.flag("pushFilters", default=False),
    )


def sink_options(given: Mapping[str, object]) -> SinkOptions:
    """As ``source_options``, for writing."""
    options = _Given(given, _SINK)
    options.flag("includeHeaders", default=False)
    topic = options.text("topic")
    for name in ("sinkId", "queryId", "writeId"):
        text = options.text(name)
        if text is not None and not 1 <= len(text) <= 150:
            raise InvalidArgument(f"option {name} must have 1 to 150 characters")
    return SinkOptions(
        url=options.url(),
        topic=None if topic is None else check_topic_name(topic),
        sink_id=options.text("sinkId"),
        query_id=options.text("queryId"),
        write_id=options.text("writeId"),
        fail_on_changed_batch=options.flag("failOnChangedBatch", default=True),
        batch_records=options.whole("batchRecords", most=10_000) or 4_000,
        batch_bytes=options.whole("batchBytes", most=64 * 1024 * 1024) or 1024 * 1024,
    )


def _check_kind(options: _Given, *, streaming: bool) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and options.text(name) is not None:
            raise InvalidArgument(f"option {name} is for batch reads; a stream has no end")
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
        if not streaming and options.text(name) is not None:
            warnings.warn(f"option {name} is for streams, and is ignored in a batch read", stacklevel=4)


def _check_bounds(starting: Bound, ending: Bound, *, streaming: bool) -> None:
    if not streaming and (starting.everywhere == LATEST or _names(starting.offsets, LATEST)):
        raise InvalidArgument("startingOffsets cannot be latest (-1) in a batch read: there would be nothing to read")
    if ending.everywhere == EARLIEST or _names(ending.offsets, EARLIEST):
        raise InvalidArgument("endingOffsets cannot be earliest (-2): there would be nothing to read")


def _what(options: _Given) -> tuple[tuple[str, ...], str | None, dict[str, tuple[int, ...]] | None]:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if options.text(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidArgument(f"give one of the options subscribe, subscribePattern and assign; there is {found}")
    text = options.text(given[0]) or ""
    if given[0] == "subscribe":
        return tuple(check_topic_names([name.strip() for name in text.split(",")])), None, None
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise InvalidArgument(f"option subscribePattern is not a regular expression: {error}") from None
        return (), text, None
    assigned = _json(text, dict[str, list[int]], "assign", '{"orders":[0,1]}')
    for topic, partitions in assigned.items():
        check_topic_name(topic)
        if not partitions or min(partitions) < 0 or len(set(partitions)) != len(partitions):
            raise InvalidArgument(f"option assign: name the partitions of {topic}, each once, from 0 on")
    if not assigned:
        raise InvalidArgument("option assign names no topic")
    return (), None, {topic: tuple(sorted(partitions)) for topic, partitions in assigned.items()}


def _bound(options: _Given, side: str, *, everywhere: int) -> Bound:
    """As Kafka's: one time for all wins over times by partition, and those over offsets."""
    time_ms = options.whole(f"{side}Timestamp", least=0)
    if time_ms is not None:
        return Bound(time_ms=time_ms)
    text = options.text(f"{side}OffsetsByTimestamp")
    if text is not None:
        return Bound(times_ms=_by_partition(text, f"{side}OffsetsByTimestamp", least=0))
    text = options.text(f"{side}Offsets")
    if text is None:
        return Bound(everywhere=everywhere)
    if text.strip().lower() in ("earliest", "latest"):
        return Bound(everywhere=EARLIEST if text.strip().lower() == "earliest" else LATEST)
    return Bound(offsets=_by_partition(text, f"{side}Offsets", least=EARLIEST))


def _by_partition(text: str, name: str, *, least: int) -> Offsets:
    found = _json(text, Offsets, name, '{"orders":{"0":23,"1":-2}}')
    for topic, offsets in found.items():
        check_topic_name(topic)
        for partition, offset in offsets.items():
            if partition < 0 or not least <= offset <= INT8_MAX or (least < 0 and offset == 0):
                raise InvalidArgument(
                    f"option {name}: {topic} {partition} {offset}; partitions count from 0, offsets from 1, "
                    "-2 is the earliest and -1 the latest"
                )
    if not found or not all(found.values()):
        raise InvalidArgument(f"option {name} names no topic, or a topic without partitions")
    return found


def _json(text: str, kind: type[T], name: str, example: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidArgument(f"option {name} must be JSON like {example}: {error}") from None


def _checked_url(name: str, url: str) -> str:
    try:
        target.parse(url)
    except InvalidArgument as error:
        raise InvalidArgument(f"option {name}: {error}") from None
    return url


def _names(offsets: Offsets | None, value: int) -> bool:
    return offsets is not None and any(value in by_partition.values() for by_partition in offsets.values())
