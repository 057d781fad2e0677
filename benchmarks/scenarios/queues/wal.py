"""How much write-ahead log a record takes from its publish to its acknowledgement, in batches and one by one.

A run lasts longer than the ack deadline, so that deadlines pass, and are looked at, while it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines.jobs_table import Deleted, Hidden
from benchmarks.bench import Bench, Scenario
from benchmarks.desks import QueueSide
from benchmarks.lines import Finding, paired
from benchmarks.our_queues import Queues
from benchmarks.shifts import BATCH_RECORDS, Shift, Sizes

SIDES: dict[str, QueueSide] = {"ours": Queues(), "hidden": Hidden(), "deleted": Deleted()}
KINDS = {"batches": (BATCH_RECORDS, BATCH_RECORDS), "single": (1, 0)}
"""How many records are written and taken at a time, and claimed ahead."""


def measure(bench: Bench) -> Iterator[Finding]:
    sizes = Sizes(bench, "fast")
    for kind, (records, prefetch) in KINDS.items():
        found: dict[str, list[float]] = {name: [] for name in SIDES}
        for _ in range(bench.rounds("slow")):
            for name, side in SIDES.items():
                run = sizes.run(Shift(side, records, prefetch, feed_records=records, jointly=True))
                found[name].append(run.wal)
                bench.say(f"queue-wal {kind}, {name}: {run.wal:,.0f} bytes a record of {run.records:,}")
        for name in ("hidden", "deleted"):
            yield paired(f"queue-wal.{kind}_{name}", found["ours"], found[name])


SCENARIO = Scenario(
    "queue-wal", tuple(f"queue-wal.{kind}_{name}" for kind in KINDS for name in ("hidden", "deleted")), measure
)
