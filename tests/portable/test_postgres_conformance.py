"""The conformance suite on the Postgres driver, on queues and on groups, in both worlds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from urllib.parse import urlsplit

import psycopg
import pytest

import trunkline
from tests.portable.places import place
from trunkline import Client, errors
from trunkline.testing import AsyncConformance, Conformance, Harness


class PostgresHarness(Harness):
    """Topics of one database, with queues, and a clock that is moved in the server."""

    quiet_s = 0.1
    partitions = 2

    def __init__(self, client: Client, db_url: str, direct_url: str) -> None:
        self.client = client
        self._db_url = db_url
        self._direct_url = direct_url
        self._numbers = count(1)
        self._passed_s = 0.0

    def create_topic(self) -> str:
        name = f"shop/topic-{next(self._numbers)}"
        self.client.create_topic(name, partitions=self.partitions)
        return place(self._db_url, name)

    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        name, topic = f"queue-{next(self._numbers)}", self._topic(topic_url)
        settings = {"ack_deadline_s": self.ack_deadline_s, "ordered_by_key": ordered}
        with self.client.queue(topic, name, start="latest", **settings):  # type: ignore[arg-type]
            pass
        return place(self._db_url, topic, queue=name)

    def missing_topic(self) -> str:
        return place(self._db_url, "missing")

    def missing_subscription(self, topic_url: str) -> str:
        return place(self._db_url, self._topic(topic_url), queue="missing")

    def pass_time(self, seconds: float) -> None:
        self._passed_s += seconds
        moved = (
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
            f"$$ select clock_timestamp() + interval '{self._passed_s} seconds' $$"
        )
        with psycopg.connect(self._direct_url, autocommit=True) as connection:
            connection.execute(moved.encode())

    def _topic(self, url: str) -> str:
        return urlsplit(url).path.split("/", 2)[2]


class GroupHarness(PostgresHarness):
    """The same with groups. Each reader takes whole partitions, so there is one: who comes first has all."""

    partitions = 1

    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        name, topic = f"group-{next(self._numbers)}", self._topic(topic_url)
        self.client.create_group(name, topic, start="latest")
        return place(self._db_url, topic, group=name)

    def missing_subscription(self, topic_url: str) -> str:
        return place(self._db_url, self._topic(topic_url), group="missing")


@pytest.fixture
def client(db_url: str) -> Iterator[Client]:
    with trunkline.connect(db_url) as opened:
        yield opened


class OnQueues:
    @pytest.fixture
    def harness(self, client: Client, db_url: str, direct_url: str) -> Harness:
        return PostgresHarness(client, db_url, direct_url)


class OnGroups:
    @pytest.fixture
    def harness(self, client: Client, db_url: str, direct_url: str) -> Harness:
        return GroupHarness(client, db_url, direct_url)

    def test_S2_19_each_message_goes_to_one_of_many_receivers(self, harness: Harness) -> None:
        """Ten receivers of one subscriber: of a group each partition goes to one, and another subscriber would have
        nothing to receive. With as many partitions as subscribers: test_postgres_driver."""
        topic_url = harness.create_topic()
        url = harness.create_subscription(topic_url)
        with trunkline.open_topic(topic_url) as topic, trunkline.open_subscription(url) as subscription:
            with ThreadPoolExecutor(10) as pool:
                waiting = [pool.submit(subscription.receive, wait_s=harness.patience_s) for _ in range(10)]
                for number in range(10):
                    topic.send(b"%d" % number)
                found = [each.result() for each in waiting]
            assert sorted(int(message.body) for message in found) == list(range(10))

    def test_S2_15_of_a_receiver_that_is_gone_too(self, harness: Harness) -> None:
        """A group has no deadline: what is not acknowledged comes again when its receiver has gone."""
        topic_url = harness.create_topic()
        url = harness.create_subscription(topic_url)
        with trunkline.open_topic(topic_url) as topic, trunkline.open_subscription(url) as gone:
            sent = topic.send(b"again")
            late = gone.receive(wait_s=harness.patience_s)
            gone.close()
            with trunkline.open_subscription(url) as other:
                again = other.receive(wait_s=harness.patience_s)
                assert (again.id, again.body) == (late.id, late.body) == (sent, b"again")
                again.ack()
            with trunkline.open_subscription(url) as last, pytest.raises(errors.DeadlineExceeded):
                last.receive(wait_s=harness.quiet_s)

    # These let the deadline of a message pass.
    test_S2_15_without_an_ack_it_is_delivered_again_after_the_deadline = None  # noqa: N815 - the suite's name
    test_S2_15_giving_back_after_the_deadline_is_an_error = None  # noqa: N815 - the suite's name
    test_what_was_not_settled_in_time_comes_before_its_successors_too = None
    test_S2_21_acks_at_the_same_time_are_each_answered = None  # noqa: N815 - the suite's name
    test_S2_21_the_error_of_ack_soon_is_raised_later = None  # noqa: N815 - the suite's name


class TestQueue(OnQueues, Conformance):
    pass


class TestQueueAsync(OnQueues, AsyncConformance):
    pass


class TestGroup(OnGroups, Conformance):  # type: ignore[misc]
    pass


class TestGroupAsync(OnGroups, AsyncConformance):  # type: ignore[misc]
    pass
