"""The arithmetic of the scenarios."""

from __future__ import annotations

import pytest

from benchmarks.baselines.pgbench import _tps, array_literal
from benchmarks.jobs import Content, Flow, Written, rate, records_per_s
from benchmarks.scenarios.log.backlog import Progress
from benchmarks.snapshot import quarters, rates_over_time


def test_a_rate_counts_from_the_first_start_to_the_last_end() -> None:
    content = Content.of([])
    assert rate([Written(content, 10, 1.0, 2.0), Written(content, 30, 1.5, 5.0)]) == 10.0


def test_commits_are_counted_in_the_piece_of_time_they_fall_into() -> None:
    events = [(100.5, 10), (101.5, 10), (104.5, 10), (103.5, 10), (99.0, 10)]
    assert rates_over_time(events, start=100.0, duration_s=4.0, bins=4) == [10.0, 10.0, 0.0, 10.0]


def test_a_saturated_rate_counts_to_the_last_commit() -> None:
    flows = [Flow(10, 100.0, [100.5, 101.5, 104.5]), Flow(10, 100.1, [103.5])]
    assert records_per_s(flows) == pytest.approx(40 / 4.5)


def test_quarters_are_the_first_and_the_last() -> None:
    assert quarters([4.0, 6.0, 9.0, 9.0, 9.0, 9.0, 1.0, 3.0]) == (5.0, 2.0)


def test_progress_is_what_had_been_seen_by_then() -> None:
    progress = Progress([1.0, 2.0], [10, 20])
    assert [progress.at(moment) for moment in (0.5, 1.0, 1.9, 9.0)] == [0, 10, 10, 20]


def test_pgbench_is_understood_and_its_failure_told() -> None:
    output = "latency average = 1 ms\ntps = 123.456 (without initial connection time)\n"
    assert _tps(output, "") == 123.456
    with pytest.raises(RuntimeError, match="no such table"):
        _tps("", "ERROR: no such table")


def test_payloads_stand_in_sql_as_hexadecimal() -> None:
    assert array_literal([b"\x00:", b""]) == '\'{"\\\\x003a","\\\\x"}\'::bytea[]'
