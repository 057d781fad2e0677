"""What is measured of topics in Spark: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.log import payload
from benchmarks.scenarios.spark import commit, idle, memory, read, stream, trigger, write

ALL: tuple[Scenario, ...] = (
    payload.ORDERS,
    read.SCENARIO,
    write.SCENARIO,
    stream.SCENARIO,
    commit.SCENARIO,
    trigger.SCENARIO,
    idle.SCENARIO,
    memory.SCENARIO,
)
"""In the order in which they are run and printed."""
