"""What a driver is: a declaration, and the values that pass between it and the library.

A driver is two steps. Write the eight methods, for one world or for both:

    opener        open_topic · open_subscription
    topic         send_batch · close
    subscription  receive_batch · ack · nack · release · close

What each promises (how it blocks, who calls it at the same time, what is tried again, what cancelling means) is written
in ``trunkline.portable.aio.driver`` for asyncio and, the same without waiting, in ``trunkline.portable.sync.driver``.
Then declare it: a ``Driver`` with its name, its capabilities and its URL's parameters, registered as an entry point

    [project.entry-points."trunkline.drivers"]
    acme = "acme_trunkline:DRIVER"

whose name is the scheme: ``acme://…``. The suite in ``trunkline.testing`` says whether it works.

Drivers deal with batches; single messages, gathering, prefetch, back-off and deadlines are the library's. Errors are
those of ``trunkline.errors``, with these meanings: NotFound, InvalidArgument (TooLarge), FailedPrecondition,
PermissionDenied and AlreadyExists are final; Unavailable and Conflict say that nothing was done, and are tried again;
OutcomeUnknown says that it may have been done, and is not; DeadlineExceeded ends the call. Anything else becomes a
DriverError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from trunkline.portable.aio.driver import AsyncDriverOpener
    from trunkline.portable.sync.driver import DriverOpener

Ordering = Literal["none", "key", "topic"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver can do with what was opened.

    The library makes up for ``acks`` (an ack is done at once, and nothing comes back). Everything else that is missing
    is refused: at open, where it is asked for by an option or by ``require``, and by the call that would need it.
    """

    acks: bool = True
    """What is not acknowledged is delivered again."""
    nack: bool = True
    """A message can be given back, and is delivered again."""
    nack_delay: bool = False
    """``nack(delay_s=…)`` is kept by the broker."""
    ack_deadline: bool = False
    """What is neither acknowledged nor given back comes again after ``ack_deadline_s``. Its reader can choose it, or
    where it is the subscription's own an opener refuses another one."""
    attempts: bool = False
    """Messages say how often they were delivered."""
    ordering: Ordering = "none"
    """Messages of one key, or of the whole topic, are received in the order in which they were sent; a message that is
    given back comes before its successors. The library prefetches nothing then."""
    dead_letter: bool = False
    """What fails too often is put away."""
    dedupe: bool = False
    """A send that is tried again after a lost answer is there once."""
    transactions: bool = False
    """The broker can send within a transaction of the application's; through its own client."""
    seek: bool = False
    """A subscription can be moved back; through the broker's own client."""
    checks_at_open: bool = True
    """A topic or subscription that does not exist is NotFound when it is opened; otherwise at the first call."""
    prefetches: bool = False
    """The driver reads ahead by itself, within ``prefetch_max``; the library asks for no more than is awaited."""

    def lacks(self, name: str) -> bool:
        """Whether the capability of this name is missing."""
        value = getattr(self, name)
        return value == "none" or value is False


OVERHEAD_BYTES = 32
"""What a message takes beside its body, key and attributes, about."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message on its way to the broker, checked. The driver carries all of it, byte for byte."""

    body: bytes
    key: bytes | None
    attributes: dict[str, str]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        found = len(self.body) + OVERHEAD_BYTES + (len(self.key) if self.key else 0)
        if self.attributes:
            found += sum(len(name) + len(value) for name, value in self.attributes.items())
        return found


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """A message as the broker hands it out. ``ack_id`` is whatever the driver settles it by; ``native`` is the broker's
    own object, if there is one."""

    body: bytes
    ack_id: Any
    key: bytes | None = None
    attributes: Mapping[str, str] = {}
    id: str = ""
    attempt: int | None = None
    native: Any = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be opened: the parts of the URL, and its parameters as values of the declared types.

    No call of the driver takes longer than ``deadline_s``, apart from the time that ``receive_batch`` is told to wait.
    ``ack_deadline_s`` is None where the broker's own setting counts. ``prefetch_max`` and ``prefetch_bytes_max`` are
    for drivers that read ahead.
    """

    scheme: str
    host: str
    port: int | None
    path: str
    username: str | None
    password: str | None
    parameters: Mapping[str, Any]
    shown: str
    deadline_s: float
    ack_deadline_s: float | None = None
    prefetch_max: int = 0
    prefetch_bytes_max: int = 0

    def __repr__(self) -> str:
        return f"Target({self.shown})"


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver as it is registered.

    ``capabilities`` are the most that it can do; what was opened says for itself what it can. ``parameters`` are those
    of its URLs, each with its type: str, int, float, bool, or float under a name in ``_s``, a duration. Of those in
    ``secrets`` values are never shown. A world that is None is refused at open.
    """

    name: str
    capabilities: Capabilities
    aio: AsyncDriverOpener | None = None
    sync: DriverOpener | None = None
    topic_parameters: Mapping[str, type] = {}
    subscription_parameters: Mapping[str, type] = {}
    secrets: frozenset[str] = frozenset()
