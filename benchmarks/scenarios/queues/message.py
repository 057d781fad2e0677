"""Single messages: each of 8 processes inserts one, claims one, acknowledges one, again and again.

The figure that is known of this workload, 2,885 messages a second on four processors, stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines.jobs_table import Deleted, Hidden
from benchmarks.bench import Bench, Scenario
from benchmarks.desks import Desk, QueueSide
from benchmarks.jobs import rate
from benchmarks.lines import Finding, Flush, paired
from benchmarks.our_queues import Queues
from benchmarks.queue_jobs import Cycle
from benchmarks.shifts import PARTITIONS, WORKERS, Sizes, check

KNOWN_RATE = 2_885.0
SIDES: dict[str, QueueSide] = {"ours": Queues(), "hidden": Hidden(), "deleted": Deleted()}


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        rates: dict[str, list[float]] = {name: [] for name in SIDES}
        for _ in range(bench.rounds(flush)):
            for name, side in SIDES.items():
                rates[name].append(_rate(bench, side, flush))
                bench.say(f"queue-message {flush} flush, {name}: {rates[name][-1]:,.0f} messages/s")
        known = [KNOWN_RATE] * len(rates["ours"])
        note = f"2,885 was measured on four processors; here are {bench.environment.cpus}"
        yield paired("queue-message.known", rates["ours"], known, flush=flush, note=note)
        for name in ("hidden", "deleted"):
            yield paired(f"queue-message.{name}", rates["ours"], rates[name], flush=flush)


def _rate(bench: Bench, side: QueueSide, flush: Flush) -> float:
    sizes = Sizes(bench, flush)
    with bench.log(side, PARTITIONS) as log:
        side.open_queue(bench.url("fast"), log, sizes.deadline_s)
        bench.settle()
        jobs = [
            Cycle(side, bench.url(flush), log, Desk(number, 1, 0, sizes.deadline_s), PARTITIONS, sizes.duration_s)
            for number in range(WORKERS)
        ]
        found = bench.crew.run(jobs)
        written = [fed.tally for fed, _ in found]
        done = [emptied for _, emptied in found]
        check(side, written, [each.tally for each in done], side.left(bench.url("fast"), log))
    return rate(done)


SCENARIO = Scenario("queue-message", ("queue-message.known", "queue-message.hidden", "queue-message.deleted"), measure)
