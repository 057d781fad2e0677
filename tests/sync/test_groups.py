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
from tests.sync.grouped import all_of, numbered
from tests.sync.shim import wait_until
from trunkline import ClientSettings, Message, Position, TopicSettings, errors
from trunkline.server import Server

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=60.0)


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
