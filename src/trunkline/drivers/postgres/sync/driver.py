# Generated from src/trunkline/drivers/postgres/aio/driver.py by tools/twins.py (make fix). Change the source, not this file.
"""The Postgres driver: topics, and what opens them, queues and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trunkline.drivers.postgres.attributes import headers_of
from trunkline.drivers.postgres.capabilities import MOST
from trunkline.drivers.postgres.incoming import id_of, messages_of
from trunkline.drivers.postgres.place import Place, subscription_place, topic_place
from trunkline.drivers.postgres.sync.clients import Clients, Lease
from trunkline.drivers.postgres.sync.group import GroupSubscription
from trunkline.drivers.postgres.sync.queue import QueueSubscription
from trunkline.errors import AckNotSupported, DeadlineExceeded, TrunklineError, Unavailable
from trunkline.portable.driver import Capabilities, Outgoing, Target


class PostgresTopic:
    """Sends to a topic. What is sent together is published together, as far as it fits into one batch."""

    def __init__(self, lease: Lease, topic: str) -> None:
        self.capabilities: Capabilities = MOST
        self.native: Any = lease.client
        self._lease = lease
        self._topic = topic

    def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        if len(messages) == 1:
            # Nearly always where each topic has one sender.
            (message,) = messages
            headers = headers_of(message.attributes) or None
            return [id_of(self._lease.client.publish(self._topic, message.body, key=message.key, headers=headers))]
        answers = self._lease.client.publish_each(self._topic, messages_of(messages))
        return [each if isinstance(each, TrunklineError) else id_of(each) for each in answers]

    def close(self) -> None:
        self._lease.end()


class PostgresOpener:
    """Opens topics, queues and groups. What uses the same server shares a client."""

    def __init__(self) -> None:
        self._clients = Clients()

    def open_topic(self, target: Target) -> PostgresTopic:
        place = topic_place(target)
        lease = self._clients.borrow(place, target.deadline_s)
        try:
            lease.client.topic(place.topic)
        except BaseException as error:
            lease.end()
            raise _shown(error) from error
        return PostgresTopic(lease, place.topic)

    def open_subscription(self, target: Target) -> QueueSubscription | GroupSubscription:
        place = subscription_place(target)
        if place.group is not None and target.ack_deadline_s is not None:
            raise AckNotSupported(
                f"a group holds what it has received until it is acknowledged: {target.shown} cannot have an "
                "ack_deadline_s; leave it out, or use a queue",
                driver="trunkline",
                capability="ack_deadline",
            )
        lease = self._clients.borrow(place, target.deadline_s)
        try:
            return self._subscription(lease, place, target)
        except BaseException as error:
            lease.end()
            raise _shown(error) from error

    def _subscription(self, lease: Lease, place: Place, target: Target) -> QueueSubscription | GroupSubscription:
        lease.client.topic(place.topic)
        if place.group is not None:
            return GroupSubscription.open(lease, place.topic, place.group, target)
        assert place.queue is not None
        return QueueSubscription.open(lease, place.topic, place.queue, target)


def _shown(error: BaseException) -> BaseException:
    """What opening says of a server that cannot be reached for as long as there was time."""
    return Unavailable(str(error)) if isinstance(error, DeadlineExceeded) else error
