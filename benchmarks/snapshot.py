"""A snapshot that somebody holds, and what happens to a rate meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
from psycopg import IsolationLevel

BINS = 40


def hold(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Take a snapshot and a transaction id, and keep both until the connection is closed."""
    connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    connection.execute("select pg_current_xact_id(), count(*) from pg_class")


def rates_over_time(
    events: Iterable[tuple[float, int]], *, start: float, duration_s: float, bins: int = BINS
) -> list[float]:
    """Records a second in equal pieces of the time, from moments at which there were some more."""
    counts = [0] * bins
    for at, records in events:
        piece = int((at - start) / duration_s * bins)
        if 0 <= piece < bins:
            counts[piece] += records
    return [count * bins / duration_s for count in counts]


def quarters(rates: Sequence[float]) -> tuple[float, float]:
    """The mean of the first quarter, and of the last."""
    quarter = len(rates) // 4
    return sum(rates[:quarter]) / quarter, sum(rates[-quarter:]) / quarter
