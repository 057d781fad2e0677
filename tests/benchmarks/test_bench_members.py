"""Groups on both sides: every reader gets what is its own, once, and the baseline's claims are right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from benchmarks.baselines import pgbench
from benchmarks.baselines.claims import Claims
from benchmarks.consumers import Consumers
from benchmarks.crew import Crew, Job
from benchmarks.group_jobs import Consume, Pace, Publish
from benchmarks.jobs import Place
from benchmarks.members import GroupSide, Member, Seat
from benchmarks.payloads import Payloads
from benchmarks.scenarios.groups.claims import script
from trunkline.server import Server

SIDES: list[GroupSide] = [Consumers(), Claims(poll_s=0.001)]
PAYLOADS = Payloads("random", 0, distinct=64, record_bytes=32)
WAIT_S = 60.0


@contextmanager
def one_member(side: GroupSide, url: str, *, max_records: int) -> Iterator[Member]:
    side.create(url, 1, 1)
    side.create_groups(url, 1, ["g"])
    with side.member(url, 1, Seat("g", 0, 1, max_records)) as member:
        yield member


def taken(member: Member) -> list[bytes]:
    handed = member.take(WAIT_S)
    assert handed is not None
    member.commit()
    found = [payload for payloads in handed.payloads for payload in payloads]
    assert sum(count for _, count in handed.created) == len(found)
    return found


@pytest.mark.parametrize("side", SIDES, ids=repr)
def test_a_reader_takes_what_is_there_in_order_and_then_nothing(db_url: str, side: GroupSide) -> None:
    with one_member(side, db_url, max_records=200) as member, side.writer(db_url, 1, 0) as write:
        assert member.take(0.0) is None
        write([b"a", b"b"])
        write([b"c"])
        found: list[bytes] = []
        while len(found) < 3:
            found += taken(member)
        assert found == [b"a", b"b", b"c"]
        assert member.take(0.0) is None


@pytest.mark.parametrize("side", SIDES, ids=repr)
def test_what_was_not_committed_comes_again(db_url: str, side: GroupSide) -> None:
    with one_member(side, db_url, max_records=200) as member, side.writer(db_url, 1, 0) as write:
        write([b"a"])
        assert member.take(WAIT_S) is not None
    with side.member(db_url, 1, Seat("g", 0, 1, 200)) as member:
        assert taken(member) == [b"a"]


def test_the_baseline_claims_no_more_than_a_batch_and_nothing_where_there_is_nothing(db_url: str) -> None:
    with one_member(Claims(), db_url, max_records=2) as member, Claims().writer(db_url, 1, 0) as write:
        write([b"a", b"b"])
        write([b"c"])
        assert [taken(member), taken(member)] == [[b"a", b"b"], [b"c"]]
        with psycopg.connect(db_url, autocommit=True) as connection:
            row = "select next_offset, xmin from rows_1.consumer_offsets"
            before = connection.execute(row).fetchone()
            assert member.take(0.0) is None
            assert connection.execute(row).fetchone() == before


@pytest.mark.parametrize("side", SIDES, ids=repr)
def test_S0_20_readers_read_before_writers_write_and_each_group_sees_everything(db_url: str, side: GroupSide) -> None:
    """10 batches at a pace into each of two partitions; two groups of two readers, in processes of their own."""
    side.create(db_url, 1, 2)
    side.create_groups(db_url, 1, ["one", "two"])
    readers: list[Job[Any]] = [
        Consume(side, db_url, 1, Seat(group, reader, 1, 20), at_least_s=3.0)
        for group in ("one", "two")
        for reader in range(2)
    ]
    writers: list[Job[Any]] = [
        Publish(Place(side, db_url, 1, partition), PAYLOADS, 5, Pace(0.02, 0.01 * partition), 0.2, 0.2)
        for partition in range(2)
    ]
    with Crew(6) as crew:
        *consumed, first, second = crew.run([*readers, *writers])
    written = first.tally + second.tally
    assert (written.records, written.length) == (100, 100 * 32)
    for group in ("one", "two"):
        of_group = [each for each in consumed if each.group == group]
        assert of_group[0].tally + of_group[1].tally == written
    calls = {call.called for each in (first, second) for call in each.calls}
    for each in consumed:
        assert {delivery.published for delivery in each.deliveries} <= calls
        assert all(delivery.handed > delivery.published for delivery in each.deliveries)
        assert all(read.asked <= read.handed <= read.committed for read in each.reads)
        assert sum(age.records for age in each.ages) == each.tally.records
    assert sum(each.failures for each in (*consumed, first, second)) == 0


def test_the_baselines_reads_run_under_pgbench(db_url: str, server: Server) -> None:
    program = pgbench.find(server.binaries)
    if program is None:
        pytest.skip("this server comes without pgbench")
    Claims().create(db_url, 1, 1)
    Claims().create_groups(db_url, 1, ["g"])
    with Claims().writer(db_url, 1, 0) as write:
        write([b"a", b"b", b"c", b"d"])
    assert pgbench.run(program, db_url, [script(1, Seat("g", 0, 1, 2))], 2)[0] > 0
    with psycopg.connect(db_url) as connection:
        assert connection.execute("select next_offset from rows_1.consumer_offsets").fetchone() == (5,)
