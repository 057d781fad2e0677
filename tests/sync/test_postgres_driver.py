# Generated from tests/aio/test_postgres_driver.py by tools/twins.py (make fix). Change the source, not this file.
"""The Postgres driver: what it promises beyond every driver, on queues and on groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import trunkline
from tests.concurrency.proxy import Fault, Proxy, as_if_direct
from tests.portable.places import place
from tests.sync.orders import EVERYTHING_S, receive_all, send_all, set_up
from tests.sync.shim import at_once
from trunkline import Client, Consumer, Delivery, Message, Queue, errors
from trunkline.records import Record


@pytest.fixture
def proxied(direct_url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database, and the URL through it."""
    port = urlsplit(direct_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy, proxy.url(direct_url)


# -- topics --


def test_a_message_goes_through_the_log_and_back(db_url: str) -> None:
    set_up(db_url)
    with trunkline.open_topic(place(db_url, "orders")) as topic:
        sent = topic.send(Message(b"12.50", key="ann", attributes={"source": "web"}))
        assert sent == "orders/0/1"
        (record,) = topic.as_(Client).read("orders")
        assert (record.payload, record.key, record.headers) == (b"12.50", b"ann", (("source", b"web"),))
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        assert subscription.as_(Queue) is not None
        message = subscription.receive(wait_s=EVERYTHING_S)
        assert (message.id, message.body, message.key, message.attempt) == (sent, b"12.50", b"ann", 1)
        assert message.attributes == {"source": "web"}
        assert message.as_(Delivery).offset == 1
        message.ack()


def test_S2_18_a_message_that_is_refused_fails_alone(db_url: str) -> None:
    set_up(db_url)
    with trunkline.connect(db_url) as tl:
        tl.alter_topic("orders", record_bytes_max=100)
    with trunkline.open_topic(place(db_url, "orders"), send_wait_s=0.2) as topic:

        def send(size: int) -> str | errors.TrunklineError:
            try:
                return topic.send(b"x" * size)
            except errors.TooLarge as error:
                return error

        calls = [lambda size=size: send(size) for size in (1, 101, 2, 200, 3)]
        answers = at_once(*calls)
        assert [isinstance(each, errors.TooLarge) for each in answers] == [False, True, False, True, False]
        assert len({each for each in answers if isinstance(each, str)}) == 3
    with trunkline.connect(db_url) as tl:
        assert sorted(len(each.payload) for each in tl.read("orders")) == [1, 2, 3]


def test_a_limit_that_was_lowered_meanwhile_refuses_one_message_and_not_its_batch(db_url: str) -> None:
    set_up(db_url)
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as other:
        assert len(tl.publish_each("orders", [b"x" * 200])) == 1
        other.alter_topic("orders", record_bytes_max=100)
        answers = tl.publish_each("orders", [b"a", b"x" * 200, b"b"])
        assert [getattr(each, "offset", None) for each in answers] == [2, None, 3]
        assert isinstance(answers[1], errors.TooLarge)


def test_more_than_a_batch_is_split_and_each_message_has_its_answer(db_url: str) -> None:
    set_up(db_url)
    with trunkline.connect(db_url) as tl:
        sizes = [1, 70_000, 2, 3, 200_000, 17_000_000, 4]
        answers = tl.publish_each("orders", [b"x" * size for size in sizes])
        assert [getattr(each, "offset", None) for each in answers] == [1, 2, 3, 4, 5, None, 6]
        assert tl.publish_each("orders", []) == []


def test_topics_and_subscriptions_of_one_server_share_its_connections(direct_url: str) -> None:
    """Goal: a hundred of them take no more connections than one. Method: the server counts."""
    set_up(direct_url)
    urls = [place(direct_url, "orders", application_name="counted")] * 20
    topics = [trunkline.open_topic(url) for url in urls]
    at_once(*[lambda topic=topic: topic.send(b"x") for topic in topics])
    queue = place(direct_url, "orders", queue="emails", application_name="counted")
    subscriptions = [trunkline.open_subscription(queue) for _ in range(5)]
    with psycopg.connect(direct_url, autocommit=True) as connection:
        count = "select count(*) from pg_stat_activity where application_name = 'counted'"
        row = connection.execute(count).fetchone()
        assert row is not None
        assert row[0] <= 6
        for topic in topics:
            topic.close()
        for subscription in subscriptions:
            subscription.close()
        left = "select pid from pg_stat_activity where application_name = 'counted'"
        while connection.execute(left, prepare=False).fetchone() is not None:
            pass


def test_a_receive_goes_on_where_it_is_an_acknowledgement_whose_outcome_is_unknown(db_url: str) -> None:
    """Goal: who shares a call of the server with others has no part in what is unknown of theirs: nothing that is
    received is. Method: the call in which they are together has no outcome."""
    set_up(db_url)
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        calls = subscription.as_(Queue)._known().calls
        whole = calls.next
        unknown = [errors.OutcomeUnknown("records may or may not have been settled")]

        def answer(*args: Any) -> Any:
            if unknown:
                raise unknown.pop()
            return whole(*args)

        calls.next = answer  # type: ignore[method-assign, assignment]
        send_all(place(db_url, "orders"), b"1")
        assert subscription.receive(wait_s=EVERYTHING_S).body == b"1"
        assert not unknown


# -- attributes --


def test_headers_of_ordinary_records_are_received(db_url: str) -> None:
    set_up(db_url)
    headers: list[tuple[str, str | bytes]] = [
        ("text", "é"),
        ("twice", b"1"),
        ("twice", b"2"),
        ("raw", b"\xff\x00"),
        ("nul", b"a\0b"),
    ]
    with trunkline.connect(db_url) as tl:
        tl.publish("orders", b"x", headers=headers, group_key="ann")
    for kind in ({"queue": "emails"}, {"group": "billing"}):
        with trunkline.open_subscription(place(db_url, "orders", **kind)) as subscription:
            message = subscription.receive(wait_s=EVERYTHING_S)
            assert message.attributes == {
                "text": "é",
                "twice": "2",
                "trunkline-binary:raw": "/wA=",
                "nul": "a\0b",
                "trunkline-group-key": "ann",
            }
            assert message.as_(Record).headers[3] == ("raw", b"\xff\x00")
            message.ack()


def test_no_attribute_delays_a_message(db_url: str) -> None:
    set_up(db_url)
    with trunkline.open_topic(place(db_url, "orders")) as topic:
        topic.send(Message(b"x", attributes={"trunkline-deliver-after": "3600"}))
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        message = subscription.receive(wait_s=EVERYTHING_S)
        assert message.attributes == {"trunkline-deliver-after": "3600"}


# -- queues --


def test_the_capabilities_of_a_queue_are_those_that_it_is_set_to(db_url: str) -> None:
    set_up(db_url, ordered_by_key=True, dead_letter="dead", ack_deadline_s=60)
    with trunkline.connect(db_url) as tl, tl.queue("orders", "plain"):
        pass
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as ordered:
        assert (ordered.capabilities.ordering, ordered.capabilities.dead_letter) == ("key", True)
    with trunkline.open_subscription(place(db_url, "orders", queue="plain")) as plain:
        assert (plain.capabilities.ordering, plain.capabilities.dead_letter) == ("none", False)
    with pytest.raises(errors.NotSupported) as refused:
        trunkline.open_subscription(place(db_url, "orders", queue="plain"), require=["dead_letter"])
    assert (refused.value.driver, refused.value.capability) == ("trunkline", "dead_letter")


def test_a_deadline_is_the_queue_s_and_another_one_is_refused(db_url: str) -> None:
    set_up(db_url, ack_deadline_s=60)
    with trunkline.open_subscription(place(db_url, "orders", queue="emails", ack_deadline_s="1m")):
        pass
    with pytest.raises(errors.InvalidArgument, match="trunkline queue alter"):
        trunkline.open_subscription(place(db_url, "orders", queue="emails"), ack_deadline_s=5)


def test_what_fails_too_often_goes_to_the_dead_letters_of_the_queue(db_url: str) -> None:
    set_up(db_url, dead_letter="dead", max_attempts=2)
    send_all(place(db_url, "orders"), b"bad")
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        for attempt in (1, 2):
            message = subscription.receive(wait_s=EVERYTHING_S)
            assert message.attempt == attempt
            message.nack()
    with trunkline.connect(db_url) as tl:
        assert [each.payload for each in tl.read("dead")] == [b"bad"]


def test_in_an_ordered_queue_what_is_given_back_comes_before_its_successors(db_url: str) -> None:
    set_up(db_url, ordered_by_key=True)
    send_all(place(db_url, "orders"), b"1", b"2", b"3", key="ann")
    with trunkline.open_subscription(place(db_url, "orders", queue="emails")) as subscription:
        first, second = receive_all(subscription, 2)
        first.nack()
        with pytest.raises(errors.ClaimLost):
            second.ack()
        again = subscription.receive(wait_s=EVERYTHING_S)
        assert (again.body, again.attempt) == (b"1", 2)
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
        again.ack()
        rest = receive_all(subscription, 2)
        assert [(each.body, each.attempt) for each in rest] == [(b"2", 1), (b"3", 1)]


def test_what_is_released_is_not_counted(db_url: str) -> None:
    set_up(db_url)
    with trunkline.connect(db_url) as tl:
        tl.publish_many("orders", [b"1", b"2"])
        with tl.queue("orders", "emails", prefetch=0) as queue:
            with pytest.raises(errors.InvalidArgument):
                queue.release([b"1"])  # type: ignore[list-item]
            first, second = queue.receive(2)
            queue.release([first])
            (again,) = queue.receive(5)
            assert (again.offset, again.attempt, second.attempt) == (1, 1, 1)
            with pytest.raises(errors.InvalidArgument):
                first.ack()


def test_a_queue_that_was_not_opened_knows_no_settings(db_url: str) -> None:
    set_up(db_url)
    with trunkline.connect(db_url) as tl:
        with pytest.raises(errors.FailedPrecondition):
            print(tl.queue("orders", "emails").settings)


# -- groups --


def test_a_group_commits_when_all_before_it_are_acknowledged(db_url: str) -> None:
    set_up(db_url)
    send_all(place(db_url, "orders"), b"1", b"2", b"3", b"4")
    url = place(db_url, "orders", group="billing")
    with trunkline.open_subscription(url) as subscription, trunkline.connect(db_url) as tl:
        assert subscription.as_(Consumer) is not None

        def cursor() -> int:
            return tl.describe_group("billing").partitions[0].cursor

        first, second, third = receive_all(subscription, 3)
        assert first.attempt is None
        second.ack()
        assert cursor() == 1
        first.ack()
        assert cursor() == 3
        third.ack()
        assert cursor() == 4
    with trunkline.open_subscription(url) as subscription:
        assert subscription.receive(wait_s=EVERYTHING_S).body == b"4"


def test_in_a_group_what_is_given_back_comes_before_its_successors(db_url: str) -> None:
    set_up(db_url)
    send_all(place(db_url, "orders"), b"1", b"2", b"3", b"4", b"5", key="ann")
    with trunkline.open_subscription(place(db_url, "orders", group="billing")) as subscription:
        first, second, third, fourth = receive_all(subscription, 4)
        fourth.ack()
        second.nack()
        with pytest.raises(errors.ClaimLost):
            third.ack()
        with pytest.raises(errors.ClaimLost):
            third.nack()
        first.ack()
        with pytest.raises(errors.AckNotSupported):
            first.nack(delay_s=1)
        again = receive_all(subscription, 3)
        assert [each.body for each in again] == [b"2", b"3", b"5"], "the fourth is done"
        for each in again:
            each.ack()
    with trunkline.connect(db_url) as tl:
        assert tl.describe_group("billing").lag == 0


def test_an_acknowledgement_does_not_wait_for_a_receiver_that_waits(db_url: str) -> None:
    set_up(db_url, partitions=2)
    send_all(place(db_url, "orders"), b"1")
    with trunkline.open_subscription(place(db_url, "orders", group="billing")) as subscription:
        message = subscription.receive(wait_s=EVERYTHING_S)

        def receive() -> bytes:
            return subscription.receive(wait_s=EVERYTHING_S).body

        def settle() -> bytes:
            message.ack()
            send_all(place(db_url, "orders"), b"2")
            return b""

        assert at_once(receive, settle) == [b"2", b""]


def test_a_partition_that_goes_to_another_reader_takes_its_messages_along(db_url: str) -> None:
    """Two partitions, one reader that has both in hand; a second one comes, and gets one of them when what is in hand
    of it is acknowledged. Nothing is lost."""
    set_up(db_url, partitions=2)
    with trunkline.connect(db_url) as tl:
        for partition in (0, 1):
            tl.publish_many("orders", [b"%d" % partition] * 10, partition=partition)
    url = place(db_url, "orders", group="billing")
    done: list[str] = []
    with trunkline.open_subscription(url, prefetch_max=20) as first:
        held = receive_all(first, 20)
        with trunkline.open_subscription(url) as second:
            while True:
                # The group is seen to while somebody receives.
                with pytest.raises(errors.DeadlineExceeded):
                    first.receive(wait_s=0)
                if first.as_(Consumer).leaving:
                    break
            for message in held:
                message.ack()
                done.append(message.id)
            send_all(place(db_url, "orders"), *[b"more"] * 5, key="a")
            send_all(place(db_url, "orders"), *[b"more"] * 5, key="b")
            while len(done) < 30:
                for subscription in (first, second):
                    try:
                        message = subscription.receive(wait_s=0)
                    except errors.DeadlineExceeded:
                        continue
                    message.ack()
                    done.append(message.id)
            assert len(first.as_(Consumer).assignment) == len(second.as_(Consumer).assignment) == 1
    assert len(set(done)) == 30


def test_who_lost_its_partition_cannot_acknowledge(db_url: str) -> None:
    set_up(db_url)
    send_all(place(db_url, "orders"), b"1", b"2")
    with (
        trunkline.open_subscription(place(db_url, "orders", group="billing")) as subscription,
        trunkline.connect(db_url) as tl,
    ):
        first, second = receive_all(subscription, 2)
        tl.seek_group("billing", "orders", "start", execute=True)
        with pytest.raises(errors.ClaimLost):
            first.ack()
        with pytest.raises(errors.ClaimLost):
            second.ack()
        assert [each.body for each in receive_all(subscription, 2)] == [b"1", b"2"]


def test_a_group_has_no_deadline(db_url: str) -> None:
    set_up(db_url)
    url = place(db_url, "orders", group="billing")
    with pytest.raises(errors.AckNotSupported) as refused:
        trunkline.open_subscription(url, ack_deadline_s=5)
    assert refused.value.capability == "ack_deadline"
    with trunkline.open_subscription(url) as subscription:
        assert (subscription.capabilities.attempts, subscription.capabilities.seek) == (False, True)


# -- a server that is away --


@pytest.mark.parametrize("kind", [{"queue": "emails"}, {"group": "billing"}], ids=["queue", "group"])
@pytest.mark.direct("the proxy stands before the server")
def test_S2_25_a_server_that_comes_back_is_gone_on_with(
    direct_url: str, proxied: tuple[Proxy, str], kind: dict[str, str]
) -> None:
    """Every connection is cut in the middle of a call, again and again: sends and acknowledgements are done once."""
    proxy, url = proxied
    set_up(direct_url, ack_deadline_s=60)
    with (
        trunkline.open_topic(place(url, "orders")) as topic,
        trunkline.open_subscription(place(url, "orders", **kind)) as subscription,
    ):
        for fault in (Fault.REQUEST_LOST, Fault.REPLY_LOST, Fault.REPLY_TORN):
            proxy.arm(fault)
            topic.send(fault.name.encode())
            message = subscription.receive(wait_s=EVERYTHING_S)
            assert message.body == fault.name.encode()
            proxy.arm(fault)
            message.ack()
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
    assert len(proxy.hits) >= 6


@pytest.mark.direct("the proxy stands before the server")
def test_what_a_group_does_not_know_of_one_partition_loses_nothing_of_the_others(
    direct_url: str, proxied: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a commit of two partitions is lost, and before it is sent again one of them is another's."""
    proxy, url = proxied
    as_if_direct(proxy, monkeypatch)
    set_up(direct_url, partitions=2)
    with trunkline.connect(direct_url) as tl:
        for partition in (0, 1):
            tl.publish_many("orders", [b"%d-%d" % (partition, each) for each in range(3)], partition=partition)
    seek = "select trunkline.group_seek('billing', 'orders', 0, 'start', execute => true)"
    with trunkline.open_subscription(place(url, "orders", group="billing")) as subscription:
        with psycopg.connect(direct_url, autocommit=True) as admin:
            messages = receive_all(subscription, 6)
            proxy.after_answer = lambda: admin.execute(seek)
            proxy.arm(Fault.REPLY_LOST, naming=b"commit_cursors")
            for message in messages:
                message.ack_soon()
            again: list[bytes] = []
            while len(again) < 3:
                with suppress(errors.OutcomeUnknown, errors.ClaimLost):
                    message = subscription.receive(wait_s=EVERYTHING_S)
                    again.append(message.body)
                    message.ack()
        assert again == [b"0-0", b"0-1", b"0-2"]
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
    assert proxy.hits == [Fault.REPLY_LOST]
    with trunkline.connect(direct_url) as tl:
        assert tl.describe_group("billing").lag == 0


@pytest.mark.parametrize("kind", [{"queue": "emails"}, {"group": "billing"}], ids=["queue", "group"])
@pytest.mark.direct("the proxy stands before the server")
def test_a_server_that_swallows_everything_ends_each_call_by_its_deadline(
    direct_url: str, proxied: tuple[Proxy, str], kind: dict[str, str]
) -> None:
    """A test only guards against hanging: each call comes back, with an error that says no more than is known. Which
    one it is depends on whose clock is first, the driver's or the library's."""
    proxy, url = proxied
    set_up(direct_url, ack_deadline_s=60)
    send_all(place(direct_url, "orders"), b"1")
    topic = trunkline.open_topic(place(url, "orders", deadline_s="2s", close_timeout_s="1s"))
    subscription = trunkline.open_subscription(place(url, "orders", **kind, deadline_s="2s", close_timeout_s="1s"))
    message = subscription.receive(wait_s=EVERYTHING_S)
    proxy.darken()
    away = errors.OutcomeUnknown, errors.DeadlineExceeded, errors.Unavailable
    with pytest.raises(away):
        topic.send(b"2")
    with pytest.raises(away):
        message.ack()
    with pytest.raises(away):
        subscription.receive(wait_s=1)
    with pytest.raises(away):
        trunkline.open_topic(place(url, "orders", deadline_s="1s"))
    topic.close()
    subscription.close()
