"""The benchmark of topics in Spark.

    trunkline bench spark [--quick] [--json] [--only NAME…] [--url URL] [--rounds N] [--slow-flush]
    python -m benchmarks.spark …          the same

Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
docs/benchmarks.md says how to read it; benchmarks/targets.toml is the list of lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks import engine
from benchmarks.bench import Benchmark
from benchmarks.run import run
from benchmarks.scenarios import spark

PROCESSES = 4
"""Writers that fill a log before Spark reads it."""

SPARK = Benchmark("spark", "Measure topics in Spark against its own JDBC source.", spark.ALL, PROCESSES)


def main(argv: Sequence[str]) -> int:
    """Measure, and end the one session of the run."""
    try:
        return run(SPARK, argv)
    finally:
        engine.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
