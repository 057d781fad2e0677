"""Many readers at the end of a queue: whoever waits for another must not be waited for."""

from __future__ import annotations

import psycopg

from benchmarks.crew import Crew
from benchmarks.desks import Desk
from benchmarks.our_queues import Queues
from benchmarks.payloads import Tally
from benchmarks.queue_jobs import Empty, Feed

READERS = PARTITIONS = 8
BATCHES = 60


def test_readers_that_empty_a_queue_together_never_deadlock(db_url: str) -> None:
    """Goal: near the end of a queue every reader looks into every partition, while others are there; no two wait for
    each other. Method: eight processes empty eight partitions, and the server has counted no deadlock."""
    side = Queues()
    side.create(db_url, 1, PARTITIONS)
    side.open_queue(db_url, 1, 30.0)
    with Crew(READERS) as crew:
        fed = crew.run([Feed(side, db_url, 1, n, PARTITIONS, 10, batches=BATCHES) for n in range(PARTITIONS)])
        done = crew.run([Empty(side, db_url, 1, Desk(n, 10, 10, 30.0), jointly=True) for n in range(READERS)])
    assert sum((each.tally for each in done), Tally()) == sum((each.tally for each in fed), Tally())
    with psycopg.connect(db_url) as connection:
        counted = connection.execute("select deadlocks from pg_stat_database where datname = current_database()")
        assert counted.fetchall() == [(0,)]
