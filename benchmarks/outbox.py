"""The benchmark of publishing in the caller's transaction.

    trunkline bench outbox [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.outbox …         the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys

from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import outbox

PROCESSES = 6
"""Four with clients, one that gives loose commits their place, and one that looks how busy the machine is."""

OUTBOX = Benchmark(
    "outbox", "Measure business transactions that publish against those that do not.", outbox.ALL, PROCESSES
)

if __name__ == "__main__":
    sys.exit(run(OUTBOX, sys.argv[1:]))
