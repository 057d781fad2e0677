# Generated from tests/aio/test_whole_transactions.py by tools/twins.py (make fix). Change the source, not this file.
"""Consumers that get transactions whole: a poll goes on to the end of the transaction it has come to, up to a limit,
and what is committed ends there too."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import trunkline
from trunkline import Batch, Client, Consumer, ConsumerSettings, Message, Record, TopicSettings, errors

SMALL_BATCHES = TopicSettings(batch_records_max=7)
"""So that a transaction of more records has several batches."""


def connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.Connection.connect(url)


def publish(tl: Client, conn: psycopg.Connection[Any], name: str, *counts: int, key: str | None = None) -> int:
    """One transaction of counts[n] records in partition n, published one by one in turn; its id."""
    transaction_id = 0
    for n in range(max(counts)):
        for partition, count in enumerate(counts):
            if n < count:
                payload = f"{name}{n}".encode()
                at = tl.publish("orders", payload, key=key, partition=partition, conn=conn)
                transaction_id = at.transaction_id
    conn.commit()
    return transaction_id


def names(records: list[Record]) -> str:
    """``a`` for each record of transaction a."""
    return "".join(record.payload[:1].decode() for record in records)


def cursors(tl: Client, group: str = "billing") -> list[int]:
    described = tl.describe_group(group)
    return [each.cursor for each in sorted(described.partitions, key=lambda each: each.partition)]


def polled(consumer: Consumer, max_records: int) -> str:
    return names(consumer.poll(max_records, wait_s=10))


def test_S4_11_a_transaction_of_120_comes_whole_though_100_were_asked_for_and_the_next_one_apart(
    db_url: str,
) -> None:
    """All are of one user. Their effects are there in one transaction of the consumer's."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        conn.execute("create table effect (name text, at xid8 default pg_current_xact_id())")
        for name, count in (("a", 120), ("b", 30)):
            publish(tl, conn, name, count, key="ann")
        with tl.consumer(
            "orders", group="billing", create=True, delivery="exactly_once", whole_transactions=True
        ) as consumer:
            for name, count in (("a", 120), ("b", 30)):
                with consumer.transaction(max_records=100, wait_s=10) as tx:
                    assert names(tx.records) == name * count
                    for record in tx.records:
                        tx.conn.execute("insert into effect values (%s)", [record.payload[:1].decode()])
        found = conn.execute("select name, count(distinct at::text), count(*) from effect group by 1 order by 1")
        assert found.fetchall() == [("a", 1, 120), ("b", 1, 30)]


def test_S4_12_a_limit_at_the_end_of_a_transaction_extends_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        for name, count in (("a", 10), ("b", 20), ("c", 5), ("d", 1)):
            publish(tl, conn, name, count)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            assert polled(consumer, 30) == "a" * 10 + "b" * 20
            assert polled(consumer, 4) == "ccccc"
            assert polled(consumer, 1) == "d"


def test_S4_12_what_a_transaction_published_to_other_partitions_does_not_split_it(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=3, settings=SMALL_BATCHES)
        sizes = {"a": (20, 15, 0), "b": (9, 0, 30), "c": (8, 8, 8)}
        for name, counts in sizes.items():
            publish(tl, conn, name, *counts)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            seen: list[Record] = []
            while len(seen) < sum(map(sum, sizes.values())):
                records = consumer.poll(5, wait_s=10)
                for partition in {record.partition for record in records}:
                    here = names([record for record in records if record.partition == partition])
                    assert {name: here.count(name) for name in here} == {name: sizes[name][partition] for name in here}
                seen += records
            for partition in range(3):
                here = names([record for record in seen if record.partition == partition])
                assert here == "".join(name * counts[partition] for name, counts in sizes.items())


def test_S4_13_the_cursor_moves_with_the_effects_to_the_end_of_what_was_extended(db_url: str) -> None:
    """The block fails, then its session dies before the commit: each time the whole transaction comes again, and
    nothing of it has stayed."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        conn.execute("create table effect (name text)")
        publish(tl, conn, "a", 25)
        publish(tl, conn, "b", 3)

        def effects() -> int:
            ((count,),) = conn.execute("select count(*) from effect").fetchall()
            return int(count)

        with tl.consumer(
            "orders", group="billing", create=True, delivery="exactly_once", whole_transactions=True
        ) as consumer:

            def handle(fault: str | None) -> None:
                with consumer.transaction(max_records=10, wait_s=10) as tx:
                    assert names(tx.records) == "a" * 25
                    for record in tx.records:
                        tx.conn.execute("insert into effect values (%s)", [record.payload.decode()])
                    if fault == "raises":
                        raise KeyError
                    if fault == "dies":
                        # Asked for: a pooler would tell another number.
                        pid = tx.conn.execute("select pg_backend_pid()").fetchone()
                        conn.execute("select pg_terminate_backend(%s)", pid)

            for fault, error in (("raises", KeyError), ("dies", errors.TrunklineError)):
                with pytest.raises(error):
                    handle(fault)
                assert (effects(), cursors(tl)) == (0, [1])
            handle(None)
            assert (effects(), cursors(tl)) == (25, [26])
            with consumer.transaction(max_records=10, wait_s=10) as tx:
                assert names(tx.records) == "bbb"
        assert cursors(tl) == [29]


@pytest.mark.parametrize(
    "most", [ConsumerSettings(transaction_records_max=29), ConsumerSettings(transaction_bytes_max=250)]
)
def test_S4_11_a_transaction_over_the_limit_is_refused_and_nothing_is_lost_or_skipped(
    db_url: str, most: ConsumerSettings
) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        publish(tl, conn, "a", 5)
        large = publish(tl, conn, "b", 30)
        publish(tl, conn, "c", 5)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True, settings=most) as consumer:
            assert polled(consumer, 100) == "aaaaa"
            consumer.commit()
            for again in (consumer.poll, consumer.poll_batches, consumer.__next__):
                iter(consumer)
                with pytest.raises(errors.TransactionTooLarge, match=f"transaction {large} .* offset 6 ") as refused:
                    again()
                error = refused.value
                where = (error.topic, error.partition, error.offset, error.transaction_id)
                assert where == ("orders", 0, 6, large)
                assert [at.offset for at in consumer.position()] == [6]
            consumer.seek("orders", 0, 36)
            assert polled(consumer, 100) == "ccccc"
            consumer.seek("orders", 0, 6)
        assert cursors(tl) == [6]
        with tl.consumer("orders", group="billing") as consumer:
            assert polled(consumer, 10) == "b" * 10
        with tl.consumer("orders", group="billing", whole_transactions=True) as consumer:
            assert polled(consumer, 10) == "b" * 30


def test_a_transaction_over_the_limit_does_not_hold_up_other_partitions(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=2)
        publish(tl, conn, "a", 3, 1)
        publish(tl, conn, "b", 0, 2)
        most = ConsumerSettings(transaction_records_max=2)
        seen = ""
        refused: set[int] = set()
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True, settings=most) as consumer:
            while not (seen == "abb" and refused):
                try:
                    seen += polled(consumer, 1)
                except errors.TransactionTooLarge as error:
                    refused.add(error.partition)
            assert refused == {0}
            consumer.pause("orders", 0)
            publish(tl, conn, "c", 0, 1)
            assert polled(consumer, 1) == "c"


def test_a_transaction_in_two_segments_stays_whole(db_url: str) -> None:
    """What was published so far goes to the log at once, the topic rolls, the rest goes to the new segment."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        topic = tl.create_topic("orders")
        publish(tl, conn, "a", 1)
        tl.publish_many("orders", [b"b1", b"b2"], conn=conn)
        conn.execute("set constraints all immediate")
        with connected(db_url) as other:
            other.execute("select trunkline.segment_roll(%s, true)", [topic.open_segment_id])
        tl.publish_many("orders", [b"b3", b"b4"], conn=conn)
        conn.commit()
        publish(tl, conn, "c", 1)
        assert len(tl.describe_topic("orders").segments) == 2
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            assert [polled(consumer, 1) for _ in range(3)] == ["a", "bbbb", "c"]


def test_a_transaction_larger_than_what_is_read_at_a_time_is_read_on_to_its_end(db_url: str) -> None:
    """Its batches are left out of a read for their size, and the last read ends with it at the log's end."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=TopicSettings(batch_records_max=3))
        tl.publish("orders", b"a")
        payloads = [b"b" * (n * 100 % 1_700 + 1) for n in range(2_000)]
        for n in range(0, len(payloads), 3):
            tl.publish_many("orders", payloads[n : n + 3], conn=conn)
        conn.commit()
        settings = ConsumerSettings(fetch_bytes_max=2_000)
        with tl.consumer(
            "orders", group="billing", create=True, whole_transactions=True, settings=settings
        ) as consumer:
            assert names(consumer.poll(1, bytes_max=100, wait_s=10)) == "a"
            assert names(consumer.poll(1, bytes_max=100, wait_s=10)) == "b" * 2_000


def test_from_inside_a_transaction_the_rest_of_it_comes_and_says_which_part_it_is(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        transaction_id = publish(tl, conn, "a", 20)
        publish(tl, conn, "b", 20)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            consumer.seek("orders", 0, 12)
            batches = consumer.poll_batches(1, wait_s=10)
        assert [payload for batch in batches for payload in batch.payloads] == [b"a%d" % n for n in range(11, 20)]
        shown = [(batch.transaction_id, batch.transaction_ordinal, batch.transaction_count) for batch in batches]
        assert shown == [(transaction_id, 11, 14), (transaction_id, 14, 20)]


def test_publishes_of_one_record_are_transactions_of_their_own_and_are_not_merged(db_url: str) -> None:
    """Read otherwise, they come as a run that does not know its transactions."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        for n in range(200):
            tl.publish("orders", b"%d" % n)

        def batches(group: str, *, whole: bool) -> list[Batch]:
            with tl.consumer("orders", group=group, create=True, whole_transactions=whole) as consumer:
                return consumer.poll_batches(150, wait_s=10)

        found = batches("whole", whole=True)
        assert [(len(batch), batch.transaction_ordinal, batch.transaction_count) for batch in found] == [
            (1, 0, 1)
        ] * 150
        assert len({batch.transaction_id for batch in found}) == 150
        assert {batch.transaction_id for batch in batches("merged", whole=False)} == {None}


def test_a_transaction_of_many_batches_of_one_record_stays_whole(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders")
        conn.execute("set constraints all immediate")
        transaction_id = publish(tl, conn, "a", 100)
        publish(tl, conn, "b", 1)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            batches = consumer.poll_batches(1, wait_s=10)
            assert [(len(batch), batch.transaction_id) for batch in batches] == [(1, transaction_id)] * 100
            assert polled(consumer, 1) == "b"


def test_the_records_of_a_transaction_of_the_consumers_come_by_transaction(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=2, settings=SMALL_BATCHES)
        for name, counts in (("a", (9, 2)), ("b", (1, 0)), ("c", (3, 8))):
            publish(tl, conn, name, *counts)
        with tl.consumer(
            "orders", group="billing", create=True, delivery="exactly_once", whole_transactions=True
        ) as consumer:
            found: list[list[Record]] = []
            while sum(map(len, found)) < 23:
                with consumer.transaction(wait_s=10) as tx:
                    transactions = tx.transactions()
                    assert [record for records in transactions for record in records] == tx.records
                    found += transactions
            assert sorted(map(names, found)) == ["aa", "a" * 9, "b", "ccc", "c" * 8]
        other = tl.consumer("orders", group="other", create=True, delivery="exactly_once")
        with other, other.transaction(wait_s=10) as tx:
            with pytest.raises(errors.InvalidArgument, match="whole_transactions"):
                tx.transactions()


def test_a_loop_that_is_left_inside_a_transaction_commits_up_to_its_beginning(db_url: str) -> None:
    """Whether it says that the record is done, or commits: the next one begins with the transaction."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", settings=SMALL_BATCHES)
        for name, count in (("a", 10), ("b", 20), ("c", 1)):
            publish(tl, conn, name, count)
        settings = ConsumerSettings(commit_interval_s=1e-6)
        for commits in (False, True):
            seen = ""
            with tl.consumer(
                "orders", group="billing", create=True, whole_transactions=True, settings=settings
            ) as consumer:
                for record in consumer:
                    seen += names([record])
                    if seen.endswith("b" * 12):
                        record.done()
                        if commits:
                            consumer.commit()
                        break
            assert seen == ("b" * 12 if commits else "a" * 10 + "b" * 12)
            assert cursors(tl) == [11]
        with tl.consumer("orders", group="billing", whole_transactions=True) as consumer:
            for record in consumer:
                if names([record]) == "c":
                    consumer.commit()
                    break
                assert names([record]) == "b"
        assert cursors(tl) == [32]


def test_a_loop_hands_a_transaction_out_to_its_end_before_it_sees_to_its_group(db_url: str) -> None:
    """Somebody joins, and takes a partition, while the loop is inside a transaction: it comes once, and in one go."""
    with trunkline.connect(db_url) as tl, connected(db_url) as conn:
        tl.create_topic("orders", partitions=2, settings=SMALL_BATCHES)
        publish(tl, conn, "a", 20, 20)
        options: dict[str, Any] = {"group": "billing", "whole_transactions": True}
        with tl.consumer("orders", create=True, **options) as consumer:
            seen: list[Record] = []
            for record in consumer:
                seen.append(record)
                if len(seen) == 5:
                    other = tl.consumer("orders", **options)
                    assert other.poll() == []
                    consumer._seat.nudge()  # type: ignore[union-attr]
                if len(seen) == 20:
                    break
            assert [(record.partition, record.offset) for record in seen] == [
                (seen[0].partition, n) for n in range(1, 21)
            ]
            other.close()


def test_what_makes_no_sense_is_refused(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with pytest.raises(errors.InvalidArgument, match="at_most_once"):
            tl.consumer("orders", group="g", delivery="at_most_once", whole_transactions=True)
        for odd in (None, 1, "yes"):
            with pytest.raises(errors.InvalidArgument, match="whole_transactions must be True or False"):
                tl.consumer("orders", group="g", whole_transactions=odd)  # type: ignore[arg-type]
        for name in ("transaction_records_max", "transaction_bytes_max"):
            for value in (0, -1, 1.5, True, None, float("nan"), "10"):
                with pytest.raises(errors.InvalidArgument, match=name):
                    ConsumerSettings(**{name: value})  # type: ignore[arg-type]


def test_a_whole_call_of_publish_many_is_a_transaction(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"a"] * 40)
        tl.publish_many("orders", [Message(b"b")] * 40)
        with tl.consumer("orders", group="billing", create=True, whole_transactions=True) as consumer:
            assert [polled(consumer, 1) for _ in range(2)] == ["a" * 40, "b" * 40]
