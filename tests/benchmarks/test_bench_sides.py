"""A comparison is worth what its sides are: both keep what they are given, and the baseline is a log too."""

from __future__ import annotations

import psycopg
import pytest

from benchmarks.baselines import pgbench
from benchmarks.baselines.rows import Rows
from benchmarks.crew import Crew, WorkerFailed
from benchmarks.jobs import WARM_BATCHES, Content, Fill, Place, Scan
from benchmarks.payloads import Payloads
from benchmarks.sides import Ours, Shape, Side
from trunkline.server import Server

SIDES: list[Side] = [Ours(), Ours(compression="pglz"), Rows()]
PAYLOADS = Payloads("json", 0, distinct=64)


@pytest.mark.parametrize("side", SIDES, ids=repr)
@pytest.mark.parametrize("batch_records", [1, 7])
def test_what_a_side_writes_is_what_it_gives_to_read(db_url: str, side: Side, batch_records: int) -> None:
    side.create(db_url, 1, 2)
    empty = side.disk_bytes(db_url, 1)
    place = Place(side, db_url, 1, 1)
    with Fill(place, PAYLOADS, batch_records, batches=5).opened() as fill:
        side.analyse(db_url, 1)
        written = fill()
    assert written.content == Content.of(PAYLOADS.batches(WARM_BATCHES + 5, batch_records))
    end = 1 + written.content.whole.records
    shapes: tuple[Shape, ...] = ("columns", "records")
    for shape in shapes:
        with Scan(place, shape, 1, end, window_records=10, passes=2).opened() as scan:
            assert scan().checksum == written.content.whole
    side.settle(db_url, 1)
    assert side.disk_bytes(db_url, 1) > empty
    side.drop(db_url, 1)


def test_a_scan_beyond_the_end_fails_rather_than_waits(db_url: str) -> None:
    Rows().create(db_url, 1, 1)
    with (
        Scan(Place(Rows(), db_url, 1, 0), "columns", 1, 5, window_records=2).opened() as scan,
        pytest.raises(AssertionError, match="ended before offset 5"),
    ):
        scan()


def test_the_baseline_is_gapless_and_refuses_a_partition_without_a_counter(db_url: str) -> None:
    Rows().create(db_url, 1, 2)
    with psycopg.connect(db_url, autocommit=True) as connection, Rows().writer(db_url, 1, 0) as write:
        write([b"a", b"b"])
        write([b"c"])
        found = connection.execute("select c_offset, payload from rows_1.topicpartition0 order by 1").fetchall()
        assert found == [(1, b"a"), (2, b"b"), (3, b"c")]
        connection.execute("delete from rows_1.log_counter where id = 0")
        with pytest.raises(LookupError, match="no counter"):
            write([b"d"])


def test_without_lz4_means_that_the_segment_compresses_with_pglz(db_url: str) -> None:
    Ours(compression="pglz").create(db_url, 1, 1)
    with psycopg.connect(db_url) as connection:
        found = connection.execute(
            "select distinct a.attcompression::text from pg_attribute a join pg_class c on c.oid = a.attrelid "
            "where c.relname like 'segment_%' and c.relkind = 'r' and a.attname in ('keys', 'payloads')"
            " and c.relnamespace = 'trunkline'::regnamespace"
        ).fetchall()
    assert found == [("p",)]


def test_the_baselines_sql_runs_under_pgbench(db_url: str, server: Server) -> None:
    program = pgbench.find(server.binaries)
    if program is None:
        pytest.skip("this server comes without pgbench")
    Rows().create(db_url, 1, 2)
    batches = [[b"\x00'\"\\:x", b"plain"], [b"other", b""]]
    assert pgbench.write_rate(program, db_url, 1, batches, 3) > 0
    assert pgbench.read_rate(program, db_url, 1, partitions=2, windows=3, window_records=2) > 0
    with psycopg.connect(db_url) as connection:
        found = connection.execute("select payload from rows_1.topicpartition0 order by c_offset").fetchall()
    assert found == [(payload,) for payload in batches[0] * 3]


def test_processes_start_together_and_a_failure_is_told_with_its_reason(db_url: str) -> None:
    Rows().create(db_url, 1, 2)
    fills = [Fill(Place(Rows(), db_url, 1, partition), PAYLOADS, 2, 3) for partition in range(2)]
    told: list[str] = []
    with Crew(2) as crew:
        written = crew.run(fills, before=lambda: told.append("ready"))
        assert [each.records for each in written] == [6, 6]
        assert told == ["ready"]
        with pytest.raises(WorkerFailed, match="UndefinedTable"):
            crew.run([Fill(Place(Rows(), db_url, 99, 0), PAYLOADS, 2, 3)])
