"""Says at the end of a run which acceptance numbers a skip has left open.

`tests/conftest.py` imports the hook:

    from tests.conftest_acceptance import pytest_terminal_summary as pytest_terminal_summary

A number is left open when every test of this run that carries it was skipped: the run is green, and shows
nothing about that number.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tools.acceptance import numbers_in


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = _numbers(terminalreporter.stats.get("skipped", ()))
    ran = _numbers(terminalreporter.stats.get("passed", ())) | _numbers(terminalreporter.stats.get("failed", ()))
    left_open = sorted(skipped - ran)
    if left_open:
        terminalreporter.write_line(f"left open by skipped tests: {', '.join(left_open)}", yellow=True)


def _numbers(reports: Iterable[object]) -> set[str]:
    names = (report.nodeid for report in reports if isinstance(report, pytest.TestReport))
    return {number for name in names for number in numbers_in(name)}
