"""Somebody holds a snapshot while two writers fill a queue and 8 workers empty it, all in batches of 100.

What is hidden or deleted meanwhile stays in the table as dead rows, and every worker has to pass them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from benchmarks.baselines.jobs_table import Deleted, Hidden
from benchmarks.bench import Bench, Scenario
from benchmarks.crew import Job
from benchmarks.desks import Desk, QueueSide
from benchmarks.lines import Finding, Flush
from benchmarks.our_queues import Queues
from benchmarks.queue_jobs import Emptied, Empty, Fed, Feed
from benchmarks.shifts import BATCH_RECORDS, PARTITIONS, WORKERS, Sizes, check
from benchmarks.snapshot import hold, quarters, rates_over_time

WRITERS = 2
SIDES: dict[str, QueueSide] = {"ours": Queues(), "hidden": Hidden(), "deleted": Deleted()}


@dataclass(frozen=True)
class Held:
    """Records a second that were acknowledged while the snapshot was held, over time."""

    rates: list[float]

    @property
    def mean(self) -> float:
        return sum(self.rates) / len(self.rates)


def measure(bench: Bench) -> Iterator[Finding]:
    held_s = bench.scale.snapshot_s
    note = f"held for {held_s:g} s"
    for flush in bench.flushes:
        found: dict[str, Held] = {}
        for name, side in SIDES.items():
            found[name] = _held(bench, side, flush, held_s)
            finding = _over_time(name, found[name], flush, note)
            bench.say(
                f"queue-held {flush} flush, {name}, {note}: {found[name].mean:,.0f} records/s; first quarter "
                f"{finding.baseline:,.0f}, last {finding.value:,.0f}"
            )
            yield finding
        for name in ("hidden", "deleted"):
            ours, theirs = found["ours"].mean, found[name].mean
            yield Finding(
                name=f"queue-held.{name}",
                flush=flush,
                value=ours,
                baseline=theirs,
                ratio=ours / theirs,
                note=note,
                # It takes its time until dead rows are in the way.
                holds=bench.scale.name == "full",
            )


def _held(bench: Bench, side: QueueSide, flush: Flush, held_s: float) -> Held:
    url, deadline_s = bench.url(flush), Sizes(bench, flush).deadline_s
    with bench.log(side, PARTITIONS) as log:
        side.open_queue(bench.url("fast"), log, deadline_s)
        bench.settle()
        workers = [
            Empty(
                side, url, log, Desk(number, BATCH_RECORDS, BATCH_RECORDS, deadline_s), jointly=True, duration_s=held_s
            )
            for number in range(WORKERS)
        ]
        writers = [
            Feed(side, url, log, number, PARTITIONS, BATCH_RECORDS, duration_s=held_s) for number in range(WRITERS)
        ]
        jobs: list[Job[Emptied | Fed]] = [*workers, *writers]
        with psycopg.connect(bench.url("fast")) as holder:
            found = bench.crew.run(jobs, before=lambda: hold(holder))
        done = [each for each in found if isinstance(each, Emptied)]
        written = [each.tally for each in found if isinstance(each, Fed)]
        check(side, written, [each.tally for each in done], side.left(bench.url("fast"), log))
    start = min(each.started for each in done)
    events = [event for each in done for event in each.acked]
    return Held(rates_over_time(events, start=start, duration_s=held_s))


def _over_time(name: str, held: Held, flush: Flush, note: str) -> Finding:
    first, last = quarters(held.rates)
    return Finding(
        name=f"queue-held.{name}_last_quarter",
        flush=flush,
        value=last,
        baseline=first,
        ratio=last / first,
        note=note,
        series={"records_per_s": [round(each) for each in held.rates]},
    )


SCENARIO = Scenario(
    "queue-held",
    (*(f"queue-held.{name}_last_quarter" for name in SIDES), "queue-held.hidden", "queue-held.deleted"),
    measure,
)
