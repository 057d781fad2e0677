"""What a benchmark finds: lines, each a figure, what it is compared with, and what it must reach."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

TARGETS_PATH = Path(__file__).with_name("targets.toml")

Flush = Literal["fast", "slow"]
Direction = Literal["at_least", "at_most", "between", "report"]


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a line must reach, as targets.toml says it; a line that only reports has no bound."""

    name: str
    direction: Direction
    unit: str
    description: str
    target: float | tuple[float, float] | None = None
    slow_target: float | None = None
    of: Literal["ratio", "value"] = "ratio"
    acceptance: list[str] = []

    def __post_init__(self) -> None:
        bounds = {"report": 0, "between": 2}.get(self.direction, 1)
        if len(self.bounds) != bounds:
            raise ValueError(f"{self.name}: {self.direction} needs {bounds} numbers, not {self.target!r}")

    def under(self, flush: Flush) -> Target | None:
        """What holds with a flush; None where the line is only reported."""
        if self.direction == "report" or (flush == "slow" and self.slow_target is None):
            return None
        return self if flush == "fast" else msgspec.structs.replace(self, target=self.slow_target)

    @property
    def bounds(self) -> tuple[float, ...]:
        if self.target is None:
            return ()
        return self.target if isinstance(self.target, tuple) else (self.target,)

    def reached(self, figure: float) -> bool:
        if self.direction == "at_least":
            return figure >= self.bounds[0]
        if self.direction == "at_most":
            return figure <= self.bounds[0]
        return self.bounds[0] <= figure <= self.bounds[1]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario measured for one line. ``value`` is None where it could not be; ``note`` says why.

    ``ratio`` is the median over the rounds, ``ratio_low`` and ``ratio_high`` their extremes. ``series`` holds
    figures over time, for the chart. ``holds`` is False where the line's own condition was not met, so that there is
    nothing to judge.
    """

    name: str
    flush: Flush = "fast"
    value: float | None = None
    baseline: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    rounds: int = 1
    note: str = ""
    series: dict[str, list[float]] | None = None
    holds: bool = True


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, judged. ``ok`` is None where there is nothing to judge."""

    name: str
    value: float | None
    baseline: float | None
    ratio: float | None
    target: float | tuple[float, float] | None
    ok: bool | None
    direction: Direction
    of: Literal["ratio", "value"]
    unit: str
    scale: str
    flush: Flush
    rounds: int
    ratio_low: float | None
    ratio_high: float | None
    note: str
    description: str
    series: dict[str, list[float]] | None


def load_targets(path: Path = TARGETS_PATH) -> dict[str, Target]:
    """Name to target, in the order of the file. ``rate-{1,10}x{1,10}`` stands for four lines with one target."""
    written = msgspec.convert(tomllib.loads(path.read_text("utf-8"))["line"], list[Target])
    found = [msgspec.structs.replace(each, name=name) for each in written for name in _names(each.name)]
    targets = {target.name: target for target in found}
    if len(targets) != len(found):
        raise ValueError(f"{path}: a name stands there twice")
    return targets


def _names(pattern: str) -> list[str]:
    pieces = [piece.split(",") for piece in re.split(r"[{}]", pattern)]
    return ["".join(choice) for choice in product(*pieces)]


def paired(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    flush: Flush = "fast",
    note: str = "",
    holds: bool = True,
) -> Finding:
    """A finding from rounds in which both sides were measured one after the other.

    The ratio is the median of each round's own ratio, so that a machine that grows slower over the run does not
    bend it; it may differ a little from value over baseline.
    """
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Finding(
        name=name,
        flush=flush,
        value=median(ours),
        baseline=median(theirs),
        ratio=median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        rounds=len(ratios),
        note=note,
        holds=holds,
    )


def judged(finding: Finding, targets: Mapping[str, Target], scale: str) -> Line:
    """The line of a finding. Under the slow flush, unless it has a target of its own there, where nothing was measured,
    and where the line does not hold, there is no target to miss."""
    target = targets[finding.name]
    bound = target.under(finding.flush) if finding.holds else None
    figure = finding.ratio if target.of == "ratio" else finding.value
    return Line(
        name=finding.name,
        value=finding.value,
        baseline=finding.baseline,
        ratio=finding.ratio,
        target=None if bound is None else bound.target,
        ok=None if bound is None or figure is None else bound.reached(figure),
        direction=target.direction,
        of=target.of,
        unit=target.unit,
        scale=scale,
        flush=finding.flush,
        rounds=finding.rounds,
        ratio_low=finding.ratio_low,
        ratio_high=finding.ratio_high,
        note=finding.note,
        description=target.description,
        series=finding.series,
    )
