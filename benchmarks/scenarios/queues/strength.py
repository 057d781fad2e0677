"""Whether the baselines are strong ones: their workers through psycopg, and their SQL under pgbench."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines import pgbench
from benchmarks.baselines.claims import kept_to_the_index
from benchmarks.baselines.jobs_table import Deleted, Hidden, pgbench_scripts
from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding, paired
from benchmarks.shifts import BATCH_RECORDS, PARTITIONS, WORKERS, Run, Shift, Sizes, fill

SIDES: dict[str, Hidden | Deleted] = {"queue-pgbench.hidden": Hidden(), "queue-pgbench.deleted": Deleted()}


def measure(bench: Bench) -> Iterator[Finding]:
    program = pgbench.find(bench.programs)
    for name, side in SIDES.items():
        if program is None:
            yield Finding(name=name, note="not measured: there is no pgbench")
            continue
        sizes = Sizes(bench, "fast")
        driver: list[float] = []
        bare: list[float] = []
        for _ in range(bench.scale.pgbench_rounds):
            run = sizes.run(Shift(side, BATCH_RECORDS, BATCH_RECORDS, jointly=True))
            driver.append(run.rate)
            bare.append(_under_pgbench(bench, program, side, run, sizes.deadline_s))
            bench.say(f"{name}: {driver[-1]:,.0f} records/s through psycopg, {bare[-1]:,.0f} under pgbench")
        yield paired(name, driver, bare)


def _under_pgbench(bench: Bench, program: str, side: Hidden | Deleted, run: Run, deadline_s: float) -> float:
    """As many records as the workers had, but for a few: nobody may find an empty table."""
    url = bench.url("fast")
    with bench.log(side, PARTITIONS) as log:
        written = fill(bench, side, log, run.records, BATCH_RECORDS)
        side.analyse(url, log)
        bench.settle()
        takes = run.records // WORKERS // BATCH_RECORDS
        script = pgbench_scripts(log, BATCH_RECORDS, deadline_s)[side.name]
        rates = pgbench.run(program, kept_to_the_index(url), [script] * WORKERS, takes)
        left = side.left(url, log)
        assert written.records - left.records == takes * WORKERS * BATCH_RECORDS, f"{side.name}: pgbench lost some"
    return sum(rates) * BATCH_RECORDS


SCENARIO = Scenario("queue-pgbench", tuple(SIDES), measure)
