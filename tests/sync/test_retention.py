# Generated from tests/aio/test_retention.py by tools/twins.py (make fix). Change the source, not this file.
"""Segments and retention: rolled, sealed, released, dropped; never a row deleted, never a silent short read."""

from __future__ import annotations

import psycopg
import pytest

import trunkline
from tests.sync.shim import wait_until
from trunkline import TopicSettings, errors


def sql(db_url: str, statement: str) -> object:
    with psycopg.connect(db_url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def advance_clock(db_url: str, interval: str) -> None:
    sql(
        db_url,
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
        f"$$ select clock_timestamp() + interval '{interval}' $$",
    )


def test_without_limits_nothing_is_ever_dropped(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        advance_clock(db_url, "100 years")
        steps = tl.retention_run()
        assert [step.action for step in steps] == ["roll", "seal"]
        assert len(tl.read("orders")) == 1


def test_by_age_whole_segments_go_once_their_newest_record_is_too_old(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2, settings=TopicSettings(retention_age_s=3600))
        tl.publish("orders", b"first", partition=0)
        advance_clock(db_url, "10 minutes")
        assert [step.action for step in tl.retention_run()] == ["roll", "seal"]
        tl.publish("orders", b"second", partition=0)
        advance_clock(db_url, "59 minutes")
        assert "release" not in [step.action for step in tl.retention_run()]
        advance_clock(db_url, "61 minutes")
        steps = tl.retention_run()
        released = [(step.reason, step.record_count) for step in steps if step.action == "release"]
        assert released == [("age", 1)]
        assert [record.payload for record in tl.read("orders", partition=0)] == [b"second"]
        advance_clock(db_url, "1 day")
        tl.retention_run()
        tl.retention_run()
        assert tl.read("orders", partition=0) == []
        assert [(valid.start, valid.end) for valid in tl.offsets("orders")] == [(3, 3), (1, 1)]
        assert tl.publish("orders", b"third", partition=0).offset == 3


def test_by_bytes_the_oldest_go_until_the_rest_fits(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        settings = TopicSettings(segment_bytes=65536, retention_bytes=400_000)
        tl.create_topic("orders", settings=settings)
        for n in range(20):
            tl.publish_many("orders", [bytes([n]) + bytes(range(256)) * 40 for _ in range(260)])
        before = tl.describe_topic("orders").segments
        steps = tl.retention_run()
        assert {step.reason for step in steps if step.action == "release"} == {"bytes"}
        after = tl.describe_topic("orders").segments
        assert sum(segment.byte_count or 0 for segment in after) <= 400_000
        kept = [segment.segment_id for segment in after]
        assert kept[0] > before[0].segment_id
        assert set(kept) >= {segment.segment_id for segment in before if segment.segment_id >= kept[0]}
        (valid,) = tl.offsets("orders")
        assert valid.end == 20 * 260 + 1
        assert tl.read("orders", max_records=1)[0].offset == valid.start > 1


def test_a_reader_holds_a_table_up_but_not_the_log_start(db_url: str) -> None:
    """The drop waits a second for the reader, then is left for the next run; nobody reads fewer rows meanwhile."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
        tl.publish("orders", b"a")
        sql(db_url, "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        with psycopg.connect(db_url) as reader:
            held = reader.execute("select payload from trunkline.records('orders')").fetchall()
            assert held == [(b"a",)]
            steps = tl.retention_run()
            assert [step.action for step in steps] == ["seal", "release", "skip"]
            with pytest.raises(errors.OffsetOutOfRange):
                tl.read("orders", offset=1)
            assert tl.publish("orders", b"b").offset == 2
        assert [step.action for step in tl.retention_run()] == ["drop"]
        assert [record.payload for record in tl.read("orders")] == [b"b"]


def test_one_topic_can_be_asked_for(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        for name in ("one", "two"):
            tl.create_topic(name, settings=TopicSettings(retention_bytes=0))
            tl.publish(name, b"x")
        sql(db_url, "select count(trunkline.segment_roll(open_segment_id, true)) from trunkline.topic")
        tl.retention_run("one")
        assert [tl.offsets(name)[0].start for name in ("one", "two")] == [2, 1]


def test_a_process_can_host_the_loop(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
        tl.publish("orders", b"x")
        hosted = tl.retention_host(interval_s=0.05)
        sql(db_url, "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        wait_until(lambda: sql(db_url, "select count(*) from trunkline.segment") == 1)
        hosted.close()
        assert [(valid.start, valid.end) for valid in tl.offsets("orders")] == [(2, 2)]


def test_nothing_is_deleted_row_by_row(db_url: str) -> None:
    """Method: the statistics of every segment table after publishing, rolling and dropping show inserts alone."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3, settings=TopicSettings(retention_bytes=300_000))
        for _ in range(5):
            tl.publish_many("orders", [trunkline.Message(b"x", key=str(n)) for n in range(300)])
            sql(db_url, "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
            tl.retention_run()
        tl.close()
        written = sql(
            db_url,
            "select coalesce(sum(n_tup_upd + n_tup_del), 0) from pg_stat_user_tables "
            "where relname ~ '^segment_[0-9]+$'",
        )
        assert written == 0


def test_producers_are_forgotten_a_day_after_their_last_publish(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        advance_clock(db_url, "23 hours")
        tl.retention_run()
        assert sql(db_url, "select count(*) from trunkline.producer") == 1
        advance_clock(db_url, "25 hours")
        tl.retention_run()
        assert sql(db_url, "select count(*) from trunkline.producer") == 0
        assert tl.publish("orders", b"b").offset == 2
        assert sql(db_url, "select epoch from trunkline.producer") == 1


def test_the_number_of_segments_is_limited(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        sql(db_url, "insert into trunkline.segment (topic_id, opened_at) select 0, now() from generate_series(1, 1999)")
        with pytest.raises(errors.TooLarge, match="2,000 segments"):
            tl.create_topic("one-more")
        assert [topic.name for topic in tl.topics()] == ["orders"]
