"""What a micro-batch costs when there is next to nothing in it: from a topic to which somebody publishes steadily, and
from Spark's own rate source, both into the noop sink, in as many tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bench import Bench, Scenario
from benchmarks.drip import dripping
from benchmarks.engine import THREADS, session
from benchmarks.lines import Finding, paired
from benchmarks.scenarios.spark.stream import folder
from benchmarks.sides import Ours, topic_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import StreamingQueryProgress

PER_S = 100
ROUND_S = {"full": 15.0, "quick": 6.0}
WARM_BATCHES = 3
DEADLINE_S = 60.0


def measure(bench: Bench) -> Iterator[Finding]:
    url, duration_s = bench.url("fast"), ROUND_S[bench.scale.name]
    ours: list[float] = []
    theirs: list[float] = []
    batches = [0, 0]
    with bench.log(Ours(), THREADS) as log, dripping(url, log, THREADS, PER_S):
        for number in range(bench.rounds("fast")):
            rate = session().readStream.format("rate").options(rowsPerSecond=PER_S, numPartitions=THREADS).load()
            topic = session().readStream.format("trunkline").options(url=url, subscribe=topic_name(log)).load()
            found = triggers(topic, duration_s), triggers(rate, duration_s)
            ours.append(median(found[0]))
            theirs.append(median(found[1]))
            batches = [had + len(new) for had, new in zip(batches, found, strict=True)]
            bench.say(
                f"spark-trigger, round {number + 1} of {bench.rounds('fast')}: topic {ours[-1]:.0f} ms, "
                f"rate {theirs[-1]:.0f} ms"
            )
    note = f"median of {batches[0]} and {batches[1]} micro-batches, {PER_S} records/s, {THREADS} tasks"
    yield paired("spark-trigger.floor", ours, theirs, note=note)


def triggers(frame: DataFrame, duration_s: float) -> list[float]:
    """How long each micro-batch with rows in it took, in milliseconds, once the first few are over."""
    with folder() as place:
        query = frame.writeStream.format("noop").option("checkpointLocation", str(place)).start()
        try:
            deadline = time.monotonic() + DEADLINE_S
            while len(_triggers(query.recentProgress)) < WARM_BATCHES:
                assert time.monotonic() < deadline, "the query has no batches"
                time.sleep(0.1)
            warm = len(_triggers(query.recentProgress))
            time.sleep(duration_s)
            return _triggers(query.recentProgress)[warm:]
        finally:
            query.stop()


def _triggers(progress: list[StreamingQueryProgress]) -> list[float]:
    return [float(each["durationMs"]["triggerExecution"]) for each in progress if each["numInputRows"] > 0]


SCENARIO = Scenario("spark-trigger", ("spark-trigger.floor",), measure)
