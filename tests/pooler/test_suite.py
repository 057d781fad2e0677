"""The suite once more through PgBouncer: whatever reaches its database as an application would.

Left out are the folders that need sessions of their own: interleavings, mutants, faults, measurements.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSED_MIN = {"tests/aio": 300, "tests/sync": 150, "tests/cli": 250, "tests/database": 100}
"""Fewer mean that tests have got lost, or skip what they should show."""
TWINS = (
    "app",
    "app_exactly_once",
    "group_reading",
    "groups",
    "inbox",
    "outbox",
    "pooled",
    "publish",
    "queue_sharing",
    "queue_short_way",
    "queues",
    "read",
    "retention",
    "topics",
    "whole_transactions",
)
"""Of the twins, which send the same statements in the same transactions: every kind of call, by their own driver."""


@pytest.mark.parametrize("folder", PASSED_MIN)
def test_the_suite_passes_through_pgbouncer(pgbouncer_program: str, tmp_path: Path, folder: str) -> None:
    """In a process of its own; its output is shown where it fails, with the reason of every skip."""
    command = [sys.executable, "-m", "pytest", "--through-pooler", "--color=no", "-p", "no:cacheprovider"]
    chosen = [f"{folder}/test_{name}.py" for name in TWINS] if folder == "tests/sync" else [folder]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'run'}", *chosen],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0
    passed = re.findall(r"(\d+) passed", done.stdout.splitlines()[-1])
    assert int(passed[0]) >= PASSED_MIN[folder]
