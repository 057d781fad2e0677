"""Rings: publishers wake readers after their commits. Only hints; readers that hear nothing find records by polling.

A publish does not wait for its ring, and its transaction has no part in it: NOTIFY takes a lock that all commits of
the server share. The first ring goes out at once, then at most one every five milliseconds, with everything that has
gathered. A ring wakes every process that listens to one of its channels, so the longer one takes, the longer the next
one waits, and more than in proportion where it takes longer than it must: on a busy server, where readers have enough
to do, rings become rare by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import NamedTuple

import msgspec

from trunkline.client import protocol
from trunkline.client.aio.connection import ServerConnection, open_connection
from trunkline.client.aio.shim import Mutex, Service, Stop, Waker
from trunkline.client.arrays import EncodedArray, integer_array, text_array
from trunkline.errors import NotFound, TrunklineError
from trunkline.settings import ClientSettings

logger = logging.getLogger("trunkline")

RING_INTERVAL_S = 0.005
RING_SHARE = 10
"""A ring is followed by a pause of so many times what it took."""
RING_PAUSE_MAX_S = 0.2
RING_WAIT_S = 1.0
"""How long sending one may take: later than that readers have polled, and whoever closes the client waits for it."""
RING_AGAIN_S = 1.0
"""How long nothing is sent after a ring failed: the server is away, and readers poll."""
_PAYLOAD_MAX = 4_000
_RINGS_MAX = 64
"""Of more partitions than this, all of a topic's readers are told at once: a ring for each would take longer."""


class _Named(NamedTuple):
    """A topic by its name: which one that is, and which partitions it has, the server knows when it is rung."""

    topic: str


class Ringer:
    """The rings of one client, sent on a connection of their own. Nothing is opened before the first one.

    Where the last ring is long enough ago, whoever publishes sends the next one himself, without waiting for its
    answer: handing it to the background first would take as long as the ring. Everything else is the background's.
    """

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._url = url
        self._settings = msgspec.structs.replace(settings, application_name=f"{settings.application_name} ringer")
        self._mutex = Mutex()
        self._waker: Waker | None = None
        self._pending: dict[int | str | _Named, set[int] | None] = {}
        """Partitions of topics, by their ids, None for any; or a topic's name, or a group's channel."""
        self._unplaced: set[int] = set()
        self._service: Service | None = None
        self._closed = False
        self._connection: ServerConnection | None = None
        self._may_send = False
        self._sent_at: float | None = None
        self._quickest_s = float("inf")
        self._last_s = 0.0

    def ring_topic(self, topic_id: int, partitions: Iterable[int] | None, unplaced: Iterable[int] = ()) -> None:
        """Wake the readers of these partitions, or of any. Where records of some partitions, by their ids, wait for
        their place, they get it first."""
        if self._settings.ring:
            with self._mutex:
                self._unplaced.update(unplaced)
            self._ring(topic_id, partitions)

    def ring_named(self, topic: str) -> None:
        """Wake the readers of the topic that has this name by then. Records of it that wait for their place get it
        first."""
        if self._settings.ring:
            self._ring(_Named(topic), ())

    def ring_group(self, group_id: int) -> None:
        """Let the members of a group look at each other."""
        self._ring(protocol.group_channel(group_id), ())

    def _ring(self, what: int | str | _Named, partitions: Iterable[int] | None) -> None:
        with self._mutex:
            if self._closed:
                return
            before = self._pending.get(what, set())
            self._pending[what] = None if before is None or partitions is None else before.union(partitions)
            if self._waker is None:
                self._waker = Waker()
                self._service = Service("trunkline-ringer", self._loop, wake=self._waker.wake)
            if isinstance(what, _Named):
                self._may_send = False  # It takes more than a ring.
            if self._may_send and self._connection is not None and not self._unplaced:
                self._may_send = False
                self._sent_at = monotonic()
                # Whether it has arrived is found out by who waits for the answer.
                pending, self._pending = self._pending, {}
                self._connection.send_rings(_parameters(pending))
            self._waker.wake()

    async def close(self) -> None:
        """Send what has gathered, and end. Twice is fine."""
        with self._mutex:
            self._closed = True
            service, self._service = self._service, None
        if service is not None:
            await service.close()

    async def _loop(self, stop: Stop) -> None:
        waker = self._waker
        assert waker is not None
        try:
            while not stop.is_set or self._pending or self._sent_at is not None:
                # What came while the answer to a publisher's own ring was due has been woken for already.
                if not stop.is_set and not self._pending:
                    await waker.wait(None)
                pause_s = await self._send()
                if not stop.is_set:
                    await stop.wait(pause_s)
                    with self._mutex:
                        self._may_send = not self._pending
        finally:
            await self._disconnect()
            waker.close()

    async def _send(self) -> float:
        """Wait for the answer to what was sent, or send what has gathered; how long to pause then.

        Where that fails it is dropped.
        """
        with self._mutex:
            self._may_send = False
            began, self._sent_at = self._sent_at, None
        try:
            if began is None:
                if not self._pending:
                    return 0.0
                connection = await self._connected()
                began = monotonic()
                with self._mutex:
                    # All at once: what comes while these are sent has its own turn, its places before its rings.
                    pending, self._pending = self._pending, {}
                    unplaced, self._unplaced = self._unplaced, set()
                if unplaced:
                    await connection.call(protocol.OUTBOX_SEQUENCE, [integer_array(sorted(unplaced))])
                for topic in [each.topic for each in pending if isinstance(each, _Named)]:
                    await self._ring_named(connection, topic)
                if not all(isinstance(each, _Named) for each in pending):
                    await connection.call(protocol.RING, _parameters(pending))
            else:
                await (await self._connected()).end_rings()
        except TrunklineError as error:
            logger.info("a ring was not sent, readers will find the records when they poll: %s", error)
            with self._mutex:
                self._pending = {}
            await self._disconnect()
            return RING_AGAIN_S
        return self._pause_s(monotonic() - began)

    async def _ring_named(self, connection: ServerConnection, topic: str) -> None:
        try:
            await connection.call(protocol.TOPIC_RING, [topic])
        except NotFound as error:
            # Deleted meanwhile. What else is to be rung has nothing to do with it.
            logger.info("a ring for topic %s was not sent: %s", topic, error)

    def _pause_s(self, took_s: float) -> float:
        """How long nothing is sent after a ring that took so long. The distance to the server is no reason to wait, and
        neither is a single slow ring, which may be chance."""
        self._quickest_s = min(self._quickest_s, took_s)
        usual_s, self._last_s = min(took_s, self._last_s), took_s
        slower = max(1.0, usual_s / self._quickest_s)
        return min(max(RING_INTERVAL_S, RING_SHARE * took_s * slower), RING_PAUSE_MAX_S)

    async def _connected(self) -> ServerConnection:
        if self._connection is None:
            deadline = monotonic() + RING_WAIT_S
            connection = await open_connection(self._url, self._settings, deadline)
            if not connection.pooled:
                await connection.call(protocol.RING_SESSION)
                await connection.prepare_rings()
            self._connection = connection
            # It may be another server, or another way to it: what took how long there says nothing here.
            self._quickest_s = float("inf")
        self._connection.deadline = monotonic() + RING_WAIT_S
        return self._connection

    async def _disconnect(self) -> None:
        with self._mutex:
            self._may_send = False
            self._sent_at = None
            connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _parameters(pending: Mapping[int | str | _Named, set[int] | None]) -> list[EncodedArray]:
    """Of one statement for all rings but those by a topic's name."""
    rings = [
        ring
        for what, partitions in pending.items()
        if not isinstance(what, _Named)
        for ring in _rings(what, partitions)
    ]
    return [text_array([channel for channel, _ in rings]), text_array([payload for _, payload in rings])]


def _rings(what: int | str, partitions: set[int] | None) -> Iterator[tuple[str, str]]:
    """Channels and payloads. Whoever reads all of a topic is told which partitions to begin with, or nothing for any;
    whoever holds some of them hears of those alone."""
    if isinstance(what, str):
        yield what, ""
        return
    text = ",".join(map(str, sorted(partitions or ())))
    yield protocol.topic_channel(what), text if len(text) <= _PAYLOAD_MAX else ""
    if partitions is None or len(partitions) > _RINGS_MAX:
        yield protocol.whole_channel(what), ""
        return
    for partition in partitions:
        yield protocol.partition_channel(what, partition), ""
