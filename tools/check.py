"""Run every check of the project, one line each, and show what failed at the end.

    python -m tools.check              run all                          (make check)
    python -m tools.check types sql    run only these
    python -m tools.check --fix        lint, format, write what is generated   (make fix)

Everything that a check is, is in CHECKS; everything that is generated, in GENERATORS.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SHORT = ("--quiet", "--output-format", "concise")

# Each writes its files when started plainly, and only compares them with --check.
GENERATORS = ("tools.twins", "tools.cli_reference", "tools.figures")


@dataclass(frozen=True)
class Check:
    """A command that ends with 0 when all is well; `shown` ones print their output also then."""

    name: str
    command: Sequence[str]
    promise: str
    shown: bool = False


def module_run(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def program(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


def folders_with_python() -> list[str]:
    """mypy refuses a folder without Python files, as benchmarks/ may be at first."""
    return [name for name in ("src", "tests", "tools", "benchmarks", "examples") if any((ROOT / name).rglob("*.py"))]


def checks() -> list[Check]:
    generated = [
        Check(module.split(".")[-1], module_run(module, "--check"), "generated files are fresh")
        for module in GENERATORS
    ]
    return [
        Check("lint", program("ruff", "check", *SHORT), "ruff finds nothing"),
        Check("format", program("ruff", "format", "--check", *SHORT), "ruff would change nothing"),
        Check("types", program("mypy", *folders_with_python()), "mypy, strict"),
        Check("imports", program("lint-imports", "--no-cache", "--no-logo"), "rooms import only what they may"),
        *generated,
        Check("lock", module_run("tools.lockfile"), "uv.lock fits pyproject.toml and names one public index"),
        Check("sql", module_run("tools.sqlstyle"), "one object a file, lower case, nothing waits"),
        Check("acceptance", module_run("tools.acceptance"), "number -> test", shown=True),
    ]


def run(check: Check) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        check.command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def run_all(chosen: Sequence[Check]) -> int:
    failures: list[tuple[Check, str]] = []
    for check in chosen:
        started_s = time.monotonic()
        result = run(check)
        verdict = "FAILED" if result.returncode else "ok"
        print(
            f"{verdict:6}  {check.name:13} {check.promise}  ({time.monotonic() - started_s:.1f} s)",
            flush=True,
        )
        if check.shown:
            print(result.stdout.rstrip())
        if result.returncode:
            failures.append((check, result.stdout))
    for check, output in failures:
        print(f"\n--- {check.name} failed: {' '.join(map(str, check.command))}\n{output.rstrip()}")
    if failures:
        print(f"\n{len(failures)} of {len(chosen)} checks failed; `make fix` repairs what can be repaired")
    return 1 if failures else 0


def fix() -> int:
    """Generated files last: they are made from sources that lint and format have finished with."""
    steps = [
        program("ruff", "check", "--fix", "--quiet", "--exit-zero"),
        program("ruff", "format", "--quiet"),
        *(module_run(module) for module in GENERATORS),
    ]
    codes = [subprocess.run(step, cwd=ROOT, check=False).returncode for step in steps]
    return max(codes)


def main(arguments: list[str] | None = None) -> int:
    every = checks()
    parser = argparse.ArgumentParser(description="Run the project's checks.")
    parser.add_argument("names", nargs="*", metavar="check", help=", ".join(check.name for check in every))
    parser.add_argument("--fix", action="store_true", help="repair instead of checking")
    options = parser.parse_args(arguments)
    if options.fix:
        return fix()
    unknown = set(options.names) - {check.name for check in every}
    if unknown:
        parser.error(f"no check named {', '.join(sorted(unknown))}")
    return run_all([check for check in every if not options.names or check.name in options.names])


if __name__ == "__main__":
    sys.exit(main())
