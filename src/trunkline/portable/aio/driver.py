"""What a driver promises, method by method. ``trunkline.portable.driver`` says how it is registered.

The library keeps to this: it calls no method of a topic or subscription after ``close``, except ``release`` for what
came at the same moment; it never runs two ``send_batch`` of one topic, two ``receive_batch`` or two of ``ack`` and
``nack`` of one subscription at the same time; it never gives an empty batch. Everything else may come at the same time:
a receive that waits, an ack and a close.

Cancelled, a call ends at once with the cancellation; the driver must not swallow it. What was sent by then may or may
not be with the broker. What was received by then comes again: with the next call, or after its deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from trunkline.errors import TrunklineError
from trunkline.portable.driver import Capabilities, Incoming, Outgoing, Target


class AsyncTopicDriver(Protocol):
    """One topic, opened for sending."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def native(self) -> Any:
        """The broker's own object, for ``as_``; None where there is none."""

    async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | TrunklineError]:
        """Send all of them; for each its id once the broker has it durably, or the error that it met.

        Waits for the broker, for ``deadline_s`` at most. Messages of one batch keep their order where the driver
        keeps any. To raise says the same of every message: Unavailable or Conflict, nothing was sent, and the library
        tries again after a while; OutcomeUnknown, something may have been; any other error, nothing was sent, and the
        library sends one by one, so that one bad message does not fail the others.
        """

    async def close(self) -> None:
        """Give back connections. Nothing is under way. Never called twice."""


class AsyncSubscriptionDriver(Protocol):
    """One subscription, opened for receiving."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def native(self) -> Any:
        """The broker's own object, for ``as_``; None where there is none."""

    @property
    def ack_deadline_s(self) -> float | None:
        """How long what was received is held for its reader; None: for ever, or nobody knows."""

    async def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        """What there is at once, at most ``max_messages``; if there is nothing, the first that come within ``wait_s``;
        nothing where none came. With 0 it does not wait.

        Each message goes to one receiver, and is held for it until it is settled or its deadline passes. A call that
        waits ends at once when the subscription is closed, with nothing or with Closed, and holds nothing then.
        Unavailable and Conflict are tried again by the library after a while.
        """

    async def ack(self, ack_ids: Sequence[Any]) -> Sequence[TrunklineError | None] | None:
        """They are done, durably: they are not delivered again. For each None or its error; None alone: all are done.

        ClaimLost for one that is no longer held. May be called again after Unavailable, also where it was done.
        Never called without the capability ``acks``.
        """

    async def nack(self, ack_ids: Sequence[Any], delay_s: float) -> Sequence[TrunklineError | None] | None:
        """They failed: deliver them again, after the delay, and count the attempt where attempts are counted. Answers
        and errors as ``ack``. Never called without the capability ``nack``, nor with a delay without ``nack_delay``."""

    async def release(self, ack_ids: Sequence[Any]) -> None:
        """Nobody has seen them: let others have them at once, and do not count the attempt where that can be done. They
        were prefetched and not handed out. What cannot be given back comes again after its deadline. Never called
        without ``acks``."""

    async def close(self) -> None:
        """End what waits, then give back connections. What was received and not settled is left to its deadline. Never
        called twice."""


class AsyncDriverOpener(Protocol):
    """Opens topics and subscriptions. Creates none: that is the operator's."""

    async def open_topic(self, target: Target) -> AsyncTopicDriver:
        """NotFound where the topic does not exist and the driver can know; InvalidArgument for a URL that cannot be
        meant; PermissionDenied. Cancelled or failed, it leaves nothing open."""

    async def open_subscription(self, target: Target) -> AsyncSubscriptionDriver:
        """As ``open_topic``; refuses an ``ack_deadline_s`` that the broker cannot keep."""
