"""What is measured of queues: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.queues import emptied, held, message, parked, receive, strength, wal

ALL: tuple[Scenario, ...] = (
    *emptied.SCENARIOS,
    message.SCENARIO,
    strength.SCENARIO,
    wal.SCENARIO,
    held.SCENARIO,
    parked.SCENARIO,
    receive.SCENARIO,
)
"""In the order in which they are run and printed."""
