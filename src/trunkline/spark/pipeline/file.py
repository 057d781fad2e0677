"""The pipeline file: a name, a source, steps, sinks. Read and checked here, without Spark.

Every step and every sink is of one kind, which is the name of one of its keys. ``STEP_KINDS`` and ``SINK_KINDS`` say
which kinds there are and what else they take; ``steps.py`` and ``sinks.py`` say what Spark makes of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from trunkline.client import target
from trunkline.engine.checks import check_topic_name
from trunkline.engine.offsets import parse_place
from trunkline.errors import InvalidArgument
from trunkline.nearest import nearest_name
from trunkline.nodes import Block, Place, Text, Value, read
from trunkline.spark.options import source_options

STEPS_MAX = 100
SINKS_MAX = 20
CONSOLE_ROWS = 20
INPUT = "input"
"""What the source is called in SQL."""
EXAMPLES = {"name": "name: revenue", "source": "source: {topic: orders, format: text}", "sinks": "- topic: revenue"}

_TOP = ("name", "url", "source", "steps", "sinks", "trigger", "checkpoints", "config")
_SOURCE = (
    *("topic", "topics", "pattern", "start", "format", "schema", "bad_records", "max_records", "watermark", "options"),
)
_OURS = ("url", "subscribe", "subscribePattern", "startingOffsets", "groupId", "groupIdPrefix", "maxOffsetsPerTrigger")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,79}", re.ASCII)
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Watermark:
    """How late rows may come, by which column."""

    column: str
    delay_ms: int
    place: Place


@dataclass(frozen=True)
class Column:
    """A field of a JSON record; the type is in Spark's words, which Spark checks. Without a name: a whole schema."""

    name: str
    type: Text


@dataclass(frozen=True)
class Source:
    """What is read. ``options`` are those of ``format("trunkline")``, but for the URL and the group."""

    place: Place
    options: Mapping[str, str]
    format: str
    columns: tuple[Column, ...]
    bad_records: str
    watermark: Watermark | None
    topics: tuple[str, ...]
    """The topics that must be there; none for a pattern."""


@dataclass(frozen=True)
class SqlStep:
    sql: Text


@dataclass(frozen=True)
class Step:
    """A view that later steps and sinks can read by its name."""

    name: str
    place: Place
    watermark: Watermark | None
    made: SqlStep


@dataclass(frozen=True)
class TopicSink:
    """Rows become records: the key is a column, the value columns as JSON (``values``) or one column (``value``)."""

    topic: str
    key: str | None = None
    value: str | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParquetSink:
    path: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConsoleSink:
    rows: int = CONSOLE_ROWS


@dataclass(frozen=True)
class Sink:
    """Where the rows of a view go. The name is that of its checkpoint, and part of its group's."""

    name: str
    place: Place
    reads: str
    mode: str
    made: TopicSink | ParquetSink | ConsoleSink


@dataclass(frozen=True)
class Pipeline:
    """A whole file. ``every_ms`` None: the next batch begins when the last has ended. ``url`` may hold a password."""

    name: str
    file: str
    source: Source
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    available_now: bool = False
    every_ms: int | None = None
    checkpoints: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    url: str | None = field(default=None, repr=False)

    def group_of(self, sink: Sink) -> str:
        """The group under which the progress of a sink's query is reported."""
        return f"{self.name}/{sink.name}"


@dataclass(frozen=True)
class Kind(Generic[Made]):
    """What a kind of step or sink takes beside its own key, and what is made of it."""

    options: tuple[str, ...]
    make: Callable[[Block], Made]
    target: Callable[[Made], str] = lambda _: ""
    modes: tuple[str, ...] = ()


def load(path: Path) -> Pipeline:
    """Read a file. InvalidArgument names the file, the line and the step or sink; NotFound where there is no file."""
    top = Block(read(path, "pipeline", "a pipeline needs a name, a source and sinks, see docs/pipelines.md"))
    top.only(_TOP, "a pipeline")
    for needed, example in EXAMPLES.items():
        top.get(needed, example)
    name = _pipeline_name(top)
    source = _source(Block(top.get("source", "")))
    steps = _steps(top)
    sinks = _sinks(top, [INPUT, *(step.name for step in steps)])
    available_now, every_ms = _trigger(top)
    checkpoints = top.find("checkpoints")
    return Pipeline(
        name,
        str(path),
        source,
        steps,
        sinks,
        available_now,
        every_ms,
        None if checkpoints is None else checkpoints.text().value,
        _config(top),
        _url(top),
    )


def _pipeline_name(top: Block) -> str:
    value = top.get("name", EXAMPLES["name"])
    name = value.text().value
    if not _NAME.fullmatch(name) or ".." in name:
        raise value.place.error(f"{name!r} is no name: 1 to 80 of A-Z a-z 0-9 . _ -, beginning with a letter or digit")
    return name


def _url(top: Block) -> str | None:
    value = top.find("url")
    if value is None:
        return None
    text = value.text().value
    try:
        target.parse(text)
    except InvalidArgument as error:
        raise value.place.error(error) from None
    return text


def _config(top: Block) -> dict[str, str]:
    value = top.find("config")
    if value is None:
        return {}
    block = Block(value)
    for name in block.names:
        if not name.startswith("spark."):
            raise block.place_of(name).error(f"{name!r} is no setting of Spark's: those begin with spark.")
    return {name: block.get(name, "").plain() for name in block.names}


def _trigger(top: Block) -> tuple[bool, int | None]:
    """Whether to end when caught up, and how often a batch begins (None: one after the other)."""
    value = top.find("trigger")
    if value is None:
        return False, None
    if not value.is_block:
        value.choice("available_now")
        return True, None
    block = Block(value)
    block.only(("every",), "a trigger")
    return False, block.get("every", "every: 5 s").duration_ms()


# -- the source --


def _source(block: Block) -> Source:
    block.only(_SOURCE, "a source")
    options, topics = _what(block)
    options |= _start(block)
    most = block.find("max_records")
    if most is not None:
        options["maxOffsetsPerTrigger"] = str(most.whole())
    options |= _more_options(block)
    form = block.get("format", "format: json").choice("json", "text", "raw")
    bad = block.find("bad_records")
    columns = _columns(block)
    for name in ("schema", "bad_records"):
        if name in block and form != "json":
            raise block.place_of(name).error(f"{name} belongs to format: json, and this is {form}")
    if form == "json" and not columns:
        raise block.place.error("format: json needs a schema, like schema: {id: string, amount: double}")
    _check_options(block, options)
    return Source(
        block.place,
        options,
        form,
        columns,
        "fail" if bad is None else bad.choice("fail", "drop", "keep"),
        _watermark(block),
        topics,
    )


def _what(block: Block) -> tuple[dict[str, str], tuple[str, ...]]:
    kind = block.one_of(("topic", "topics", "pattern"), "a source")
    value = block.get(kind, "")
    if kind == "pattern":
        return {"subscribePattern": value.text().value}, ()
    names = value.texts() if kind == "topics" else [value.text().value]
    for name in names:
        _topic_name(value.place, name)
    return {"subscribe": ",".join(names)}, tuple(names)


def _topic_name(place: Place, name: str) -> str:
    try:
        return check_topic_name(name)
    except InvalidArgument as error:
        raise place.error(error) from None


def _start(block: Block) -> dict[str, str]:
    """Where the first run begins: earliest, latest, a time, or offsets by topic and partition."""
    value = block.find("start")
    if value is None:
        return {"startingOffsets": "earliest"}
    if value.is_block:
        return {"startingOffsets": msgspec.json.encode(_offsets(Block(value))).decode()}
    text = value.time_or_text()
    if text in ("earliest", "latest"):
        return {"startingOffsets": text}
    try:
        place = parse_place(text if text.startswith(("-", "@")) else f"@{text}", now=datetime.now(UTC))
    except InvalidArgument:
        raise value.place.error(
            f"{text!r} is no place to start: write earliest, latest, -1h, 2026-01-01T00:00:00Z, "
            "or offsets like {orders: {0: 23, 1: -2}}"
        ) from None
    assert place.time is not None
    time_ms = str(int(place.time.timestamp() * 1000))
    # A time after the last record is no error: the run then begins at the end.
    return {"startingTimestamp": time_ms, "startingOffsetsByTimestampStrategy": "latest"}


def _offsets(block: Block) -> dict[str, dict[str, int]]:
    found = {}
    for topic in block.names:
        partitions = Block(block.get(topic, ""))
        found[topic] = {each: partitions.get(each, "").whole(least=-2) for each in partitions.names}
    return found


def _more_options(block: Block) -> dict[str, str]:
    value = block.find("options")
    if value is None:
        return {}
    options = Block(value)
    for name in options.names:
        if name.lower() in {each.lower() for each in _OURS}:
            raise options.place_of(name).error(f"{name} is set by the pipeline: use the keys of the source, and --url")
    return {name: options.get(name, "").plain() for name in options.names}


def _check_options(block: Block, options: Mapping[str, str]) -> None:
    try:
        source_options({**options, "url": "postgresql://"}, streaming=True)
    except InvalidArgument as error:
        where = next((name for name in ("options", "start", "pattern") if name in block), None)
        raise (block.place if where is None else block.place_of(where)).error(error) from None


def _columns(block: Block) -> tuple[Column, ...]:
    value = block.find("schema")
    if value is None:
        return ()
    if not value.is_block:
        return (Column("", value.text()),)
    fields = Block(value)
    if not fields.names:
        raise value.place.error("names no column")
    seen: dict[str, str] = {}
    for name in fields.names:
        if name.lower() in seen:
            raise fields.place_of(name).error(f"{name} and {seen[name.lower()]} are one name to Spark; rename one")
        seen[name.lower()] = name
    return tuple(Column(name, fields.get(name, "").text()) for name in fields.names)


def _watermark(block: Block) -> Watermark | None:
    value = block.find("watermark")
    if value is None:
        return None
    inner = Block(value)
    inner.only(("column", "delay"), "a watermark")
    example = "watermark: {column: time, delay: 1 minute}"
    column = inner.get("column", example).text().value
    return Watermark(column, inner.get("delay", example).duration_ms(), inner.place)


# -- the steps --


def _steps(top: Block) -> tuple[Step, ...]:
    value = top.find("steps")
    if value is None:
        return ()
    values = value.items()
    if len(values) > STEPS_MAX:
        raise value.place.error(f"{len(values)} steps are too many; at most {STEPS_MAX}")
    steps: list[Step] = []
    for number, each in enumerate(values, start=1):
        steps.append(_step(each, number, steps))
    return tuple(steps)


def _step(value: Value, number: int, before: list[Step]) -> Step:
    block = Block(value, f"step {number}")
    name = _view_name(block, number, before)
    block = block.called(f"step {number} ({name})")
    _known(block, STEP_KINDS, ("name", "watermark"), "a step")
    kind = STEP_KINDS[block.one_of(STEP_KINDS, "a step")]
    return Step(name, block.place, _watermark(block), kind.make(block))


def _view_name(block: Block, number: int, before: list[Step]) -> str:
    value = block.find("name")
    if value is None:
        name = f"step_{number}"
    else:
        name = value.text().value
        if not _VIEW.fullmatch(name):
            raise value.place.error(f"{name!r} is no name of a view: letters, digits and _, no digit first")
    taken = {INPUT: "the source", **{step.name.lower(): step.place.what for step in before}}
    if name.lower() in taken:
        place = block.place if value is None else value.place
        raise place.error(f"the name {name} is taken by {taken[name.lower()]}; choose another")
    return name


def _known(block: Block, kinds: Mapping[str, Kind[Made]], common: tuple[str, ...], what: str) -> None:
    """Every key is of the chosen kind, or common; another kind's option says so."""
    chosen = [name for name in block.names if name in kinds]
    own = kinds[chosen[0]].options if chosen else tuple(name for kind in kinds.values() for name in kind.options)
    for name in block.names:
        if name in (*kinds, *common, *own):
            continue
        others = [kind for kind, each in kinds.items() if name in each.options]
        if others:
            raise block.place_of(name).error(f"{name!r} belongs to {what} of kind {others[0]}, and this is {chosen[0]}")
        known = (*kinds, *common, *own) if not chosen else (chosen[0], *common, *own)
        raise block.place_of(name).error(f"{what} has no {name!r}; {nearest_name(name, known)}")


def _sql(block: Block) -> SqlStep:
    return SqlStep(block.get("sql", "").text())


# -- the sinks --


def _sinks(top: Block, views: list[str]) -> tuple[Sink, ...]:
    value = top.get("sinks", EXAMPLES["sinks"])
    values = value.items()
    if not values:
        raise value.place.error("is an empty list; a pipeline writes somewhere, like - topic: revenue")
    if len(values) > SINKS_MAX:
        raise value.place.error(f"{len(values)} sinks are too many; at most {SINKS_MAX}")
    sinks: list[Sink] = []
    for number, each in enumerate(values, start=1):
        sink = _sink(each, number, views)
        for other in sinks:
            if other.name == sink.name:
                raise sink.place.error(f"{other.place.what} has this name too; give one of them a name of its own")
        sinks.append(sink)
    return tuple(sinks)


def _sink(value: Value, number: int, views: list[str]) -> Sink:
    block = Block(value, f"sink {number}")
    _known(block, SINK_KINDS, ("name", "from", "mode"), "a sink")
    chosen = block.one_of(SINK_KINDS, "a sink")
    kind = SINK_KINDS[chosen]
    made = kind.make(block)
    name = _sink_name(block, chosen, kind.target(made))
    block = block.called(f"sink {number} ({name})")
    mode = block.find("mode")
    return Sink(name, block.place, _from(block, views), "append" if mode is None else mode.choice(*kind.modes), made)


def _sink_name(block: Block, kind: str, aim: str) -> str:
    value = block.find("name")
    if value is None:
        plain = re.sub(r"[^A-Za-z0-9._]+", "-", f"{kind}-{aim}").strip("-.")
        return re.sub(r"\.{2,}", ".", plain)[:80]
    name = value.text().value
    if not _NAME.fullmatch(name) or ".." in name:
        raise value.place.error(f"{name!r} is no name: 1 to 80 of A-Z a-z 0-9 . _ -, beginning with a letter or digit")
    return name


def _from(block: Block, views: list[str]) -> str:
    value = block.find("from")
    if value is None:
        return views[-1]
    name = value.text().value
    by_name = {view.lower(): view for view in views}
    if name.lower() not in by_name:
        raise value.place.error(f"there is no step {name!r}; {nearest_name(name, views)}")
    return by_name[name.lower()]


def _topic_sink(block: Block) -> TopicSink:
    topic = block.get("topic", "")
    key, value = block.find("key"), block.find("value")
    return TopicSink(
        _topic_name(topic.place, topic.text().value),
        None if key is None else key.text().value,
        value.text().value if value is not None and not value.is_list else None,
        tuple(value.texts()) if value is not None and value.is_list else (),
    )


def _parquet_sink(block: Block) -> ParquetSink:
    by = block.find("partition_by")
    columns: list[str] = []
    if by is not None:
        columns = by.texts() if by.is_list else [by.text().value]
    return ParquetSink(block.get("parquet", "").text().value, tuple(columns))


def _console_sink(block: Block) -> ConsoleSink:
    rows = block.get("console", "")
    return ConsoleSink() if rows.is_nothing else ConsoleSink(rows.whole())


STEP_KINDS: dict[str, Kind[SqlStep]] = {"sql": Kind((), _sql)}
SINK_KINDS: dict[str, Kind[TopicSink | ParquetSink | ConsoleSink]] = {
    "topic": Kind(("key", "value"), _topic_sink, lambda made: getattr(made, "topic", ""), ("append", "update")),
    "parquet": Kind(("partition_by",), _parquet_sink, lambda made: getattr(made, "path", ""), ("append",)),
    "console": Kind((), _console_sink, modes=("append", "update", "complete")),
}
