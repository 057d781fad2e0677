"""The server's first process: which one it is, how far it is, and how to end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trunkline.errors import EmbeddedServerError
from trunkline.server.directory import Directory

STOP_FAST_S = 30.0
STOP_IMMEDIATE_S = 10.0
KILL_S = 30.0
PID_FILE = "postmaster.pid"
PID_FILE_LINES = 8
READY = ("ready", "standby")
PS_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Postmaster:
    pid: int
    port: int
    ready: bool


def find(directory: Directory) -> Postmaster | None:
    """The live postmaster of this directory. A stale file and a pid that was given away find nothing."""
    if not directory.alive():
        return None
    postmaster = _parse(directory)
    if postmaster is None or not _is_ours(postmaster.pid, directory):
        return None
    return postmaster


def _parse(directory: Directory) -> Postmaster | None:
    # pid, data directory, start time, port, socket directory, listen address, shared memory, status
    try:
        lines = (directory.pgdata / PID_FILE).read_text(errors="replace").splitlines()
        if len(lines) < PID_FILE_LINES:
            return None
        return Postmaster(pid=int(lines[0]), port=int(lines[3]), ready=lines[7].strip() in READY)
    except (FileNotFoundError, ValueError):
        return None


def _is_ours(pid: int, directory: Directory) -> bool:
    """By its arguments, which it was started with and which every account may see."""
    pgdata = str(directory.pgdata)
    if sys.platform != "linux":
        return f" -D {pgdata} " in _ps("-p", str(pid), "-o", "args=").replace("\n", " ")
    try:
        return os.fsencode(pgdata) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def stop(directory: Directory, *, fast_s: float = STOP_FAST_S, immediate_s: float = STOP_IMMEDIATE_S) -> None:
    """Ends the server fast, else at once, else by force; each keeps all that was committed.

    Returns when its last process is gone.
    """
    for number, deadline_s in ((signal.SIGINT, fast_s), (signal.SIGQUIT, immediate_s)):
        postmaster = find(directory)
        if postmaster is not None:
            send(postmaster.pid, number)
        if directory.wait_gone(deadline_s):
            return
    kill(directory)


def kill(directory: Directory) -> None:
    """What a power failure does to it: nothing is said, nothing is written. Waits until all are gone."""
    postmaster = find(directory)
    if postmaster is not None:
        # Stopped first, so that it starts no child that we do not see.
        send(postmaster.pid, signal.SIGSTOP)
        family = [postmaster.pid, *_children(postmaster.pid)]
        for pid in family:
            send(pid, signal.SIGKILL)
    if not directory.wait_gone(KILL_S):
        raise EmbeddedServerError(
            f"processes of the killed server of {directory.path} remain after {KILL_S:g} s; "
            f"look for whoever holds {directory.life_lock} open"
        )


def ended_well(directory: Directory) -> bool:
    """Whether the server that is gone was shut down, and did not crash."""
    return not (directory.pgdata / PID_FILE).exists()


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _children(pid: int) -> list[int]:
    pairs = _parents_linux() if sys.platform == "linux" else _parents_ps()
    return [child for child, parent in pairs if parent == pid]


def _parents_linux() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in brackets may hold anything; what follows the last bracket is state and parent.
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                yield int(entry.name), int(after_name[1])


def _parents_ps() -> Iterator[tuple[int, int]]:
    for line in _ps("-A", "-o", "pid=,ppid=").splitlines():
        child, parent = line.split()
        yield int(child), int(parent)


def _ps(*arguments: str) -> str:
    result = subprocess.run(["/bin/ps", *arguments], capture_output=True, text=True, timeout=PS_DEADLINE_S, check=False)
    return result.stdout
