# Generated from tests/aio/test_shared_readers.py by tools/twins.py (make fix). Change the source, not this file.
"""Subscriptions of one queue in one process: they share its reader, and who leaves strands nothing in it."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline
from tests.portable.places import place
from tests.sync.orders import EVERYTHING_S, receive_all, send_all, set_up
from tests.sync.shim import at_once
from trunkline import Queue, errors
from trunkline.portable import Subscription


def test_subscriptions_of_one_queue_share_its_reader(db_url: str) -> None:
    """Goal: they claim and acknowledge in the same calls, unless one reads otherwise. Method: their readers."""
    set_up(db_url, ack_deadline_s=60)
    url = place(db_url, "orders", queue="emails")

    def opened(bytes_max: int = 100_000) -> tuple[Subscription, Queue]:
        subscription = trunkline.open_subscription(url, prefetch_max=0, prefetch_bytes_max=bytes_max)
        return subscription, subscription.as_(Queue)

    (first, one), (second, two), (third, three) = opened(), opened(), opened(1_000)
    assert one is two
    assert one is not three
    with trunkline.connect(db_url) as tl:
        tl.publish_many("orders", [b"%d" % number for number in range(6)])
    mine, others = receive_all(first, 3), receive_all(second, 3)
    assert sorted(each.body for each in mine + others) == [b"%d" % number for number in range(6)]
    first.close()
    at_once(*[each.ack for each in others])
    second.close()
    fourth, four = opened()
    assert four is not one
    # What the first had in hand is held until its deadline.
    with pytest.raises(errors.DeadlineExceeded):
        fourth.receive(wait_s=0)
    fourth.close()
    third.close()


def test_one_that_is_closed_ends_its_own_wait_and_no_other(db_url: str) -> None:
    """Goal: of subscriptions that share a reader each ends for itself. Method: one waits all the time while others
    come, wait and are closed; a message that is sent then is received by it."""
    set_up(db_url)
    url = place(db_url, "orders", queue="emails")
    stays = trunkline.open_subscription(url)

    def waits() -> list[bytes]:
        return [stays.receive(wait_s=EVERYTHING_S).body]

    def comes_and_goes() -> list[bytes]:
        for _ in range(5):
            leaves = trunkline.open_subscription(url)

            def is_ended(leaves: Subscription = leaves) -> bool:
                try:
                    leaves.receive(wait_s=EVERYTHING_S)
                except errors.Closed:
                    return True
                return False

            def close(leaves: Subscription = leaves) -> bool:
                leaves.close()
                return True

            assert at_once(is_ended, close) == [True, True]
        send_all(place(db_url, "orders"), b"late")
        return []

    assert at_once(waits, comes_and_goes) == [[b"late"], []]
    stays.close()


def test_what_came_for_one_who_left_goes_to_others_at_once(db_url: str) -> None:
    """Goal: who shares a reader and is closed while messages are on their way strands none. Method: the driver's calls
    in the order in which the library makes them then: receive, close, release."""
    set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    with (
        trunkline.open_subscription(url) as stays,
        trunkline.open_subscription(url) as leaves,
        trunkline.connect(db_url) as tl,
    ):
        tl.publish_many("orders", [b"1", b"2"])
        driver = leaves._driver
        came = driver.receive_batch(10, 0)
        driver.close()
        driver.close()
        driver.release([each.ack_id for each in came])
        got = receive_all(stays, 2)
        assert [(each.body, each.attempt) for each in got] == [(b"1", 1), (b"2", 1)]


def test_what_nobody_took_of_one_who_left_goes_to_other_readers_at_once(db_url: str) -> None:
    """Goal: a receive that ended before it had its messages leaves none behind in a reader that others share. Method:
    what it had claimed lies in memory; the others ask for nothing, and a reader of its own gets it after the close."""
    set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    with (
        trunkline.open_subscription(url) as stays,
        trunkline.connect(db_url) as tl,
        tl.queue("orders", "emails", prefetch=0) as other,
    ):
        leaves = trunkline.open_subscription(url)
        tl.publish_many("orders", [b"1", b"2"])
        shared = stays.as_(Queue)
        assert shared._claim(shared._known(), 10)
        leaves.close()
        assert [(each.payload, each.attempt) for each in other.receive(10)] == [(b"1", 1), (b"2", 1)]


def test_a_queue_with_attempts_is_read_by_each_subscription_alone(db_url: str) -> None:
    """A record's last attempt is made alone: others must not stand still while one of them is at it."""
    set_up(db_url, dead_letter="dead", max_attempts=1)
    url = place(db_url, "orders", queue="emails")
    with trunkline.open_subscription(url) as one, trunkline.open_subscription(url) as other:
        assert one.as_(Queue) is not other.as_(Queue)
        send_all(place(db_url, "orders"), b"1", b"2")
        first, second = one.receive(wait_s=EVERYTHING_S), other.receive(wait_s=EVERYTHING_S)
        assert {first.body, second.body} == {b"1", b"2"}


def test_a_shared_reader_that_somebody_has_closed_is_not_handed_out_again(db_url: str) -> None:
    set_up(db_url)
    url = place(db_url, "orders", queue="emails")
    with trunkline.open_subscription(url) as one:
        one.as_(Queue).close()
        with trunkline.open_subscription(url) as other:
            send_all(place(db_url, "orders"), b"1")
            other.receive(wait_s=EVERYTHING_S).ack()


def test_a_settlement_that_is_refused_takes_nothing_along_that_is_given_back(db_url: str) -> None:
    """Goal: what lies in memory for one who leaves is given back whatever becomes of those who were in the same call.
    Method: the other's delay is beyond what the topic keeps by now, so that the call is refused and each goes alone."""
    set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    with (
        trunkline.open_subscription(url) as stays,
        trunkline.connect(db_url) as tl,
        tl.queue("orders", "emails", prefetch=0) as other,
    ):
        leaves = trunkline.open_subscription(url)
        tl.publish_many("orders", [b"1", b"2"])
        shared = stays.as_(Queue)
        (first,) = shared.receive()
        tl.publish_many("orders", [b"3"])
        assert shared._claim(shared._known(), 10)
        tl.alter_topic("orders", retention_age_s=60)

        def nack() -> None:
            with pytest.raises(errors.InvalidArgument):
                first.nack(delay_s=3600)

        at_once(nack, leaves._driver.close)
        assert sorted(each.payload for each in other.receive(10)) == [b"2", b"3"]


@pytest.mark.parametrize("published", ["one by one", "together"])
def test_large_records_are_fetched_once_for_all_who_share_a_reader(db_url: str, published: str) -> None:
    """Goal: a record that does not come with its claim is not fetched by everybody who waits for it. Method: what goes
    over the connection while 20 of them receive 40 records."""
    set_up(db_url, ack_deadline_s=600)
    url = place(db_url, "orders", queue="emails")
    bodies = [b"%05d" % number * 20_000 for number in range(40)]
    with trunkline.connect(db_url) as tl:
        for some in [[each] for each in bodies] if published == "one by one" else [bodies]:
            tl.publish_many("orders", some)
        subscriptions = [trunkline.open_subscription(url, prefetch_max=0) for _ in range(20)]
        server = subscriptions[0].as_(Queue)._rooms.server
        whole = server.read
        moved: list[int] = []

        def read(*arguments: Any) -> Any:
            rows = whole(*arguments)
            moved.extend(len(payload) for row in rows for payload in row[5])
            return rows

        server.read = read  # type: ignore[method-assign, assignment]
        found: list[bytes] = []
        for _ in range(2):
            found += [each.body for each in at_once(*[each.receive for each in subscriptions])]
        assert sorted(found) == bodies
        assert sum(moved) <= 2 * sum(map(len, bodies))
        for each in subscriptions:
            each.close()
