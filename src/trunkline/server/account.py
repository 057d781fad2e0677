"""Who the server runs as. PostgreSQL refuses to run as root, so root must become somebody else.

An ordinary user runs it directly. Root runs it under an account that exists (postgres, else nobody)
if that account can reach the directory and the programs, else in a user namespace, where root is
shown to PostgreSQL as that account while files stay root's. No account is created, and no directory
that others made is opened. Which way it was is seen from the owner of the data, so that it
stays the same over restarts.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trunkline.errors import EmbeddedServerError
from trunkline.server import postmaster
from trunkline.server.directory import DIRECTORY_VARIABLE, MODE_OF_ROOT, Directory

ACCOUNTS = ("postgres", "nobody")
COMMAND_DEADLINE_S = 120.0
UID_WITHOUT_NAME = 65534
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True)
class RunAs:
    """``uid`` None: as the caller. ``namespace``: the caller, shown as ``uid`` in a user namespace."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    namespace: bool = False

    @property
    def owner(self) -> tuple[int, int] | None:
        """Whom files must belong to, if not to the caller."""
        if self.uid is None or self.gid is None or self.namespace:
            return None
        return self.uid, self.gid

    def run(self, command: list[str], directory: Directory) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, in the directory. Its output is in the result."""
        return subprocess.run(
            self._launcher(command, directory),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )

    def detach(self, command: list[str], directory: Directory) -> int:
        """Starts a command that outlives the caller, logs to the directory's log, holds its life lock."""
        log = directory.open_log()
        try:
            with subprocess.Popen(
                self._launcher(command, directory, log),
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                pass_fds=(log,),
                start_new_session=True,  # a Ctrl-C at the terminal is for the caller, who decides
            ) as launcher:
                return _let_go(launcher, command[0])
        finally:
            os.close(log)

    def _launcher(self, command: list[str], directory: Directory, log: int | None = None) -> list[str]:
        launch = {
            "command": command,
            "directory": str(directory.path),
            "uid": self.uid,
            "gid": self.gid,
            "groups": self.groups,
            "namespace": self.namespace,
            "life_lock": None if log is None else str(directory.life_lock),
            "log_descriptor": log,
        }
        script = Path(__file__).with_name("launcher.py")
        return [sys.executable, "-I", "-S", str(script), json.dumps(launch)]


def _let_go(launcher: subprocess.Popen[str], program: str) -> int:
    """From here on the server's pid is known, and so it can be ended whatever happens to us."""
    told = launcher.stdout.readline() if launcher.stdout is not None else ""
    try:
        _, complaint = launcher.communicate("go", timeout=COMMAND_DEADLINE_S)
    except BaseException:
        if told:
            postmaster.send(int(told), signal.SIGKILL)
        raise
    if launcher.returncode != 0:
        raise EmbeddedServerError(f"could not run {program}: {last_line(complaint)}")
    return int(told)


def choose(directory: Directory, program: str) -> RunAs:
    """Tried for real, with `program --version`; EmbeddedServerError says what to do where nothing works."""
    if os.geteuid() != 0:
        return RunAs()
    if directory.pgdata.exists():
        return _owner_of(directory, program)
    for account in _accounts():
        if _offer(directory, account) and _refusal(account, directory, program) is None:
            return account
    return _namespace(directory, program)


def _owner_of(directory: Directory, program: str) -> RunAs:
    data = directory.pgdata.stat()
    if data.st_uid == 0:
        return _namespace(directory, program)
    account = _account(data.st_uid, data.st_gid)
    refusal = _refusal(account, directory, program)
    if refusal is not None:
        raise EmbeddedServerError(
            f"the data in {directory.path} belongs to uid {data.st_uid}, which cannot run the server: "
            f"{refusal}; let it reach {directory.path} and {Path(program).parent}, or choose another "
            f"{DIRECTORY_VARIABLE}"
        )
    return account


def _accounts() -> Iterator[RunAs]:
    for name in ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        yield _account(entry.pw_uid, entry.pw_gid)


def _account(uid: int, gid: int) -> RunAs:
    try:
        groups = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        groups = [gid]
    return RunAs(uid=uid, gid=gid, groups=tuple(groups))


def _offer(directory: Directory, account: RunAs) -> bool:
    """Lets the account into a directory that we made; False where the kernel does not know the account."""
    if account.gid is not None and directory.path.stat().st_mode & 0o777 == MODE_OF_ROOT:
        try:
            os.chown(directory.path, -1, account.gid)
        except OSError:
            return False
    return True


def _namespace(directory: Directory, program: str) -> RunAs:
    uid, gid = _shown()
    run_as = RunAs(uid=uid, gid=gid, namespace=True)
    if directory.path.stat().st_mode & 0o777 == MODE_OF_ROOT:
        os.chown(directory.path, -1, os.getegid())
    refusal = _refusal(run_as, directory, program)
    if refusal is not None:
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root, and here {refusal}; run as an ordinary user, or set "
            f"{DIRECTORY_VARIABLE} to a path that the account {' or '.join(ACCOUNTS)} can reach, for example "
            "/var/lib/trunkline"
        )
    return run_as


def _shown() -> tuple[int, int]:
    # initdb asks for the name of the uid that it sees, so this should be one that has a name.
    entries = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in (*ACCOUNTS, *entries):
        if name in entries:
            return entries[name].pw_uid, entries[name].pw_gid
    return UID_WITHOUT_NAME, UID_WITHOUT_NAME


def _refusal(run_as: RunAs, directory: Directory, program: str) -> str | None:
    result = run_as.run([program, "--version"], directory)
    return None if result.returncode == 0 else last_line(result.stderr)


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _environment() -> dict[str, str]:
    # Not the caller's: PG* variables change what the programs do, other variables may hold secrets,
    # and with TZ set initdb need not compare every time zone there is.
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
