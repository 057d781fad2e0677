"""Where the tests' PgBouncer comes from: the system, else fetched into .tools, without root and without a change to the
system.

Fetching is left to apt, which knows mirrors, proxies and signatures, but with package lists and a cache of our own; the
packages are unpacked beside each other and never installed. `make clean` removes what was fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.bootstrap import one_at_a_time
from trunkline.server.account import last_line

PLACES = ("/usr/sbin", "/usr/local/sbin")
FETCHED = Path(__file__).resolve().parents[2] / ".tools" / "pgbouncer"
VERSION_DEADLINE_S = 60.0
FETCH_DEADLINE_S = 300.0
# A script, so that what was fetched is one program like any other, and knows where its libraries lie.
SCRIPT = """\
#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH="{libraries}" exec "$here/root/usr/sbin/pgbouncer" "$@"
"""


class NotToBeHad(Exception):
    """PgBouncer cannot be run here; the message is the reason."""


def find() -> str:
    """The path of a PgBouncer that runs here, fetched if need be. Raises NotToBeHad."""
    on_system = shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), *PLACES)))
    if on_system is not None and _complaint(on_system) is None:
        return on_system
    FETCHED.parent.mkdir(exist_ok=True)
    with one_at_a_time(FETCHED.with_suffix(".lock")):
        fetched = FETCHED / "run"
        return str(fetched) if _complaint(str(fetched)) is None else fetch(FETCHED)


def fetch(folder: Path) -> str:
    """Fetches PgBouncer and its libraries; the folder is there when all of it is. The program's path."""
    apt, dpkg = _need("apt-get"), _need("dpkg")
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="pgbouncer.unfinished."))
    try:
        for package in _download(apt, unfinished / "apt"):
            _run([dpkg, "--extract", str(package), str(unfinished / "root")])
        shutil.rmtree(unfinished / "apt")
        (unfinished / "run").write_text(SCRIPT.format(libraries=_library_path(unfinished)))
        for path in (unfinished, unfinished / "run"):
            path.chmod(0o755)  # root runs it under another account, which must get in
        complaint = _complaint(str(unfinished / "run"))
        if complaint is not None:
            raise NotToBeHad(f"the PgBouncer that apt has fetched does not run here: {complaint}")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return str(folder / "run")


def _library_path(folder: Path) -> str:
    found = {path.parent.relative_to(folder) for path in (folder / "root").rglob("lib*.so*")}
    return ":".join(f"$here/{path}" for path in sorted(found))


def _download(apt: str, folder: Path) -> list[Path]:
    """PgBouncer's package and those of its libraries, with lists that are fresh and our own."""
    for name in ("lists/partial", "cache/archives/partial", "packages"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    settings = {
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::State::Status": folder / "status",  # what is installed here does not count
        "APT::Sandbox::User": "root",  # the account that apt fetches under cannot enter our folder
        "Acquire::Languages": "none",
        "Acquire::Retries": "0",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    _run([apt, *options, "--error-on=any", "update"])
    depends = _run([_need("apt-cache"), *options, "depends", "--important", "pgbouncer"])
    _run([apt, *options, "download", "pgbouncer", *_libraries(depends)], folder / "packages")
    return sorted((folder / "packages").glob("*.deb"))


def _libraries(depends: str) -> list[str]:
    """The libraries that a package names itself; theirs are part of every system that has apt."""
    named = [line.split()[-1] for line in depends.splitlines() if "Depends: lib" in line]
    return [name for name in named if name != "libc6"]  # the one that must fit the system's loader


def _need(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise NotToBeHad(f"PgBouncer is not on this system, and {program} is missing to fetch it; install pgbouncer")
    return path


def _complaint(program: str) -> str | None:
    """Why the program does not run; None where it does."""
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if result.returncode == 0 else last_line(result.stderr)


def _run(command: list[str], folder: Path | None = None) -> str:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"apt did not fetch PgBouncer within {FETCH_DEADLINE_S:.0f} s") from None
    if result.returncode != 0:
        raise NotToBeHad(f"apt cannot fetch PgBouncer: {last_line(result.stderr)}")
    return result.stdout
