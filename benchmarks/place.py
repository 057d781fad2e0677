"""The database in which a run takes place: made for it, and gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from trunkline import server
from trunkline.client import target
from trunkline.client.install import install

SLOW_FLUSH = "-c commit_delay=3000 -c commit_siblings=0"


@dataclass(frozen=True)
class Database:
    """``slow_url`` is the same database with 3 ms added to each flush; None where the server's role may not ask
    for that. ``programs`` is where the server's own programs are, if they are here."""

    url: str
    slow_url: str | None
    programs: Path | None


@contextmanager
def database(url: str | None) -> Iterator[Database]:
    """A database on the given server, else on a server of its own with its default, durable settings."""
    if url is not None:
        with _made(url) as made:
            yield Database(made, slow(made), None)
        return
    folder = Path(tempfile.mkdtemp(prefix="trunkline-bench-"))
    try:
        running = server.start(folder / "server", settings={})
        try:
            with _made(running.url) as made:
                yield Database(made, slow(made), running.binaries)
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _made(url: str) -> Iterator[str]:
    name = f"trunkline_bench_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        made = make_conninfo(url, dbname=name)
        install(made, roles={})
        yield made
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def slow(url: str) -> str | None:
    """The same URL with a slow flush: a slow disk, or a standby that has to confirm."""
    options = target.parse(url).get("options", "")
    slowed = make_conninfo(url, options=f"{options} {SLOW_FLUSH}".strip())
    try:
        psycopg.connect(slowed).close()
    except psycopg.Error:
        return None
    return slowed
