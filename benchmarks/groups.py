"""The benchmark of consumer groups.

    trunkline bench groups [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.groups …         the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys

from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import groups

PROCESSES = 31
"""Ten writers, five groups of four readers, and one that looks how busy the machine is."""

GROUPS = Benchmark("groups", "Measure consumer groups against the readers that they replace.", groups.ALL, PROCESSES)

if __name__ == "__main__":
    sys.exit(run(GROUPS, sys.argv[1:]))
