"""Where a run takes place, and whether its figures may count: they may not with weakened durability."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import msgspec
import psycopg

from benchmarks.payloads import SEED

ROOT = Path(__file__).resolve().parent.parent
DURABLE = ("fsync", "synchronous_commit", "full_page_writes")


class Environment(msgspec.Struct, frozen=True):
    """Printed at the head of a run, and part of every line in JSON."""

    server_version: str
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    checksums: str
    lz4: bool
    shared_buffers: str
    wal_sync_method: str
    file_system: str
    cpus: int
    python: str
    psycopg: str
    commit: str
    seed: int

    def weakened(self) -> list[str]:
        """The settings under which an acknowledgement would not mean durable."""
        return [name for name in DURABLE if getattr(self, name) == "off"]

    def shown(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(self).items())


def look(url: str) -> Environment:
    """What the server at the URL says of itself, and this machine."""
    with psycopg.connect(url, autocommit=True) as connection:
        settings: dict[str, str] = dict(connection.execute("select name, setting from pg_settings").fetchall())
        shown = connection.execute("show shared_buffers").fetchone()
        squeezes = connection.execute(
            "select enumvals from pg_settings where name = 'default_toast_compression'"
        ).fetchone()
        here = _same_machine(connection.info.host)
    return Environment(
        server_version=settings["server_version"],
        fsync=settings["fsync"],
        synchronous_commit=settings["synchronous_commit"],
        full_page_writes=settings["full_page_writes"],
        checksums=settings["data_checksums"],
        lz4=squeezes is not None and "lz4" in squeezes[0],
        shared_buffers=str(shown[0]) if shown else "unknown",
        wal_sync_method=settings["wal_sync_method"],
        file_system=file_system(Path(settings.get("data_directory", ""))) if here else "unknown",
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        python=platform.python_version(),
        psycopg=psycopg.__version__,
        commit=git_commit(),
        seed=SEED,
    )


def _same_machine(host: str) -> bool:
    return host in ("", "localhost", "127.0.0.1", "::1") or host.startswith("/")


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The type of the file system that holds a path, as the system names it; tmpfs means: no disk at all."""
    try:
        rows = [line.split()[1:3] for line in mounts.read_text("utf-8").splitlines()]
    except OSError:
        return "unknown"
    holding = [(point, kind) for point, kind in rows if path.is_relative_to(point)]
    return max(holding, key=lambda row: len(row[0]))[1] if path.is_absolute() and holding else "unknown"


def git_commit() -> str:
    """The commit, with a plus sign where files were changed since."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607 - found on PATH
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
