"""8 workers empty a queue of 222-byte records, every one acknowledged: in batches, by handlers, and one by one.

``queue-batches``: a hundred at a time. ``queue-handlers``: an application that receives one and acknowledges one, many
at a time in each process; both sides may claim a hundred ahead, and gather what is acknowledged meanwhile.
``queue-single``: one record at a time, and nothing is claimed ahead; a worker that asks for the next says that it is
done with the last, in one call where the side has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.baselines.jobs_table import Deleted, Hidden
from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding, Flush, paired
from benchmarks.our_queues import BareQueues, Queues
from benchmarks.shifts import BATCH_RECORDS, Run, Shift, Sizes, limits

HANDLERS = 100


@dataclass(frozen=True)
class Compared:
    """A line: a shift of ours against one of the baselines, by the names that they have here."""

    name: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Family:
    """Shifts that are run in turn, and what is compared of them."""

    name: str
    shifts: Mapping[str, Shift]
    lines: tuple[Compared, ...]

    def measure(self, bench: Bench) -> Iterator[Finding]:
        for flush in bench.flushes:
            runs = self._runs(bench, flush)
            for line in self.lines:
                rates = ([run.rate for run in runs[side]] for side in (line.ours, line.theirs))
                yield paired(f"{self.name}.{line.name}", *rates, flush=flush, note=limits(runs[line.ours]))

    def _runs(self, bench: Bench, flush: Flush) -> dict[str, list[Run]]:
        sizes = Sizes(bench, flush)
        runs: dict[str, list[Run]] = {name: [] for name in self.shifts}
        for _ in range(bench.rounds(flush)):
            for name, shift in self.shifts.items():
                run = sizes.run(shift)
                runs[name].append(run)
                bench.say(
                    f"{self.name} {flush} flush, {name}: {run.rate:,.0f} records/s for {run.took_s:.1f} s; "
                    f"{limits([run])}"
                )
        return runs

    def scenario(self) -> Scenario:
        return Scenario(self.name, tuple(f"{self.name}.{line.name}" for line in self.lines), self.measure)


BATCHES = Family(
    "queue-batches",
    {
        "ours": Shift(Queues(), BATCH_RECORDS, BATCH_RECORDS, jointly=True),
        "hidden": Shift(Hidden(), BATCH_RECORDS, BATCH_RECORDS, jointly=True),
        "deleted": Shift(Deleted(), BATCH_RECORDS, BATCH_RECORDS, jointly=True),
        "bare": Shift(BareQueues(), BATCH_RECORDS, BATCH_RECORDS, jointly=True),
    },
    (
        Compared("hidden", "ours", "hidden"),
        Compared("deleted", "ours", "deleted"),
        Compared("bare_hidden", "bare", "hidden"),
        Compared("bare_deleted", "bare", "deleted"),
    ),
)
HANDLED = Family(
    "queue-handlers",
    {
        "ours": Shift(Queues(), 1, BATCH_RECORDS, handlers=HANDLERS),
        "hidden": Shift(Hidden(), 1, BATCH_RECORDS, handlers=HANDLERS),
        "ours, one handler": Shift(Queues(), 1, BATCH_RECORDS),
        "hidden, one handler": Shift(Hidden(), 1, BATCH_RECORDS),
    },
    (Compared("hidden", "ours", "hidden"), Compared("hidden_in_turn", "ours, one handler", "hidden, one handler")),
)
SINGLE = Family(
    "queue-single",
    {
        "ours": Shift(Queues(), 1, 0, jointly=True),
        "hidden": Shift(Hidden(), 1, 0, jointly=True),
        "deleted": Shift(Deleted(), 1, 0, jointly=True),
        "bare": Shift(BareQueues(), 1, 0, jointly=True),
    },
    (
        Compared("hidden", "ours", "hidden"),
        Compared("deleted", "ours", "deleted"),
        Compared("bare_hidden", "bare", "hidden"),
        Compared("bare_deleted", "bare", "deleted"),
    ),
)
SCENARIOS = tuple(family.scenario() for family in (BATCHES, HANDLED, SINGLE))
