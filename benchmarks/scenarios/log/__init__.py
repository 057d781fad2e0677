"""What is measured of the log: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.log import (
    backlog,
    concurrent,
    growth,
    memory,
    payload,
    saturation,
    single,
    snapshot,
    throughput,
)

ALL: tuple[Scenario, ...] = (
    payload.SCENARIO,
    *throughput.SCENARIOS,
    single.SCENARIO,
    concurrent.SCENARIO,
    snapshot.SCENARIO,
    growth.SCENARIO,
    memory.SCENARIO,
    saturation.SCENARIO,
    backlog.SCENARIO,
)
"""In the order in which they are run and printed."""
