"""A message that was received, and what becomes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from trunkline.errors import TrunklineError
from trunkline.portable.aio.shim import Home, get_ident
from trunkline.portable.aio.topic import native
from trunkline.portable.driver import Incoming

T = TypeVar("T")


class Settling(Protocol):
    """What a message needs of its subscription."""

    home: Home
    is_closed: bool
    has_acks: bool

    @property
    def nackable(self) -> bool: ...

    def begin(self, message: AsyncReceivedMessage) -> None:
        """It is settled from now on, or an error says why it cannot be."""

    def submit(self, item: Any, size: int) -> Awaitable[TrunklineError | None]:
        """Why it could not be settled; None: it is."""

    def nack(self, message: AsyncReceivedMessage, delay_s: float) -> Coroutine[Any, Any, None]: ...

    def ack_soon(self, message: AsyncReceivedMessage) -> None: ...


class AsyncReceivedMessage(msgspec.Struct, eq=False, gc=False):
    """A message from a subscription. It is delivered again unless it is acknowledged before its deadline.

    ``attempt`` counts its deliveries from 1 on; None where the broker does not.
    """

    incoming: Incoming
    """As the driver handed it out."""
    settling: Settling
    body: bytes
    is_settled: bool = False

    @property
    def key(self) -> bytes | None:
        return self.incoming.key

    @property
    def attributes(self) -> Mapping[str, str]:
        return self.incoming.attributes

    @property
    def id(self) -> str:
        """The broker's name for it, the same in every delivery."""
        return self.incoming.id

    @property
    def attempt(self) -> int | None:
        return self.incoming.attempt

    @property
    def ack_id(self) -> Any:
        """What the driver settles it by."""
        return self.incoming.ack_id

    @property
    def nackable(self) -> bool:
        """Whether it can be given back."""
        return self.settling.nackable

    async def ack(self) -> None:
        """It is done: it is not delivered again. Returns when that is durable, or raises: ClaimLost where its deadline
        has passed, FailedPrecondition where it was settled before. Calls at the same time go together."""
        settling = self.settling
        if True:  # ASYNC
            # As begin, in as few words as it goes, and here: there are as many of them as messages.
            home = settling.home
            if self.is_settled or settling.is_closed or get_ident() != home.thread_id or not home.is_running():
                settling.begin(self)
            self.is_settled = True
        else:
            settling.begin(self)
        if not settling.has_acks:
            return
        try:
            failed = await settling.submit(self.incoming.ack_id, 0)
        except BaseException:
            self.is_settled = False
            raise
        if failed is not None:
            # It may not be settled, so it may be tried again; the broker knows.
            self.is_settled = False
            raise failed

    def nack(self, *, delay_s: float = 0.0) -> Coroutine[Any, Any, None]:
        """It failed: deliver it again, after the delay. Returns and raises as ``ack``; AckNotSupported where it is not
        ``nackable``, or the broker cannot delay."""
        return self.settling.nack(self, delay_s)

    def ack_soon(self) -> None:
        """As ``ack``, without waiting for it. Where it fails, the next ``receive`` of the subscription, or its
        ``close``, raises the error."""
        self.settling.ack_soon(self)

    def as_(self, kind: type[T]) -> T:
        """The broker's own object for it; InvalidArgument where it has none of this kind."""
        return native(self.incoming.native, kind, self)

    def __repr__(self) -> str:
        return f"ReceivedMessage(id={self.id!r}, key={self.key!r}, attempt={self.attempt}, {len(self.body)} bytes)"
