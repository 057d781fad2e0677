"""What is measured of publishing in the caller's transaction: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.outbox import bare, business, left_open, snapshot

ALL: tuple[Scenario, ...] = (
    business.SCENARIO,
    bare.SCENARIO,
    left_open.SCENARIO,
    snapshot.SCENARIO,
)
"""In the order in which they are run and printed."""
