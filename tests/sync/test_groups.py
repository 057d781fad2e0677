# Generated from tests/aio/test_groups.py by tools/twins.py (make fix). Change the source, not this file.
"""Groups: every record to every group, partitions shared by its members, cursors that last."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import trunkline
from tests.sync.shim import at_once, wait_until
from trunkline import ClientSettings, ConsumerSettings, Message, Position, TopicSettings, errors
from trunkline.server import Server
from trunkline.testing.sync.shim import Running

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def all_of(consumer: trunkline.Consumer, count: int) -> list[trunkline.Record]:
    """Poll until so many records have come; the wait only guards against hanging."""
    records: list[trunkline.Record] = []
    while len(records) < count:
        got = consumer.poll(wait_s=30)
        assert got, f"only {len(records)} of {count} records came"
        records += got
    return records


def test_S0_07_each_of_five_groups_gets_every_record_in_offset_order(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(100)])
        for group in range(5):
            with tl.consumer("orders", group=f"group-{group}", create=True) as consumer:
                records = all_of(consumer, 100)
                assert consumer.poll() == []
                consumer.commit()
            assert sorted(int(record.payload) for record in records) == list(range(100))
            for partition in range(3):
                offsets = [record.offset for record in records if record.partition == partition]
                assert offsets == list(range(1, len(offsets) + 1))


def test_S0_12_a_group_that_does_not_exist_is_not_found_and_its_creation_is_asked_for(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with pytest.raises(errors.NotFound, match="trunkline group create biling"):
            tl.consumer("orders", group="biling").poll()
        assert tl.groups() == []
        with tl.consumer("orders", group="billing", create=True):
            assert [group.name for group in tl.groups()] == ["billing"]
        with pytest.raises(errors.NotFound, match="topic ordes does not exist"):
            tl.consumer("ordes", group="billing").poll()


def test_S0_12_a_new_group_starts_exactly_where_it_is_told(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(5))
        written = tl.read("orders", offset=5)[0].append_time
        tl.publish_many("orders", numbered(5, first=5))
        after = tl.read("orders", offset=6)[0].append_time
        assert after > written
        expected = {"earliest": 1, "latest": 11, 7: 7, 11: 11, after: 6, datetime(2000, 1, 1, tzinfo=UTC): 1}
        for number, (start, offset) in enumerate(expected.items()):
            with tl.consumer("orders", group=f"group-{number}", create=True, start=start) as consumer:  # type: ignore[arg-type]
                assert consumer.position() == [Position("orders", 0, offset)]
                assert [record.offset for record in consumer.poll()] == list(range(offset, 11))


def test_S0_12_a_start_outside_the_log_creates_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with pytest.raises(errors.OffsetOutOfRange) as caught:
            tl.consumer("orders", group="billing", create=True, start=2).poll()
        assert (caught.value.start, caught.value.end) == (1, 1)
        assert tl.groups() == []


def test_S0_13_after_everybody_has_gone_reading_goes_on_at_the_stored_cursor(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(20)])
        with tl.consumer("orders", group="billing", create=True) as consumer:
            first = consumer.poll(max_records=7)
            consumer.commit()
            consumer.poll(max_records=5)
    with trunkline.connect(db_url) as tl, tl.consumer("orders", group="billing") as consumer:
        rest = all_of(consumer, 13)
        seen = [(record.partition, record.offset) for record in [*first, *rest]]
        assert len(seen) == len(set(seen)) == 20
        assert consumer.poll() == []


@pytest.mark.direct("there every heartbeat is a row")
def test_S0_09_a_poll_returns_what_exists_and_an_empty_one_writes_nothing(
    db_url: str, direct_url: str, still_server: None
) -> None:
    """Method: the next transaction id before and after many empty polls; the ring that tells of the member has come."""
    settings = ClientSettings(ring=False)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", numbered(3), partition=1)
        tl.create_group("billing", "orders")
        with psycopg.connect(direct_url, autocommit=True) as connection:
            connection.execute("listen trunkline_g1")
            with tl.consumer("orders", group="billing") as consumer:
                assert len(consumer.poll(max_records=100)) == 3
                consumer.commit()
                wait_until(lambda: bool(list(connection.notifies(timeout=0))))
                counters = (
                    "select txid_snapshot_xmax(txid_current_snapshot()), (select count(*) from trunkline.group_ledger)"
                )
                connection.execute("vacuum")
                consumer.poll()
                before = connection.execute(counters).fetchone()
                for _ in range(20):
                    assert consumer.poll(wait_s=0.01) == []
                    assert consumer.poll() == []
                assert connection.execute(counters).fetchone() == before


def test_S0_15_partitions_are_shared_and_more_members_than_partitions_idle(db_url: str) -> None:
    with trunkline.connect(db_url, settings=QUICK) as tl:
        tl.create_topic("orders", partitions=2)
        consumers = [tl.consumer("orders", group="billing", create=True) for _ in range(3)]

        def settled() -> list[list[tuple[str, int]]]:
            for consumer in consumers:
                consumer.poll(wait_s=0.02)
            return [consumer.assignment for consumer in consumers]

        held = settled()
        while sorted(map(len, held)) != [0, 1, 1]:
            held = settled()
        assert sorted(place for each in held for place in each) == [("orders", 0), ("orders", 1)]
        tl.publish_many("orders", numbered(10), partition=0)
        tl.publish_many("orders", numbered(10), partition=1)
        got = [record for consumer in consumers for record in consumer.poll()]
        assert len(got) == 20
        for consumer in consumers:
            consumer.close()


CURSORS = """
    select p.partition, l.seq, l.next_offset
    from trunkline.group_cursor c join trunkline.topic_partition p using (partition_id) cross join lateral (
        select x.seq, x.next_offset from trunkline.group_ledger x
        where x.cursor_id = c.cursor_id order by x.seq desc limit 1) l
    order by 1
"""


def test_S4_02_of_eight_partitions_only_the_one_that_was_read_moves(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=8)
        for partition in range(8):
            tl.publish_many("orders", numbered(2), partition=partition)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            with psycopg.connect(db_url, autocommit=True) as connection:
                (first,) = consumer.poll(max_records=1, wait_s=30)
                consumer.commit()
                before = connection.execute(CURSORS).fetchall()
                (second,) = consumer.poll(max_records=1, wait_s=30)
                consumer.commit()
                after = connection.execute(CURSORS).fetchall()
        assert (second.partition, second.offset) != (first.partition, first.offset)
        moved = [new for old, new in zip(before, after, strict=True) if new != old]
        ((_, seq, _),) = [old for old in before if old[0] == second.partition]
        assert moved == [(second.partition, seq + 1, second.offset + 1)]


def test_a_member_that_joins_takes_only_what_it_must_and_a_close_hands_over_at_once(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as other:
        tl.create_topic("orders", partitions=4)
        with tl.consumer("orders", group="billing", create=True) as first:
            assert len(first.assignment) == 4
            second = other.consumer("orders", group="billing")
            second.poll()
            assert second.assignment == []
            while len(second.assignment) < 2:
                first.poll(wait_s=0.02)
                second.poll(wait_s=0.02)
            assert sorted([*first.assignment, *second.assignment]) == [("orders", number) for number in range(4)]
            kept = set(first.assignment)
            second.close()
            while len(first.assignment) < 4:
                first.poll(wait_s=0.02)
            assert kept <= set(first.assignment)
            epochs = {each.partition: each.epoch for each in tl.describe_group("billing").partitions}
            assert all(epochs[partition] == 1 for _, partition in kept), "what was kept was never given up"


def test_a_commit_of_a_lost_partition_is_fenced_and_nothing_is_written(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(10)])
        with tl.consumer("orders", group="billing", create=True) as consumer:
            assert len(consumer.poll()) == 10
            tl.seek_group("billing", "orders", "start", partition=0, execute=True)
            with pytest.raises(errors.Fenced) as caught:
                consumer.commit()
            assert caught.value.partitions == [("orders", 0)]
            assert [each.cursor for each in tl.describe_group("billing").partitions] == [1, 1]
            again: list[trunkline.Record] = []
            while ("orders", 0) not in consumer.assignment or not again:
                again += consumer.poll(wait_s=5)
            assert {record.partition for record in again} == {0}
            consumer.commit()
            assert tl.describe_group("billing").lag == 0


def test_positions_can_be_committed_one_by_one_but_never_back_or_beyond(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        with tl.consumer("orders", group="billing", create=True) as consumer:
            consumer.poll()
            consumer.commit([Position("orders", 0, 5)])
            assert [each.cursor for each in consumer.lag()] == [5]
            for offset in (4, 12):
                with pytest.raises(errors.InvalidArgument, match="cannot be committed"):
                    consumer.commit([Position("orders", 0, offset)])
            with pytest.raises(errors.Fenced):
                consumer.commit([Position("orders", 7, 1)])
            consumer.commit([Position("orders", 0, 11)])
            assert [each.lag for each in consumer.lag()] == [0]


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


def test_partitions_that_are_added_are_read_from_their_start(db_url: str) -> None:
    with trunkline.connect(db_url, settings=QUICK) as tl:
        tl.create_topic("orders")
        owned = tl.consumer("orders", group="owned", create=True, start="latest")
        shared = tl.consumer("orders", group="shared", create=True, start="latest", delivery="at_most_once")
        assert owned.poll() == shared.poll() == []
        tl.add_partitions("orders", 3)
        tl.publish_many("orders", numbered(5), partition=2)
        assert len(all_of(owned, 5)) == len(all_of(shared, 5)) == 5
        owned.close()
        shared.close()


def test_retention_by_consumption_waits_for_every_group_up_to_the_cap(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        with pytest.raises(errors.InvalidArgument, match="retention_consumed needs"):
            tl.create_topic("orders", settings=TopicSettings(retention_consumed=True))
        settings = TopicSettings(retention_consumed=True, retention_bytes=1_000_000)
        tl.create_topic("orders", partitions=2, settings=settings)

        def roll_and_run() -> list[str]:
            with psycopg.connect(db_url, autocommit=True) as connection:
                connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
            return [step.reason for step in tl.retention_run() if step.action == "release"]

        tl.publish_many("orders", numbered(5), partition=0)
        assert roll_and_run() == [], "nobody has read it"
        for group in ("fast", "slow"):
            tl.create_group(group, "orders")
        with tl.consumer("orders", group="fast") as fast:
            fast.poll()
            fast.commit()
        assert "consumed" not in roll_and_run(), "slow has not"
        with tl.consumer("orders", group="slow") as slow:
            slow.poll()
            slow.commit()
        assert "consumed" in roll_and_run()
        assert [(each.start, each.end) for each in tl.offsets("orders")] == [(6, 6), (1, 1)]
        tl.publish_many("orders", [os.urandom(50_000) for _ in range(40)], partition=0)
        assert "bytes" in roll_and_run(), "a forgotten group keeps nothing beyond the cap"


def test_S4_08_a_topic_can_ring_in_the_commit_and_a_rollback_wakes_nobody(db_url: str, direct_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(notify_in_commit=True))
        with psycopg.connect(direct_url, autocommit=True) as listener, psycopg.connect(db_url) as publisher:
            topic_id = tl.topic("orders").topic_id
            listener.execute(f"listen trunkline_t{topic_id}; listen trunkline_t{topic_id}_0".encode())
            publisher.execute("select trunkline.log_publish('orders', 'a')")
            publisher.rollback()
            publisher.execute("select trunkline.log_publish('orders', 'b')")
            publisher.execute("select trunkline.log_publish('orders', 'c')")
            publisher.commit()
            heard = [(each.channel, each.payload) for each in listener.notifies(timeout=10, stop_after=2)]
            # Who reads all of the topic hears which partition it was, who holds that one hears of it alone.
            assert heard == [(f"trunkline_t{topic_id}", "0"), (f"trunkline_t{topic_id}_0", "")]
            assert list(listener.notifies(timeout=0)) == []


def test_a_reader_hears_a_ring_and_a_call_of_topic_ring(db_url: str) -> None:
    settings = ClientSettings(poll_max_s=3600, ring=False)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders", partitions=2)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            consumer.poll(wait_s=0.05)
            with psycopg.connect(db_url, autocommit=True) as connection:
                connection.execute("select trunkline.log_publish('orders', 'a')")
                connection.execute("select trunkline.topic_ring('orders')")
            assert len(consumer.poll(wait_s=60)) == 1
            with psycopg.connect(db_url, autocommit=True) as connection:
                ((partition,),) = connection.execute("select at_partition from trunkline.log_publish('orders', 'b')")
                connection.execute("select trunkline.topic_ring('orders', %s)", [partition])
            assert len(consumer.poll(wait_s=60)) == 1
            with trunkline.connect(db_url) as publisher:
                publisher.publish("orders", b"b")
                assert len(consumer.poll(wait_s=60)) == 1


def test_S0_14_without_any_ring_polling_finds_everything(db_url: str) -> None:
    settings = ClientSettings(doorbell=False, ring=False, poll_max_s=0.2)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders", partitions=2)
        with tl.consumer("orders", group="billing", create=True) as consumer:
            consumer.poll()
            for number in range(5):
                tl.publish("orders", b"%d" % number)
                assert [record.payload for record in consumer.poll(wait_s=60)] == [b"%d" % number]


def test_the_ledger_is_swept_and_a_day_of_who_held_what_stays(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with tl.consumer("orders", group="billing", create=True) as consumer:
            for _ in range(150):
                tl.publish("orders", b"x")
                all_of(consumer, 1)
                consumer.commit()
            with psycopg.connect(db_url, autocommit=True) as connection:
                swept = connection.execute("select trunkline.group_sweep()").fetchone()
                left = connection.execute("select kind, count(*) from trunkline.group_ledger group by kind").fetchall()
                assert swept == (149,)
                assert dict(left) == {"b": 1, "t": 1, "c": 1}
                assert connection.execute("select trunkline.group_sweep()").fetchone() == (0,)
            tl.publish("orders", b"y")
            assert [record.offset for record in all_of(consumer, 1)] == [151]


def test_a_group_is_deleted_only_when_nobody_reads_with_it_or_by_force(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"x")
        with tl.consumer("orders", group="billing", create=True) as consumer:
            consumer.poll()
            with pytest.raises(errors.GroupActive, match="1 living"):
                tl.delete_group("billing")
            tl.delete_group("billing", cut_off=True)
            with pytest.raises(errors.Fenced):
                consumer.commit()
            with pytest.raises(errors.NotFound, match="deleted"):  # noqa: PT012 - once the watch has looked
                while True:
                    consumer.poll(wait_s=0.1)
        assert tl.groups() == []


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


@pytest.mark.direct("the session that rings is looked for by its name")
def test_a_client_whose_rings_cannot_be_sent_publishes_and_closes(db_url: str, server: Server) -> None:
    """Goal: rings are hints. Method: the session that rings is ended before each publish, and at last no session may
    begin; the client closes all the same."""
    name = str(conninfo_to_dict(db_url)["dbname"])
    end_it = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name = %s"
    allow = sql.SQL("alter database {} allow_connections {}")
    with psycopg.connect(server.url, autocommit=True) as connection:
        with trunkline.connect(db_url) as tl:
            tl.create_topic("orders")
            for number in range(5):
                assert tl.publish("orders", b"x").offset == number + 1
                connection.execute(end_it, [name, "trunkline ringer"])
            connection.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
            connection.execute(end_it, [name, "trunkline ringer"])
            assert tl.publish("orders", b"x").offset == 6
        connection.execute(allow.format(sql.Identifier(name), sql.SQL("true")))
