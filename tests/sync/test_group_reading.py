# Generated from tests/aio/test_group_reading.py by tools/twins.py (make fix). Change the source, not this file.
"""How a consumer reads: iterating, pausing, seeking, its three deliveries, what it costs and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

import trunkline
from tests.sync.grouped import all_of, numbered
from tests.sync.shim import at_once, wait_until
from trunkline import ClientSettings, ConsumerSettings, Message, Position, TopicSettings, errors
from trunkline.testing.sync.shim import Running


def test_iterating_counts_a_record_as_handled_when_the_next_is_asked_for(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        seen: list[int] = []
        with pytest.raises(RuntimeError, match="at 4"):  # noqa: PT012 - the block is what raises
            with tl.consumer("orders", group="billing", create=True) as consumer:
                for record in consumer:
                    seen.append(record.offset)
                    if record.offset == 4:
                        raise RuntimeError("at 4")
        assert [each.cursor for each in tl.describe_group("billing").partitions] == [4]
        with tl.consumer("orders", group="billing") as consumer:
            for record in consumer:
                seen.append(record.offset)
                if record.offset == 6:
                    break
        assert [each.cursor for each in tl.describe_group("billing").partitions] == [6]
        with tl.consumer("orders", group="billing") as consumer:
            for record in consumer:
                seen.append(record.offset)
                if record.offset == 8:
                    record.done()
                    break
        assert seen == [1, 2, 3, 4, 4, 5, 6, 6, 7, 8]
        assert [each.cursor for each in tl.describe_group("billing").partitions] == [9]


def test_several_topics_are_read_and_one_of_them_can_be_paused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        for topic in ("orders", "refunds"):
            tl.create_topic(topic, partitions=2)
            tl.publish_many(topic, numbered(6), partition=1)
        with tl.consumer(["orders", "refunds"], group="billing", create=True) as consumer:
            consumer.pause("orders")
            assert {record.topic for record in consumer.poll()} == {"refunds"}
            assert consumer.poll() == []
            consumer.resume("orders", 1)
            assert {record.topic for record in consumer.poll()} == {"orders"}


@pytest.mark.direct("nothing rings there, and polls would be an hour apart")
@pytest.mark.parametrize("is_published_before", [True, False])
def test_what_is_resumed_comes_to_a_poll_that_is_under_way(db_url: str, *, is_published_before: bool) -> None:
    """Method: the poll would wait for an hour, and so would the next look of who polls by itself."""
    with trunkline.connect(db_url, settings=ClientSettings(poll_max_s=3600)) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish("orders", b"0", partition=1)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            all_of(consumer, 1)
            watch = consumer._rooms.watch
            # Whoever begins to listen, to two partitions, their topic and a group, looks once more.
            wait_until(lambda: len(watch._listening) == 4)
            assert consumer.poll() == []
            consumer.pause("orders", 1)
            if is_published_before:
                tl.publish("orders", b"1", partition=1)
            polling = Running(lambda: consumer.poll(wait_s=3600))
            wait_until(lambda: consumer._seat is not None and bool(consumer._seat.awaited))
            consumer.resume("orders", 1)
            if not is_published_before:
                tl.publish("orders", b"1", partition=1)
            assert [record.payload for record in polling.result(30)] == [b"1"]


def test_seeking_moves_the_cursor_back_and_forth(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        with tl.consumer("orders", group="billing", create=True) as consumer:
            consumer.poll()
            consumer.commit()
            for to, first in (("start", 1), (4, 4), (datetime(2000, 1, 1, tzinfo=UTC), 1)):
                consumer.seek("orders", 0, to)  # type: ignore[arg-type]
                assert consumer.poll(max_records=1)[0].offset == first
            consumer.seek("orders", 0, "end")
            assert consumer.poll() == []
            assert [each.cursor for each in consumer.lag()] == [11]
            with pytest.raises(errors.InvalidArgument, match="offset must be 1 to 11"):
                consumer.seek("orders", 0, 12)
            with pytest.raises(errors.NotFound):
                consumer.seek("orders", 1, 1)


def test_S0_16_retention_that_passed_a_group_is_an_error_or_its_reset_policy(db_url: str) -> None:
    settings = TopicSettings(retention_bytes=0)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=settings)
        tl.publish_many("orders", numbered(5))
        for group in ("strict", "first", "last", "shared"):
            tl.create_group(group, "orders")
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        tl.retention_run()
        tl.publish_many("orders", numbered(5, first=5))
        with tl.consumer("orders", group="strict") as consumer:
            for _ in range(2):
                with pytest.raises(errors.OffsetOutOfRange) as caught:
                    consumer.poll()
                assert (caught.value.start, caught.value.end) == (6, 11)
            consumer.seek("orders", 0, "start")
            assert consumer.poll()[0].offset == 6
        with tl.consumer("orders", group="first", settings=ConsumerSettings(on_out_of_range="earliest")) as consumer:
            assert [record.offset for record in all_of(consumer, 5)] == [6, 7, 8, 9, 10]
        with tl.consumer("orders", group="last", settings=ConsumerSettings(on_out_of_range="latest")) as consumer:
            assert consumer.poll() == []
            tl.publish("orders", b"11")
            assert [record.offset for record in all_of(consumer, 1)] == [11]
        with pytest.raises(errors.OffsetOutOfRange):
            tl.consumer("orders", group="shared", delivery="at_most_once").poll()


def test_S3_09_readers_that_share_a_cursor_get_each_record_once(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(200)])
        consumers = [tl.consumer("orders", group="billing", create=True, delivery="at_most_once") for _ in range(4)]

        def reading(consumer: trunkline.Consumer):  # type: ignore[no-untyped-def]
            def read() -> list[trunkline.Record]:
                records: list[trunkline.Record] = []
                while got := consumer.poll(max_records=7):
                    records += got
                return records

            return read

        got = at_once(*map(reading, consumers))
        seen = [(record.partition, record.offset) for records in got for record in records]
        assert len(seen) == len(set(seen)) == 200
        for consumer in consumers:
            consumer.close()


def test_S0_11_what_was_claimed_for_at_most_once_is_not_delivered_again(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        first = tl.consumer("orders", group="billing", create=True, delivery="at_most_once")
        assert len(first.poll(max_records=4)) == 4
    with (
        trunkline.connect(db_url) as tl,
        tl.consumer("orders", group="billing", delivery="at_most_once") as consumer,
    ):
        assert [record.offset for record in consumer.poll()] == [5, 6, 7, 8, 9, 10]


def test_a_handler_gets_from_its_connection_what_psycopg_makes_of_it(db_url: str) -> None:
    """Times of records are read in a way of our own; times of the application's tables are not: any may be null."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with (
            tl.consumer("orders", group="billing", create=True, delivery="exactly_once") as consumer,
            consumer.transaction() as tx,
            tx.conn.cursor(binary=True) as cursor,
        ):
            cursor.execute("select array[null, timestamptz '2026-01-01 12:00Z']")
            ((times,),) = cursor.fetchall()
            assert isinstance(times, list)
            assert times == [None, datetime(2026, 1, 1, 12, tzinfo=UTC)]


def test_effects_and_cursor_commit_together_or_not_at_all(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("create table effect (number integer)")
        with trunkline.connect(db_url) as tl:
            tl.create_topic("orders")
            tl.publish_many("orders", numbered(10))
            with tl.consumer("orders", group="billing", create=True, delivery="exactly_once") as consumer:
                with pytest.raises(RuntimeError):  # noqa: PT012 - the block is what raises
                    with consumer.transaction() as tx:
                        tx.conn.execute("insert into effect values (0)")
                        raise RuntimeError
                with consumer.transaction(max_records=6) as tx:
                    assert [record.offset for record in tx.records] == [1, 2, 3, 4, 5, 6]
                    for record in tx.records:
                        tx.conn.execute("insert into effect values (%s)", [int(record.payload)])
                with pytest.raises(errors.Fenced):  # noqa: PT012 - the block's end raises
                    with consumer.transaction() as tx:
                        assert [record.offset for record in tx.records] == [7, 8, 9, 10]
                        tx.conn.execute("insert into effect values (99)")
                        tl.seek_group("billing", "orders", 7, execute=True)
                rest: list[trunkline.Record] = []
                while not rest:
                    with consumer.transaction(wait_s=5) as tx:
                        rest = tx.records
                        for record in rest:
                            tx.conn.execute("insert into effect values (%s)", [int(record.payload)])
            assert connection.execute("select array_agg(number order by number) from effect").fetchone() == (
                list(range(10)),
            )
            assert tl.describe_group("billing").lag == 0


def test_two_tasks_on_one_consumer_are_an_error_and_closing_ends_a_poll(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        consumer = tl.consumer("orders", group="billing", create=True)
        consumer.poll()
        outcomes: list[str] = []

        def waiting() -> None:
            try:
                consumer.poll(wait_s=60)
            except errors.Closed:
                outcomes.append("closed")

        def second() -> None:
            wait_until(lambda: consumer._in_use)
            with pytest.raises(errors.InUse):
                consumer.poll()
            with pytest.raises(errors.InUse):
                consumer.commit()
            consumer.close()

        at_once(waiting, second)
        assert outcomes == ["closed"]
        other = tl.consumer("orders", group="billing")
        looping = iter(other)

        def foreign() -> None:
            with pytest.raises(errors.InUse, match="two tasks iterate"):
                next(looping)

        def idle() -> None:
            return None

        at_once(foreign, idle)
        other.close()
        with pytest.raises(errors.Closed):
            consumer.poll()
        consumer.close()


def test_what_cannot_be_is_refused_before_anything_is_written(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for topics in ("", [], None, 7, b"orders", ["orders", "../x"]):
            with pytest.raises(errors.InvalidArgument):
                tl.consumer(topics, group="billing")  # type: ignore[arg-type]
        for group in ("", None, "a b", "-x", "x" * 201, 5):
            with pytest.raises(errors.InvalidArgument, match="not a group name"):
                tl.consumer("orders", group=group)  # type: ignore[arg-type]
        for wrong in ({"start": "first"}, {"start": 0}, {"start": True}, {"start": datetime(2000, 1, 1)}):
            with pytest.raises(errors.InvalidArgument):
                tl.consumer("orders", group="billing", **wrong)
        with pytest.raises(errors.InvalidArgument, match="delivery must be"):
            tl.consumer("orders", group="billing", delivery="twice")  # type: ignore[arg-type]
        consumer = tl.consumer("orders", group="billing", create=True)
        for poll in (
            {"max_records": 0},
            {"max_records": 1.5},
            {"bytes_max": 0},
            {"wait_s": -1},
            {"wait_s": float("inf")},
        ):
            with pytest.raises(errors.InvalidArgument):
                consumer.poll(**poll)
        assert tl.groups() == []
        shared = tl.consumer("orders", group="shared", create=True, delivery="at_most_once")
        with pytest.raises(errors.InvalidArgument, match="nothing to commit"):
            shared.commit()
        once = tl.consumer("orders", group="once", create=True, delivery="exactly_once")
        with pytest.raises(errors.InvalidArgument, match="use transaction"):
            once.poll()
        with pytest.raises(errors.InvalidArgument, match="exactly_once"):
            with consumer.transaction():
                pass


def test_what_one_partition_cannot_give_does_not_cost_what_another_gave(db_url: str) -> None:
    """Goal: a poll that fails in one partition skips nothing of the others. Method: one partition is out of range."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3, settings=TopicSettings(retention_bytes=0))
        tl.publish_many("orders", numbered(5), partition=1)
        tl.create_group("billing", "orders")
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        tl.retention_run()
        for partition in (0, 2):
            tl.publish_many("orders", numbered(5), partition=partition)
        with tl.consumer("orders", group="billing") as consumer:
            seen: list[tuple[int, int]] = []
            refused = 0
            while len(seen) < 10:
                try:
                    seen += [(record.partition, record.offset) for record in consumer.poll()]
                except errors.OffsetOutOfRange:
                    refused += 1
                    assert refused < 100, "the others never come"
            assert sorted(seen) == [(partition, offset) for partition in (0, 2) for offset in range(1, 6)]
            with pytest.raises(errors.OffsetOutOfRange):
                consumer.poll()


def test_offsets_of_every_width_are_committed_and_awaited(db_url: str) -> None:
    """Goal: a statement prepared with small numbers takes large ones. Method: offsets around 2^15, one client."""
    with trunkline.connect(db_url, settings=ClientSettings(connections_max=1)) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b""] * 33_000)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            done = 1
            while done <= 33_000:
                batches = consumer.poll_batches(5_000)
                done = batches[-1].end
                consumer.commit()
                assert consumer.poll_batches(1) or done == 33_001
                consumer.commit([Position("orders", 0, consumer.position()[0].offset)])
                done = consumer.position()[0].offset
            assert consumer.poll() == []
            assert tl.describe_group("billing").lag == 0
