"""Targets stand in one file; findings are judged by it and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.groups import GROUPS
from benchmarks.lines import Finding, Target, judged, load_targets, paired
from benchmarks.log import LOG
from benchmarks.outbox import OUTBOX
from benchmarks.portable import PORTABLE
from benchmarks.queues import QUEUES
from benchmarks.spark import SPARK

TARGETS = {
    "faster": Target("faster", "at_least", "records/s", "", target=2.0),
    "smaller": Target("smaller", "at_most", "MB", "", target=200.0, of="value"),
    "between": Target("between", "between", "times", "", target=(1.5, 2.5), of="value"),
    "anywhere": Target("anywhere", "at_least", "1/s", "", target=0.9, slow_target=0.8),
    "told": Target("told", "report", "s", ""),
}


def test_every_line_of_a_scenario_has_a_target_and_the_other_way_round() -> None:
    benchmarks = (LOG, GROUPS, SPARK, OUTBOX, QUEUES, PORTABLE)
    measured = [name for each in benchmarks for scenario in each.scenarios for name in scenario.lines]
    assert len(set(measured)) == len(measured)
    assert set(measured) == set(load_targets())


def test_a_target_that_does_not_fit_its_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="at_least needs 1"):
        Target("x", "at_least", "s", "")
    with pytest.raises(ValueError, match="report needs 0"):
        Target("x", "report", "s", "", target=1.0)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    line = '[[line]]\nname = "x"\ndirection = "report"\nunit = "s"\ndescription = "d"\n'
    path = tmp_path / "targets.toml"
    path.write_text(line * 2)
    with pytest.raises(ValueError, match="twice"):
        load_targets(path)


def test_one_target_may_stand_for_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "targets.toml"
    path.write_text('[[line]]\nname = "x.{a,b}-{1,2}"\ndirection = "report"\nunit = "s"\ndescription = "d"\n')
    assert list(load_targets(path)) == ["x.a-1", "x.a-2", "x.b-1", "x.b-2"]


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    finding = paired("faster", [10.0, 30.0, 20.0], [5.0, 10.0, 20.0])
    assert (finding.value, finding.baseline, finding.ratio) == (20.0, 10.0, 2.0)
    assert (finding.ratio_low, finding.ratio_high, finding.rounds) == (1.0, 3.0, 3)


@pytest.mark.parametrize(
    ("finding", "ok"),
    [
        (Finding(name="faster", value=4.0, baseline=2.0, ratio=2.0), True),
        (Finding(name="faster", value=3.0, baseline=2.0, ratio=1.5), False),
        (Finding(name="smaller", value=199.0), True),
        (Finding(name="smaller", value=201.0), False),
        (Finding(name="between", value=2.6), False),
        (Finding(name="told", value=1.0, ratio=9.0), None),
        (Finding(name="faster", note="not measured"), None),
    ],
)
def test_a_finding_is_judged_by_its_ratio_or_its_value(finding: Finding, ok: bool | None) -> None:
    assert judged(finding, TARGETS, "full").ok is ok


def test_a_line_whose_condition_was_not_met_is_not_judged() -> None:
    line = judged(Finding(name="faster", ratio=0.1, holds=False), TARGETS, "full")
    assert (line.ratio, line.ok, line.target) == (0.1, None, None)


def test_under_the_slow_flush_nothing_is_judged() -> None:
    line = judged(Finding(name="faster", flush="slow", ratio=0.1), TARGETS, "full")
    assert (line.ok, line.target) == (None, None)


@pytest.mark.parametrize(("ratio", "ok"), [(0.85, True), (0.75, False)])
def test_a_line_with_a_target_for_the_slow_flush_is_judged_by_that(ratio: float, ok: bool) -> None:
    line = judged(Finding(name="anywhere", flush="slow", ratio=ratio), TARGETS, "full")
    assert (line.ok, line.target) == (ok, 0.8)
    assert judged(Finding(name="anywhere", ratio=0.85), TARGETS, "full").ok is False
