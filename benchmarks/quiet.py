"""A server that does nothing of its own accord while something is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg

from benchmarks.bench import Bench


@contextmanager
def undisturbed(bench: Bench) -> Iterator[None]:
    """Autovacuum is no doing of the readers: there is nothing left for it, and on a server of our own it is off."""
    _execute(bench, "vacuum (analyze)")
    bench.settle()
    if bench.programs is None:
        yield
        return
    _execute(bench, "alter system set autovacuum to off", "select pg_reload_conf()")
    yield
    _execute(bench, "alter system reset autovacuum", "select pg_reload_conf()")


def _execute(bench: Bench, *statements: LiteralString) -> None:
    with psycopg.connect(bench.url("fast"), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
