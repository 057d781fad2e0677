"""List which test shows which acceptance number, and fail when a required number has none.

    python -m tools.acceptance           print the table; exit 1 when a required number is open

A number such as S0-03 is carried by the name of a test (`def test_S0_03_…`, `class TestS0_03…`), or by a line
of benchmarks/targets.toml with `acceptance = ["S0-18"]`. One name may carry several. tests/acceptance.toml
lists, issue by issue, the numbers that must be carried. A test that is always skipped carries nothing. Tests
of the conformance suite count too: tests/portable runs all of it, on every driver.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = Path("tests/acceptance.toml")
TARGETS = Path("benchmarks/targets.toml")
SUITE = Path("src/trunkline/testing")
NUMBER = re.compile(r"S[\dP]-\d\d")
IN_NAME = re.compile(r"S([\dP])_(\d\d)(?!\d)")

Carriers = dict[str, list[str]]


class AcceptanceError(Exception):
    """A list of numbers that cannot be read; the message says which."""


def numbers_in(name: str) -> list[str]:
    """`test_S0_01_and_S0_02_…` carries S0-01 and S0-02."""
    return [f"S{seed}-{line}" for seed, line in IN_NAME.findall(name)]


def carriers(root: Path) -> Carriers:
    """Number -> the tests and bench lines that carry it."""
    found: Carriers = defaultdict(list)
    for name, carrier in [*_tests(root), *_bench_lines(root)]:
        found[name].append(carrier)
    return dict(found)


def _tests(root: Path) -> Iterator[tuple[str, str]]:
    suite = sorted((root / SUITE).rglob("*.py"))
    for path in [*sorted((root / "tests").rglob("test_*.py")), *suite]:
        module = ast.parse(path.read_text("utf-8"), str(path))
        shown = path.relative_to(root).as_posix()
        for name in _test_names(module.body, of_suite=path in suite):
            for number in numbers_in(name):
                yield number, f"{shown}::{name}"


def _test_names(body: list[ast.stmt], *, of_suite: bool = False) -> Iterator[str]:
    for node in body:
        if of_suite and isinstance(node, ast.ClassDef):
            yield from (f"{node.name}::{name}" for name in _test_names(node.body))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if not node.name.lower().startswith("test") or _is_always_skipped(node):
                continue
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (f"{node.name}::{name}" for name in _test_names(node.body))
        elif isinstance(node, ast.Assign):
            # A hypothesis state machine: TestLog_S0_01 = LogMachine.TestCase
            names = (target.id for target in node.targets if isinstance(target, ast.Name))
            yield from (name for name in names if name.startswith("Test"))


def _is_always_skipped(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    marks = (mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list)
    return any(ast.unparse(mark) == "pytest.mark.skip" for mark in marks)


def _bench_lines(root: Path) -> Iterator[tuple[str, str]]:
    path = root / TARGETS
    if path.exists():
        for name, number in _acceptance_keys(tomllib.loads(path.read_text("utf-8")), ""):
            yield number, f"{TARGETS.as_posix()}: {name}"


def _acceptance_keys(value: object, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        name = str(value.get("name", name))
        for key, inner in value.items():
            if key == "acceptance":
                yield from ((name, number) for number in _checked(inner, TARGETS))
            else:
                yield from _acceptance_keys(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _acceptance_keys(inner, name)


def required(root: Path) -> Mapping[str, str]:
    """Number -> the issue that requires it."""
    path = root / REQUIRED
    issues: dict[str, dict[str, Any]] = tomllib.loads(path.read_text("utf-8")).get("issues", {})
    return {number: issue for issue, fields in issues.items() for number in _checked(fields.get("required"), REQUIRED)}


def _checked(numbers: object, where: Path) -> list[str]:
    if not isinstance(numbers, list) or not all(NUMBER.fullmatch(str(number)) for number in numbers):
        raise AcceptanceError(f"{where}: {numbers!r} is not a list of numbers such as S0-03")
    return [str(number) for number in numbers]


def table(carried: Carriers, wanted: Mapping[str, str]) -> Iterator[str]:
    for number in sorted({*carried, *wanted}):
        names = carried.get(number, [])
        yield f"{number}  {_without_twins(names) or f'OPEN, required by issue {wanted[number]}'}"


def _without_twins(names: list[str]) -> str:
    """A twin's line says nothing new: `… (and sync)` stands for it."""
    shown = []
    for name in names:
        if "/sync/" in name and name.replace("/sync/", "/aio/", 1) in names:
            continue
        twin = name.replace("/aio/", "/sync/", 1)
        shown.append(f"{name} (and sync)" if twin != name and twin in names else name)
    return "\n       ".join(shown)


def main(root: Path = ROOT) -> int:
    try:
        carried, wanted = carriers(root), required(root)
    except (AcceptanceError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"acceptance: {error}", file=sys.stderr)
        return 1
    for line in table(carried, wanted):
        print(line)
    open_numbers = sorted(set(wanted) - set(carried))
    print(f"{len(carried)} numbers carried, {len(wanted)} required, {len(open_numbers)} open")
    return 1 if open_numbers else 0


if __name__ == "__main__":
    sys.exit(main())
