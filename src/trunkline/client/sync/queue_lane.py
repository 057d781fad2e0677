# Generated from src/trunkline/client/aio/queue_lane.py by tools/twins.py (make fix). Change the source, not this file.
"""The way of one reader's calls to its queue: those that come at the same time share one call of the server.

While one call is under way, whoever comes next waits in line; when it is done, the first in line takes everything that
has gathered: settlements, and wishes for records. Where records are acknowledged and few are left in memory, the same
call claims the next ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from time import monotonic
from typing import Any, Literal

from trunkline.client.sync.queue_calls import Answer, Claimed, QueueCalls
from trunkline.client.sync.queue_letters import Grave, QueueLetters
from trunkline.client.sync.server import Server
from trunkline.client.sync.shim import IS_ASYNC, Mutex, Shield, Waiter, give_way
from trunkline.engine.deliveries import Buffer, Claim, Kind, Settlement, merged
from trunkline.engine.queue_settings import Prefetch
from trunkline.errors import Closed, DeadlineExceeded, OutcomeUnknown, TrunklineError, Unavailable

CLAIM_RECORDS_MAX = 10_000
ORDERS_MAX = 1_000

Signal = Literal["lead", "done"]


class Order(Waiter[Signal]):
    """What one caller waits for: settlements, or dead letters, or so many records in the buffer; ``gives_back``: that
    the buffer is given back; ``is_last``: and that nothing more is claimed. ``is_withdrawn``: it has left the line
    before anything was done. ``is_begun``: it leads. ``is_settled``: its settlements were answered, and only records
    are missing. ``had_records``: some were there for it, or to give back; whoever finds none has been overtaken."""

    graves: Sequence[Grave] = ()
    wanted = 0
    gives_back = is_last = ended = is_withdrawn = is_begun = is_settled = had_records = False
    lost: Set[Claim] = frozenset()
    error: TrunklineError | None = None

    def __init__(
        self,
        deadline: float,
        settlements: Sequence[Settlement] = (),
        *,
        graves: Sequence[Grave] = (),
        wanted: int = 0,
        gives_back: bool = False,
        is_last: bool = False,
    ) -> None:
        super().__init__()
        self.deadline = deadline
        self.settlements = settlements
        if graves or wanted or gives_back:
            self.graves = graves
            self.wanted = wanted
            self.gives_back = gives_back
            self.is_last = is_last

    def end(self, error: TrunklineError | None = None) -> None:
        """It is done, or could not be. What is settled stays settled: an error after that means no records, no more."""
        if self.ended:
            return
        self.ended = True
        if error is not None and not self.is_settled:
            self.error = error
        self.give("done")


class QueueLane:
    """Calls of one reader, one at a time, in the order in which they came. ``mutex`` guards the buffer."""

    def __init__(
        self,
        server: Server,
        shield: Shield,
        calls: QueueCalls,
        buffer: Buffer[Any],
        mutex: Mutex,
        prefetch: Prefetch,
    ) -> None:
        self.max_attempts: int | None = None
        self.letters: QueueLetters | None = None
        self._alone: Claim | None = None
        self.is_waiting = False
        """Whether somebody who wanted records waits until the one that is held alone is settled."""
        self._server = server
        self._shield = shield
        self._calls = calls
        self._buffer = buffer
        self._buffer_mutex = mutex
        self._prefetch = prefetch
        self._mutex = Mutex()
        self._pending: deque[Order] = deque()
        self._leader: Order | None = None
        self._is_full = False
        self._is_last = False
        self.exhausted: list[Claimed] = []
        self.due_at: float | None = None

    def submit(self, order: Order) -> None:
        """Return when it is done, raise where it was not; settlements of claims that are lost are in ``lost``."""
        try:
            with self._mutex:
                self._pending.append(order)
                if self._leader is None:
                    self._leader = order
            if self._leader is not order:
                # Wait in line until it is done, or the caller has to do it.
                try:
                    order.wait(max(0.0, order.deadline - monotonic()))
                except TimeoutError:
                    # A thread may end without notice.
                    raise OutcomeUnknown("whoever was at it does not answer; it may or may not be done") from None
            if not order.ended:
                self._shield.run(self._lead(order))
        except BaseException:
            # What leads in a task of its own goes on, once it has begun: before that, the task may have been cancelled
            # too. A signal finds a thread anywhere: others must not wait for it.
            if not (IS_ASYNC and order.is_begun):
                self._leave(order)
            raise
        if order.error is not None:
            raise order.error

    def _leave(self, order: Order) -> None:
        """Take it out of the line, unless it is under way already; if it leads, the next one does."""
        with self._mutex:
            if order in self._pending:
                self._pending.remove(order)
                order.is_withdrawn = True
            if self._leader is order:
                self._hand_over()

    def _lead(self, own: Order) -> None:
        if own.is_withdrawn:
            return
        own.is_begun = True
        orders: list[Order] = []
        try:
            # Others that are about to come are taken along.
            give_way()
            while not own.ended:
                orders = self._take()
                self._do(orders)
        except BaseException:
            for order in orders:
                order.end(OutcomeUnknown("it was interrupted; it may or may not be done"))
            self._leave(own)
            raise
        with self._mutex:
            self._hand_over()
        is_full, self._is_full = self._is_full, False
        if is_full:
            self._calls.roll()

    def _hand_over(self) -> None:
        self._leader = self._pending[0] if self._pending else None
        if self._leader is not None:
            self._leader.give("lead")

    def _take(self) -> list[Order]:
        with self._mutex:
            return [self._pending.popleft() for _ in range(min(len(self._pending), ORDERS_MAX))]

    def _do(self, orders: list[Order]) -> None:
        """Do what was ordered and tell each caller; if it cannot be done together, one after the other."""
        try:
            self._call(orders)
            with_graves = [order for order in orders if order.graves and not order.ended]
            if with_graves:
                self._bury(with_graves)
        except TrunklineError as error:
            left = [order for order in orders if not order.ended]
            is_everybodys = isinstance(error, OutcomeUnknown | Unavailable | DeadlineExceeded | Closed)
            if len(orders) == 1 or is_everybodys:
                for order in left:
                    order.end(error)
                return
            for order in left:
                self._do([order])
        for order in orders:
            if not order.ended:
                order.end()

    def _call(self, orders: list[Order]) -> None:
        """Settle and claim in one call, where there is anything to settle or to claim."""
        leaving = [order for order in orders if order.gives_back]
        with self._buffer_mutex:
            if leaving:
                self._is_last = self._is_last or any(order.is_last for order in leaving)
                _note_records(leaving, len(self._buffer))
                # Its own from now on: where the call fails for another's reason, it is done again with them.
                leaving[0].settlements = [*leaving[0].settlements, *self._buffer.release()]
            gathered, asked, deadline = _gathered(orders)
            settlements = merged(gathered)
            wanted = self._wanted(asked, settlements)
            _note_records(orders, asked and len(self._buffer))
        for settlement in settlements:
            if settlement.claim.is_lost:
                settlements = _refuse_lost(orders, settlements)
                break
        if not settlements and not wanted:
            return
        try:
            answer = self._calls.next(settlements, wanted, self._prefetch.bytes_max, deadline)
        except BaseException as error:
            _lose_in_doubt(error, settlements)
            raise
        self._keep(answer, wanted)
        _note_records(orders, asked and len(answer.claimed))
        if answer.lost:
            _tell_lost(orders, {settlements[index].subject for index in answer.lost}, in_doubt=answer.in_doubt)
        for order in orders:
            if not order.graves and not (answer.is_more and order.wanted):
                order.end()
        if answer.is_more:
            self._claim_more([order for order in orders if order.wanted], wanted, deadline)

    def _claim_more(self, orders: list[Order], wanted: int, deadline: float) -> None:
        """Ask once more for those who want records: their settlements were answered, whatever becomes of this."""
        for order in orders:
            if order.settlements:
                order.settlements, order.is_settled = (), True
        if orders:
            answer = self._calls.next((), wanted, self._prefetch.bytes_max, deadline)
            self._keep(answer, wanted)
            _note_records(orders, len(answer.claimed))

    def _wanted(self, asked: int, settlements: Sequence[Settlement]) -> int:
        if self._is_last:
            return 0
        if self._alone is not None and self._alone.is_held(monotonic()):
            # A record that kills its reader in its last attempt must not take the last attempt of another along.
            # Who waits already still does, whatever else is settled meanwhile.
            self.is_waiting = self.is_waiting or asked > 0
            self.due_at = self._alone.expires_at
            return 0
        held = len(self._buffer)
        if not asked and (held >= self._prefetch.low or not any(each.kind == "a" for each in settlements)):
            return 0
        # As many as a batch may have, however many are left: claims that end with a batch cost the least.
        return max(0, min(max(asked - held, self._prefetch.records), CLAIM_RECORDS_MAX))

    def _keep(self, answer: Answer, wanted: int) -> None:
        with self._buffer_mutex:
            for piece in answer.claimed:
                self._buffer.add(piece.claim, piece.ranges, piece.batch)
                if piece.claim.attempt == self.max_attempts:
                    self._alone = piece.claim
            self.exhausted += answer.exhausted
            if wanted:
                self.due_at = None if answer.due_s is None else monotonic() + answer.due_s
            self._is_full |= answer.is_full

    def _bury(self, orders: list[Order]) -> None:
        assert self.letters is not None
        graves = [grave for order in orders for grave in order.graves]
        try:
            lost = self.letters.bury(graves, min(order.deadline for order in orders))
        except BaseException as error:
            _lose_in_doubt(error, [each for grave in graves for each in grave.settlements])
            raise
        for order in orders:
            refused = [grave for grave in order.graves if any(grave is each for each in lost)]
            order.lost = order.lost | {each.claim for grave in refused for each in grave.settlements}


def _gathered(orders: Sequence[Order]) -> tuple[list[Settlement], int, float]:
    """All settlements, how many records are asked for, and the earliest deadline."""
    settlements: list[Settlement] = []
    asked, deadline = 0, orders[0].deadline
    for order in orders:
        settlements += order.settlements
        asked += order.wanted
        deadline = min(deadline, order.deadline)
    return settlements, asked, deadline


def _note_records(orders: Sequence[Order], count: int) -> None:
    if count:
        for order in orders:
            order.had_records = True


def _lose_in_doubt(error: BaseException, settlements: Sequence[Settlement]) -> None:
    """Touch no claim any more of which it is not known what has become: the number of its next settlement is not known
    either, and one that has the number of another is answered as done."""
    if isinstance(error, OutcomeUnknown) or not isinstance(error, TrunklineError):
        for settlement in settlements:
            settlement.claim.lose()


def _refuse_lost(orders: list[Order], settlements: list[Settlement]) -> list[Settlement]:
    """Those whose claims are held; of the others, which were lost while they stood in line, nothing is done."""
    _tell_lost(orders, {each.subject for each in settlements if each.claim.is_lost}, in_doubt=False)
    return [each for each in settlements if not each.claim.is_lost]


def _tell_lost(orders: list[Order], lost: set[tuple[Claim, Kind, float]], *, in_doubt: bool) -> None:
    """Note for each order which of its claims are lost."""
    for order in orders:
        order.lost = order.lost | {each.claim for each in order.settlements if each.subject in lost}
        if order.lost and in_doubt:
            order.end(OutcomeUnknown("an answer was lost, and now the claim is; it may or may not have been done"))
