"""Two million orders of 200 bytes into Spark's noop sink: from a topic, through JDBC from a table, and from nowhere.

Each goes in four tasks. A noop sink looks at nothing, so in each round Spark also sums up lengths and CRCs on both
sides, which must be those of what was written; that line is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import filled
from benchmarks.baselines import jdbc
from benchmarks.bench import Bench, Scenario
from benchmarks.engine import TASKS, session, tally, to_noop, took_s, topic_frame
from benchmarks.filled import Filled, scaled
from benchmarks.lines import Finding, paired
from benchmarks.payloads import Tally
from benchmarks.sides import topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS = 2_000_000
WARM_PASSES = 3
"""The JVM compiles what it runs often, and is faster afterwards; all sources in turn, so that none is ahead."""


@dataclass(frozen=True)
class Source:
    """What is read, anew each time, and what must be found there: None where nothing is looked for."""

    frame: Callable[[], DataFrame]
    column: str
    content: Tally | None


@dataclass
class Rates:
    """Records a second by source, round by round."""

    noop: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    touched: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def measure(bench: Bench) -> Iterator[Finding]:
    records = scaled(bench, RECORDS)
    rates = Rates()
    with ExitStack() as stack:
        ours = stack.enter_context(filled.topic(bench, records))
        theirs = stack.enter_context(filled.table(bench, records)) if jdbc.find_jar() else None
        sources = _sources(bench, ours, theirs)
        for source in [*sources.values()] * WARM_PASSES:
            to_noop(source.frame())
        bench.settle()
        for number in range(bench.rounds("fast")):
            _round(sources, records, rates)
            told = ", ".join(f"{name} {rates.noop[name][-1]:,.0f}" for name in sources)
            bench.say(f"spark-read, round {number + 1} of {bench.rounds('fast')}: {told} records/s")
    note = f"{records:,} records of {filled.RECORD_BYTES} bytes, {TASKS} tasks"
    yield from _findings(rates, note)


def _sources(bench: Bench, ours: Filled, theirs: Filled | None) -> dict[str, Source]:
    url = bench.url("fast")
    found = {
        "topic": Source(partial(topic_frame, url, topic_name(ours.log)), "value", ours.tally),
        "columns": Source(partial(topic_frame, url, topic_name(ours.log), jdbc.SAME_COLUMNS), "value", ours.tally),
        "ceiling": Source(partial(ceiling_frame, ours.records), "value", None),
    }
    if theirs is not None:
        frame = partial(jdbc.read, session(), url, theirs.log, records=theirs.records, tasks=TASKS)
        found["jdbc"] = Source(frame, "payload", theirs.tally)
    return found


def _round(sources: Mapping[str, Source], records: int, rates: Rates) -> None:
    for name, source in sources.items():
        rates.noop[name].append(records / took_s(lambda: to_noop(source.frame())))  # noqa: B023 - called at once
    for name, source in sources.items():
        if source.content is not None:
            rates.touched[name].append(records / took_s(lambda: check(source)))  # noqa: B023 - called at once


def check(source: Source) -> None:
    """Touch every record, and compare."""
    found = tally(source.frame(), source.column)
    assert found == source.content, f"read {found} of {source.content}"


def ceiling_frame(records: int) -> DataFrame:
    """Batches as large as those that our source makes of one short read."""
    from benchmarks.baselines.ceiling import NAME
    from trunkline.spark.options import READ_BYTES

    sizes = {"batchRecords": READ_BYTES // filled.RECORD_BYTES, "recordBytes": filled.RECORD_BYTES}
    return session().read.format(NAME).options(records=records, tasks=TASKS, **sizes).load()


def _findings(rates: Rates, note: str) -> Iterator[Finding]:
    yield paired("spark-read.ceiling", rates.noop["topic"], rates.noop["ceiling"], note=note)
    if rates.noop["jdbc"]:
        same = f"{note}, the same three columns"
        yield paired("spark-read.jdbc", rates.noop["columns"], rates.noop["jdbc"], note=same)
        yield paired("spark-read.touched", rates.touched["columns"], rates.touched["jdbc"], note=same)
    else:
        yield Finding(name="spark-read.jdbc", note=jdbc.MISSING)
        yield Finding(name="spark-read.touched", note=jdbc.MISSING)


SCENARIO = Scenario("spark-read", ("spark-read.ceiling", "spark-read.jdbc", "spark-read.touched"), measure)
