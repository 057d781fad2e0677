"""How a run is shown and kept: a table or JSON lines while it goes on, a file and a chart when it is done."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from benchmarks.environment import Environment
from benchmarks.lines import Line

RESULTS = Path(__file__).with_name("results")

_SIGNS = {"at_least": "≥", "at_most": "≤"}
_ROW = "{name:28} {scale:5} {flush:5} {value:>14} {baseline:>14} {ratio:>7} {spread:>13} {target:>10} {ok:6} {note}"


class Run(msgspec.Struct, frozen=True):
    """What the file holds."""

    title: str
    started_at: datetime
    took_s: float
    scale: str
    complete: bool
    environment: Environment
    lines: list[Line]


class Report:
    """Says each line as soon as it is known, and keeps them all."""

    def __init__(
        self, title: str, environment: Environment, scale: str, *, as_json: bool, out: TextIO | None = None
    ) -> None:
        self.lines: list[Line] = []
        self._title = title
        self._environment = environment
        self._scale = scale
        self._as_json = as_json
        self._out = out or sys.stdout
        self._started_at = datetime.now(UTC)

    def begin(self) -> None:
        if not self._as_json:
            self._print(f"{self._scale} run; {self._environment.shown()}")
            self._print(heading())

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self._print(json_line(line, self._environment) if self._as_json else table_row(line))

    @property
    def missed(self) -> list[Line]:
        return [line for line in self.lines if line.ok is False]

    def end(self, *, complete: bool, folder: Path) -> tuple[Run, Path]:
        """Write the file; what it holds, and where it is."""
        took_s = (datetime.now(UTC) - self._started_at).total_seconds()
        run = Run(self._title, self._started_at, took_s, self._scale, complete, self._environment, self.lines)
        path = folder / f"{stem(run)}.json"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
        if not self._as_json:
            self._print(summary(run))
        return run, path

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def stem(run: Run) -> str:
    """The name of a run's files. Only a complete one may replace the figures that are cited."""
    kind = "" if run.scale == "full" else f"-{run.scale}"
    return f"{run.title}{kind}{'' if run.complete else '-partial'}-latest"


def json_line(line: Line, environment: Environment) -> str:
    """One object: the line's own fields first, then where it was measured."""
    fields = msgspec.structs.asdict(line)
    del fields["series"]
    return msgspec.json.encode({**fields, "environment": environment}).decode()


def heading() -> str:
    return _ROW.format(
        name="line",
        scale="scale",
        flush="flush",
        value="value",
        baseline="baseline",
        ratio="ratio",
        spread="low..high",
        target="target",
        ok="",
        note="unit",
    )


def table_row(line: Line) -> str:
    return _ROW.format(
        name=line.name,
        scale=line.scale,
        flush=line.flush,
        value=_number(line.value),
        baseline=_number(line.baseline),
        ratio="-" if line.ratio is None else f"{line.ratio:.2f}",
        spread=_spread(line),
        target=table_target(line),
        ok={True: "ok", False: "MISSED", None: "-"}[line.ok],
        note=f"{line.unit}; {line.note}" if line.note else line.unit,
    ).rstrip()


def summary(run: Run) -> str:
    judged = [line for line in run.lines if line.ok is not None]
    missed = [line.name for line in judged if not line.ok]
    told = f"missed: {', '.join(missed)}" if missed else "all reached"
    return (
        f"{run.scale} run of {run.took_s:.0f} s: {len(judged)} targets, {told}. Targets stand in "
        "benchmarks/targets.toml and hold for the fast flush; lines with the slow flush (commit_delay=3000, "
        "commit_siblings=0) are reported where they have none of their own."
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"


def _spread(line: Line) -> str:
    if line.ratio_low is None or line.ratio_high is None or line.rounds < 2:
        return ""
    return f"{line.ratio_low:.2f}..{line.ratio_high:.2f}"


def table_target(line: Line) -> str:
    """What a line must reach, in a word."""
    if line.target is None:
        return "report"
    if isinstance(line.target, tuple):
        return f"{line.target[0]:g}..{line.target[1]:g}"
    return f"{_SIGNS[line.direction]} {line.target:g}"
