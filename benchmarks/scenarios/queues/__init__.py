"""What is measured of queues: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.queues import emptied

ALL: tuple[Scenario, ...] = (*emptied.SCENARIOS,)
"""In the order in which they are run and printed."""
