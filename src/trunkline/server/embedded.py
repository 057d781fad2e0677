"""The embedded server as callers see it: start, find, reset, and a handle to what runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from trunkline.errors import EmbeddedServerError
from trunkline.server import binaries, cluster, config, connection, postmaster, state
from trunkline.server.directory import Directory, resolve
from trunkline.server.state import State

PathLike = str | os.PathLike[str]
LOCK_S = cluster.READY_S + postmaster.STOP_FAST_S + postmaster.STOP_IMMEDIATE_S + postmaster.KILL_S


class Server:
    """A server that ran when you got this. Nothing is held open: dropping the object changes nothing.

    ``started`` says whether the call that returned it started the server or found it running.
    """

    def __init__(self, directory: Directory, current: State, *, started: bool) -> None:
        self._directory = directory
        self._state = current
        self.started = started

    def __repr__(self) -> str:
        place = f"pid={self.pid} port={self.port} data_dir={str(self.data_dir)!r}"
        return f"<Server PostgreSQL {self.version} {place}>"

    @property
    def url(self) -> str:
        """Of the database ``trunkline``, with the password: not for logs."""
        return self._state.url()

    def database_url(self, name: str) -> str:
        """The same for another database, which this does not create."""
        return self._state.url(name)

    @property
    def port(self) -> int:
        return self._state.port or 0

    @property
    def pid(self) -> int:
        """Of the postmaster; 0 after ``stop()``."""
        return self._state.pid or 0

    @property
    def version(self) -> str:
        return self._state.version

    @property
    def data_dir(self) -> Path:
        return self._directory.path

    @property
    def binaries(self) -> Path:
        return Path(self._state.binaries)

    @property
    def log(self) -> Path:
        return self._directory.log

    def stop(self) -> None:
        """Ends the server for everybody who uses it; returns when its last process is gone.

        Open transactions are rolled back, connections end. Stopping a stopped server does nothing.
        """
        with _locked(self._directory):
            self._state = _stop(self._directory) or self._state

    def restart(self) -> None:
        """Stops it if it runs and starts it again: same data, settings, password, and port if still free."""
        with _locked(self._directory):
            stopped = _stop(self._directory) or self._state
            self._state = cluster.start(self._directory, stopped, binaries.locate(self.binaries))

    def kill(self) -> None:
        """kill -9 for the server and all its children, for crash tests. Returns when all are gone."""
        with _locked(self._directory):
            postmaster.kill(self._directory)

    def wait(self) -> bool:
        """Blocks until the server's last process is gone, whoever ends it; False when it crashed."""
        with _reported(self._directory):
            self._directory.block_until_gone()
            return postmaster.ended_well(self._directory)


def start(
    data_dir: PathLike | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    bin_dir: PathLike | None = None,
) -> Server:
    """The server of a directory, started unless it runs; ready for connections when this returns.

    ``settings`` are PostgreSQL's own, by name. None keeps those of the last start. Others than a
    running server was started with are an error, because they would not take effect.
    """
    directory = resolve(data_dir)
    wanted = None if settings is None else config.check(settings)
    with _reported(directory):
        directory.create()
    with _locked(directory):
        remembered = _remembered(directory)
        running = cluster.settle(directory)
        if running is not None:
            _check_settings(directory, remembered, wanted)
            known = (remembered.pid, remembered.port) == (running.pid, running.port)
            shared = remembered if known else cluster.adopt(directory, remembered)
            return Server(directory, shared, started=False)
        programs = binaries.locate(bin_dir, major=_major(directory))
        # The password must outlive us before anything depends on it. Settings are kept once they work.
        remembered = state.write(directory, msgspec.structs.replace(remembered, pid=None))
        if wanted is not None:
            remembered = msgspec.structs.replace(remembered, settings=wanted)
        return Server(directory, cluster.start(directory, remembered, programs), started=True)


def find(data_dir: PathLike | None = None) -> Server | None:
    """The running server of a directory, or None. Starts nothing, waits for nothing, and is cheap."""
    directory = resolve(data_dir)
    with _reported(directory):
        current = state.read(directory) if directory.ours else None
        if current is None or current.pid is None:
            return None
        running = postmaster.find(directory)
        if running is None or (running.pid, running.port) != (current.pid, current.port):
            return None
        return Server(directory, current, started=False) if connection.answers(running.port) else None


def stop(data_dir: PathLike | None = None) -> bool:
    """Stops the server of a directory, as Server.stop() does; False when none was running."""
    directory = resolve(data_dir)
    if not _ours(directory):
        return False
    with _locked(directory):
        running = directory.alive()
        _stop(directory)
        return running


def reset(data_dir: PathLike | None = None) -> bool:
    """Stops the server of a directory and removes its data, for good; False when there was none."""
    directory = resolve(data_dir)
    if not _ours(directory):
        return False
    with _locked(directory):
        if directory.alive():
            postmaster.stop(directory)
        held_data = directory.pgdata.exists()
        directory.drop()
        return held_data


def _ours(directory: Directory) -> bool:
    with _reported(directory):
        return directory.ours


def _stop(directory: Directory) -> State | None:
    if directory.alive():
        postmaster.stop(directory)
    remembered = state.read(directory)
    if remembered is None:
        return None
    return state.write(directory, msgspec.structs.replace(remembered, pid=None))


def _remembered(directory: Directory) -> State:
    remembered = state.read(directory)
    if remembered is not None:
        return remembered
    if directory.pgdata.exists():
        raise EmbeddedServerError(
            f"{directory.state} is missing, and with it the password; drop the data with `trunkline dev reset`"
        )
    return State(password=state.new_password())


def _check_settings(directory: Directory, remembered: State, wanted: dict[str, str] | None) -> None:
    if wanted is not None and wanted != remembered.settings:
        raise EmbeddedServerError(
            f"the server of {directory.path} runs with other settings ({remembered.settings or 'none'}); "
            "stop it first, or leave settings out"
        )


def _major(directory: Directory) -> int | None:
    try:
        return int((directory.pgdata / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise EmbeddedServerError(
            f"the data in {directory.path} is damaged; drop it with `trunkline dev reset`"
        ) from error


@contextmanager
def _locked(directory: Directory) -> Iterator[None]:
    with _reported(directory), directory.starting(LOCK_S):
        yield


@contextmanager
def _reported(directory: Directory) -> Iterator[None]:
    try:
        yield
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(f"the development server in {directory.path}: {error}") from error
