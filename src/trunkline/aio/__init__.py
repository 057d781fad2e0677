"""Trunkline for asyncio: the names of ``trunkline``, with await.

async with trunkline.aio.connect() as tl:
    await tl.publish("orders", b"...")
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

from trunkline.client.aio.app import App
from trunkline.client.aio.client import AsyncClient
from trunkline.client.aio.consumer import AsyncConsumer
from trunkline.client.aio.inbox import AsyncInbox
from trunkline.client.aio.queue import AsyncDelivery, AsyncQueue
from trunkline.client.aio.redrive import dead_letters, purge_letters, redrive
from trunkline.settings import ClientSettings

__all__ = [
    "App",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncInbox",
    "AsyncQueue",
    "connect",
    "dead_letters",
    "purge_letters",
    "redrive",
]


class _Connecting:
    """A client to be: ``await`` it, or use it in ``async with``."""

    def __init__(
        self, url: str | None, settings: ClientSettings | None, doorbell_url: str | None, *, dev: bool
    ) -> None:
        self._url = url
        self._dev = dev
        self._settings = settings
        self._doorbell_url = doorbell_url
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return AsyncClient.open(
            self._url, dev=self._dev, settings=self._settings, doorbell_url=self._doorbell_url
        ).__await__()

    async def __aenter__(self) -> AsyncClient:
        self._client = await self
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._client is not None
        await self._client.close()


def connect(
    url: str | None = None,
    *,
    dev: bool = False,
    settings: ClientSettings | None = None,
    doorbell_url: str | None = None,
) -> _Connecting:
    """Connect to the given server, else ``TRUNKLINE_URL``, else a running ``trunkline dev``.

    ``dev=True`` starts the embedded server, and installs the schema, if need be. Where the URL leads through a pooler,
    ``doorbell_url`` (else ``TRUNKLINE_DOORBELL_URL``) may lead past it, for the one session that listens.
    """
    return _Connecting(url, settings, doorbell_url, dev=dev)
