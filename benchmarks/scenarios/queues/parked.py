"""One record is put back for an hour, and a million others are acknowledged before it is due: what a claim costs then.

The hour is one of the database's own clock, ``clock_now``, which the benchmark moves on. Claims are made by the SQL
functions alone: whatever a client costs on top would only hide that they grow dearer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import psycopg
from psycopg import sql

from benchmarks.baselines.rows import connect
from benchmarks.bench import Bench, Scenario
from benchmarks.desks import Desk
from benchmarks.lines import Finding
from benchmarks.our_queues import BareQueues, Caller
from benchmarks.queue_jobs import Feed
from benchmarks.shifts import BATCH_RECORDS

RECORDS = 10**6
QUICK_RECORDS = 50_000
PARKED_S = 3_600.0
ACK_DEADLINE_S = 30.0
SLICES = 40
WARM_TAKES = 50
_CLOCK = """
create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() + {ahead_s} * interval '1 second' $$
"""
_TRUE_CLOCK = """
create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$
"""


@dataclass(frozen=True)
class Park:
    """Put one record back for an hour; then take and acknowledge all others while the hour passes. What it gives are
    milliseconds of each claim, slice by slice."""

    url: str
    log: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], list[list[float]]]]:
        desk = Desk(0, 1, 0, ACK_DEADLINE_S)
        with connect(self.url) as connection, connect(self.url) as claiming:
            one = Caller(claiming, self.log, desk)
            (parked,) = one.take()
            one.put_back(PARKED_S)
            many = Caller(claiming, self.log, Desk(0, BATCH_RECORDS, 0, ACK_DEADLINE_S))
            for _ in range(WARM_TAKES):
                many.take()
                many.done()
            yield lambda: self._claim(connection, many, parked)

    def _claim(
        self, connection: psycopg.Connection[tuple[object, ...]], many: Caller, parked: bytes
    ) -> list[list[float]]:
        slices: list[list[float]] = []
        claims = self._records(connection) // BATCH_RECORDS // SLICES
        for number in range(SLICES):
            connection.execute(sql.SQL(_CLOCK).format(ahead_s=sql.Literal(PARKED_S * number / SLICES)))
            slices.append([_timed(many) for _ in range(claims)])
        while many.step():
            pass
        connection.execute(sql.SQL(_CLOCK).format(ahead_s=sql.Literal(PARKED_S)))
        assert many.take() == [parked], "the record that was put back did not come when its hour was over"
        many.done()
        return slices

    def _records(self, connection: psycopg.Connection[tuple[object, ...]]) -> int:
        """How many are there to be claimed."""
        ((end,),) = connection.execute(
            "select d.\"end\" - d.frontier from trunkline.queue_describe(%s, 'bench') d", [f"bench-{self.log}"]
        ).fetchall()
        assert isinstance(end, int)
        return end


def _timed(many: Caller) -> float:
    began = perf_counter()
    taken = many.take()
    took = (perf_counter() - began) * 1_000
    assert taken
    many.done()
    return took


def measure(bench: Bench) -> Iterator[Finding]:
    records = QUICK_RECORDS if bench.scale.name == "quick" else RECORDS
    side, url = BareQueues(), bench.url("fast")
    with bench.log(side, 1) as log:
        side.open_queue(url, log, ACK_DEADLINE_S)
        batches = records // BATCH_RECORDS + WARM_TAKES + 1
        bench.crew.run([Feed(side, url, log, 0, 1, BATCH_RECORDS, batches=batches)])
        bench.settle()
        try:
            (slices,) = bench.crew.run([Park(url, log)])
        finally:
            with connect(url) as connection:
                connection.execute(_TRUE_CLOCK)
    medians = [median(each) for each in slices]
    quarter = len(medians) // 4
    first, last = median(medians[:quarter]), median(medians[-quarter:])
    bench.say(f"queue-parked: a claim took {first:.3f} ms in the first quarter of the hour, {last:.3f} in the last")
    yield Finding(
        name="queue-parked.claim",
        value=last,
        baseline=first,
        ratio=last / first,
        note=f"one record put back for an hour, {records:,} acknowledged meanwhile",
        series={"ms": [round(each, 4) for each in medians]},
    )


SCENARIO = Scenario("queue-parked", ("queue-parked.claim",), measure)
