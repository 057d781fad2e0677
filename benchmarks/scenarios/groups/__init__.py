"""What is measured of consumer groups: a family of lines a file."""

from __future__ import annotations

from benchmarks.bench import Scenario
from benchmarks.scenarios.groups import (
    claims,
    cursor,
    fanout,
    group_read,
    held,
    idle,
    reference,
    ring,
    saturation,
    takeover,
    wake,
)
from benchmarks.scenarios.log import payload

ALL: tuple[Scenario, ...] = (
    payload.CARTS,
    reference.SCENARIO,
    saturation.SCENARIO,
    claims.SCENARIO,
    wake.SCENARIO,
    idle.SCENARIO,
    fanout.SCENARIO,
    held.SCENARIO,
    group_read.SCENARIO,
    ring.SCENARIO,
    cursor.SCENARIO,
    takeover.SCENARIO,
)
"""In the order in which they are run and printed."""
