"""Rings: publishers wake readers after their commits. Only hints; readers that hear nothing find records by polling.

A publish does not wait for its ring, and its transaction has no part in it: NOTIFY takes a lock that all commits of
the server share. The first ring goes out at once, then at most one every five milliseconds, with everything that has
gathered. A ring wakes every process that listens, so the longer one takes, the longer the next one waits: on a busy
server, where readers have enough to do, rings become rare by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from time import monotonic

import msgspec

from trunkline.client import protocol
from trunkline.client.aio.connection import ServerConnection, open_connection
from trunkline.client.aio.shim import Mutex, Service, Stop, Waker
from trunkline.client.arrays import text_array
from trunkline.errors import TrunklineError
from trunkline.settings import ClientSettings

logger = logging.getLogger("trunkline")

RING_INTERVAL_S = 0.005
RING_SHARE = 20
"""A ring is followed by a pause of so many times what it took."""
RING_PAUSE_MAX_S = 0.5
RING_AGAIN_S = 1.0
"""How long nothing is sent after a ring failed: the server is away, and readers poll."""
_PAYLOAD_MAX = 4_000


class Ringer:
    """The rings of one client, sent on a connection of their own. Nothing is opened before the first one."""

    def __init__(self, url: str, settings: ClientSettings) -> None:
        self._url = url
        self._settings = msgspec.structs.replace(settings, application_name=f"{settings.application_name} ringer")
        self._mutex = Mutex()
        self._waker: Waker | None = None
        self._pending: dict[str, set[int]] = {}
        self._service: Service | None = None
        self._closed = False
        self._connection: ServerConnection | None = None

    def ring_topic(self, topic_id: int, partitions: Iterable[int]) -> None:
        """Wake the readers of these partitions, soon."""
        if self._settings.ring:
            self._ring(protocol.topic_channel(topic_id), partitions)

    def ring_group(self, group_id: int) -> None:
        """Let the members of a group look at each other, soon."""
        self._ring(protocol.group_channel(group_id), ())

    def _ring(self, channel: str, partitions: Iterable[int]) -> None:
        with self._mutex:
            if self._closed:
                return
            self._pending.setdefault(channel, set()).update(partitions)
            if self._waker is None:
                self._waker = Waker()
                self._service = Service("trunkline-ringer", self._loop, wake=self._waker.wake)
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
            while not stop.is_set or self._pending:
                if not stop.is_set:
                    await waker.wait(None)
                pause_s = await self._send()
                if not stop.is_set:
                    await stop.wait(pause_s)
        finally:
            await self._disconnect()
            waker.close()

    async def _send(self) -> float:
        """Send everything that has gathered; how long to pause then. Where sending fails it is dropped."""
        with self._mutex:
            rings, self._pending = self._pending, {}
        if not rings:
            return 0.0
        try:
            connection = await self._connected()
            connection.deadline = monotonic() + self._settings.statement_timeout_s
            began = monotonic()
            payloads = [_payload(partitions) for partitions in rings.values()]
            await connection.call(protocol.RING, [text_array(list(rings)), text_array(payloads)])
        except TrunklineError as error:
            logger.info("a ring was not sent, readers will find the records when they poll: %s", error)
            await self._disconnect()
            return RING_AGAIN_S
        return min(max(RING_INTERVAL_S, RING_SHARE * (monotonic() - began)), RING_PAUSE_MAX_S)

    async def _connected(self) -> ServerConnection:
        if self._connection is None:
            deadline = monotonic() + self._settings.connect_timeout_s
            connection = await open_connection(self._url, self._settings, deadline)
            self._connection = connection
            if not connection.pooled:
                await connection.call(protocol.RING_SESSION)
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _payload(partitions: set[int]) -> str:
    """The partitions, for a reader to begin with; empty means any."""
    text = ",".join(map(str, sorted(partitions)))
    return text if len(text) <= _PAYLOAD_MAX else ""
