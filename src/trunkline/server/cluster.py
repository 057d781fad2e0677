"""Making the data and starting the server on it. All of it under the directory's start lock."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import closing

import msgspec

from trunkline.errors import EmbeddedServerError
from trunkline.server import account, config, connection, postmaster, state
from trunkline.server.account import RunAs
from trunkline.server.binaries import Binaries
from trunkline.server.directory import POLL_S, Directory
from trunkline.server.postmaster import Postmaster
from trunkline.server.state import State

READY_S = 60.0
PORT_ATTEMPTS_MAX = 5
LOG_TAIL_BYTES = 4096
PORT_TAKEN = "could not bind"
COMPLAINTS = ("FATAL:", "PANIC:", "configuration parameter", "for parameter", PORT_TAKEN)


def start(directory: Directory, remembered: State, binaries: Binaries) -> State:
    """Starts the server, on the port it had if that is free; makes the data if there is none."""
    directory.sweep()
    run_as = account.choose(directory, binaries.program("postgres"))
    if not directory.pgdata.exists():
        _initialise(directory, remembered, binaries, run_as)
    config.write(directory, remembered.settings, gid=run_as.owner[1] if run_as.owner else None)
    port = _free_port(remembered.port)
    for _ in range(PORT_ATTEMPTS_MAX):
        log_start = _log_bytes(directory)
        if _launch(directory, binaries, run_as, port) is not None:
            return adopt(directory, msgspec.structs.replace(remembered, binaries=str(binaries.directory)))
        complaint = _complaint(directory, log_start)
        if PORT_TAKEN not in complaint:
            break
        port = _free_port(None)
    raise EmbeddedServerError(f"PostgreSQL did not start: {complaint}; all it said is in {directory.log}")


def adopt(directory: Directory, remembered: State) -> State:
    """Writes down a ready server, once it has proved with the password that it is ours."""
    running = postmaster.find(directory)
    if running is None:
        raise EmbeddedServerError(f"the server of {directory.path} has just ended; look at {directory.log}")
    current = msgspec.structs.replace(remembered, pid=running.pid, port=running.port)
    version = connection.prepare(current)
    return state.write(directory, msgspec.structs.replace(current, version=version))


def settle(directory: Directory) -> Postmaster | None:
    """Waits until the server is ready (and returns it) or no process of it is left (None)."""
    deadline = time.monotonic() + READY_S
    while directory.alive():
        found = postmaster.find(directory)
        # Asked, not only read: one that was killed an instant ago is still to be seen, and says nothing.
        if found is not None and found.ready and connection.answers(found.port):
            return found
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"the server of {directory.path} is neither ready nor gone after {READY_S:g} s; "
                f"look at {directory.log}, or end it with `trunkline dev stop`"
            )
        time.sleep(POLL_S)
    return None


def _initialise(directory: Directory, remembered: State, binaries: Binaries, run_as: RunAs) -> None:
    """All or nothing: the data gets its name when it is complete."""
    _write_private(directory, remembered.password, run_as)
    directory.pgdata_unfinished.mkdir(mode=0o700)
    if run_as.owner is not None:
        os.chown(directory.pgdata_unfinished, *run_as.owner)
    command = [
        binaries.program("initdb"),
        f"--pgdata={directory.pgdata_unfinished}",
        f"--username={state.USER}",
        f"--pwfile={directory.password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--data-checksums",
        "--no-instructions",
    ]
    try:
        result = run_as.run(command, directory)
    finally:
        directory.password.unlink(missing_ok=True)
    if result.returncode != 0:
        raise EmbeddedServerError(f"initdb failed: {account.last_line(result.stderr)}")
    directory.pgdata_unfinished.replace(directory.pgdata)


def _write_private(directory: Directory, text: str, run_as: RunAs) -> None:
    descriptor = os.open(directory.password, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
        if run_as.owner is not None:
            os.fchown(descriptor, *run_as.owner)


def _launch(directory: Directory, binaries: Binaries, run_as: RunAs, port: int) -> Postmaster | None:
    # Nobody lives here (settle() said so), and PostgreSQL would refuse a file that names a pid which
    # another program has got since.
    (directory.pgdata / postmaster.PID_FILE).unlink(missing_ok=True)
    command = [
        binaries.program("postgres"),
        "-D",
        str(directory.pgdata),
        "-p",
        str(port),
        f"--config_file={directory.config}",
    ]
    pid = run_as.detach(command, directory)
    try:
        return settle(directory)
    except BaseException:
        # Ctrl-C above all: whoever gave up waiting must not leave a server that nobody knows of.
        postmaster.send(pid, signal.SIGINT)
        directory.wait_gone(postmaster.STOP_FAST_S)
        raise


def _free_port(wanted: int | None) -> int:
    """The wanted one if it is free, else one that the system chooses."""
    for port in (wanted, 0):
        if port is not None:
            with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((state.HOST, port))
                except OSError:
                    continue
                return int(probe.getsockname()[1])
    raise EmbeddedServerError(f"no free TCP port on {state.HOST}")


def _log_bytes(directory: Directory) -> int:
    return directory.log.stat().st_size if directory.log.exists() else 0


def _complaint(directory: Directory, log_start: int) -> str:
    """What the server said since, in one line: its errors, else its last line."""
    with directory.log.open("rb") as log:
        end = log.seek(0, os.SEEK_END)
        log.seek(max(min(log_start, end), end - LOG_TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    errors = [line for line in lines if any(mark in line for mark in COMPLAINTS)]
    return "; ".join(errors[-3:] or lines[-1:]) or "it said nothing"
