"""The benchmark of the log.

    trunkline bench log [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.log …            the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys

from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import log

PROCESSES = 5
"""Four writers and a reader that follows them."""

LOG = Benchmark("log", "Measure the log against the design that it replaces.", log.ALL, PROCESSES)

if __name__ == "__main__":
    sys.exit(run(LOG, sys.argv[1:]))
