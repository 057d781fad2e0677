"""Waking somebody directly: NOTIFY on one connection, LISTEN on another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

NOTIFY = "select pg_notify(%s, %s)"


@contextmanager
def notifier(url: str, channel: str) -> Iterator[Callable[[str], object]]:
    """Notifies once a call, in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.cursor()
        yield lambda payload: cursor.execute(NOTIFY, (channel, payload), prepare=True)


@contextmanager
def listener(url: str, channel: str) -> Iterator[Callable[[float], str | None]]:
    """Gives the next payload, or None when none came in that many seconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

        heard: deque[str] = deque()

        def hear(timeout_s: float) -> str | None:
            if not heard:
                # Those that come together are given together, however few are asked for.
                heard.extend(notify.payload for notify in connection.notifies(timeout=timeout_s, stop_after=1))
            return heard.popleft() if heard else None

        yield hear
