"""The same database behind PgBouncer in transaction mode, where that can be had."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import make_conninfo

from tests.pooler import pgbouncer, program
from trunkline.client import target
from trunkline.server.state import HOST


class NoPooler(Exception):
    """There is none; the message is the reason."""


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """A URL that leads through a pooler as long as the block lasts. Raises NoPooler."""
    parts = target.parse(url)
    if parts.get("host") != HOST:
        raise NoPooler(f"a pooler is only started for a server on {HOST}")
    try:
        path = program.find()
    except program.NotToBeHad as reason:
        raise NoPooler(str(reason)) from None
    server = f"postgresql://{quote(parts['user'])}:{quote(parts['password'])}@{HOST}:{parts['port']}/{parts['dbname']}"
    with (
        tempfile.TemporaryDirectory(prefix="trunkline-pooler-") as folder,
        pgbouncer.running(path, server, Path(folder) / "run") as started,
    ):
        yield make_conninfo(url, port=started.port)
