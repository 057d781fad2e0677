"""The benchmark of queues.

    trunkline bench queues [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.queues …         the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys

from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import queues

PROCESSES = 11
"""Eight workers, two writers that write meanwhile, and one that looks how busy the machine is."""

QUEUES = Benchmark("queues", "Measure queues against tables whose rows are hidden or deleted.", queues.ALL, PROCESSES)

if __name__ == "__main__":
    sys.exit(run(QUEUES, sys.argv[1:]))
