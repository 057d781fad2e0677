"""PgBouncer in transaction mode in front of a server: real, on a port of its own, for as long as a block lasts."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trunkline.server import account, connection, postmaster
from trunkline.server.account import RunAs
from trunkline.server.directory import POLL_S, Directory
from trunkline.server.state import HOST

READY_S = 60.0
STOP_S = 5.0
PORT_ATTEMPTS_MAX = 5
PORT_TAKEN = "in use"
POOL_SIZE = 20
# As a person would set it up: what PgBouncer refuses or forgets by default, the client must do without.
CONFIG = """\
[databases]
{databases} = host={host} port={server_port}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
auth_user = {user}
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 400
"""


class PoolerError(Exception):
    """PgBouncer is here, but did not start or did not end."""


@dataclass(frozen=True)
class Pooler:
    """One that runs."""

    port: int

    def through(self, url: str) -> str:
        """The URL of the same database by way of the pooler."""
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{login}@{HOST}:{self.port}").geturl()


@contextmanager
def running(
    program: str, server_url: str, folder: Path, *, databases: str = "*", pool_size: int = POOL_SIZE
) -> Iterator[Pooler]:
    """A pooler for every role of the server, and for every database unless one is named.

    ``pool_size`` is how many sessions on the server all clients of one database and role share. The folder is made.
    When the block ends, the pooler's log is still there; no process is, and no password.
    """
    directory = Directory(folder.resolve())
    directory.create()
    run_as = account.choose(directory, program)
    server = urlsplit(server_url)
    user, password = unquote(server.username or ""), unquote(server.password or "")
    users, config = directory.path / "users.txt", directory.path / "pgbouncer.ini"

    def configured(port: int) -> list[str]:
        values = {"port": port, "server_port": server.port, "users": users, "user": user}
        _write(config, CONFIG.format(host=HOST, databases=databases, pool_size=pool_size, **values), run_as)
        return [program, str(config)]

    _write(users, f'"{user}" "{password}"\n', run_as)
    try:
        with _started(directory, run_as, configured) as port:
            yield Pooler(port)
    finally:
        users.unlink()


@contextmanager
def _started(directory: Directory, run_as: RunAs, command: Callable[[int], list[str]]) -> Iterator[int]:
    for _ in range(PORT_ATTEMPTS_MAX):
        port = _free_port()
        pid = run_as.detach(command(port), directory)
        try:
            if _settle(directory, port):
                yield port
                return
        finally:
            _stop(directory, pid)
        said = directory.log.read_text(errors="replace")
        if PORT_TAKEN not in said:
            break
    raise PoolerError(f"PgBouncer did not start: {account.last_line(said)}; all it said is in {directory.log}")


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _write(path: Path, text: str, run_as: RunAs) -> None:
    """For whom the pooler runs as, and for nobody else."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if run_as.owner is not None:
            os.fchown(descriptor, *run_as.owner)


def _settle(directory: Directory, port: int) -> bool:
    """Waits until it answers; False when it has ended instead."""
    deadline = time.monotonic() + READY_S
    while directory.alive():
        if connection.answers(port):
            return directory.alive()  # else another program has got the port, and answers
        if time.monotonic() > deadline:
            raise PoolerError(f"PgBouncer does not answer after {READY_S:g} s; look at {directory.log}")
        time.sleep(POLL_S)
    return False


def _stop(directory: Directory, pid: int) -> None:
    # Since 1.23 the first SIGTERM lets clients finish, and the second one does not.
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if directory.alive():
            postmaster.send(pid, number)
        if directory.wait_gone(STOP_S):
            return
    raise PoolerError(f"PgBouncer (pid {pid}) does not end; look at {directory.log}")
