"""A benchmark from its arguments to its exit code: 0 all targets reached, 1 a target missed, 2 the server's durability
is weakened, 64 wrong use, 130 interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from benchmarks import chart, environment
from benchmarks.bench import FULL, QUICK, Bench, Benchmark, Scale, Scenario, to_stderr
from benchmarks.crew import Crew
from benchmarks.lines import Flush, judged, load_targets
from benchmarks.options import Options, chosen, parse
from benchmarks.place import Database, database
from benchmarks.report import Report

MISSED_EXIT, WEAKENED_EXIT, INTERRUPTED_EXIT = 1, 2, 130


def run(benchmark: Benchmark, argv: Sequence[str]) -> int:
    """Measure what the arguments ask for; the exit code. Nothing is left behind, also when interrupted."""
    options = parse(argv, benchmark)
    try:
        return _measured(benchmark, options)
    except KeyboardInterrupt:
        to_stderr("interrupted; nothing was written")
        return INTERRUPTED_EXIT


def _measured(benchmark: Benchmark, options: Options) -> int:
    with _cleaned_up(), database(options.url) as made:
        found = environment.look(made.url)
        weakened = found.weakened()
        if weakened:
            to_stderr(f"no benchmark with weakened durability: {', '.join(weakened)} is off")
            return WEAKENED_EXIT
        with Crew(benchmark.processes) as crew:
            scale = _scale(options)
            flushes = _flushes(options, made)
            bench = Bench(made, found, crew, scale, flushes, to_stderr)
            return _reported(benchmark.name, bench, options, chosen(benchmark.scenarios, options.only))


def _reported(title: str, bench: Bench, options: Options, wanted: Sequence[Scenario]) -> int:
    targets = load_targets()
    report = Report(title, bench.environment, bench.scale.name, as_json=options.as_json)
    report.begin()
    for scenario in wanted:
        for finding in scenario.measure(bench):
            if scenario.name in options.only or finding.name in options.only or not options.only:
                report.add(judged(finding, targets, bench.scale.name))
    measured, path = report.end(complete=not options.only and options.rounds is None, folder=options.results)
    drawn = chart.draw(measured, path.with_suffix(".png"))
    to_stderr(f"written: {path}" + (" and its chart" if drawn else "; no chart, matplotlib is not installed"))
    return MISSED_EXIT if report.missed else 0


def _scale(options: Options) -> Scale:
    scale = QUICK if options.quick else FULL
    return scale if options.rounds is None else replace(scale, rounds=options.rounds)


def _flushes(options: Options, made: Database) -> tuple[Flush, ...]:
    if options.quick and not options.slow_flush:
        return ("fast",)
    if made.slow_url is None:
        to_stderr("the slow flush is not measured: this role may not set commit_delay")
        return ("fast",)
    return ("fast", "slow")


@contextmanager
def _cleaned_up() -> Iterator[None]:
    """Being asked to end is a reason to clean up: a server and processes would be left behind otherwise."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
