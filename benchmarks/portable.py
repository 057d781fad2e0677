"""The benchmark of the portable API.

    trunkline bench portable [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.portable …       the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys

from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import portable

PROCESSES = 1
"""Publishers, subscribers and their tasks share one, as in an application."""

PORTABLE = Benchmark("portable", "Measure the portable API against the brokers' own clients.", portable.ALL, PROCESSES)

if __name__ == "__main__":
    sys.exit(run(PORTABLE, sys.argv[1:]))
