"""Clients that topics and subscriptions share: a hundred of one server take no more connections than one."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from trunkline.client.aio.client import AsyncClient
from trunkline.client.aio.shim import Mutex
from trunkline.client.target import resolve_doorbell
from trunkline.drivers.postgres.aio.readers import Readers
from trunkline.drivers.postgres.aio.shim import Home, here, is_gone
from trunkline.drivers.postgres.place import Place
from trunkline.settings import ClientSettings

OWN_TIME = 0.9
"""The part of a call's deadline in which the client must answer: it knows better than a timer outside what became of
the call."""


class _Kind(NamedTuple):
    """Which can share a client."""

    home: Home
    conninfo: str
    doorbell: str | None
    settings: ClientSettings


class _Lent:
    __slots__ = ("borrowers", "client", "readers")

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.readers = Readers()
        self.borrowers = 0


class Lease:
    """A client that is used together with others."""

    def __init__(self, clients: Clients, kind: _Kind, client: AsyncClient, readers: Readers) -> None:
        self._clients = clients
        self._kind = kind
        self.client = client
        self.readers = readers

    async def end(self) -> None:
        """Give it back; the last one closes it."""
        await self._clients.give_back(self._kind)


class Clients:
    """The clients of one process, one for each server, event loop and deadline. Opened when they are first used."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._lent: dict[_Kind, _Lent] = {}

    def borrow(self, place: Place, deadline_s: float) -> Lease:
        """A client for the place. Nothing is asked of the server yet."""
        # Another server's sessions cannot be heard where the environment says.
        doorbell = place.conninfo if place.is_named else resolve_doorbell()
        kind = _Kind(here(), place.conninfo, doorbell, _settings(deadline_s))
        with self._mutex:
            for gone in [each for each in self._lent if is_gone(each.home)]:
                del self._lent[gone]
            lent = self._lent.get(kind)
            if lent is None:
                lent = self._lent[kind] = _Lent(AsyncClient(place.conninfo, kind.settings, doorbell))
            lent.borrowers += 1
        return Lease(self, kind, lent.client, lent.readers)

    async def give_back(self, kind: _Kind) -> None:
        with self._mutex:
            lent = self._lent.get(kind)
            if lent is None:
                return
            lent.borrowers -= 1
            if lent.borrowers:
                return
            del self._lent[kind]
        await lent.client.close()


def _settings(deadline_s: float) -> ClientSettings:
    """As the environment says, within the deadline of the URL."""
    known = ClientSettings.from_environment()
    own_s = deadline_s * OWN_TIME
    return msgspec.structs.replace(
        known,
        deadline_s=own_s,
        statement_timeout_s=min(known.statement_timeout_s, own_s),
        connect_timeout_s=min(known.connect_timeout_s, own_s),
    )
