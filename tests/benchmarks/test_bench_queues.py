"""What the benchmark of queues is made of does what it says, in small: all sides work, what is lost is noticed."""

from __future__ import annotations

from itertools import count
from typing import Any

import psycopg
import pytest

from benchmarks.baselines import pgbench
from benchmarks.baselines.claims import kept_to_the_index
from benchmarks.baselines.jobs_table import Deleted, Hidden, pgbench_scripts
from benchmarks.business import Load
from benchmarks.crew import Crew, Job
from benchmarks.desks import CounterSide, Desk, QueueSide
from benchmarks.our_queues import QUEUE, BareQueues, Caller, Queues, unpacked
from benchmarks.payloads import Tally
from benchmarks.queue_jobs import Cycle, Emptied, Empty, Feed, Handle
from benchmarks.scenarios.queues.parked import PARKED_S, Park
from benchmarks.scenarios.queues.receive import Receive
from benchmarks.shifts import Run, check, limits
from benchmarks.sides import topic_name
from trunkline.server import Server

PARTITIONS = 2
DEADLINE_S = 30.0
SIDES: tuple[QueueSide, ...] = (Queues(), BareQueues(), Hidden(), Deleted())
names = [side.name for side in SIDES]


def filled(
    url: str, side: QueueSide, *, log: int = 1, partitions: int = PARTITIONS, batches: int = 30, batch_records: int = 10
) -> Tally:
    """A new queue with so many batches in each partition."""
    side.create(url, log, partitions)
    side.open_queue(url, log, DEADLINE_S)
    tally = Tally()
    for partition in range(partitions):
        with Feed(side, url, log, partition, partitions, batch_records, batches=batches).opened() as feed:
            tally += feed().tally
    side.analyse(url, log)
    assert tally.records == partitions * batches * batch_records
    return tally


@pytest.mark.parametrize("jointly", [True, False])
@pytest.mark.parametrize(("batch_records", "prefetch"), [(10, 10), (1, 20), (1, 0)])
@pytest.mark.parametrize("side", SIDES, ids=names)
def test_a_worker_takes_and_acknowledges_everything_on_every_side(
    db_url: str, side: QueueSide, batch_records: int, prefetch: int, jointly: bool
) -> None:
    fed = filled(db_url, side, batches=6)
    desk = Desk(0, batch_records, prefetch, DEADLINE_S)
    with Empty(side, db_url, 1, desk, jointly).opened() as empty:
        done = empty()
    assert done.tally == fed
    assert sum(records for _, records in done.acked) == done.records
    check(side, [fed], [done.tally], left := side.left(db_url, 1))
    assert left == Tally()
    side.drop(db_url, 1)


@pytest.mark.parametrize("side", SIDES, ids=names)
def test_workers_at_the_same_time_share_a_queue(db_url: str, side: QueueSide) -> None:
    fed = filled(db_url, side)
    with Crew(2) as crew:
        done = crew.run([Empty(side, db_url, 1, Desk(n, 10, 10, DEADLINE_S), jointly=True) for n in range(2)])
    check(side, [fed], [each.tally for each in done], side.left(db_url, 1))


@pytest.mark.parametrize("side", [Queues(), Hidden()], ids=["ours", "hidden"])
def test_handlers_receive_one_and_acknowledge_one(db_url: str, side: CounterSide) -> None:
    fed = filled(db_url, side)
    with Handle(side, db_url, 1, Desk(0, 1, 100, DEADLINE_S), handlers=20).opened() as handle:
        done = handle()
    assert done.tally == fed
    assert side.left(db_url, 1) == Tally()


@pytest.mark.parametrize("side", SIDES, ids=names)
def test_a_cycle_takes_as_many_as_it_inserts(db_url: str, side: QueueSide) -> None:
    side.create(db_url, 1, PARTITIONS)
    side.open_queue(db_url, 1, DEADLINE_S)
    with Cycle(side, db_url, 1, Desk(0, 1, 0, DEADLINE_S), PARTITIONS, duration_s=0.05).opened() as cycle:
        fed, done = cycle()
    assert fed.tally == done.tally
    assert done.records > 0


@pytest.mark.parametrize("side", [Queues(), Hidden(), Deleted()], ids=["ours", "hidden", "deleted"])
def test_a_worker_that_is_given_some_time_waits_for_what_is_to_come(db_url: str, side: QueueSide) -> None:
    side.create(db_url, 1, PARTITIONS)
    side.open_queue(db_url, 1, DEADLINE_S)
    worker = Empty(side, db_url, 1, Desk(0, 10, 10, DEADLINE_S), jointly=True, duration_s=3.0)
    writer = Feed(side, db_url, 1, 0, PARTITIONS, 10, duration_s=0.2)
    jobs: list[Job[Any]] = [worker, writer]
    with Crew(2) as crew:
        done, fed = crew.run(jobs)
    assert isinstance(done, Emptied)
    assert done.records > 0
    check(side, [fed.tally], [done.tally], side.left(db_url, 1))


@pytest.mark.parametrize("side", SIDES, ids=names)
def test_what_nobody_acknowledged_is_left(db_url: str, side: QueueSide) -> None:
    fed = filled(db_url, side, batches=1)
    assert side.left(db_url, 1) == fed
    with pytest.raises(AssertionError, match="of Tally"):
        check(side, [fed, fed], [], fed)


def test_a_hidden_row_comes_back_when_its_time_is_over(db_url: str) -> None:
    filled(db_url, Hidden(), batches=1)
    with (
        psycopg.connect(db_url, autocommit=True) as connection,
        Hidden().worker(db_url, 1, Desk(0, 100, 0, DEADLINE_S)) as first,
        Hidden().worker(db_url, 1, Desk(1, 100, 0, DEADLINE_S)) as second,
    ):
        assert len(first.take()) == 20
        assert second.take() == []
        connection.execute("update jobs_1 set visible_at = '-infinity'")
        assert len(second.take()) == 20
        second.done()
        with pytest.raises(AssertionError, match="another worker"):
            first.done()


def test_pgbench_does_the_same_with_the_tables(db_url: str, server: Server) -> None:
    program = pgbench.find(server.binaries)
    if program is None:
        pytest.skip("there is no pgbench")
    sides: list[QueueSide] = [Hidden(), Deleted()]
    for log, side in zip(count(1), sides):
        fed = filled(db_url, side, log=log)
        script = pgbench_scripts(log, 10, DEADLINE_S)[side.name]
        assert all(rate > 0 for rate in pgbench.run(program, kept_to_the_index(db_url), [script] * 2, 5))
        assert side.left(db_url, log).records == fed.records - 2 * 5 * 10


def test_the_parked_record_comes_when_its_hour_is_over(db_url: str) -> None:
    side = BareQueues()
    side.create(db_url, 1, 1)
    side.open_queue(db_url, 1, DEADLINE_S)
    with Feed(side, db_url, 1, 0, 1, 100, batches=100).opened() as feed:
        feed()
    with Park(db_url, 1).opened() as park:
        slices = park()
    assert all(took > 0 for each in slices for took in each)
    assert min(map(len, slices)) >= 1
    with psycopg.connect(db_url) as connection:
        place = connection.execute(
            "select in_flight, waiting from trunkline.queue_describe(%s, %s)", [topic_name(1), QUEUE]
        ).fetchall()
        ((ahead_s,),) = connection.execute(
            "select extract(epoch from trunkline.clock_now() - clock_timestamp())"
        ).fetchall()
    assert place == [(0, 0)]
    assert round(ahead_s) == PARKED_S


@pytest.mark.parametrize("side", [Queues(), BareQueues()], ids=["ours", "bare"])
def test_one_is_received_from_large_batches_and_from_small_ones(db_url: str, side: QueueSide) -> None:
    for log, batch_records in ((1, 1_000), (2, 1)):
        side.create(db_url, log, 1)
        side.open_queue(db_url, log, DEADLINE_S)
        with Feed(side, db_url, log, 0, 1, batch_records, batches=100 // batch_records or 1).opened() as feed:
            feed()
    with Receive(side, db_url, (1, 2), slices=2).opened() as receive:
        over_many, over_one = receive()
    assert len(over_many) == len(over_one) == 2


def test_a_bare_worker_puts_back_what_it_took(db_url: str) -> None:
    # One partition: a part that nobody has claimed from for a while comes before the own one.
    filled(db_url, BareQueues(), partitions=1, batches=2)
    with psycopg.connect(db_url, autocommit=True) as connection:
        caller = Caller(connection, 1, Desk(0, 10, 0, DEADLINE_S))
        assert len(taken := caller.take()) == 10
        caller.put_back(0.0)
        assert sorted(caller.take()) == sorted(taken)


def test_payloads_come_as_a_list_or_joined() -> None:
    assert unpacked([b"a", b"bc"], None, None) == unpacked(None, b"abc", [1, 2]) == [b"a", b"bc"]


def test_a_line_tells_what_the_processors_did() -> None:
    emptied = Emptied(Tally(), 100, 10.0, 12.0, 1.0)
    run = Run(100, [emptied, emptied], 1.0, Load(0.75, None))
    assert run.rate == 100.0
    assert limits([run]) == "processors 75% busy, workers took 1.00 of them"
    assert limits([Run(100, [emptied], 1.0, Load(None, None))]).startswith("processors: unknown")
