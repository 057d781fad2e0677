# Generated from tests/aio/test_queue_dead_letters.py by tools/twins.py (make fix). Change the source, not this file.
"""Records of a queue that nobody can handle: in the dead letter topic, in one transaction with what becomes of them."""

from __future__ import annotations

import logging
from typing import Any

import psycopg
import pytest

import trunkline
from trunkline import Message, Topic, TopicSettings, errors


def sql(db_url: str, statement: str) -> object:
    with psycopg.connect(db_url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def advance_clock(db_url: str, seconds: float) -> None:
    sql(
        db_url,
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
        f"$$ select clock_timestamp() + interval '{seconds} seconds' $$",
    )


def about(letter: trunkline.Record) -> dict[str, str]:
    """What a letter says of its death, without the time."""
    prefix = "trunkline-dl-"
    said = {name.removeprefix(prefix): value.decode() for name, value in letter.headers if name.startswith(prefix)}
    assert said.pop("time")
    return said


def test_what_is_rejected_is_a_dead_letter_and_does_not_come_again(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead", partitions=2)
        tl.publish_many("orders", [Message(b"%d" % number, key="k", headers={"own": "x"}) for number in range(4)])
        with tl.queue("orders", "billing", dead_letter="orders.dead", prefetch=0) as queue:
            got = queue.receive(4)
            got[1].reject("not an order\0 \ud800")
            queue.reject(got[2:], "x" * 5000)
            got[0].ack()
            for call in (got[1].ack, got[1].nack, lambda: got[1].reject("again")):
                with pytest.raises(errors.InvalidArgument, match="settled already"):
                    call()
            advance_clock(db_url, 100)
            assert queue.receive(4) == []
        letters = [letter for partition in range(2) for letter in tl.read("orders.dead", partition=partition)]
        assert [(letter.payload, letter.key, letter.headers[0]) for letter in letters] == [
            (b"%d" % number, b"k", ("own", b"x")) for number in (1, 2, 3)
        ]
        assert about(letters[0]) == {
            "topic": "orders", "partition": "0", "offset": "2", "attempts": "1", "reason": r"not an order\0 \ud800",
        }  # fmt: skip
        assert len(about(letters[1])["reason"]) == 1000


def test_what_is_rejected_without_a_dead_letter_topic_is_logged_and_gone(
    db_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"x")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            with caplog.at_level(logging.ERROR, logger="trunkline"):
                delivery.reject("why not")
            assert [record.message for record in caplog.records if "why not" in record.message]
            advance_clock(db_url, 100)
            assert queue.receive() == []


def test_what_is_rejected_is_a_dead_letter_where_the_topic_was_set_after_the_reader_came(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish("orders", b"x")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            sql(db_url, """select trunkline.queue_alter('orders', 'billing', '{"dead_letter": "orders.dead"}')""")
            delivery.reject("why not")
            assert queue.receive() == []
        (letter,) = tl.read("orders.dead")
        assert (letter.payload, about(letter)["reason"]) == (b"x", "why not")


def test_what_is_given_back_too_often_is_a_dead_letter(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish_many("orders", [b"bad", b"good"])
        with tl.queue("orders", "billing", max_attempts=3, dead_letter="orders.dead", prefetch=0) as queue:
            bad, good = queue.receive(2)
            good.ack()
            tl.publish("orders", b"another")
            (another,) = queue.receive(2)
            for attempt in (1, 2):
                assert bad.attempt == attempt
                bad.nack()
                (bad,) = queue.receive(2)
            # Together with one that has attempts left.
            queue.nack([bad, another])
            assert [(each.payload, each.attempt) for each in queue.receive(2)] == [(b"another", 2)]
        (letter,) = tl.read("orders.dead")
        assert letter.payload == b"bad"
        assert about(letter) == {
            "topic": "orders", "partition": "0", "offset": "1", "attempts": "3",
            "reason": "tried 3 times, given back by its reader",
        }  # fmt: skip


@pytest.mark.parametrize("ordered", [False, True])
def test_a_record_that_kills_its_readers_ends_among_the_dead_letters_and_the_rest_is_delivered(
    db_url: str, ordered: bool
) -> None:
    """Method: a reader that meets the poison settles nothing more; then its deadline passes and another one comes."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish_many("orders", [b"poison" if number == 3 else b"%d" % number for number in range(20)])
        done: list[bytes] = []
        clock = 0
        for _ in range(100):
            reader = tl.queue(
                "orders", "billing", max_attempts=3, dead_letter="orders.dead", ordered_by_key=ordered, prefetch=0
            )
            got = reader.receive(5)
            for delivery in got:
                if delivery.payload == b"poison":
                    break
                delivery.ack()
                done.append(delivery.payload)
            clock += 31
            advance_clock(db_url, clock)
            if len(done) == 19 and tl.read("orders.dead"):
                break
        (letter,) = tl.read("orders.dead")
        assert letter.payload == b"poison"
        assert about(letter) == {
            "topic": "orders", "partition": "0", "offset": "4", "attempts": "3",
            "reason": "tried 3 times, the deadline passed",
        }  # fmt: skip
        assert sorted(done) == sorted(b"%d" % number for number in range(20) if number != 3)
        assert len(set(done)) == 19
        if ordered:
            assert done == [b"%d" % number for number in range(20) if number != 3]
        assert tl.queue("orders", "billing").receive(5) == []


def test_the_dead_letter_topic_must_exist(db_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"0", b"1"])
        with pytest.raises(errors.NotFound, match=r"trunkline topic create orders\.dead"):
            tl.queue("orders", "billing", dead_letter="orders.dead").receive()
        tl.create_topic("orders.dead")
        with tl.queue("orders", "billing", max_attempts=1, dead_letter="orders.dead", prefetch=0) as queue:
            (delivery,) = queue.receive(1)
            tl.delete_topic("orders.dead")
            with pytest.raises(errors.NotFound, match=r"trunkline topic create orders\.dead"):
                delivery.nack()
            with pytest.raises(errors.NotFound, match=r"trunkline topic create orders\.dead"):
                delivery.reject("x")
            tl.create_topic("orders.dead")
            with tl.queue("orders", "billing", prefetch=0) as other:
                tl.delete_topic("orders.dead")
                # What nobody has settled is buried by whoever comes next, as soon as that can be done.
                advance_clock(db_url, 31)
                (second,) = other.receive(5)
                assert second.payload == b"1"
                second.ack()
                assert [record.message for record in caplog.records if "tried again" in record.message]
            tl.create_topic("orders.dead")
            advance_clock(db_url, 62)
            with tl.queue("orders", "billing", prefetch=0) as other:
                assert other.receive(5) == []
            assert [letter.payload for letter in tl.read("orders.dead")] == [b"0"]
            with pytest.raises(errors.ClaimLost):
                delivery.ack()


def test_a_lost_claim_leaves_no_dead_letter(db_url: str) -> None:
    """Method: of two claims one is lost; what is rejected of both is buried only where it is still held."""
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish("orders", b"lost")
        with tl.queue("orders", "billing", dead_letter="orders.dead", prefetch=0) as queue:
            (lost,) = queue.receive()
            advance_clock(db_url, 31)
            (again,) = queue.receive()
            assert (again.offset, again.attempt) == (1, 2)
            tl.publish("orders", b"held")
            (held,) = queue.receive()
            with pytest.raises(errors.ClaimLost) as caught:
                queue.reject([lost, held], "both")
            assert caught.value.offsets == [1]
            with pytest.raises(errors.ClaimLost):
                lost.reject("once more")
            again.ack()
        assert [letter.payload for letter in tl.read("orders.dead")] == [b"held"]


def test_a_letter_that_is_too_large_for_its_topic_becomes_a_stub(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead", settings=TopicSettings(record_bytes_max=1000))
        tl.publish("orders", b"x" * 2000)
        with tl.queue("orders", "billing", dead_letter="orders.dead") as queue:
            (delivery,) = queue.receive()
            delivery.reject("too large")
        (letter,) = tl.read("orders.dead")
        assert (letter.payload, about(letter)["cut"]) == (b"", "a payload of 2000 bytes")


def test_a_reader_buries_what_dead_letters_were_set_for_after_it_had_opened_its_queue(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish("orders", b"poison")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            sql(
                db_url,
                "select trunkline.queue_alter('orders', 'billing', "
                """'{"max_attempts": 1, "dead_letter": "orders.dead"}')""",
            )
            delivery.nack()
            assert queue.receive() == []
            (letter,) = tl.read("orders.dead")
            assert (letter.payload, about(letter)["attempts"]) == (b"poison", "1")
            assert queue.settings["dead_letter"] == "orders.dead"
            tl.publish("orders", b"fine")
            (delivery,) = queue.receive()
            assert delivery.payload == b"fine"
            delivery.nack()
        assert [letter.payload for letter in tl.read("orders.dead")] == [b"poison", b"fine"]


def test_what_was_tried_too_often_is_delivered_where_dead_letters_were_taken_away(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: the setting goes after the record was claimed as one to be buried, and before its reader looks."""
    look = trunkline.Queue._look_again

    def late(queue: trunkline.Queue, opened: Any, topic: Topic) -> None:
        sql(
            db_url,
            """select trunkline.queue_alter('orders', 'billing', '{"max_attempts": null, "dead_letter": null}')""",
        )
        look(queue, opened, topic)

    monkeypatch.setattr(trunkline.Queue, "_look_again", late)
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.create_topic("orders.dead")
        tl.publish("orders", b"0")
        with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = queue.receive()
            sql(
                db_url,
                "select trunkline.queue_alter('orders', 'billing', "
                """'{"max_attempts": 1, "dead_letter": "orders.dead"}')""",
            )
            delivery.nack()
            (again,) = queue.receive()
            assert again.payload == b"0"
            again.ack()
        assert tl.read("orders.dead") == []
        assert sql(db_url, "select count(*) from trunkline.queue_claims('orders', 'billing')") == 0
