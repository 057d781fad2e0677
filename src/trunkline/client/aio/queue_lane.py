"""The way of one reader's calls to its queue: those that come at the same time share one call of the server.

While one call is under way, whoever comes next waits in line; when it is done, the first in line takes everything that
has gathered: settlements, and wishes for records. Where records are acknowledged and few are left in memory, the same
call claims the next ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from time import monotonic
from typing import Any, Literal

import msgspec

from trunkline.client.aio.queue_calls import Answer, Claimed, QueueCalls
from trunkline.client.aio.queue_letters import Grave, QueueLetters
from trunkline.client.aio.server import Server
from trunkline.client.aio.shim import Mutex, Shield, Waiter
from trunkline.engine.deliveries import Buffer, Claim, Settlement, merged
from trunkline.errors import Closed, DeadlineExceeded, OutcomeUnknown, TrunklineError, Unavailable

CLAIM_RECORDS_MAX = 10_000
ORDERS_MAX = 1_000

Signal = Literal["lead", "done"]


class Prefetch(msgspec.Struct, frozen=True):
    """How much may be claimed ahead of the application."""

    records: int
    bytes_max: int

    @property
    def low(self) -> int:
        """With fewer than these in memory, more are claimed along with an acknowledgement."""
        return (self.records + 1) // 2


class Order:
    """What one caller waits for: settlements, or dead letters, or so many records in the buffer; ``is_last``: that the
    buffer is given back. ``is_withdrawn``: the caller has gone before anything was done."""

    __slots__ = (
        "deadline",
        "error",
        "graves",
        "is_done",
        "is_last",
        "is_withdrawn",
        "lost",
        "settlements",
        "waiter",
        "wanted",
    )

    def __init__(
        self,
        deadline: float,
        *,
        settlements: Sequence[Settlement] = (),
        graves: Sequence[Grave] = (),
        wanted: int = 0,
        is_last: bool = False,
    ) -> None:
        self.deadline = deadline
        self.settlements = settlements
        self.graves = graves
        self.wanted = wanted
        self.is_last = is_last
        self.waiter: Waiter[Signal] = Waiter()
        self.lost: set[Claim] = set()
        self.is_done = self.is_withdrawn = False
        self.error: TrunklineError | None = None

    @property
    def ended(self) -> bool:
        return self.is_done or self.error is not None

    def end(self, error: TrunklineError | None = None) -> None:
        if self.ended:
            return
        self.error, self.is_done = error, error is None
        self.waiter.give("done")


class QueueLane:
    """Calls of one reader, one at a time, in the order in which they came. ``mutex`` guards the buffer."""

    def __init__(
        self,
        server: Server,
        shield: Shield,
        calls: QueueCalls,
        letters: QueueLetters | None,
        buffer: Buffer[Any],
        mutex: Mutex,
        prefetch: Prefetch,
        max_attempts: int | None,
    ) -> None:
        self._max_attempts = max_attempts
        self._alone: Claim | None = None
        self.is_waiting = False
        """Whether somebody who wanted records waits until the one that is held alone is settled."""
        self._server = server
        self._shield = shield
        self._calls = calls
        self._letters = letters
        self._buffer = buffer
        self._buffer_mutex = mutex
        self._prefetch = prefetch
        self._mutex = Mutex()
        self._pending: deque[Order] = deque()
        self._led = False
        self._is_full = False
        self._is_last = False
        self.exhausted: list[Claimed] = []
        self.due_at: float | None = None

    async def submit(self, order: Order) -> None:
        """Return when it is done, raise where it was not; settlements of claims that are lost are in ``lost``."""
        with self._mutex:
            self._pending.append(order)
            lead, self._led = not self._led, True
        if lead or await self._turn(order) == "lead":
            await self._shield.run(self._lead(order))
        if order.error is not None:
            raise order.error

    async def _turn(self, order: Order) -> Signal:
        """Wait in line until it is done, or the caller has to do it. Out of time, leave the line."""
        try:
            try:
                return await order.waiter.wait(max(0.0, order.deadline - monotonic()))
            except TimeoutError:
                if self._leave(order):
                    raise DeadlineExceeded("it waited in line for too long, and nothing was done; try again") from None
                raise OutcomeUnknown("it was under way when the time was over; it may or may not be done") from None
        except BaseException:
            self._leave(order)
            raise

    def _leave(self, order: Order) -> bool:
        """Take it out of the line; False where it is under way already."""
        with self._mutex:
            waiting = order in self._pending
            if waiting:
                self._pending.remove(order)
                order.is_withdrawn = True
                if order.waiter.given == "lead":
                    self._hand_over()
            return waiting

    async def _lead(self, own: Order) -> None:
        try:
            while not own.ended:
                await self._do(self._take())
        finally:
            with self._mutex:
                self._hand_over()
        is_full, self._is_full = self._is_full, False
        if is_full:
            await self._calls.roll()

    def _hand_over(self) -> None:
        if self._pending:
            self._pending[0].waiter.give("lead")
        else:
            self._led = False

    def _take(self) -> list[Order]:
        with self._mutex:
            return [self._pending.popleft() for _ in range(min(len(self._pending), ORDERS_MAX))]

    async def _do(self, orders: list[Order]) -> None:
        """Do what was ordered and tell each caller; if it cannot be done together, one after the other."""
        try:
            await self._call(orders)
            await self._bury([order for order in orders if order.graves and not order.ended])
        except TrunklineError as error:
            left = [order for order in orders if not order.ended]
            is_everybodys = isinstance(error, OutcomeUnknown | Unavailable | DeadlineExceeded | Closed)
            if len(orders) == 1 or is_everybodys:
                for order in left:
                    order.end(error)
                return
            for order in left:
                await self._do([order])
        except BaseException:
            for order in orders:
                order.end(OutcomeUnknown("it was interrupted; it may or may not be done"))
            raise
        for order in orders:
            order.end()

    async def _call(self, orders: list[Order]) -> None:
        """Settle and claim in one call, where there is anything to settle or to claim."""
        settlements = merged(chain.from_iterable(order.settlements for order in orders))
        with self._buffer_mutex:
            if any(order.is_last for order in orders):
                self._is_last = True
                settlements += self._buffer.release()
            wanted = self._wanted(orders, settlements)
        if not settlements and not wanted:
            return
        deadline = min(order.deadline for order in orders)
        answer = await self._calls.next(settlements, wanted, self._prefetch.bytes_max, deadline)
        self._keep(answer, wanted)
        lost = {settlements[index].subject for index in answer.lost}
        for order in orders:
            order.lost |= {each.claim for each in order.settlements if each.subject in lost}
            if order.lost and answer.in_doubt:
                order.end(OutcomeUnknown("an answer was lost, and now the claim is; it may or may not have been done"))
            elif not order.graves:
                order.end()

    def _wanted(self, orders: list[Order], settlements: Sequence[Settlement]) -> int:
        if self._is_last:
            return 0
        if self._alone is not None and self._alone.is_held(monotonic()):
            # A record that kills its reader in its last attempt must not take the last attempt of another along.
            self.is_waiting = any(order.wanted for order in orders)
            self.due_at = self._alone.expires_at
            return 0
        asked = sum(order.wanted for order in orders)
        held = len(self._buffer)
        if not asked and (held >= self._prefetch.low or not any(each.kind == "a" for each in settlements)):
            return 0
        return max(0, min(max(asked, self._prefetch.records) - held, CLAIM_RECORDS_MAX))

    def _keep(self, answer: Answer, wanted: int) -> None:
        with self._buffer_mutex:
            for piece in answer.claimed:
                self._buffer.add(piece.claim, piece.ranges, piece.batch)
                if piece.claim.attempt == self._max_attempts:
                    self._alone = piece.claim
            self.exhausted += answer.exhausted
            if wanted:
                self.due_at = None if answer.due_s is None else monotonic() + answer.due_s
            self._is_full |= answer.is_full

    async def _bury(self, orders: list[Order]) -> None:
        if not orders:
            return
        assert self._letters is not None
        graves = [grave for order in orders for grave in order.graves]
        lost = await self._letters.bury(graves, min(order.deadline for order in orders))
        for order in orders:
            refused = [grave for grave in order.graves if any(grave is each for each in lost)]
            order.lost |= {each.claim for grave in refused for each in grave.settlements}
