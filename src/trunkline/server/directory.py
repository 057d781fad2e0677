"""The directory of one development server: what lies where in it, and its two locks.

    state.json        password, port, pid, settings; 0600
    trunkline.lock    made before all others; held by whoever starts, stops or resets the server
    life.lock         held by the server itself and all its children, until the last one is gone
    postgresql.conf   written at each start
    server.log        what the server says
    pgdata/           the data, owned by whom the server runs as

Locks are the kernel's (flock), so a crash or a reboot leaves none behind, and a pid that was given to
another program meanwhile fools nobody.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trunkline.errors import EmbeddedServerError, InvalidArgument

DIRECTORY_VARIABLE = "TRUNKLINE_DEV_DIR"
# PostgreSQL's own limit for a path is 1,023 bytes, and its longest file name below pgdata takes part of it.
PATH_BYTES_MAX = 900
LOG_BYTES_MAX = 16 * 1024 * 1024
POLL_S = 0.01
# Nobody but root is in root's group; the mode marks a directory that we made, whose group we may
# therefore change to that of the account which the server runs under.
MODE_OF_ROOT = 0o710


@dataclass(frozen=True)
class Directory:
    path: Path

    @property
    def pgdata(self) -> Path:
        return self.path / "pgdata"

    @property
    def pgdata_unfinished(self) -> Path:
        return self.path / "pgdata.unfinished"

    @property
    def pgdata_dropped(self) -> Path:
        return self.path / "pgdata.dropped"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def config(self) -> Path:
        return self.path / "postgresql.conf"

    @property
    def password(self) -> Path:
        """Read by initdb, which takes a password from a file only; gone when it has ended."""
        return self.path / "password.unfinished"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def life_lock(self) -> Path:
        return self.path / "life.lock"

    @property
    def start_lock(self) -> Path:
        return self.path / "trunkline.lock"

    @property
    def ours(self) -> bool:
        """Whether a server was ever started here."""
        return self.start_lock.exists()

    def create(self) -> None:
        """Makes the directory unless it is there. It must be the caller's own, and ours or empty."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.path.mkdir(mode=MODE_OF_ROOT if os.geteuid() == 0 else 0o700)
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            raise EmbeddedServerError(
                f"{self.path} belongs to another account (uid {owner}); run this as that account, "
                f"or choose another directory with {DIRECTORY_VARIABLE}"
            )
        # reset() removes what has our names; somebody else's files must not be among them.
        if any(self.path.iterdir()) and not self.ours:
            raise InvalidArgument(
                f"{self.path} holds other files; choose a new or an empty directory with {DIRECTORY_VARIABLE}"
            )

    def alive(self) -> bool:
        """Whether any process of the server exists, its last child included."""
        try:
            descriptor = os.open(self.life_lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            _unlock(descriptor)

    def wait_gone(self, deadline_s: float) -> bool:
        """Waits until no process of the server exists; False when the time is over."""
        deadline = time.monotonic() + deadline_s
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def block_until_gone(self) -> None:
        """The same without a deadline and without polling; a signal handler that raises ends it."""
        descriptor = os.open(self.life_lock, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            _unlock(descriptor)

    @contextmanager
    def starting(self, deadline_s: float) -> Iterator[None]:
        """One process and one thread at a time; the others wait."""
        descriptor = os.open(self.start_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + deadline_s
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise EmbeddedServerError(
                        f"another process has been starting or stopping the server of {self.path} for "
                        f"{deadline_s:g} s; look at {self.log}, or end that process and try again"
                    )
                time.sleep(POLL_S)
            yield
        finally:
            _unlock(descriptor)

    def open_log(self) -> int:
        """A descriptor to append to; a log that has grown too large is put aside first."""
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES_MAX:
                self.log.replace(self.log.with_suffix(".log.1"))
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def sweep(self) -> None:
        """Removes what an interrupted start or reset has left."""
        self.password.unlink(missing_ok=True)
        for file in self.path.glob("state.unfinished.*"):
            file.unlink(missing_ok=True)
        for leftover in (self.pgdata_unfinished, self.pgdata_dropped):
            if leftover.exists():
                shutil.rmtree(leftover)

    def drop(self) -> None:
        """Removes the data and everything else of ours, but nothing that others put here."""
        if self.pgdata.exists():
            # Renamed first: an interrupted removal must not leave half a database that looks whole.
            self.pgdata.replace(self.pgdata_dropped)
        self.sweep()
        for file in (self.state, self.config, self.log, self.log.with_suffix(".log.1")):
            file.unlink(missing_ok=True)


def resolve(data_dir: str | os.PathLike[str] | None) -> Directory:
    """The named directory, else ``$TRUNKLINE_DEV_DIR``, else the user's own data directory."""
    named = data_dir or os.environ.get(DIRECTORY_VARIABLE)
    # One directory has one path: processes are recognised by it.
    path = (Path(named).expanduser() if named else _default()).resolve()
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise InvalidArgument(
            f"the data directory's path has {len(os.fsencode(path))} bytes, and PostgreSQL takes "
            f"{PATH_BYTES_MAX}; choose a shorter one with {DIRECTORY_VARIABLE}"
        )
    if not str(path).isprintable():
        raise InvalidArgument(f"the data directory's path {str(path)!r} holds a control character")
    return Directory(path)


def _default() -> Path:
    from platformdirs import user_data_path

    return user_data_path("trunkline") / "dev"


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    # Unlocked, not only closed: a process forked meanwhile has a copy of the descriptor.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
