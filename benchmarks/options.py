"""What the command line of a benchmark says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmarks.bench import Benchmark, Scenario
from benchmarks.report import RESULTS
from trunkline.nearest import nearest_name

USAGE_EXIT = 64


@dataclass(frozen=True)
class Options:
    """``only`` holds names of scenarios or of lines; empty means all."""

    as_json: bool
    quick: bool
    only: tuple[str, ...]
    url: str | None
    rounds: int | None
    slow_flush: bool
    results: Path


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """End with a code of its own: 1 and 2 mean something else here."""
        self.exit(USAGE_EXIT, f"{self.format_usage()}{self.prog}: {message}\n")


def parse(arguments: Sequence[str], benchmark: Benchmark) -> Options:
    """The options, or an exit with 64 that says what is wrong."""
    parser = _parser(benchmark)
    found = parser.parse_args(list(arguments))
    only = tuple(name for names in found.only for name in names)
    known = {name for scenario in benchmark.scenarios for name in (scenario.name, *scenario.lines)}
    for name in only:
        if name not in known:
            parser.error(f"there is no scenario or line {name!r}; {nearest_name(name, sorted(known))}")
    if found.rounds is not None and found.rounds < 1:
        parser.error("--rounds must be at least 1")
    return Options(found.json, found.quick, only, found.url, found.rounds, found.slow_flush, found.results)


def _parser(benchmark: Benchmark) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"trunkline bench {benchmark.name}",
        description=benchmark.summary,
        epilog="Exit codes: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, "
        f"{USAGE_EXIT} wrong use.",
    )
    names = ", ".join(scenario.name for scenario in benchmark.scenarios)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    parser.add_argument("--quick", action="store_true", help="some minutes at most, with a few percent of the work")
    parser.add_argument(
        "--only",
        nargs="+",
        action="append",
        default=[],
        metavar="NAME",
        help=f"only these scenarios or lines: {names}",
    )
    parser.add_argument("--url", help="a server on which a database may be made; default: one started for the run")
    parser.add_argument("--rounds", type=int, help="how often each side is measured")
    parser.add_argument(
        "--slow-flush",
        action="store_true",
        help="measure what commits a second time with 3 ms added to each flush; a full run does so by itself",
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="where the figures and the chart go"
    )
    return parser


def chosen(scenarios: Sequence[Scenario], only: Sequence[str]) -> list[Scenario]:
    """The scenarios that are named, or have a line that is."""
    if not only:
        return list(scenarios)
    return [scenario for scenario in scenarios if {scenario.name, *scenario.lines} & set(only)]
