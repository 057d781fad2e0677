# Generated from tests/aio/test_queue_sharing.py by tools/twins.py (make fix). Change the source, not this file.
"""Many tasks, or several readers, on one queue; partitions and tables that change while it is read."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline
from tests.sync.queued import advance_clock, all_of, numbered, sql
from tests.sync.shim import Gate, at_once, wait_until
from trunkline import ClientSettings, Message, errors
from trunkline.client import protocol
from trunkline.client.sync.server import Server
from trunkline.testing.sync.shim import Running


def test_many_tasks_share_one_queue(db_url: str) -> None:
    """Method: eight at once receive and settle in different ways; every record is acknowledged once, in the end."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(300)])
        acked: list[bytes] = []
        with tl.queue("orders", "billing", prefetch=20) as queue:

            def work(number: int) -> int:
                count = 0
                while len(acked) < 300:
                    got = queue.receive(number + 1, wait_s=0.05)
                    if number == 3:
                        queue.nack([each for each in got if each.attempt == 1])
                        got = [each for each in got if each.attempt > 1]
                    if number % 2:
                        queue.ack(got)
                    else:
                        for each in got:
                            each.ack()
                    acked.extend(each.payload for each in got)
                    count += len(got)
                return count

            counts = at_once(*(lambda number=number: work(number) for number in range(8)))
        assert sum(counts) == len(acked) == 300
        assert sorted(map(int, acked)) == list(range(300))
        advance_clock(db_url, 100)
        assert tl.queue("orders", "billing").receive(10) == []


def test_calls_at_the_same_time_share_a_transaction(db_url: str) -> None:
    """Method: fifty records of one claim are acknowledged by fifty callers at once; the rows that say so are few."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(50))
        with tl.queue("orders", "billing", prefetch=0) as queue:
            got = all_of(queue, 50)
            at_once(*(each.ack for each in got))
            table = sql(db_url, "select table_no from trunkline.queue_part")
            rows = sql(db_url, f"select count(*) from trunkline.closure_{table}")
            assert isinstance(rows, int)
            assert rows < 40
            advance_clock(db_url, 100)
            assert queue.receive(10) == []


def test_while_one_holds_a_record_in_its_last_attempt_the_others_wait_until_it_is_settled(db_url: str) -> None:
    """Method: the wait would be over after a minute; it ends with the acknowledgement."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish_many("orders", numbered(2))
        with tl.queue("orders", "billing", max_attempts=1, dead_letter="orders.dead", ack_deadline_s=600) as queue:
            (first,) = queue.receive(2)
            gate = Gate()

            def wait() -> list[int]:
                assert queue.receive() == []
                gate.open()
                return [each.offset for each in queue.receive(wait_s=60)]

            def settle() -> list[int]:
                gate.wait()
                first.ack()
                return []

            assert at_once(wait, settle) == [[2], []]


def test_who_waits_for_a_last_attempt_goes_on_after_it_whatever_else_was_settled_meanwhile(db_url: str) -> None:
    """Method: looking again by itself would take an hour; the wait ends with the acknowledgement."""
    settings = ClientSettings(heartbeat_s=3600, session_timeout_s=7200)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish_many("orders", numbered(3))
        with tl.queue(
            "orders", "billing", max_attempts=2, dead_letter="orders.dead", ack_deadline_s=600, prefetch=0
        ) as queue:
            (first,) = queue.receive()
            (second,) = queue.receive()
            first.nack()
            (last,) = queue.receive()
            assert (last.offset, last.attempt) == (1, 2)
            waiting = Running(lambda: queue.receive(wait_s=3000))
            wait_until(lambda: any(seat.awaited for seat in queue._seats))
            second.ack()
            last.ack()
            assert [each.offset for each in waiting.result(30)] == [3]


def test_an_ordered_queue_gives_back_a_range_as_one(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(20))
        with (
            tl.queue("orders", "billing", ordered_by_key=True, prefetch=10) as queue,
            tl.queue("orders", "billing") as other,
        ):
            got = queue.receive(5)
            assert [each.offset for each in got] == [1, 2, 3, 4, 5]
            assert other.receive(5) == []
            queue.ack(got[:1])
            got[2].nack()
            for lost in (got[1], got[3]):
                with pytest.raises(errors.ClaimLost) as caught:
                    lost.ack()
                assert caught.value.offsets == [lost.offset]
            with pytest.raises(errors.InvalidArgument):
                got[0].ack()
            seen: list[int] = []
            while len(seen) < 19:
                (delivery,) = queue.receive(1, wait_s=30)
                seen.append(delivery.offset)
                delivery.ack()
            assert seen == list(range(2, 21))


def test_large_records_are_fetched_and_a_batch_is_fetched_once(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: one by one out of a batch of 200 KiB; reads are counted."""
    reads = 0
    read = Server.read

    def counted(self: Server, *arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return read(self, *arguments, **options)

    monkeypatch.setattr(Server, "read", counted)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        payloads = [b"%d" % number + b"x" * 2000 for number in range(100)]
        tl.publish_many("orders", payloads)
        with tl.queue("orders", "billing", prefetch=0) as queue:
            got = [queue.receive(1)[0] for _ in range(50)]
            assert [each.payload for each in got] == payloads[:50]
            queue.nack(got[10:20])
            rest = all_of(queue, 60)
            assert reads == 1
            assert sorted(each.payload for each in rest) == sorted([*payloads[10:20], *payloads[50:]])
            queue.ack([*got[:10], *got[20:], *rest])
        tl.publish("orders", b"y" * 900_000)
        with tl.queue("orders", "billing") as queue:
            (large,) = queue.receive(5)
            assert large.payload == b"y" * 900_000


def test_what_waited_in_memory_is_held_for_longer_before_it_is_handed_out(db_url: str) -> None:
    """Method: the reader's clock is moved on by moving the time back until which it thinks that it holds the claim."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(10))
        with tl.queue("orders", "billing", ack_deadline_s=3600, prefetch=10) as queue:
            (first,) = queue.receive(1)
            first.claim.expires_at -= 3000
            advance_clock(db_url, 3000)
            (second,) = queue.receive(1)
            advance_clock(db_url, 6000)
            queue.ack([first, second])
            first.claim.expires_at -= 3000
            advance_clock(db_url, 20_000)
            got = queue.receive(10)
            assert [(each.offset, each.attempt) for each in got] == [(number, 2) for number in range(3, 11)]


def test_partitions_that_are_added_are_read(db_url: str) -> None:
    settings = ClientSettings(heartbeat_s=0.05, session_timeout_s=60.0)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        with tl.queue("orders", "billing") as queue:
            assert queue.receive() == []
            tl.add_partitions("orders", 3)
            tl.publish("orders", b"x", partition=2)
            (delivery,) = queue.receive(wait_s=30)
            assert (delivery.partition, delivery.payload) == (2, b"x")


def test_partitions_that_were_found_meanwhile_are_not_forgotten_by_who_looks_at_settings(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: one who rejects a record looks for dead letters, and is held up until another has found a partition."""
    gate = Gate()
    repeat = Server.repeat
    held: list[str] = []

    def late(server: Server, statement: str, *further: Any, **options: Any) -> Any:
        answer = repeat(server, statement, *further, **options)
        if statement in held:
            held.clear()
            gate.wait()
        return answer

    monkeypatch.setattr(Server, "repeat", late)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"0")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            held.append(protocol.QUEUE_ENTER)
            rejecting = Running(lambda: delivery.reject("no order"))
            wait_until(lambda: gate.count == 1)
            tl.add_partitions("orders", 2)
            queue._look_due = 0.0
            assert queue.receive() == []
            gate.open()
            rejecting.result(30)
            assert queue._opened is not None
            assert queue._opened.topic.partitions == queue._opened.calls.topic.partitions == 2


def test_partitions_that_are_added_are_read_though_the_dead_letter_topic_is_gone(db_url: str) -> None:
    """Only who buries needs it: the others must not stop."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish("orders", b"0")
        with tl.queue("orders", "billing", dead_letter="orders.dead"):
            pass
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            tl.delete_topic("orders.dead")
            tl.add_partitions("orders", 2)
            tl.publish("orders", b"1", partition=1)
            queue._look_due = 0.0
            (added,) = queue.receive()
            assert (added.partition, added.payload) == (1, b"1")
            with pytest.raises(errors.NotFound, match="create it"):
                delivery.reject("no order")
            queue.ack([delivery, added])


def test_partitions_that_are_added_are_read_though_the_queue_was_altered_since(db_url: str) -> None:
    """What a reader asked for when it opened the queue is not asked for again: somebody has changed it since."""
    settings = ClientSettings(heartbeat_s=0.05, session_timeout_s=0.6)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        with tl.queue("orders", "billing", ack_deadline_s=30) as queue:
            assert queue.receive() == []
            sql(db_url, """select trunkline.queue_alter('orders', 'billing', '{"ack_deadline_s": 60}')""")
            tl.add_partitions("orders", 3)
            tl.publish("orders", b"x", partition=2)
            (delivery,) = queue.receive(wait_s=30)
            assert (delivery.partition, delivery.payload) == (2, b"x")
            assert queue.settings["ack_deadline_s"] == 60


def test_tables_that_are_full_are_left_for_new_ones(db_url: str) -> None:
    """Method: the limit is lowered to almost nothing; claims go on until the old tables are gone."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        with tl.queue("orders", "billing", ack_deadline_s=3600, prefetch=0) as queue:
            assert queue.receive() == []
            old = sql(db_url, "select min(table_no) from trunkline.queue_part")
            tl.publish("orders", b"held")
            (held,) = queue.receive()
            sql(db_url, "update trunkline.queue set table_bytes = 65536")
            while sql(db_url, f"select to_regclass('trunkline.claim_{old}')"):
                tl.publish_many("orders", numbered(20))
                for _ in range(20):
                    queue.ack(queue.receive())
            held.ack()
            queue.ack(queue.receive(1000))
        advance_clock(db_url, 10_000)
        assert tl.queue("orders", "billing").receive(10) == []
