"""Many writers with transactions over several partitions, and readers beside them that are to get each one whole."""

from __future__ import annotations

import functools
from collections import Counter

import psycopg
import pytest

from tests.checker.whole_transactions import torn_deliveries
from tests.concurrency.whole import Play, copy, read, write

COUNTS = [pytest.param(60, id="short"), pytest.param(1_000, id="long", marks=pytest.mark.chaos)]


@pytest.mark.parametrize("count", COUNTS)
def test_S4_11_and_S4_13_no_reader_sees_a_torn_transaction_while_many_are_written(
    db_url: str, seed: int, count: int
) -> None:
    """Three writers; one reader that commits now and then and begins again, one whose effects are there once. Every
    delivery has whole transactions, also the ones whose effects were rolled back; each was copied in one delivery."""
    play = Play(db_url, seed)
    play.create()
    with psycopg.connect(db_url, autocommit=True) as conn:
        conn.execute("drop table if exists copied")
        conn.execute("create table copied (payload bytea primary key, delivery integer)")
    polled: list[list[bytes]] = []
    taken: list[list[bytes]] = []
    play.run(
        [functools.partial(write, play, f"writer{number}", count) for number in range(3)],
        [functools.partial(read, play, "reader", polled), functools.partial(copy, play, "copier", taken)],
    )
    assert torn_deliveries(polled) == []
    assert torn_deliveries(taken) == []
    assert {payload for delivery in polled for payload in delivery} == play.committed
    with psycopg.connect(db_url) as conn:
        rows = conn.execute("select payload, delivery from copied").fetchall()
        conn.execute("drop table copied")
    assert {payload for payload, _ in rows} == play.committed
    deliveries = Counter((payload.rsplit(b" ", 2)[0], number) for payload, number in rows)
    assert len(deliveries) == len({name for name, _ in deliveries}), "a transaction was copied in two deliveries"
    print(f"seed {seed}: {len(play.committed)} records, {len(polled)} and {len(taken)} deliveries")


def test_a_reader_without_the_option_is_caught_under_the_same_load(db_url: str, seed: int) -> None:
    play = Play(db_url, seed)
    play.create()
    polled: list[list[bytes]] = []
    play.run(
        [functools.partial(write, play, "writer", 40)],
        [functools.partial(read, play, "reader", polled, whole_transactions=False)],
    )
    assert torn_deliveries(polled) != []
    assert {payload for delivery in polled for payload in delivery} == play.committed
