"""The hooks that tests/conftest.py takes: coroutine tests run to their end, skipped numbers are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.conftest_acceptance import pytest_terminal_summary as pytest_terminal_summary
from tests.conftest_async import pytest_pyfunc_call as pytest_pyfunc_call
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_pytest(folder: Path, text: str) -> str:
    (folder / "test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "--color=no",
    ]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return result.stdout


def test_coroutine_tests_run_with_fixtures_parameters_and_examples(folder: Path) -> None:
    output = run_pytest(
        folder,
        """
import asyncio
import pytest
from hypothesis import given, settings, strategies as st

@pytest.fixture(scope="module")
def one(): return 1

@pytest.mark.parametrize("two", [2, 3])
async def test_passes(one, two):
    await asyncio.sleep(0)
    assert one < two

async def test_fails(one):
    await asyncio.sleep(0)
    assert one == 2

@settings(max_examples=5, database=None)
@given(number=st.integers())
async def test_examples(one, number):
    await asyncio.sleep(0)
    assert number < 10**9 or one == 1
""",
    )
    assert "1 failed, 3 passed" in output


def test_numbers_whose_tests_were_all_skipped_are_named(folder: Path) -> None:
    output = run_pytest(
        folder,
        """
import pytest

def test_S0_01_ran(): ...
def test_S0_01_did_not(): pytest.skip("no")
async def test_S0_02_did_not(): pytest.skip("no")
""",
    )
    assert "left open by skipped tests: S0-02" in output
