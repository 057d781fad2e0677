"""32 business transactions at a time: a row, an event, 20 ms of work, a commit; against the same without the event.

Beside it the counter of the design that Trunkline replaces, which is held from the publish to the commit, and a topic
with loose_commit_order, whose records get their place after the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.bench import Bench, Scenario
from benchmarks.business import Kind, Market, Run, trade
from benchmarks.latency import Sample, percentile
from benchmarks.lines import Finding, Flush, paired

PROCESSES = 4
CLIENTS_EACH = 8
WORK_S = 0.02
LEAST_S = 1.5
PARTITIONS = (8, 1)
KINDS: tuple[Kind, ...] = ("ours", "nothing", "counter", "loose")
NAMES: dict[Kind, tuple[str, str]] = {
    "ours": ("throughput", "p99"),
    "counter": ("counter", "counter_p99"),
    "loose": ("loose", "loose_p99"),
}
CEILING_S = 1.0


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for partitions in PARTITIONS:
            runs: dict[Kind, list[Run]] = {kind: [] for kind in KINDS}
            ceilings: list[float] = []
            for _ in range(bench.rounds(flush)):
                for kind in KINDS:
                    runs[kind].append(_run(bench, kind, partitions, flush))
                if partitions == 1:
                    ceilings.append(_ceiling(bench, flush))
            yield from _findings(partitions, flush, runs)
            if ceilings:
                rates = [run.rate for run in runs["ours"]]
                yield paired("outbox-business.ceiling-1", rates, ceilings, flush=flush)


def _run(bench: Bench, kind: Kind, partitions: int, flush: Flush) -> Run:
    market = Market(partitions, PROCESSES, CLIENTS_EACH, WORK_S, max(LEAST_S, bench.scale.stream_s))
    found = trade(bench, kind, market, bench.url(flush))
    bench.say(
        f"outbox-business {flush} flush, partitions: {partitions}, {kind}: {found.rate:,.0f} transactions/s, "
        f"p99 {p99(found):,.1f} ms; {limits([found])}"
    )
    return found


def _findings(partitions: int, flush: Flush, runs: dict[Kind, list[Run]]) -> Iterator[Finding]:
    rates = {kind: [run.rate for run in each] for kind, each in runs.items()}
    tails = {kind: [p99(run) for run in each] for kind, each in runs.items()}
    for kind, names in NAMES.items():
        for name, figures in zip(names, (rates, tails), strict=True):
            yield paired(
                f"outbox-business.{name}-{partitions}",
                figures[kind],
                figures["nothing"],
                flush=flush,
                note=limits(runs[kind]),
            )


def _ceiling(bench: Bench, flush: Flush) -> float:
    """Commits a second of one client alone on the partition, without work. Nobody can commit to a partition before the
    commit ahead of it is flushed: one after the other they are the most that it takes."""
    market = Market(1, 1, 1, 0.0, max(CEILING_S, bench.scale.stream_s / 2))
    alone = trade(bench, "ours", market, bench.url(flush))
    ceiling = 1 / median(span.committing for span in alone.spans)
    bench.say(f"outbox-business {flush} flush, one partition: its ceiling is {ceiling:,.0f} commits/s")
    return ceiling


def p99(run: Run) -> float:
    """Of whole transactions, in milliseconds."""
    return percentile([Sample(span.took_s) for span in run.spans], 99)


def limits(runs: Sequence[Run]) -> str:
    """What the machine was busy with: where all of it is, the clients may be the limit and not the server."""
    busy = [run.load.busy for run in runs if run.load.busy is not None]
    server = [run.load.server for run in runs if run.load.server is not None]
    told = [f"processors {median(busy):.0%} busy"] if busy else ["processors: unknown"]
    told.append(f"clients took {median([run.clients_load for run in runs]):.2f} of them")
    told += [f"the server {median(server):.2f}"] if server else []
    return ", ".join(told)


LINES = (
    *(
        f"outbox-business.{name}-{partitions}"
        for partitions in PARTITIONS
        for names in NAMES.values()
        for name in names
    ),
    "outbox-business.ceiling-1",
)
SCENARIO = Scenario("outbox-business", LINES, measure)
