# Generated from src/trunkline/portable/aio/settling.py by tools/twins.py (make fix). Change the source, not this file.
"""What becomes of received messages: acknowledgements and failures of many callers, in one call of the driver each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, NamedTuple

from trunkline.engine.checks import check_seconds
from trunkline.engine.gathering import GatherLimits
from trunkline.errors import AckNotSupported, Closed, FailedPrecondition, TrunklineError
from trunkline.portable.plan import Plan
from trunkline.portable.sync.calls import BatchCalls, Calls
from trunkline.portable.sync.driver import SubscriptionDriver
from trunkline.portable.sync.lane import Lane
from trunkline.portable.sync.received import ReceivedMessage
from trunkline.portable.sync.shim import Home, Mutex
from trunkline.settings import ReceiveSettings


class Nack(NamedTuple):
    """A failure to be told. An acknowledgement is the ``ack_id`` alone: there are so many."""

    ack_id: Any
    delay_s: float


class Settlements:
    """Settles the messages of one subscription."""

    def __init__(
        self,
        driver: SubscriptionDriver,
        plan: Plan[ReceiveSettings],
        calls: Calls,
        home: Home,
        call_service: Callable[[], None],
    ) -> None:
        settings = plan.settings
        self._driver = driver
        self._plan = plan
        self._calls = calls
        self.home = home
        self._capabilities = driver.capabilities
        self.has_acks = driver.capabilities.acks
        self._mutex = Mutex()
        self.is_closed = False
        self._has_nacked = False
        self.late: list[TrunklineError] = []
        """Errors that nobody has heard of."""
        self._acks: BatchCalls[Any, None] = BatchCalls(calls, driver.ack, NoneType)
        self._lane: Lane[Any, None] = Lane(
            self._settle,
            GatherLimits(settings.ack_batch_max, 2**62, 2**62),
            wait_s=settings.ack_wait_s,
            deadline_s=settings.deadline_s,
            unled=call_service,
        )
        self.submit = self._lane.submit

    @property
    def nackable(self) -> bool:
        return self._capabilities.acks and self._capabilities.nack

    def nack(self, message: ReceivedMessage, delay_s: float) -> None:
        delay_s = check_seconds("delay_s", delay_s)
        if not self.nackable:
            raise self._cannot("give messages back; acknowledge it, or send it again", "nack")
        if delay_s and not self._capabilities.nack_delay:
            raise self._cannot("delay what is given back; give it back without delay_s", "nack_delay")
        self.begin(message)
        self._has_nacked = True
        try:
            failed = self.submit(Nack(message.incoming.ack_id, delay_s), 0)
        except BaseException:
            message.is_settled = False
            raise
        if failed is not None:
            message.is_settled = False
            raise failed

    def ack_soon(self, message: ReceivedMessage) -> None:
        self.begin(message)
        if self.has_acks:
            self._lane.put(message.incoming.ack_id, self.late.append)

    def flush(self) -> None:
        """Send what nobody waits for."""
        self._lane.flush()

    def close(self, timeout_s: float) -> bool:
        """Wait for what is under way, and refuse more from then on; False where that takes too long."""
        ended = self._lane.drain(timeout_s)
        self.is_closed = True
        self._lane.give_up()
        self._acks.close()
        return ended

    def raise_late(self) -> None:
        """Raise the first error that nobody has heard of."""
        if self.late:
            late, self.late[:] = list(self.late), []
            if len(late) > 1:
                late[0].add_note(f"and {len(late) - 1} more acknowledgements failed")
            raise late[0]

    def begin(self, message: ReceivedMessage) -> None:
        """It is settled from now on, or an error says why it cannot be."""
        self.home.check(message)
        if self.is_closed:
            raise Closed(f"the subscription is closed; {message!r} is delivered again after its deadline")
        with self._mutex:
            is_settled, message.is_settled = message.is_settled, True
        if is_settled:
            raise FailedPrecondition(f"{message!r} is settled already")

    def _settle(self, items: list[Any]) -> Sequence[TrunklineError | None]:
        """Acknowledgements in one call, failures in one for each delay."""
        if not self._has_nacked or Nack not in set(map(type, items)):
            return self._acks.each(items)
        return self._settle_mixed(items)

    def _settle_mixed(self, items: list[Any]) -> Sequence[TrunklineError | None]:
        """Each kind has its own time, and its own answers: one that fails, or hangs, says nothing about the others."""
        delays = [each.delay_s if type(each) is Nack else None for each in items]
        found: list[TrunklineError | None] = [None] * len(items)
        for delay_s in dict.fromkeys(delays):
            places = [place for place, each in enumerate(delays) if each == delay_s]
            alike = [items[place] for place in places]
            answers = self._acks.each(alike) if delay_s is None else self._give_back(alike, delay_s)
            for place, answer in zip(places, answers, strict=True):
                found[place] = answer
        return found

    def _give_back(self, nacks: list[Nack], delay_s: float) -> Sequence[TrunklineError | None]:
        def nack(ack_ids: list[Any]) -> Sequence[TrunklineError | None] | None:
            return self._driver.nack(ack_ids, delay_s)

        calls: BatchCalls[Any, None] = BatchCalls(self._calls, nack, NoneType)
        try:
            return calls.each([each.ack_id for each in nacks])
        finally:
            calls.close()

    def _cannot(self, what: str, capability: str) -> AckNotSupported:
        name = self._plan.name
        return AckNotSupported(f"the driver {name} cannot {what}", driver=name, capability=capability)
