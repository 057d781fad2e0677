"""How messages come in: receivers take from memory, and one of them, when it is empty, asks the broker for all who
wait.

Whoever comes first asks, in its own task; the others wait for what that brings, and if it brings too little the next of
them asks. Beside them the subscription's service fetches ahead, without waiting, when memory is half empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from time import monotonic
from typing import cast

from trunkline.client.aio.shim import give_way
from trunkline.engine.ahead import Ahead
from trunkline.engine.appetite import Appetite
from trunkline.errors import Closed, DeadlineExceeded, TrunklineError
from trunkline.portable.aio.shim import Mutex, Waiter
from trunkline.portable.driver import Incoming

WAIT_S = 5.0
"""How long one call of the driver waits for messages; then the next one waits."""

Fetch = Callable[[int, float], Awaitable[Sequence[Incoming]]]
Release = Callable[[Sequence[Incoming]], Awaitable[None]]


class Intake:
    """What one subscription has in memory, and who waits for more."""

    def __init__(
        self,
        fetch: Fetch,
        release: Release,
        appetite: Appetite,
        *,
        useful_s: float,
        call_service: Callable[[], None],
    ) -> None:
        self._fetch = fetch
        self._release = release
        self._appetite = appetite
        self._useful_s = useful_s
        self._call_service = call_service
        self._mutex = Mutex()
        self._ahead: Ahead[Incoming] = Ahead()
        self._stale: list[Incoming] = []
        self._waiters: deque[Waiter[Incoming | bool]] = deque()
        self._fetching = False
        self._is_dry = False
        self._is_called = False
        self._closed = False

    @property
    def in_memory(self) -> int:
        return len(self._ahead)

    def _take(self) -> Incoming | None:
        """The next message that is in memory; None: there is none."""
        ahead = self._ahead
        now = monotonic()
        if len(ahead) > self._appetite.low and ahead.useful_until >= now:
            # Nearly always, and in as few words as it goes. Closed, there is nothing in memory.
            return ahead.popleft()
        if self._closed:
            self._check_open()
        if ahead.useful_until < now:
            self._stale += ahead.drop_stale(now)
        found = ahead.popleft() if ahead else None
        if not self._is_called and (
            (len(ahead) < self._appetite.low and not (self._fetching or self._is_dry)) or self._stale
        ):
            self._is_called = True
            self._call_service()
        return found

    if True:  # ASYNC
        take = _take
    else:

        def take(self) -> Incoming | None:
            """The next message that is in memory; None: there is none."""
            with self._mutex:
                return self._take()

    async def wait(self, wait_s: float | None) -> Incoming:
        """The next message, however long it takes; with ``wait_s`` DeadlineExceeded when none came in time."""
        found: Incoming | None = None
        deadline = inf if wait_s is None else monotonic() + wait_s
        while True:
            waiter = self._join()
            if waiter is not None:
                found = await self._turn(waiter, deadline)
            if found is None:
                found = await self._lead(deadline)
            if found is not None:
                return found
            if monotonic() >= deadline:
                raise _late(wait_s)

    # -- in memory --

    def _check_open(self) -> None:
        if self._closed:
            raise _ended()

    # -- waiting --

    def _join(self) -> Waiter[Incoming | bool] | None:
        """Stand in line; None: nobody asks the broker, so the caller does."""
        with self._mutex:
            self._check_open()
            self._appetite.starves(monotonic())
            if not self._fetching:
                self._fetching = True
                return None
            waiter: Waiter[Incoming | bool] = Waiter()
            self._waiters.append(waiter)
            return waiter

    async def _turn(self, waiter: Waiter[Incoming | bool], deadline: float) -> Incoming | None:
        """A message; None: the caller has to ask for more. Cancelled or out of time, leave the line. Closed by now,
        nothing is handed out: it could not be settled."""
        try:
            given = await waiter.wait(None if deadline == inf else max(0.0, deadline - monotonic()))
        except BaseException as error:
            unwanted = self._leave(waiter)
            if unwanted is not None:
                await self._release([unwanted])
            if isinstance(error, TimeoutError):
                raise _late(None) from None
            raise
        if given is True:
            return None
        if not self._closed:
            return cast("Incoming", given)
        if given is not False:
            await self._release([given])
        raise _ended()

    def _leave(self, waiter: Waiter[Incoming | bool]) -> Incoming | None:
        """Pass on what the waiter was given in the same moment: a message, or the turn to ask. Closed by now, nobody
        takes the message: the caller has to give it back."""
        with self._mutex:
            given = waiter.given
            if given is None:
                self._waiters.remove(waiter)
                return None
            if given is True:
                self._fetching = False
            elif not isinstance(given, bool):
                if self._closed:
                    return given
                self._ahead.put_back(given)
            self._deal()
            return None

    def _deal(self) -> None:
        """Give what is in memory to those who wait, and the turn to ask to the first who gets nothing."""
        while self._waiters and (found := self._ahead.take()) is not None:
            self._waiters.popleft().give(found)
        if self._waiters and not self._fetching:
            self._fetching = True
            self._waiters.popleft().give(True)

    # -- asking the broker --

    async def _lead(self, deadline: float) -> Incoming | None:
        """Ask for all who wait. The first message is the caller's; None: nothing came for a while."""
        own: Incoming | None = None
        wait_s = min(WAIT_S, max(0.0, deadline - monotonic()))
        try:
            wanted = self._wanted(waiting=len(self._waiters) + 1)
            batch = await self._fetch(wanted, wait_s)
            with self._mutex:
                closed = self._closed
                if not closed:
                    self._keep(batch)
                    own = self._ahead.take()
                    if own is None:
                        self._appetite.stays_hungry()
        finally:
            with self._mutex:
                self._fetching = False
                if not self._waiters:
                    self._appetite.is_fed(0, 0, monotonic())
                self._deal()
        if closed:
            await self._release(batch)
            raise _ended()
        return own

    def _wanted(self, waiting: int) -> int:
        with self._mutex:
            return self._appetite.wanted(len(self._ahead), waiting, self._ahead.taken, monotonic())

    def _keep(self, batch: Sequence[Incoming]) -> None:
        if not batch:
            return
        now = monotonic()
        self._appetite.is_fed(len(batch), sum([len(each.body) for each in batch]), now)
        self._ahead.add(batch, now + self._useful_s)
        self._is_dry = False

    async def fetch_ahead(self) -> None:
        """Give back what has lain too long, and fetch what is there, without waiting, if memory is half empty. A
        failure is left to the next who asks."""
        with self._mutex:
            self._is_called = False
            stale, self._stale = self._stale, []
            due = not (self._closed or self._fetching) and len(self._ahead) < self._appetite.low
            if due:
                self._fetching = True
        if stale:
            await self._release(stale)
        if not due:
            return
        batch: Sequence[Incoming] = ()
        try:
            batch = await self._fetch(self._wanted(waiting=0), 0.0)
        except TrunklineError:
            pass
        finally:
            with self._mutex:
                self._is_dry = not batch
                closed = self._closed
                if not closed:
                    self._keep(batch)
                self._fetching = False
                self._deal()
        if closed and batch:
            await self._release(batch)

    async def close(self) -> None:
        """Hand out nothing more: end every wait with Closed, and give back what nobody has asked for."""
        with self._mutex:
            self._closed = True
            unused = self._stale + self._ahead.drop_all()
            self._stale = []
            while self._waiters:
                self._waiters.popleft().give(False)
        if True:  # ASYNC
            # Who was given a message in the same moment releases it now: later the driver is closed.
            await give_way()
        if unused:
            await self._release(unused)


def _ended() -> Closed:
    return Closed("this subscription is closed; open another one")


def _late(wait_s: float | None) -> DeadlineExceeded:
    return DeadlineExceeded("no message came in time" if wait_s is None else f"no message came within {wait_s:g} s")
