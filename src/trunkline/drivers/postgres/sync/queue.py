# Generated from src/trunkline/drivers/postgres/aio/queue.py by tools/twins.py (make fix). Change the source, not this file.
"""A subscription that is a queue: each message is claimed, and acknowledged by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trunkline.client.sync.queue import Queue
from trunkline.client.sync.queue_delivery import Delivery
from trunkline.drivers.postgres.capabilities import queue_capabilities
from trunkline.drivers.postgres.incoming import incoming
from trunkline.drivers.postgres.sync.clients import Lease
from trunkline.errors import (
    ClaimLost,
    Closed,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    OutcomeUnknown,
    TrunklineError,
    Unavailable,
)
from trunkline.portable.driver import Capabilities, Incoming, Target

ORDERED_AHEAD = 100
"""Claimed ahead of an ordered queue at most."""


class QueueSubscription:
    """Receives from a queue. What is acknowledged and asked for at the same time goes to the server in one call.

    The library reads ahead, as much as its receivers handle soon; subscriptions of one queue share its reader. Not of
    an ordered queue: there giving back takes back what was claimed after it, also what nobody has asked for yet, so
    that must lie here. Nor of one with ``max_attempts``: a last attempt is made alone, and others would wait for it.
    """

    def __init__(self, lease: Lease, queue: Queue, is_shared: bool) -> None:
        self.capabilities: Capabilities = queue_capabilities(queue.settings)
        self.native: Any = queue
        self.ack_deadline_s: float | None = queue.settings["ack_deadline_s"]
        self._lease = lease
        self._queue = queue
        self._is_shared = is_shared
        self._closed = False

    @classmethod
    def open(cls, lease: Lease, topic: str, name: str, target: Target) -> QueueSubscription:
        """NotFound where there is no such queue; InvalidArgument where its ``ack_deadline_s`` is another one."""
        prefetch_bytes = max(1, target.prefetch_bytes_max)
        queue = lease.client.queue(
            topic,
            name,
            create=False,
            ack_deadline_s=target.ack_deadline_s,
            prefetch=0,
            prefetch_bytes=prefetch_bytes,
        )
        queue.__enter__()
        if not queue.settings["is_ordered"]:
            # A record's last attempt is made alone: while one reader is at it, he gets no others.
            is_shared = queue.settings["max_attempts"] is None
            return cls(lease, lease.readers.share(queue, prefetch_bytes) if is_shared else queue, is_shared)
        queue.close()
        queue = lease.client.queue(topic, name, create=False, prefetch=min(target.prefetch_max, ORDERED_AHEAD))
        queue.__enter__()
        return cls(lease, queue, is_shared=False)

    def _has_left(self) -> bool:
        return self._closed

    def receive_batch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        try:
            deliveries = self._queue.receive_unless(max_messages, 0.0, self._has_left)
            if wait_s and not deliveries:
                # Who waits looks where the log ends first: one more call of the server.
                deliveries = self._queue.receive_unless(max_messages, wait_s, self._has_left)
        except Closed:
            if not self._closed:
                raise
            return []
        except (DeadlineExceeded, OutcomeUnknown) as error:
            # Not that nothing came: the server could not be asked, or has not answered. What is unknown is what others
            # settled in the same call; what was claimed comes again.
            raise Unavailable(str(error)) from error
        return [incoming(each, each, each.attempt) for each in deliveries]

    def ack(self, ack_ids: Sequence[Delivery]) -> Sequence[TrunklineError | None] | None:
        return self._settle(self._ack, ack_ids)

    def _ack(self, chosen: Sequence[Delivery]) -> None:
        if len(chosen) == 1:
            # Nearly always where each subscription has one receiver.
            self._queue.ack_one(chosen[0])
        else:
            self._queue.ack(chosen)

    def nack(self, ack_ids: Sequence[Delivery], delay_s: float) -> Sequence[TrunklineError | None] | None:
        def settle(chosen: Sequence[Delivery]) -> None:
            self._queue.nack(chosen, delay_s=delay_s)

        return self._settle(settle, ack_ids)

    def _settle(
        self, settle: Callable[[Sequence[Delivery]], None], chosen: Sequence[Delivery]
    ) -> Sequence[TrunklineError | None] | None:
        try:
            settle(chosen)
        except ClaimLost as error:
            # Not by its places: one message may be there twice, of a claim that was lost and of a later one.
            return [None if each.claim.standing(each.offset) == "settled" else error for each in chosen]
        except InvalidArgument:
            settled = [each.claim.standing(each.offset) == "settled" for each in chosen]
            if not any(settled):
                raise
            return self._settle_others(settle, chosen, settled)
        return None

    def _settle_others(
        self,
        settle: Callable[[Sequence[Delivery]], None],
        chosen: Sequence[Delivery],
        settled: Sequence[bool],
    ) -> Sequence[TrunklineError | None]:
        """Where some are settled, or about to be, by a call that nobody waited for."""
        others = [each for each, is_settled in zip(chosen, settled, strict=True) if not is_settled]
        answers = iter((self._settle(settle, others) if others else None) or [None] * len(others))
        return [
            FailedPrecondition(f"offset {each.offset} of {each.topic} is settled already")
            if is_settled
            else next(answers)
            for each, is_settled in zip(chosen, settled, strict=True)
        ]

    def release(self, ack_ids: Sequence[Delivery]) -> None:
        if self._queue.is_closed:
            return
        # Also after its own close: others go on with a reader that is shared.
        held = [each for each in ack_ids if each.claim.standing(each.offset) == "open"]
        if held:
            self._settle(self._queue.release, held)

    def close(self) -> None:
        was_closed, self._closed = self._closed, True
        if was_closed:
            return
        try:
            if self._is_shared:
                self._queue.end_wait(self._has_left)
                self._lease.readers.leave(self._queue)
            else:
                self._queue.close()
        finally:
            self._lease.end()
