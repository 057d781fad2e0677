"""What differs between the two worlds beyond the client's own shim; its counterpart is
``trunkline.portable.sync.shim``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from trunkline.client.aio.shim import Service, Shield, Stop, Waiter, sleep
from trunkline.errors import FailedPrecondition

T = TypeVar("T")
get_ident = threading.get_ident

__all__ = [
    "LEAD",
    "Bell",
    "Home",
    "Mutex",
    "Once",
    "Service",
    "Shield",
    "Stop",
    "Turn",
    "Waiter",
    "Watch",
    "bounded",
    "get_ident",
    "sleep",
    "turns",
]


# Cheaper than a no-op that is written in Python. It is never contended: nobody waits inside.
Mutex = threading.Lock

Turn = asyncio.Future
"""An answer that one waits for. Nobody keeps time while he waits in line: every call is watched, and a timer for each
costs more than the wait."""


LEAD = object()
"""What a turn brings where callers do the work for others; here nobody gets it, since tasks do."""


def turns() -> Callable[[], Turn[Any]]:
    """What makes turns in the event loop that runs now, without looking for it each time."""
    return partial(asyncio.Future, loop=asyncio.get_running_loop())


class Watch:
    """Cancels what is done inside ``with`` when that takes too long, and makes a TimeoutError of it. One at a time.

    For calls that are many and short: it has one timer for all of them, which looks now and then.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """Of what is begun next."""
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0
        self._task: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        self._ends_at = 0.0
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = self._task = asyncio.current_task(loop)
        # A task that was cancelled may still have something to put in order.
        self._cancelled_before = 0 if task is None else task.cancelling()
        self._ends_at = loop.time() + self.timeout_s
        self._is_over = False
        if self._timer is not None and self._looks_at > self._ends_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._look_later(loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._is_over and task is not None:
            is_own = task.uncancel() <= self._cancelled_before
            if is_own and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks_at = self._ends_at
        # In no caller's context: it may outlive them all.
        self._timer = loop.call_at(self._ends_at, self._look, loop, context=Context())

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None or self._is_over:
            return
        if self._ends_at > loop.time():
            self._look_later(loop)
            return
        self._is_over = True
        self._task.cancel()

    def close(self) -> None:
        """Nothing more is begun. What is under way is watched to its end."""
        if self._timer is not None and self._task is None:
            self._timer.cancel()
            self._timer = None


async def bounded(work: Awaitable[T], timeout_s: float) -> T:
    """The result; TimeoutError, and the work cancelled, when it takes too long."""
    watch = Watch(timeout_s)
    try:
        with watch:
            return await work
    finally:
        watch.close()


class Once:
    """Does something once, whoever asks for it. Everybody waits for its end, and nobody who is cancelled cuts it
    short."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(work())
        await asyncio.shield(self._task)


class Home:
    """The event loop in which something was opened, and must be used."""

    __slots__ = ("_loop", "is_running", "thread_id")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.is_running = self._loop.is_running
        self.thread_id = get_ident()

    def check(self, what: object) -> None:
        """FailedPrecondition in any other.

        A thread runs one loop at a time: where ``thread_id`` is this thread's and the loop ``is_running``, there is
        nothing to check. To ask which loop runs asks the system for the process each time.
        """
        if get_ident() == self.thread_id and self.is_running():
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise FailedPrecondition(
                f"{what!r} belongs to an event loop, and none runs here; from another thread, call it by "
                "loop.call_soon_threadsafe or asyncio.run_coroutine_threadsafe"
            ) from None
        if loop is not self._loop:
            raise FailedPrecondition(f"{what!r} was opened in another event loop; open one in each loop")


class Bell:
    """Wakes one task that waits for nothing else. A ring that comes early is kept."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()
