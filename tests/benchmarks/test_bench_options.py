"""The command line of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.log import LOG
from benchmarks.options import USAGE_EXIT, chosen, parse


def test_only_takes_scenarios_and_lines() -> None:
    options = parse(["--only", "single", "json-100.write", "--only", "growth"], LOG)
    assert options.only == ("single", "json-100.write", "growth")
    assert [scenario.name for scenario in chosen(LOG.scenarios, options.only)] == ["json-100", "single", "growth"]


def test_without_only_everything_is_measured() -> None:
    assert chosen(LOG.scenarios, parse([], LOG).only) == list(LOG.scenarios)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "sinlge"], "single"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--fast"], "--fast"),
    ],
)
def test_wrong_use_ends_with_a_code_of_its_own(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments, LOG)
    assert ended.value.code == USAGE_EXIT
    assert told in capsys.readouterr().err
