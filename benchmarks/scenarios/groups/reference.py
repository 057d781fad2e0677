"""The reference workload: 10 writers and 5 groups of 4 readers on 4 partitions, held to 5,000 records a second.

How long a write, a read and the whole way take, on clocks that docs/benchmarks.md defines. The readers read before the
writers write, and the first second is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from benchmarks.baselines.claims import Claims
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers
from benchmarks.latency import PERCENTILES, Sample, percentiles
from benchmarks.lines import Finding, Flush, paired
from benchmarks.members import GroupSide
from benchmarks.payloads import Kind
from benchmarks.workload import Driven, Workload, drive, lag_max, sustained

RATE = 5_000.0
WARM_S = 1.0
TOTAL_S = 120.0
"""Of all rounds of a full run together, on each side."""
QUICK_S = 2.0


def workload(duration_s: float, rate: float | None, write_records: int = 100, payloads: Kind = "cart") -> Workload:
    return Workload(
        partitions=4,
        writers=10,
        groups=5,
        write_records=write_records,
        read_records=200,
        rate=rate,
        duration_s=duration_s,
        readers_each=4,
        payloads=payloads,
    )


def _writes(driven: Driven, counted: float) -> list[Sample]:
    calls = [call for each in driven.published for call in each.calls]
    return [Sample(call.acknowledged - call.called) for call in calls if call.due >= counted]


def _writes_due(driven: Driven, counted: float) -> list[Sample]:
    calls = [call for each in driven.published for call in each.calls]
    return [Sample(call.acknowledged - call.due) for call in calls if call.due >= counted]


def _reads(driven: Driven, counted: float) -> list[Sample]:
    reads = [read for each in driven.consumed for read in each.reads]
    return [Sample(read.committed - read.asked) for read in reads if read.handed >= counted]


def _ways(driven: Driven, counted: float) -> list[Sample]:
    found = [delivery for each in driven.consumed for delivery in each.deliveries]
    return [Sample(each.handed - each.published, each.records) for each in found if each.published >= counted]


def _ages(driven: Driven, counted: float) -> list[Sample]:
    found = [age for each in driven.consumed for age in each.ages]
    return [Sample(age.age_s, age.records) for age in found if age.handed >= counted]


CLOCKS: dict[str, Callable[[Driven, float], list[Sample]]] = {
    "write": _writes,
    "write_due": _writes_due,
    "read": _reads,
    "end_to_end": _ways,
    "age": _ages,
}
LATENCIES = tuple(f"reference.{clock}_p{percent}" for clock in CLOCKS for percent in PERCENTILES)
LINES = (*LATENCIES, "reference.written", "reference.read", "reference.lag", "reference.failures")


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        rounds = bench.rounds(flush)
        duration_s = WARM_S + (TOTAL_S / rounds if bench.scale.name == "full" else QUICK_S)
        ours: list[Driven] = []
        theirs: list[Driven] = []
        for number in range(rounds):
            for side, found in ((Consumers(), ours), (Claims(), theirs)):
                found.append(_driven(bench, side, duration_s, flush, f"round {number + 1} of {rounds}"))
            _check(ours[-1], theirs[-1])
        yield from _of_clocks(flush, ours, theirs)
        yield from _of_load(flush, ours, theirs)


def _driven(bench: Bench, side: GroupSide, duration_s: float, flush: Flush, which: str) -> Driven:
    driven = drive(bench, side, workload(duration_s, RATE), flush)
    counted = driven.started + WARM_S
    told = ", ".join(f"{clock} {percentiles(samples(driven, counted))[50]:.2f} ms" for clock, samples in CLOCKS.items())
    bench.say(f"reference {flush} flush, {which}, {side.name}: p50 of {told}")
    return driven


def _check(ours: Driven, theirs: Driven) -> None:
    if not ours.failures and not theirs.failures:
        assert ours.tally == theirs.tally, "the two sides did not write the same records"


def _of_clocks(flush: Flush, ours: Sequence[Driven], theirs: Sequence[Driven]) -> Iterator[Finding]:
    for clock, samples in CLOCKS.items():
        mine, others = (
            [percentiles(samples(driven, driven.started + WARM_S)) for driven in side] for side in (ours, theirs)
        )
        for percent in PERCENTILES:
            yield paired(
                f"reference.{clock}_p{percent}",
                [each[percent] for each in mine],
                [each[percent] for each in others],
                flush=flush,
            )


def _of_load(flush: Flush, ours: Sequence[Driven], theirs: Sequence[Driven]) -> Iterator[Finding]:
    yield paired(
        "reference.written", *([_rate(each, each.writes()) for each in side] for side in (ours, theirs)), flush=flush
    )
    yield paired(
        "reference.read", *([_rate(each, each.reads()) for each in side] for side in (ours, theirs)), flush=flush
    )
    lags = [[float(lag_max(each)) for each in side] for side in (ours, theirs)]
    yield Finding(
        name="reference.lag", flush=flush, value=max(lags[0]), baseline=max(lags[1]), note="the most in any round"
    )
    failures = [sum(each.failures for each in side) for side in (ours, theirs)]
    yield Finding(name="reference.failures", flush=flush, value=failures[0], baseline=failures[1])


def _rate(driven: Driven, events: Sequence[tuple[float, int]]) -> float:
    return sustained(events, start=driven.started, duration_s=driven.workload.duration_s)


SCENARIO = Scenario("reference", LINES, measure)
