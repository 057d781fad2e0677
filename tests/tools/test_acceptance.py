"""Acceptance numbers: found in names of tests and in bench lines, asked for by tests/acceptance.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import acceptance


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "aio").mkdir(parents=True)
    (tmp_path / "tests" / "sync").mkdir()
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "tests" / "acceptance.toml").write_text('[issues.2]\nrequired = ["S0-01"]\n')
    return tmp_path


def write_test(project: Path, text: str, name: str = "tests/test_a.py") -> None:
    (project / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("test_S0_03_writers", ["S0-03"]),
        ("test_both_S0_01_S3_12", ["S0-01", "S3-12"]),
        ("TestS4_01Model", ["S4-01"]),
        ("test_s0_03_in_small_letters", []),
        ("test_S0_033", []),
        ("test_plain", []),
    ],
)
def test_a_name_carries_the_numbers_written_in_it(name: str, numbers: list[str]) -> None:
    assert acceptance.numbers_in(name) == numbers


def test_functions_methods_classes_and_state_machines_carry_numbers(project: Path) -> None:
    write_test(
        project,
        "async def test_S0_01(): ...\n"
        "class TestS0_02:\n    def test_S0_03(self): ...\n"
        "TestLog_S0_04 = Machine.TestCase\n"
        "def given_S0_05(): ...\n"
        "# S0_06\n",
    )
    assert sorted(acceptance.carriers(project)) == ["S0-01", "S0-02", "S0-03", "S0-04"]


def test_a_test_that_is_always_skipped_carries_nothing(project: Path) -> None:
    write_test(project, "@pytest.mark.skip(reason='later')\ndef test_S0_01(): ...\n")
    assert acceptance.carriers(project) == {}
    assert acceptance.main(project) == 1


def test_bench_lines_carry_numbers(project: Path) -> None:
    (project / "benchmarks/targets.toml").write_text(
        '[log.write_1000]\nratio_min = 2.2\nacceptance = ["S0-18"]\n[[line]]\nname = "soak"\nacceptance = ["S0-19"]\n'
    )
    assert acceptance.carriers(project) == {
        "S0-18": ["benchmarks/targets.toml: log.write_1000"],
        "S0-19": ["benchmarks/targets.toml: soak"],
    }


def test_a_required_number_without_a_test_fails_and_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert acceptance.main(project) == 1
    assert "S0-01  OPEN, required by issue 2" in capsys.readouterr().out


def test_a_required_number_with_a_test_is_listed_with_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_test(project, "async def test_S0_01(): ...\n", "tests/aio/test_a.py")
    write_test(project, "def test_S0_01(): ...\n", "tests/sync/test_a.py")
    assert acceptance.main(project) == 0
    assert capsys.readouterr().out.splitlines() == [
        "S0-01  tests/aio/test_a.py::test_S0_01 (and sync)",
        "1 numbers carried, 1 required, 0 open",
    ]


@pytest.mark.parametrize("numbers", ['["S0_01"]', '"S0-01"', '["S0-1"]'])
def test_a_list_that_cannot_be_meant_is_refused(
    project: Path, numbers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests/acceptance.toml").write_text(f"[issues.2]\nrequired = {numbers}\n")
    assert acceptance.main(project) == 1
    assert "not a list of numbers" in capsys.readouterr().err
