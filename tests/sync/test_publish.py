# Generated from tests/aio/test_publish.py by tools/twins.py (make fix). Change the source, not this file.
"""Publishing through the client: positions, order, sharing of batches, each caller's own error."""

from __future__ import annotations

import psycopg
import pytest

import trunkline
from tests.sync.shim import at_once, wait_until
from trunkline import ClientSettings, Message, TopicSettings, errors
from trunkline.client.sync.server import Server


def test_S0_01_offsets_of_two_batches_follow_each_other(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        first = tl.publish_many("orders", [b"a", b"b", b"c"])
        second = tl.publish_many("orders", [Message(b"d"), b"e"])
        assert [at.offset for at in first + second] == [1, 2, 3, 4, 5]
        assert [record.payload for record in tl.read("orders")] == [b"a", b"b", b"c", b"d", b"e"]


def test_a_record_comes_back_as_it_was_published(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3)
        pairs = [("source", b"web"), ("source", b"\x00\xff"), ("größe", b"drei")]
        at = tl.publish("orders", b"\x00\xffpayload", key="42", headers=pairs)
        (record,) = tl.read("orders", partition=at.partition, offset=at.offset)
        assert (record.topic, record.partition, record.offset) == ("orders", at.partition, 1)
        assert (record.key, record.payload, record.headers) == (b"42", b"\x00\xffpayload", tuple(pairs))
        assert record.append_time.utcoffset() is not None


def test_headers_may_be_a_mapping_and_belong_to_their_own_record(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with_headers = Message(b"a", headers={"n": "1", "m": b"2"})
        tl.publish_many("orders", [with_headers, b"b", Message(b"c", headers=[("n", "3")])])
        headers = [record.headers for record in tl.read("orders")]
        assert headers == [(("n", b"1"), ("m", b"2")), (), (("n", b"3"),)]


def test_positions_stand_in_the_order_of_messages_over_several_partitions(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=5)
        messages = [Message(b"%d" % n, key=str(n % 7), headers={"n": str(n)}) for n in range(50)]
        positions = tl.publish_many("orders", messages)
        for message, at in zip(messages, positions, strict=True):
            (record,) = tl.read("orders", partition=at.partition, offset=at.offset, max_records=1)
            assert (record.payload, record.headers) == (message.body, (("n", message.body),))


def test_records_of_one_key_stay_in_one_partition_in_order(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=8)
        positions = [tl.publish("orders", b"%d" % n, key="customer") for n in range(10)]
        assert len({at.partition for at in positions}) == 1
        assert [at.offset for at in positions] == list(range(1, 11))


def test_records_without_a_key_spread_over_the_partitions(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=4)
        positions = [tl.publish("orders", b"x") for _ in range(8)]
        assert {at.partition for at in positions} == {0, 1, 2, 3}


def test_callers_at_the_same_time_share_batches(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"warm")
        positions = at_once(*((lambda n=n: tl.publish("orders", b"%d" % n)) for n in range(200)))
        assert sorted(at.offset for at in positions) == list(range(2, 202))
        batches = tl.read_batches("orders", max_records=1000)
        assert sum(len(batch) for batch in batches) == 201
        with psycopg.connect(db_url) as connection:
            stored = connection.execute("select count(*) from trunkline.segment_1").fetchone()
        assert stored is not None
        assert stored[0] < 100
        by_offset = {record.offset: record.payload for batch in batches for record in batch}
        assert all(by_offset[at.offset] == b"%d" % n for n, at in enumerate(positions))


def test_a_callers_error_is_its_own(db_url: str) -> None:
    """Records that the server refuses (limits lowered behind the client's back) fail alone, not their neighbours."""
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as admin:
        tl.create_topic("orders")
        tl.publish("orders", b"warm")
        admin.alter_topic("orders", record_bytes_max=10)

        def publish(size: int) -> int | str:
            try:
                return tl.publish("orders", b"x" * size).offset
            except errors.TooLarge as error:
                return error.code

        outcomes = at_once(*((lambda n=n: publish(5 if n % 3 else 50)) for n in range(60)))
        assert [outcome for n, outcome in enumerate(outcomes) if n % 3 == 0] == ["TL004"] * 20
        offsets = sorted(outcome for outcome in outcomes if isinstance(outcome, int))
        assert offsets == list(range(2, 42))
        assert {len(record.payload) for record in tl.read("orders", offset=2)} == {5}


def test_what_is_over_a_batch_is_split_in_order(db_url: str) -> None:
    settings = ClientSettings(batch_records_max=100, batch_bytes_max=20_000, record_alone_bytes=5_000)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        payloads = [b"x" * (6_000 if n % 50 == 25 else n % 300) for n in range(1_000)]
        positions = tl.publish_many("orders", payloads)
        assert [at.offset for at in positions] == list(range(1, 1_001))
        batches = tl.read_batches("orders", max_records=1_000)
        assert [payload for batch in batches for payload in batch.payloads] == payloads
        assert max(len(batch) for batch in batches) <= 100
        assert all(len(batch) == 1 for batch in batches if max(map(len, batch.payloads)) > 5_000)


def test_an_iterable_that_raises_midway_writes_nothing(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")

        def broken() -> object:
            yield b"a"
            raise KeyError("midway")

        with pytest.raises(KeyError, match="midway"):
            tl.publish_many("orders", broken())  # type: ignore[call-overload]
        with pytest.raises(errors.InvalidArgument):
            tl.publish_many("orders", [b"a", "text"])  # type: ignore[list-item]
        assert tl.publish_many("orders", []) == []
        assert tl.offsets("orders")[0].end == 1
        assert tl.publish("orders", b"fine").offset == 1


def test_the_batch_row_carries_batch_transaction_and_producer(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [Message(b"a", partition=0), Message(b"b", partition=1), Message(b"c", partition=1)])
        (one,) = tl.read_batches("orders", partition=0)
        (two,) = tl.read_batches("orders", partition=1)
        assert one.transaction_id == two.transaction_id
        assert (one.transaction_ordinal, one.transaction_count) == (0, 1)
        assert (two.transaction_ordinal, two.transaction_count) == (0, 2)
        assert one.batch_id != two.batch_id
    with psycopg.connect(db_url) as connection:
        rows = connection.execute(
            "select b.producer_sequence, r.epoch, r.producer_id from trunkline.segment_1 b "
            "join trunkline.producer r using (producer_no) order by b.partition"
        ).fetchall()
        assert [row[:2] for row in rows] == [(1, 0), (1, 0)]
        assert rows[0][2] == rows[1][2]


def test_a_client_that_is_not_idempotent_leaves_no_producer_behind(db_url: str) -> None:
    with trunkline.connect(db_url, settings=ClientSettings(idempotent=False)) as tl:
        tl.create_topic("orders")
        assert tl.publish("orders", b"a").offset == 1
    with psycopg.connect(db_url) as connection:
        assert connection.execute("select count(*) from trunkline.producer").fetchone() == (0,)


def test_publishing_goes_on_over_rolls_and_keeps_its_sequences(db_url: str) -> None:
    """A client whose idea of the open segment is old is only slower; one whose segment was dropped looks it up."""
    settings = TopicSettings(retention_bytes=0)
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as admin:
        tl.create_topic("orders", partitions=2, settings=settings)
        for n in range(20):
            at = tl.publish("orders", b"%d" % n, partition=n % 2)
            assert at.offset == n // 2 + 1
            if n % 3 == 0:
                with psycopg.connect(db_url) as connection:
                    connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
                if n % 2 == 0:
                    admin.retention_run()
        ranges = tl.offsets("orders")
        assert [valid.end for valid in ranges] == [11, 11]


def test_a_segment_that_is_full_is_rolled_by_the_client(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(segment_bytes=65536))
        for _ in range(12):
            tl.publish_many("orders", [bytes(range(256)) * 4] * 300)
        described = tl.describe_topic("orders")
        states = [segment.state for segment in described.segments]
        assert len(states) > 2
        assert states[-1] == "open"
        assert set(states[:-1]) == {"sealed"}
        total = 0
        while batches := tl.read_batches("orders", offset=total + 1, max_records=1_000):
            total = batches[-1].end - 1
        assert total == 3_600


def test_a_topic_made_again_is_found_by_a_publish_that_was_tried_before(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: what an attempt failed with that would have passed counts for nothing once the topic is another. Method:
    somebody holds the partition until the publish has been tried again several times, and then makes the topic anew."""
    attempts: list[int] = []
    pause = Server.pause

    def noted(server: Server, attempt: int, deadline: float, error: errors.TrunklineError) -> None:
        attempts.append(attempt)
        pause(server, attempt, deadline, error)

    monkeypatch.setattr(Server, "pause", noted)
    with trunkline.connect(db_url, settings=ClientSettings(lock_timeout_s=0.05)) as tl:
        tl.create_topic("orders", partitions=1)
        tl.publish("orders", b"known")
        with psycopg.connect(db_url) as holder:
            holder.execute("select trunkline.log_publish('orders', 'held')")

            def make_again() -> None:
                wait_until(lambda: len(attempts) >= 3)
                holder.execute("select trunkline.topic_delete('orders')")
                holder.execute("select trunkline.topic_create('orders')")
                holder.commit()

            def publish() -> None:
                assert tl.publish("orders", b"x").offset == 1

            at_once(make_again, publish)
