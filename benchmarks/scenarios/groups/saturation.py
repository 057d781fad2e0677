"""The reference workload without a brake: what writers and readers get when both want all they can have.

Rates are those of the time in which the writers write, without its first second. Then the readers go on to the end of
the log, which shows what they can do alone, and that each group has seen everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.baselines.claims import Claims
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers
from benchmarks.lines import Finding, Flush, paired
from benchmarks.members import GroupSide
from benchmarks.payloads import Kind
from benchmarks.scenarios.groups.reference import WARM_S, workload
from benchmarks.workload import Driven, drive, within

LOADS: dict[str, tuple[int, Kind]] = {
    "saturation-100": (100, "cart"),
    "saturation-1": (1, "cart"),
    "saturation-random": (100, "random"),
}
"""The records in a batch, and what they are, by the name of the lines."""
LEAST_S = 2.0


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        for name in LOADS:
            ours: list[Driven] = []
            theirs: list[Driven] = []
            for _ in range(bench.rounds(flush)):
                for side, found in ((Consumers(), ours), (Claims(), theirs)):
                    found.append(_driven(bench, side, name, flush))
            yield from _findings(name, flush, ours, theirs)


def _driven(bench: Bench, side: GroupSide, name: str, flush: Flush) -> Driven:
    load = workload(WARM_S + max(LEAST_S, bench.scale.stream_s), None, *LOADS[name])
    driven = drive(bench, side, load, flush)
    bench.say(
        f"{name} {flush} flush, {side.name}: written {_rate(driven, driven.writes()):,.0f} records/s, "
        f"read {_rate(driven, driven.reads()):,.0f}"
    )
    return driven


def _findings(name: str, flush: Flush, ours: Sequence[Driven], theirs: Sequence[Driven]) -> Iterator[Finding]:
    sides = (ours, theirs)
    yield paired(f"{name}.write", *([_rate(each, each.writes()) for each in side] for side in sides), flush=flush)
    yield paired(f"{name}.read", *([_rate(each, each.reads()) for each in side] for side in sides), flush=flush)
    yield from _of_drain(f"{name}.drain", flush, *([drain(each) for each in side] for side in sides))


def _of_drain(name: str, flush: Flush, ours: Sequence[float], theirs: Sequence[float]) -> Iterator[Finding]:
    if all((*ours, *theirs)):
        yield paired(name, ours, theirs, flush=flush)
    else:
        yield Finding(name=name, flush=flush, note="not measured: the readers kept up, so that nothing was left")


def _rate(driven: Driven, events: Sequence[tuple[float, int]]) -> float:
    return within(events, start=driven.started + WARM_S, duration_s=driven.workload.duration_s - WARM_S)


def drain(driven: Driven) -> float:
    """Records a second that all readers together read after the last write; 0 where there was nothing left."""
    writers_ended = max(at for at, _ in driven.writes())
    late = [(at, records) for at, records in driven.reads() if at > writers_ended]
    if not late:
        return 0.0
    return sum(records for _, records in late) / (max(at for at, _ in late) - writers_ended)


LINES = tuple(f"{name}.{what}" for name in LOADS for what in ("write", "read", "drain"))
SCENARIO = Scenario("saturation", LINES, measure)
