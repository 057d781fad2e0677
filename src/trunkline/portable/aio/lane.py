"""The way of single items to a driver that takes batches: callers at the same time share one call.

While one call is under way, whoever comes next waits in line; when it is done, everything that has gathered goes with
the next. No timer, unless the lane is told to wait for more. Whoever comes to an idle lane calls the driver itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar, cast

import msgspec

from trunkline.client.aio.shim import give_way
from trunkline.engine.gathering import GatherLimits, Line
from trunkline.errors import Cancelled, DeadlineExceeded, OutcomeUnknown, TrunklineError
from trunkline.portable.aio.shim import LEAD, Mutex, Shield, Turn, Waiter, bounded, turns

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Entry(msgspec.Struct, Generic[ItemT], eq=False, gc=False):
    """What waits in line. ``turn`` gets the answer; where nobody waits there is none, and ``late`` gets an error."""

    item: ItemT
    size: int
    deadline: float
    turn: Turn[Any] | None
    late: Callable[[TrunklineError], None] | None = None


class Lane(Generic[ItemT, ResultT]):
    """One call at a time, in the order in which callers came. ``call`` gives each item an answer, and never raises.

    ``unled`` is called when items are in line for which nobody waits: then somebody must call ``flush``.
    """

    def __init__(
        self,
        call: Callable[[list[ItemT]], Awaitable[Sequence[ResultT | TrunklineError]]],
        limits: GatherLimits,
        *,
        wait_s: float,
        deadline_s: float,
        unled: Callable[[], None] = lambda: None,
    ) -> None:
        self._call = call
        self._unled = unled
        self._wait_s = wait_s
        self._deadline_s = deadline_s
        self._mutex = Mutex()
        self._shield = Shield()
        self._line: Line[Entry[ItemT]] = Line(limits)
        self._for_room: deque[Waiter[bool]] = deque()
        self._full: Waiter[bool] | None = None
        self._idle: Waiter[bool] | None = None
        self._led = False
        self._closed = False
        self._new_turn = turns()

    if True:  # ASYNC

        def submit(self, item: ItemT, size: int) -> Awaitable[ResultT | TrunklineError]:
            """The answer for the item, or its error. Cancelled in line, nothing is done for it; under way, it goes on
            without its caller."""
            line = self._line
            if self._led and self._full is None and (not size or line.bytes + size <= line.bytes_max):
                # The usual case, in as few words as it goes: there are as many of them as messages.
                turn = self._new_turn()
                line.append(Entry(item, size, monotonic() + self._deadline_s, turn))
                if size:
                    line.bytes += size
                return turn
            if not (self._led or self._wait_s or line or self._closed):
                self._led = True
                return self._alone(item)
            return self._after_room(Entry(item, size, monotonic() + self._deadline_s, self._new_turn()))

    else:

        def submit(self, item: ItemT, size: int) -> ResultT | TrunklineError:
            """The answer for the item, or its error."""
            with self._mutex:
                alone = not (self._led or self._wait_s or self._line or self._closed)
                if alone:
                    self._led = True
            if alone:
                return self._alone(item)
            return self._after_room(Entry(item, size, monotonic() + self._deadline_s, self._new_turn()))

    async def _alone(self, item: ItemT) -> ResultT | TrunklineError:
        """In the caller's own task: an idle lane costs little beside the driver."""
        try:
            return (await self._call([item]))[0]
        finally:
            self._hand_over()

    def put(self, item: ItemT, late: Callable[[TrunklineError], None]) -> None:
        """Put an item in line for which nobody waits; ``late`` gets its error."""
        with self._mutex:
            if self._closed:
                raise _given_up()
            self._line.join(Entry(item, 0, monotonic() + self._deadline_s, None, late))
            led = self._led
        if not led:
            self._unled()

    async def flush(self) -> None:
        """Send what is in line, if nobody is about to."""
        with self._mutex:
            if self._led or not self._line:
                return
            self._led = True
        await self._shield.run(self._lead())

    async def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is in line or under way, and take nothing more from then on; False where that takes too
        long."""
        deadline = monotonic() + timeout_s
        self._wait_s = 0.0
        while True:
            try:
                await bounded(self.flush(), max(0.0, deadline - monotonic()))
            except TimeoutError:
                return False
            with self._mutex:
                if not self._led:
                    if self._line:
                        continue
                    self._closed = True
                    return True
                if self._full is not None:
                    self._full.give(True)
                idle = self._idle = self._idle or Waiter()
            try:
                await idle.wait(max(0.0, deadline - monotonic()))
            except TimeoutError:
                return False

    def give_up(self) -> None:
        """Take nothing more, and let everybody go who is in line or waits for room: nothing was done for them."""
        with self._mutex:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        while self._line:
            for entry in self._line.next_batch():
                _end(entry, _given_up())
        self._wake_for_room()

    # -- in line --

    def _join(self, entry: Entry[ItemT]) -> bool | None:
        """Stand in line. True: nobody leads, so the caller does; None: there is no room."""
        line = self._line
        if not line.has_room(entry.size):
            return None
        line.join(entry)
        if self._full is not None and line.is_full():
            self._full.give(True)
        leads, self._led = not self._led, True
        return leads

    async def _after_room(self, entry: Entry[ItemT]) -> ResultT | TrunklineError:
        """Stand in line, as soon as there is room."""
        while True:
            room: Waiter[bool] = Waiter()
            with self._mutex:
                if self._closed:
                    return _given_up()
                leads = self._join(entry)
                if leads is None:
                    self._for_room.append(room)
            if leads is not None:
                return await self._answer(entry, leads)
            try:
                await room.wait(max(0.0, entry.deadline - monotonic()))
            except TimeoutError:
                return DeadlineExceeded(
                    f"{self._line.limits.buffer_bytes_max} bytes wait in line; send less at a time, or raise "
                    "buffer_bytes_max"
                )

    if True:  # ASYNC

        def _answer(self, entry: Entry[ItemT], leads: bool) -> Awaitable[ResultT | TrunklineError]:
            """What its turn will bring. A caller that is cancelled takes nobody's time: its turn is passed over."""
            if leads:
                self._shield.start(self._lead())
            assert entry.turn is not None
            return entry.turn

        def _hand_over(self) -> None:
            """A task of its own sends what has gathered; callers only wait."""
            if self._line:
                self._shield.start(self._lead())
            else:
                self._end_leading()

        async def _lead(self) -> None:
            """Send batches until nothing is in line."""
            try:
                while self._line:
                    if self._wait_s:
                        await self._wait_for_more()
                    await self._send(self._take())
                    # Those who have just got their answers are about to come again: they go with the next batch.
                    await give_way()
            except BaseException:
                self._let_go()
                raise
            finally:
                self._end_leading()

    else:

        def _answer(self, entry: Entry[ItemT], leads: bool) -> ResultT | TrunklineError:
            """Wait in line until it is done, or the caller has to do it. Out of time, leave the line."""
            assert entry.turn is not None
            if not leads:
                try:
                    given = entry.turn.wait(max(0.0, entry.deadline - monotonic()))
                except TimeoutError:
                    if self._leave(entry):
                        return self._late()
                    return OutcomeUnknown("it was under way when the time was over; it may or may not be done")
                except BaseException:
                    self._leave(entry)
                    raise
                if given is not LEAD:
                    return cast("ResultT", given)
                with self._mutex:
                    entry.turn = self._new_turn()
                    if self._closed:
                        # It was let go after it had been told to lead.
                        entry.turn.set_result(_given_up())
            try:
                while not entry.turn.done():
                    self._send_next()
            finally:
                self._hand_over()
            return cast("ResultT", entry.turn.result())

        def _leave(self, entry: Entry[ItemT]) -> bool:
            """Take it out of the line; False where it is under way already."""
            with self._mutex:
                waiting = self._line.leave(entry)
                if waiting:
                    self._wake_for_room()
            if waiting and entry.turn is not None and entry.turn.done():
                self._hand_over()
            return waiting

        def _hand_over(self) -> None:
            """The first in line who waits leads next, in its own thread."""
            with self._mutex:
                following = next((entry.turn for entry in self._line if entry.turn is not None), None)
                if following is not None:
                    following.set_result(LEAD)
                    return
                self._end_leading()
                is_unled = bool(self._line)
            if is_unled:
                self._unled()

        def _lead(self) -> None:
            """Send a batch for which nobody waits; then let the first lead who does."""
            try:
                self._send_next()
            finally:
                self._hand_over()

        def _send_next(self) -> None:
            if self._wait_s:
                self._wait_for_more()
            self._send(self._take())

    # -- leading --

    def _end_leading(self) -> None:
        self._led = False
        if self._idle is not None:
            self._idle.give(True)
            self._idle = None

    async def _wait_for_more(self) -> None:
        full: Waiter[bool] = Waiter()
        with self._mutex:
            if self._line.is_full():
                return
            self._full = full
        try:
            await full.wait(self._wait_s)
        except TimeoutError:
            pass
        finally:
            self._full = None

    def _take(self) -> list[Entry[ItemT]]:
        """The next batch, without those who have gone, or whose time is over."""
        with self._mutex:
            taken = self._line.next_batch() if self._line else []
            if self._for_room:
                self._wake_for_room()
        if taken and taken[0].deadline < (now := monotonic()):
            for entry in taken:
                if entry.deadline < now:
                    _end(entry, self._late())
        return [entry for entry in taken if (turn := entry.turn) is None or not turn.done()]

    async def _send(self, entries: list[Entry[ItemT]]) -> None:
        if not entries:
            return
        try:
            answers = await self._call([entry.item for entry in entries])
        except BaseException:
            for entry in entries:
                _end(entry, OutcomeUnknown("it was interrupted; it may or may not be done"))
            raise
        for entry, answer in zip(entries, answers, strict=True):
            turn = entry.turn
            if turn is None:
                _end(entry, answer)
            elif not turn.done():
                turn.set_result(answer)

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"it waited in line for {self._deadline_s:g} s, and nothing was done; try again")

    def _wake_for_room(self) -> None:
        while self._for_room:
            self._for_room.popleft().give(True)


def _given_up() -> Cancelled:
    return Cancelled("it waited in line when everything was closed; nothing was done")


def _end(entry: Entry[Any], answer: object) -> None:
    if entry.turn is not None:
        if not entry.turn.done():
            entry.turn.set_result(answer)
    elif entry.late is not None and isinstance(answer, TrunklineError):
        entry.late(answer)
