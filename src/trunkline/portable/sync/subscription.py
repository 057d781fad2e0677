# Generated from src/trunkline/portable/aio/subscription.py by tools/twins.py (make fix). Change the source, not this file.
"""A subscription of any broker: receive one message at a time, with as many receivers as you like."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from time import monotonic
from types import TracebackType
from typing import TypeVar

from trunkline.engine.appetite import Appetite
from trunkline.engine.checks import check_seconds
from trunkline.errors import Closed, TrunklineError
from trunkline.portable.driver import Capabilities, Incoming
from trunkline.portable.plan import Plan
from trunkline.portable.sync.calls import Calls, retry_s
from trunkline.portable.sync.driver import SubscriptionDriver
from trunkline.portable.sync.intake import Intake
from trunkline.portable.sync.received import ReceivedMessage
from trunkline.portable.sync.settling import Settlements
from trunkline.portable.sync.shim import Bell, Home, Mutex, Once, Service, Stop, Waiter
from trunkline.portable.sync.topic import native
from trunkline.settings import ReceiveSettings

logger = logging.getLogger("trunkline")

T = TypeVar("T")
ONLY_MESSAGES = frozenset({Incoming})
HASTY_MAX = 3
"""After so many empty answers in a row that came too early, it is no accident."""


class Subscription:
    """Receives from one subscription. Many tasks may share one, and each message goes to one of them.

    Messages may be taken from the broker before they are asked for, up to ``prefetch_max``; how many follows from how
    quickly they are handled. Iterating gives messages until the subscription is closed.
    """

    def __init__(self, driver: SubscriptionDriver, plan: Plan[ReceiveSettings]) -> None:
        settings = plan.settings
        self._plan = plan
        self._driver = driver
        self._capabilities = driver.capabilities
        self._calls = Calls(plan)
        # Receiving ends sooner than settling.
        self._receiving = Calls(plan)
        self._home = Home()
        self._bell = Bell()
        self._mutex = Mutex()
        self._service: Service | None = None
        self._served: Waiter[bool] = Waiter()
        deadline_s = driver.ack_deadline_s
        # In order nothing is fetched ahead: what is given back must come before its successors.
        is_ahead = not self._capabilities.prefetches and self._capabilities.lacks("ordering")
        self._intake = Intake(
            self._fetch,
            self._release,
            Appetite(settings.prefetch_max if is_ahead else 0, settings.prefetch_bytes_max, deadline_s),
            # Whoever gets a message must have half of its time left.
            useful_s=inf if deadline_s is None else deadline_s / 2,
            call_service=self._call_service,
        )
        self._settlements = Settlements(driver, plan, self._calls, self._home, self._call_service)
        self._take = self._intake.take
        self._late = self._settlements.late
        self._closed = False
        self._closing = Once()
        self._hasty = 0
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<trunkline subscription {self._plan.shown}>"

    @property
    def capabilities(self) -> Capabilities:
        """What the broker can do here."""
        return self._capabilities

    @property
    def nackable(self) -> bool:
        """Whether messages can be given back."""
        return self._settlements.nackable

    def receive(self, *, wait_s: float | None = None) -> ReceivedMessage:
        """The next message, however long it takes; with ``wait_s`` DeadlineExceeded when none came in time.

        A receive that is cancelled returns at once, and the message goes to another. Closed when the subscription is
        closed, also while it waits. What may pass is tried again, for ``deadline_s``. Raises the error of an
        ``ack_soon`` that has failed.
        """
        self._home.check(self)
        if wait_s is not None:
            wait_s = check_seconds("wait_s", wait_s)
        if self._late:
            self._settlements.raise_late()
        found = self._take()
        if found is None:
            found = self._intake.wait(wait_s)
        return ReceivedMessage(found, self._settlements, found.body)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self.receive()
        except Closed:
            if not self._closed:
                raise
            raise StopIteration from None

    def as_(self, kind: type[T]) -> T:
        """The broker's own object, for what only this broker can do; InvalidArgument where it has none of this kind."""
        return native(self._driver.native, kind, self)

    # -- calls of the driver --

    def _fetch(self, max_messages: int, wait_s: float) -> Sequence[Incoming]:
        began = monotonic()
        call = partial(self._driver.receive_batch, max_messages, wait_s)
        batch = self._receiving.persistently(call, wait_s)
        if type(batch) is not list or not ONLY_MESSAGES.issuperset(map(type, batch)):
            self._check_batch(batch)
        if len(batch) > max_messages:
            self._release(batch)
            raise self._calls.broken(f"{len(batch)} messages where {max_messages} were asked for")
        if batch:
            self._hasty = 0
        elif wait_s:
            self._slow_down(wait_s, monotonic() - began)
        return batch

    def _slow_down(self, wait_s: float, took_s: float) -> None:
        """Where the driver came back with nothing long before it should, do not ask again at once."""
        pause_s = min(wait_s, retry_s(self._hasty)) - took_s
        if self._receiving.rest(max(0.0, pause_s)) or pause_s <= 0:
            return
        self._hasty += 1
        if self._hasty >= HASTY_MAX and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%r: the driver says at once that there is nothing, though it is told to wait; it is asked less often. "
                "Report it to the driver's author",
                self,
            )

    def _check_batch(self, batch: object) -> None:
        if not isinstance(batch, Sequence):
            raise self._calls.broken(f"{type(batch).__name__} where a list of messages was due")
        for each in batch:
            if not isinstance(each, Incoming):
                raise self._calls.broken(f"{type(each).__name__} where a message was due")

    def _release(self, messages: Sequence[Incoming]) -> None:
        """Let others have them. Where that fails they come again after their deadline."""
        if not messages or not self._capabilities.acks:
            return
        ack_ids = [each.ack_id for each in messages]

        def call() -> None:
            self._driver.release(ack_ids)

        try:
            self._calls.once(call, self._plan.settings.close_timeout_s)
        except TrunklineError as error:
            logger.warning("%r could not give back %d messages: %s", self, len(ack_ids), error)

    # -- what goes on beside its callers --

    def _call_service(self) -> None:
        if self._service is None:
            self._start_service()
        self._bell.ring()

    def _start_service(self) -> None:
        with self._mutex:
            if self._service is None and not self._closed:
                self._service = Service(f"trunkline {self._plan.shown}", self._serve, wake=self._bell.ring)

    def _serve(self, stop: Stop) -> None:
        """Fetch ahead, and send acknowledgements that nobody waits for."""
        try:
            while not stop.is_set:
                self._bell.wait()
                self._settlements.flush()
                self._intake.fetch_ahead()
        finally:
            self._served.give(True)

    def _end_service(self, service: Service, timeout_s: float) -> None:
        service.stop()
        try:
            self._served.wait(timeout_s)
        except TimeoutError:
            service.abandon()
            logger.warning("%r: its service was still at work when it was closed", self)
        else:
            service.close()

    # -- coming and going --

    def close(self) -> None:
        """End those who wait with Closed, hand out nothing more, give back what was prefetched, wait for
        acknowledgements under way, then give back connections; each for ``close_timeout_s`` at most. Until the last
        acknowledgement under way is done, others are taken too. What was received and not settled by then is delivered
        again after its deadline. Raises the error of an ``ack_soon`` that has failed. Twice is fine, and whoever comes
        second waits as well. A close that is cancelled goes on by itself."""
        if self._closing.is_done:
            return
        self._home.check(self)
        with self._mutex:
            self._closed = True
        self._closing.run(self._close)
        self._settlements.raise_late()

    def _close(self) -> None:
        timeout_s = self._plan.settings.close_timeout_s
        self._receiving.stop()
        self._intake.close()
        if not self._settlements.close(timeout_s):
            logger.warning("%r: acknowledgements were still under way when it was closed", self)
        # Nothing is tried again, so the service ends soon. What it is fetching ahead can be given back only as long as
        # the driver is open; and the driver is closed however the service ends.
        self._calls.stop()
        try:
            if self._service is not None:
                self._end_service(self._service, timeout_s)
        finally:
            self._close_driver(timeout_s)

    def _close_driver(self, timeout_s: float) -> None:
        try:
            self._calls.once(self._driver.close, timeout_s)
        except TrunklineError as error:
            logger.warning("%r could not be closed well: %s", self, error)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
