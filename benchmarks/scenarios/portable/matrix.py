"""1, 10 and 100 publishers by 1, 10 and 100 tasks that send; as many subscribers by as many tasks that receive and
acknowledge. The portable API against the broker's own client, in rounds that alternate.

All of them are in one process, on one event loop, as in an application; so a figure with a memory broker is what the
library itself costs, and one with Postgres what is left of that beside a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median

from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding, Flush, paired
from benchmarks.port_jobs import Crowd, Measured, PortJob
from benchmarks.ports import Port

SIZES = (1, 10, 100)
CROWDS = tuple(Crowd(clients, tasks) for clients, tasks in product(SIZES, SIZES))
RUN_S = 1.0
QUICK_RUN_S = 0.25
PROBE_CALLS = 400
"""Of all tasks together, at least, in the short run that says how many calls a run has."""
PARTITIONS = 8
FIGURES = ("rate", "p50", "p99")


@dataclass(frozen=True)
class Matrix:
    """A broker and a direction. ``bare`` is what one task alone would do, which gathers nothing."""

    name: str
    job: type[PortJob]
    portable: Port
    direct: Port
    bare: Port | None = None
    commits: bool = False

    def measure(self, bench: Bench) -> Iterator[Finding]:
        for flush in bench.flushes if self.commits else ("fast",):
            for crowd in CROWDS:
                yield from self._compared(bench, flush, crowd)

    def _compared(self, bench: Bench, flush: Flush, crowd: Crowd) -> Iterator[Finding]:
        calls = self._calls(bench, flush, crowd)
        bare = self.bare if crowd == Crowd(1, 1) else None
        sides = [self.portable, self.direct, *([bare] if bare else [])]
        found: list[list[Measured]] = [[] for _ in sides]
        for _ in range(bench.rounds(flush)):
            for side, runs in zip(sides, found, strict=True):
                runs.append(self._run(bench, flush, side, crowd, calls))
        ours, theirs, *others = found
        assert {each.tally for runs in found for each in runs} == {ours[0].tally}
        note = f"{calls * crowd.size:,} calls, {median([each.processor for each in ours]):.2f} processors"
        for figure in FIGURES:
            yield self._finding(f"{figure}-{crowd}", figure, ours, theirs, flush, note)
        for runs in others:
            yield self._finding("bare", "rate", ours, runs, flush, note)

    def _finding(
        self, name: str, figure: str, ours: list[Measured], theirs: list[Measured], flush: Flush, note: str
    ) -> Finding:
        mine, other = ([getattr(each, figure) for each in runs] for runs in (ours, theirs))
        return paired(f"{self.name}.{name}", mine, other, flush=flush, note=note)

    def _calls(self, bench: Bench, flush: Flush, crowd: Crowd) -> int:
        """How many each task makes, so that a run lasts long enough. Both sides make as many."""
        probe = max(2, PROBE_CALLS // crowd.size)
        rate = self._run(bench, flush, self.direct, crowd, probe).rate
        run_s = RUN_S if bench.scale.name == "full" else QUICK_RUN_S
        return max(2, round(rate * run_s / crowd.size))

    def _run(self, bench: Bench, flush: Flush, side: Port, crowd: Crowd, calls: int) -> Measured:
        with bench.log(side, PARTITIONS) as log:
            (found,) = bench.crew.run([self.job(side, bench.url(flush), log, crowd, calls)])
        return found

    def scenario(self) -> Scenario:
        names = [f"{figure}-{crowd}" for crowd in CROWDS for figure in FIGURES]
        names += ["bare"] if self.bare is not None else []
        return Scenario(self.name, tuple(f"{self.name}.{name}" for name in names), self.measure)
