"""What the benchmark of the outbox is made of does what it says, in small: all sides trade, what is lost is noticed."""

from __future__ import annotations

from typing import get_args

import psycopg
import pytest

import trunkline
from benchmarks.baselines.rows import Rows
from benchmarks.business import (
    WARM_TRANSACTIONS,
    Kind,
    Load,
    Market,
    Observe,
    Run,
    Span,
    Trade,
    Traded,
    check,
    table_name,
)
from benchmarks.latency import Sample, percentile
from benchmarks.scenarios.outbox.business import limits, p99
from benchmarks.scenarios.outbox.left_open import longest
from benchmarks.sides import Ours, topic_name

PARTITIONS = 2


def prepare(url: str, kind: Kind) -> None:
    (Rows() if kind == "counter" else Ours()).create(url, 1, PARTITIONS)
    with psycopg.connect(url) as connection:
        connection.execute(f"create table public.{table_name(1)} (id bigint primary key, body bytea)".encode())


def traded(url: str, kind: Kind) -> Traded:
    """What two clients do in a moment."""
    with Trade(kind, url, 1, PARTITIONS, 0, 2, 0.001, 0.05).opened() as trade:
        return trade()


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_row_has_its_event_on_every_side(db_url: str, kind: Kind) -> None:
    prepare(db_url, kind)
    done = traded(db_url, kind)
    assert len(done.ids) == len(done.spans) + 2 * WARM_TRANSACTIONS
    assert all(0 < span.committing < span.took_s for span in done.spans)
    with psycopg.connect(db_url) as connection:
        check(connection, kind, 1, PARTITIONS, done.ids)


def test_a_row_that_is_missing_is_noticed(db_url: str) -> None:
    prepare(db_url, "ours")
    done = traded(db_url, "ours")
    with psycopg.connect(db_url) as connection:
        connection.execute(f"delete from public.{table_name(1)} where id = %s".encode(), [done.ids[0]])
        with pytest.raises(AssertionError, match="rows, of"):
            check(connection, "ours", 1, PARTITIONS, done.ids)
        with pytest.raises(AssertionError, match="events of"):
            check(connection, "ours", 1, PARTITIONS, done.ids[1:])


def test_an_event_that_came_twice_is_noticed(db_url: str) -> None:
    prepare(db_url, "ours")
    done = traded(db_url, "ours")
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url) as connection:
        record = next(each for n in range(PARTITIONS) for each in tl.read(topic_name(1), partition=n))
        tl.publish(topic_name(1), record.payload)
        with pytest.raises(AssertionError, match="events of"):
            check(connection, "ours", 1, PARTITIONS, done.ids)


def test_the_machine_and_the_server_are_looked_at(db_url: str) -> None:
    with Observe(db_url, 0.05).opened() as observe:
        load = observe()
    assert load.busy is None or 0 <= load.busy <= 1
    assert load.server is None or load.server >= 0


def run_of(*took: float) -> Run:
    """Transactions that began at the start and took so many seconds, in a run of one."""
    spans = [Span(10.0, 10.0 + each, each / 2) for each in took]
    return Run(Market(8, 1, 1, 0.0, 1.0), [Traded(10.0, spans, [], 0.5)], Load(0.75, 0.25))


def test_the_rate_counts_what_was_committed_in_the_time() -> None:
    assert run_of(0.1, 0.2, 1.5).rate == 2.0


def test_the_tail_is_that_of_whole_transactions() -> None:
    run = run_of(0.25, 0.5)
    assert p99(run) == longest(run) == percentile([Sample(0.5)], 99)


def test_a_line_tells_what_the_processors_did() -> None:
    told = limits([run_of(0.1)])
    assert told == "processors 75% busy, clients took 0.50 of them, the server 0.25"
    assert limits([Run(Market(8, 1, 1, 0.0, 1.0), [], Load(None, None))]).startswith("processors: unknown")
