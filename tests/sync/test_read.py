# Generated from tests/aio/test_read.py by tools/twins.py (make fix). Change the source, not this file.
"""Reading by offset and by time, within bounds, and outside the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

import trunkline
from trunkline import ClientSettings, TopicSettings, errors


def set_clock(db_url: str, expression: str) -> None:
    """Replace the schema's clock, as its owner."""
    with psycopg.connect(db_url) as connection:
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile "
            f"as $$ select {expression} $$"
        )


def test_reads_are_bounded_by_count_and_start_inside_a_batch(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for start in range(0, 100, 20):
            tl.publish_many("orders", [b"%d" % n for n in range(start, start + 20)])
        for offset, count in [(1, 1), (1, 100), (15, 10), (40, 3), (41, 20), (100, 5), (7, 93)]:
            records = tl.read("orders", offset=offset, max_records=count)
            expected = range(offset, min(offset + count, 101))
            assert [record.offset for record in records] == list(expected)
            assert [record.payload for record in records] == [b"%d" % (n - 1) for n in expected]


def test_reads_are_bounded_by_bytes_in_whole_batches_but_give_at_least_one(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for _ in range(40):
            tl.publish_many("orders", [b"x" * 1000] * 10)
        assert len(tl.read_batches("orders", bytes_max=1)) == 1
        assert len(tl.read_batches("orders", bytes_max=35_000)) == 3
        assert len(tl.read_batches("orders", offset=5, bytes_max=35_000)) == 3
        assert len(tl.read_batches("orders", max_records=200)) == 20
        assert len(tl.read_batches("orders", max_records=201)) == 21
        assert len(tl.read_batches("orders")) == 40


def test_batches_are_columns_and_iterate_as_records(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [trunkline.Message(b"a", key="k"), b"b"])
        (batch,) = tl.read_batches("orders")
        assert (batch.first_offset, batch.end, len(batch)) == (1, 3, 2)
        assert (batch.keys, batch.payloads, batch.headers) == ([b"k", None], [b"a", b"b"], None)
        assert list(batch) == tl.read("orders")


SIZES = {
    "only singles": [1] * 150,
    "no singles": [3] * 60,
    "runs between others": [1] * 70 + [2] + [1] * 80 + [5, 1, 1, 1, 2] + [1] * 64 + [4] + [1] * 63,
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_many_small_batches_are_read_as_one_and_lose_nothing(db_url: str, sizes: list[int]) -> None:
    """Batches of one record and of several, with and without keys and headers: what is read in runs equals what the SQL
    function shows batch by batch."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for n, size in enumerate(sizes):
            key = str(n) if n % 3 == 0 and n > 20 else None
            headers: list[tuple[str, str | bytes]] = [("n", str(n)), ("n", b"\xff")] if n % 4 == 0 and n > 30 else []
            tl.publish_many("orders", [trunkline.Message(b"%d" % n, key=key, headers=headers)] + [b"x"] * (size - 1))
        for offset, count in ((1, 1000), (1, 17), (2, 30), (5, 100), (60, 100), (69, 65), (70, 200)):
            batches = tl.read_batches("orders", offset=offset, max_records=count)
            assert batches[0].first_offset <= offset < batches[0].end
            assert all(one.end == two.first_offset for one, two in pairwise(batches))
            records = [record for batch in batches for record in batch]
            assert records[offset - records[0].offset :][:count] == tl.read("orders", offset=offset, max_records=count)
        if set(sizes) == {1}:
            (run,) = tl.read_batches("orders")
            assert run.append_times is not None
            assert len(set(run.append_times)) == len(run) == len(sizes)
        assert len(tl.read_batches("orders", bytes_max=1)) == 1
        records = tl.read("orders", max_records=1000)
    with psycopg.connect(db_url) as connection:
        shown = connection.execute(
            "select r.offset, r.key, r.payload, coalesce(r.header_names, '{}'), coalesce(r.header_values, '{}'), "
            "r.append_time from trunkline.records('orders') r order by r.offset"
        ).fetchall()
    mine = [
        (r.offset, r.key, r.payload, [name for name, _ in r.headers], [value for _, value in r.headers], r.append_time)
        for r in records
    ]
    assert mine == shown


RUNS = {
    "plain": [(700, "", "")],
    "keyed": [(300, ", key => 'k'", "")],
    "keys begin later": [(270, "", ""), (300, ", key => 'k'", ""), (40, "", "")],
    "headers begin later": [(300, "", ""), (90, """, headers => '[["a", "1"], ["a", "2"]]'""", ""), (30, "", "")],
    "a large one between": [(300, "", ""), (1, "", " || repeat('y', 9000)::bytea"), (300, "", "")],
    "large ones and keys between": [
        (90, "", ""),
        (1, "", " || repeat('y', 9000)::bytea"),
        (300, ", key => 'k'", ""),
        (1, "", " || repeat('y', 9000)::bytea"),
        (64, "", ""),
    ],
}


@pytest.mark.parametrize("pieces", RUNS.values(), ids=RUNS)
def test_a_long_run_is_read_in_pieces_and_loses_nothing(db_url: str, pieces: list[tuple[int, str, str]]) -> None:
    """More batches of one record than a row of an answer holds; what comes first says nothing about the rest. Read by
    few bytes and by many, in runs and batch by batch, it is the same."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with psycopg.connect(db_url, autocommit=True) as connection:
            for count, further, more in pieces:
                connection.execute(
                    f"select trunkline.log_publish('orders', ('m-' || n)::bytea{more}{further}) "
                    f"from generate_series(1, {count}) n"
                )
            shown = connection.execute(
                "select r.offset, r.key, r.payload, coalesce(r.header_names, '{}'), coalesce(r.header_values, '{}'), "
                "r.append_time from trunkline.records('orders', max_records => 10000) r order by r.offset"
            ).fetchall()
            sizes = [
                connection.execute(
                    f"select sum(byte_count) from trunkline.log_read(1, 0, 1, 10000, 1 << 30, {merged})"
                ).fetchone()
                for merged in (True, False)
            ]
        assert sizes[0] == sizes[1], "bytes are counted as if each batch had come by itself"
        records = tl.read("orders", max_records=10_000)
        assert [
            (r.offset, r.key, r.payload, [n for n, _ in r.headers], [v for _, v in r.headers], r.append_time)
            for r in records
        ] == shown
        rows = tl.read_batches("orders", max_records=10_000)
        assert len(rows) < len(records) / 3, "runs come in few rows"
        assert all(one.end == two.first_offset for one, two in pairwise(rows))
        for bytes_max in (1, 5_000, 150_000, 1_000_000):
            found: list[trunkline.Record] = []
            while len(found) < len(records):
                found += tl.read("orders", offset=len(found) + 1, bytes_max=bytes_max, max_records=10_000)
                if bytes_max == 1:
                    break
            assert found == records[: len(found)]
        (some,) = tl.read_batches("orders", offset=100, max_records=64)
        assert (some.first_offset, some.end) == (100, 164)
        assert some.append_times == [record.append_time for record in records[99:163]] == list(some.append_times or [])
        assert [record.offset for record in some.cut(110, 120)] == list(range(110, 120))


@pytest.mark.parametrize("pieces", RUNS.values(), ids=RUNS)
def test_a_segment_reads_the_same_when_a_newer_one_follows(db_url: str, pieces: list[tuple[int, str, str]]) -> None:
    """The newest segment of a partition is read by plans that are kept, older ones by statements that leave nothing."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with psycopg.connect(db_url, autocommit=True) as connection:
            for count, further, more in pieces:
                connection.execute(
                    f"select trunkline.log_publish('orders', ('m-' || n)::bytea{more}{further}) "
                    f"from generate_series(1, {count}) n"
                )
            seen = []
            for is_newest in (True, False):
                if not is_newest:
                    connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
                    tl.publish("orders", b"in the next one")
                places = connection.execute(
                    "select p.next_first is null from trunkline.log_place(1, 0, 1) p"
                ).fetchall()
                assert places == [(is_newest,)]
                seen.append(
                    [
                        connection.execute(
                            "select r.* from trunkline.log_read(1, 0, %s, %s, %s, %s, false) r",
                            [start, count - start + 1, bytes_max, merged],
                        ).fetchall()
                        for merged in (True, False)
                        for bytes_max in (1, 20_000, 1 << 30)
                        for start, count in ((1, sum(n for n, _, _ in pieces)), (60, 140))
                    ]
                )
            assert seen[0] == seen[1]


def test_few_single_records_come_as_they_are(db_url: str) -> None:
    """Under 64 of them a run is not worth its while, and batches keep what belongs to each."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("select trunkline.log_publish('orders', 'x') from generate_series(1, 63)")
        batches = tl.read_batches("orders", max_records=1000)
        assert [batch.batch_id is None for batch in batches] == [False] * 63
        tl.publish("orders", b"x")
        (run,) = tl.read_batches("orders", max_records=1000)
        assert (len(run), run.batch_id) == (64, None)


def test_start_and_end_are_names_for_the_bounds_of_the_log(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        assert tl.read("orders", offset="start") == []
        tl.publish("orders", b"a", partition=1)
        assert tl.read("orders", partition=1, offset="end") == []
        assert len(tl.read("orders", partition=1, offset="start")) == 1
        ranges = [(valid.partition, valid.start, valid.end) for valid in tl.offsets("orders")]
        assert ranges == [(0, 1, 1), (1, 1, 2)]


@pytest.mark.parametrize("offset", [-1, 0, 5, 1000, 2**62])
def test_S0_16_a_read_outside_the_log_says_which_range_is_valid(db_url: str, offset: int) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"a", b"b", b"c"])
        assert tl.read("orders", offset=4) == []
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            tl.read("orders", offset=offset)
        assert (caught.value.start, caught.value.end, caught.value.code) == (1, 4, "TL005")


def test_S0_16_a_read_below_what_retention_dropped_is_an_error_and_never_fewer_rows(
    db_url: str,
) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
        tl.publish_many("orders", [b"a", b"b", b"c"])
        with psycopg.connect(db_url) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        steps = tl.retention_run()
        assert [step.action for step in steps] == ["seal", "release", "drop"]
        assert (steps[1].reason, steps[1].record_count) == ("bytes", 3)
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            tl.read("orders", offset=3)
        assert (caught.value.start, caught.value.end) == (4, 4)
        assert tl.read("orders") == []
        assert tl.publish("orders", b"d").offset == 4
        assert [record.payload for record in tl.read("orders")] == [b"d"]


def test_times_find_the_first_record_appended_then_or_later(db_url: str) -> None:
    """The clock is replaced, so that each batch has a time that is known: ten batches, a minute apart."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for n in range(10):
            set_clock(db_url, f"timestamptz '2026-01-01 00:00:00+00' + {n} * interval '1 minute'")
            tl.publish_many("orders", [b"x"] * 3)
            if n in (3, 6):
                with psycopg.connect(db_url) as connection:
                    connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        for n in range(10):
            at = begin + timedelta(minutes=n)
            assert tl.offset_at("orders", 0, at) == 3 * n + 1
            assert tl.offset_at("orders", 0, at - timedelta(microseconds=1)) == 3 * n + 1
            assert tl.offset_at("orders", 0, at + timedelta(microseconds=1)) == 3 * n + 4
        assert tl.offset_at("orders", 0, begin - timedelta(days=3650)) == 1
        assert tl.offset_at("orders", 0, begin + timedelta(days=3650)) == 31
        (record,) = tl.read("orders", since=begin + timedelta(minutes=9), max_records=1)
        assert record.offset == 28


def test_append_time_never_runs_backwards_even_when_the_clock_does(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for shift in ("0 hours", "-1 hour", "-2 hours", "1 minute", "-1 day"):
            set_clock(db_url, f"clock_timestamp() + interval '{shift}'")
            tl.publish("orders", b"x")
            with psycopg.connect(db_url) as connection:
                connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        times = [record.append_time for record in tl.read("orders")]
        assert times == sorted(times)


def test_the_sql_function_shows_a_topic_as_rows_and_joins(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        messages = [
            trunkline.Message(b"%d" % n, key=str(n), partition=n % 2, headers=[("n", str(n)), ("raw", b"\xff\x00")])
            for n in range(10)
        ]
        tl.publish_many("orders", messages)
    with psycopg.connect(db_url) as connection:
        rows = connection.execute(
            "select r.partition, r.offset, convert_from(r.payload, 'UTF8'), convert_from(r.key, 'UTF8'), r.headers "
            "from trunkline.records('orders') r order by r.partition, r.offset"
        ).fetchall()
        expected = [(n % 2, n // 2 + 1, str(n), str(n), [["n", str(n)], ["raw", "\\xff00"]]) for n in range(10)]
        assert rows == sorted(expected)
        joined = connection.execute(
            "select o.id from (values (3), (4)) o(id) "
            "join trunkline.records('orders', partition => 1) r on convert_from(r.payload, 'UTF8') = o.id::text"
        ).fetchall()
        assert joined == [(3,)]
        bounded = connection.execute("select r.offset from trunkline.records('orders', 0, 2, 3) r").fetchall()
        assert bounded == [(2,), (3,), (4,)]
        exact = connection.execute("select r.header_values from trunkline.records('orders', 0, 1, 1) r").fetchone()
        assert exact == ([b"0", b"\xff\x00"],)


def test_the_sql_function_says_so_where_it_shows_only_the_first_thousand(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"x"] * 1500)
    notices: list[str] = []
    with psycopg.connect(db_url) as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        assert connection.execute("select count(*) from trunkline.records('orders')").fetchone() == (1000,)
        assert connection.execute("select count(*) from trunkline.records('orders', 0, 1, 1500)").fetchone() == (1500,)
    assert len(notices) == 1
    assert "1500" in notices[0]


def test_reading_writes_nothing(db_url: str, still_server: None) -> None:
    """Goal: an idle reader costs no WAL and no transaction id. Method: both counters around reads, on a quiet topic,
    after a publish whose ring is not under way any more: there is none."""
    with trunkline.connect(db_url, settings=ClientSettings(ring=False)) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        with psycopg.connect(db_url, autocommit=True) as connection:
            counters = "select pg_current_xact_id_if_assigned() is null, txid_snapshot_xmax(txid_current_snapshot())"
            connection.execute("vacuum")
            tl.read("orders", offset=2)
            before = connection.execute(counters).fetchone()
            for _ in range(50):
                assert tl.read("orders", offset=2) == []
                assert len(tl.read("orders", offset=1)) == 1
            assert connection.execute(counters).fetchone() == before
