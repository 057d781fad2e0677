# Generated from tests/aio/test_queues.py by tools/twins.py (make fix). Change the source, not this file.
"""Queues: each record acknowledged by itself, delivered again where it was not."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline
from tests.sync.queued import advance_clock, all_of, numbered, sql
from tests.sync.shim import Gate, at_once
from trunkline import ClientSettings, Message, TopicSettings, errors


def test_S2_15_what_was_not_acknowledged_is_delivered_again_after_its_deadline(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(3))
        with (
            tl.queue("orders", "billing", ack_deadline_s=30, prefetch=0) as dies,
            tl.queue("orders", "billing", prefetch=0) as other,
        ):
            first = dies.receive(10)
            assert [(each.offset, each.attempt) for each in first] == [(1, 1), (2, 1), (3, 1)]
            advance_clock(db_url, 15)
            assert other.receive(10) == []
            advance_clock(db_url, 31)
            again = other.receive(10)
            assert [(each.offset, each.attempt, each.payload) for each in again] == [
                (1, 2, b"0"), (2, 2, b"1"), (3, 2, b"2"),
            ]  # fmt: skip
            with pytest.raises(errors.ClaimLost, match="partition 0") as caught:
                dies.ack(first)
            assert caught.value.offsets == [1, 2, 3]
            assert caught.value.places == [(0, 1), (0, 2), (0, 3)]
            other.ack(again)
            with pytest.raises(errors.ClaimLost):
                first[0].extend(10)


def test_S2_16_what_was_acknowledged_is_not_delivered_again(db_url: str) -> None:
    """Method: everything is acknowledged, in lists and one by one; then twice the deadline passes, and more."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=3)
        tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(50)])
        with tl.queue("orders", "billing", ack_deadline_s=30) as queue:
            got = all_of(queue, 50)
            assert sorted(int(each.payload) for each in got) == list(range(50))
            queue.ack(got[:25])
            for each in got[25:]:
                each.ack()
        for seconds in (61, 3600):
            advance_clock(db_url, seconds)
            with tl.queue("orders", "billing") as queue:
                assert queue.receive(100) == []


def test_some_of_a_claim_are_acknowledged_and_the_rest_comes_again(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [Message(payload, key="k", headers={"h": payload}) for payload in numbered(10)])
        with tl.queue("orders", "billing", prefetch=0) as queue:
            got = queue.receive(10)
            queue.ack([got[1], got[9], got[4]])
            queue.ack([got[0]])
            at_once(*(each.ack for each in got[2:4]))
            advance_clock(db_url, 31)
            again = queue.receive(10)
            assert [(each.offset, each.attempt) for each in again] == [(6, 2), (7, 2), (8, 2), (9, 2)]
            assert [(each.payload, each.key, each.headers) for each in again] == [
                (b"%d" % number, b"k", (("h", b"%d" % number),)) for number in range(5, 9)
            ]
            assert [each.append_time for each in again] == [got[0].append_time] * 4


def test_a_record_that_is_given_back_comes_again_after_its_delay(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(3))
        with tl.queue("orders", "billing", prefetch=0) as queue:
            first, second, third = queue.receive(3)
            first.nack()
            (again,) = queue.receive(3)
            assert (again.offset, again.attempt) == (1, 2)
            second.nack(delay_s=20)
            queue.nack([third, again], delay_s=300)
            assert queue.receive(3) == []
            advance_clock(db_url, 21)
            assert [(each.offset, each.attempt) for each in queue.receive(3)] == [(2, 2)]
            advance_clock(db_url, 301)
            assert sorted((each.offset, each.attempt) for each in queue.receive(3)) == [(1, 3), (2, 3), (3, 2)]


def test_what_is_extended_is_held_for_longer_and_never_for_less(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(3))
        with tl.queue("orders", "billing", ack_deadline_s=30, prefetch=0) as queue:
            got = queue.receive(3)
            got[0].extend(100)
            queue.extend(got, 1)
            advance_clock(db_url, 60)
            assert queue.receive(3) == []
            queue.ack(got[:2])
            advance_clock(db_url, 101)
            assert [each.offset for each in queue.receive(3)] == [3]
            with pytest.raises(errors.ClaimLost):
                got[2].extend(100)


def test_two_queues_on_one_topic_are_independent(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("other")
        tl.publish_many("orders", numbered(5))
        tl.publish("other", b"other")
        with (
            tl.queue("orders", "billing") as billing,
            tl.queue("orders", "shipping") as shipping,
            tl.queue("orders", "late", start="latest") as late,
            tl.queue("other", "billing") as other,
        ):
            billing.ack(all_of(billing, 5))
            assert [each.payload for each in all_of(shipping, 5)] == numbered(5)
            assert late.receive(5) == []
            assert [each.payload for each in other.receive(5)] == [b"other"]
            tl.publish("orders", b"new")
            assert [each.payload for each in late.receive(5)] == [b"new"]


def test_a_queue_is_opened_by_its_first_call_and_keeps_its_settings(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        queue = tl.queue("orders", "billing", ack_deadline_s=7)
        with pytest.raises(errors.NotFound, match="topic orders does not exist"):
            queue.receive()
        tl.create_topic("orders")
        with pytest.raises(errors.NotFound, match="queue billing"):
            tl.queue("orders", "billing", create=False).receive()
        assert sql(db_url, "select count(*) from trunkline.queue") == 0
        assert queue.receive() == []
        assert sql(db_url, "select ack_deadline_s from trunkline.queue") == 7
        assert tl.queue("orders", "billing", create=False).receive() == []
        with pytest.raises(errors.InvalidArgument, match="queue alter"):
            tl.queue("orders", "billing", ack_deadline_s=8).receive()
        tl.publish("orders", b"x")
        (delivery,) = queue.receive()
        assert repr(delivery) == "Delivery(topic='orders', partition=0, offset=1, key=None, attempt=1)"
        assert repr(queue) == "<trunkline queue billing of orders>"


def test_delayed_publish_is_for_queues_alone(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(retention_age_s=3600))
        tl.publish("orders", b"0")
        tl.publish("orders", b"1", deliver_after_s=60, headers={"trunkline-deliver-after": "5", "own": "x"})
        tl.publish_many("orders", [Message(b"2", deliver_after_s=30), b"3", Message(b"4", deliver_after_s=1800)])
        assert [record.payload for record in tl.read("orders")] == numbered(5)
        assert tl.read("orders", offset=2)[0].headers == (("own", b"x"), ("trunkline-deliver-after", b"60"))
        with tl.queue("orders", "billing") as queue:
            assert [each.payload for each in all_of(queue, 2)] == [b"0", b"3"]
            assert queue.receive(5) == []
            for seconds, expected in ((31, b"2"), (61, b"1"), (1801, b"4")):
                advance_clock(db_url, seconds)
                (found,) = [each for each in queue.receive(5) if each.attempt == 1]
                assert (found.payload, found.attempt) == (expected, 1)
                found.ack()
        with pytest.raises(errors.InvalidArgument, match="retention_age_s = 3600"):
            tl.publish("orders", b"x", deliver_after_s=3601)
        for wrong in (-1, float("inf"), float("nan"), "5", True, 10**9):
            with pytest.raises(errors.InvalidArgument):
                tl.publish("orders", b"x", deliver_after_s=wrong)  # type: ignore[arg-type]
            with pytest.raises(errors.InvalidArgument):
                tl.publish_many("orders", [b"fine", Message(b"x", deliver_after_s=wrong)])  # type: ignore[arg-type]
        assert len(tl.read("orders")) == 5


def test_a_wait_ends_when_something_is_published_given_back_or_due(db_url: str) -> None:
    """Method: each wait is for 30 s, and would return nothing at its end."""
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as publisher:
        tl.create_topic("orders", partitions=2)
        with (
            tl.queue("orders", "billing", prefetch=0) as queue,
            tl.queue("orders", "forgetting", ack_deadline_s=1, prefetch=0) as forgetting,
        ):
            gate = Gate()

            def wait() -> list[trunkline.Delivery]:
                gate.open()
                return queue.receive(5, wait_s=30)

            def publish() -> list[trunkline.Delivery]:
                gate.wait()
                publisher.publish("orders", b"x", partition=1)
                return []

            ((delivery,), _) = at_once(wait, publish)
            delivery.nack(delay_s=0.2)
            (again,) = queue.receive(5, wait_s=30)
            assert again.attempt == 2
            for attempt in (1, 2):
                (expiring,) = forgetting.receive(5, wait_s=30)
                assert expiring.attempt >= attempt
            publisher.publish("orders", b"y", deliver_after_s=0.2)
            again.ack()
            (delayed,) = queue.receive(5, wait_s=30)
            assert (delayed.payload, delayed.attempt) == (b"y", 1)
            delayed.ack()
            assert queue.receive(5, wait_s=0.01) == []


def test_without_rings_a_wait_finds_what_was_published(db_url: str) -> None:
    settings = ClientSettings(ring=False, doorbell=False, poll_max_s=0.1)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        with tl.queue("orders", "billing") as queue:

            def publish() -> list[trunkline.Delivery]:
                tl.publish("orders", b"x")
                return []

            def wait() -> list[trunkline.Delivery]:
                return queue.receive(5, wait_s=30)

            found = at_once(wait, publish)
            assert [each.payload for each in found[0]] == [b"x"]


@pytest.mark.direct("there every heartbeat is a row")
def test_empty_receives_and_waits_write_nothing(db_url: str, direct_url: str, still_server: None) -> None:
    """Method: the next transaction id before and after many of them."""
    with trunkline.connect(db_url, settings=ClientSettings(ring=False)) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", numbered(3), partition=1)
        with tl.queue("orders", "billing") as queue:
            queue.ack(all_of(queue, 3))
            assert queue.receive(wait_s=0.01) == []
            counter = "select txid_snapshot_xmax(txid_current_snapshot())"
            before = sql(direct_url, counter)
            for _ in range(20):
                assert queue.receive(5) == []
                assert queue.receive(5, wait_s=0.005) == []
            assert sql(direct_url, counter) == before


def test_iterating_hands_out_one_after_the_other_until_the_queue_is_closed(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(20))
        seen = []
        with tl.queue("orders", "billing", prefetch=7) as queue:
            for delivery in queue:
                seen.append(delivery.payload)
                delivery.ack()
                if len(seen) == 20:
                    queue.close()
        assert seen == numbered(20)


def test_close_gives_back_what_was_claimed_ahead_and_does_not_count_it_as_an_attempt(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        for partition in range(2):
            tl.publish_many("orders", numbered(10), partition=partition)
        queue = tl.queue("orders", "billing", prefetch=100)
        (held,) = queue.receive(1)
        with tl.queue("orders", "billing") as other:
            assert other.receive(100) == []
            queue.close()
            queue.close()
            got = all_of(other, 19)
            assert {each.attempt for each in got} == {1}
            assert (held.partition, held.offset) not in {(each.partition, each.offset) for each in got}
            other.ack(got)
        for call in (held.ack, held.nack, queue.receive, lambda: held.extend(5), lambda: held.reject("x")):
            with pytest.raises(errors.Closed):
                call()


def test_who_was_overtaken_looks_again_instead_of_waiting_for_new_records(db_url: str) -> None:
    """Goal: with a backlog nobody sleeps, whoever takes what was claimed for him. Method: what comes back from the
    claim of one is taken by another each time, three times; nothing is published afterwards, and nothing else wakes."""
    settings = ClientSettings(heartbeat_s=60, poll_max_s=60, session_timeout_s=600)
    with trunkline.connect(db_url, settings=settings) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(8))
        with tl.queue("orders", "billing", ack_deadline_s=600, prefetch=0) as queue:
            claim = queue._claim
            overtaken: list[int] = []

            def claimed(*args: Any) -> bool:
                had_records = claim(*args)
                if len(overtaken) < 3 and had_records:
                    overtaken.append(queue.receive()[0].offset)
                return had_records

            queue._claim = claimed  # type: ignore[method-assign, assignment]
            (found,) = queue.receive(wait_s=60)
            assert (overtaken, found.offset) == ([1, 2, 3], 4)


def test_one_delivery_of_another_queue_is_refused_as_several_are(db_url: str) -> None:
    """Its claim is untouched: who has received it settles it."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"1")
        with tl.queue("orders", "billing") as queue, tl.queue("orders", "mail") as other:
            (delivery,) = queue.receive()
            with pytest.raises(errors.InvalidArgument, match="another queue"):
                other.ack_one(delivery)
            queue.ack_one(delivery)


def test_close_ends_a_wait_and_a_loop(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        queue = tl.queue("orders", "billing")
        queue.receive()
        gate = Gate()

        def wait() -> str:
            gate.open()
            with pytest.raises(errors.Closed):
                queue.receive(wait_s=60)
            return "ended"

        def loop() -> str:
            gate.wait()
            for _ in queue:
                raise AssertionError
            return "ended"

        def close() -> str:
            gate.wait()
            queue.close()
            return "closed"

        assert at_once(wait, loop, close) == ["ended", "ended", "closed"]


def test_one_record_that_is_asked_for_without_prefetch_leaves_the_next_to_others(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", numbered(3))
        for prefetch in (0, 1):
            with (
                tl.queue("orders", f"billing{prefetch}", prefetch=prefetch) as queue,
                tl.queue("orders", f"billing{prefetch}", prefetch=prefetch) as other,
            ):
                assert [each.offset for each in queue.receive()] == [1]
                assert [each.offset for each in other.receive()] == [2]
                assert [each.offset for each in queue.receive(5)] == [3]
