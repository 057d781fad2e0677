"""Trunkline for asyncio: the names of ``trunkline``, with await.

async with trunkline.aio.connect() as tl:
    await tl.publish("orders", b"...")
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack

from trunkline.client.aio.app import App
from trunkline.client.aio.client import AsyncClient
from trunkline.client.aio.consumer import AsyncConsumer
from trunkline.client.aio.inbox import AsyncInbox
from trunkline.client.aio.queue import AsyncQueue
from trunkline.client.aio.queue_delivery import AsyncDelivery
from trunkline.client.aio.redrive import dead_letters, purge_letters, redrive
from trunkline.portable.aio import opening
from trunkline.portable.aio.subscription import AsyncSubscription
from trunkline.portable.aio.topic import AfterSend, AsyncTopic, BeforeSend
from trunkline.portable.plan import ReceiveOptions, SendOptions
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
    "open_subscription",
    "open_topic",
    "purge_letters",
    "redrive",
]


OpenedT = TypeVar("OpenedT", bound=AsyncClient | AsyncTopic | AsyncSubscription)


class _Opening(Generic[OpenedT]):
    """What is to be opened: ``await`` it, or use it in ``async with``."""

    def __init__(self, open_it: Callable[[], Coroutine[Any, Any, OpenedT]]) -> None:
        self._open_it = open_it
        self._opened: OpenedT | None = None

    def __await__(self) -> Generator[Any, None, OpenedT]:
        return self._open_it().__await__()

    async def __aenter__(self) -> OpenedT:
        self._opened = await self
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        await self._opened.close()


def connect(
    url: str | None = None,
    *,
    dev: bool = False,
    settings: ClientSettings | None = None,
    doorbell_url: str | None = None,
) -> _Opening[AsyncClient]:
    """Connect to the given server, else ``TRUNKLINE_URL``, else a running ``trunkline dev``.

    ``dev=True`` starts the embedded server, and installs the schema, if need be. Where the URL leads through a pooler,
    ``doorbell_url`` (else ``TRUNKLINE_DOORBELL_URL``) may lead past it, for the one session that listens.
    """
    return _Opening(lambda: AsyncClient.open(url, dev=dev, settings=settings, doorbell_url=doorbell_url))


def open_topic(
    url: str,
    *,
    before_send: BeforeSend | None = None,
    after_send: AfterSend | None = None,
    require: Collection[str] = (),
    **options: Unpack[SendOptions],
) -> _Opening[AsyncTopic]:
    """A topic of any broker, for sending; see ``trunkline.portable.aio.opening``."""
    return _Opening(
        lambda: opening.open_topic(url, before_send=before_send, after_send=after_send, require=require, **options)
    )


def open_subscription(
    url: str, *, require: Collection[str] = (), **options: Unpack[ReceiveOptions]
) -> _Opening[AsyncSubscription]:
    """A subscription of any broker, for receiving; see ``trunkline.portable.aio.opening``."""
    return _Opening(lambda: opening.open_subscription(url, require=require, **options))
