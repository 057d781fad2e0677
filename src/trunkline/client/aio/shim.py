"""What differs between the two worlds, and nothing else; its counterpart is ``trunkline.client.sync.shim``.

Here many tasks share one thread, so nothing needs a mutex between two awaits, and what must not be cut short by a
cancelled caller runs in a task of its own.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from psycopg.waiting import wait_async as wait_for_socket

T = TypeVar("T")
IS_ASYNC = True

__all__ = [
    "Ending",
    "Mutex",
    "Service",
    "Shield",
    "Stop",
    "Waiter",
    "Waker",
    "caller",
    "ended_by_signals",
    "give_way",
    "sleep",
    "wait_for_socket",
]


Mutex = threading.Lock
"""Only one task runs at a time, and nothing is awaited inside, so that nobody ever waits for it: it is the cheapest
thing that can be entered."""


class Waiter(Generic[T]):
    """A value that one task waits for and another one gives, once. Waiting may end and begin again."""

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._future: asyncio.Future[T] | None = None
        self._value: T | None = None

    def give(self, value: T) -> None:
        """Wake the waiting task. A second value is ignored."""
        if self._value is None:
            self._value = value
            if self._future is not None and not self._future.done():
                self._future.set_result(value)

    @property
    def given(self) -> T | None:
        """The value, if it has been given, also where the waiting task was cancelled in the same moment."""
        return self._value

    def wait(self, timeout_s: float | None = None) -> Awaitable[T]:
        """The value; TimeoutError when none came in time."""
        if self._value is not None or timeout_s is not None:
            return self._wait(timeout_s)
        # Without a coroutine around it: there are as many of these as records, with queues.
        self._future = asyncio.get_running_loop().create_future()
        return self._future

    async def _wait(self, timeout_s: float | None) -> T:
        if self._value is None and timeout_s is not None:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            # Cheaper than asyncio.timeout, which cancels the task and so the future that it waits for.
            timer = loop.call_later(timeout_s, _time_out, self._future)
            try:
                await self._future
            finally:
                timer.cancel()
        assert self._value is not None
        return self._value


def _time_out(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


class Waker:
    """Wakes one task that waits for a socket, for a time, or for nothing else. A wake that comes early is kept."""

    def __init__(self) -> None:
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, timeout_s: float | None, socket: int | None = None) -> None:
        """Return when woken, when the socket can be read, or when the time is over."""
        if not self._woken and (timeout_s is None or timeout_s > 0):
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = None if timeout_s is None else loop.call_later(timeout_s, self.wake)
            if socket is not None:
                loop.add_reader(socket, self.wake)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
                if socket is not None:
                    loop.remove_reader(socket)
        self._woken = False

    def close(self) -> None:
        """Nothing to give back."""


def caller() -> object:
    """Who calls: the task."""
    return asyncio.current_task()


async def sleep(delay_s: float) -> None:
    await asyncio.sleep(delay_s)


async def give_way() -> None:
    """Let every task go on that is ready to."""
    await asyncio.sleep(0)


class Shield:
    """Runs what must end even if its caller is cancelled. The caller's cancellation does not wait for it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result; if the caller is cancelled, the work goes on."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Let it run beside its caller."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def drain(self) -> None:
        """Wait for everything that goes on."""
        while self._running:
            await asyncio.wait(self._running)


class Stop:
    """A flag that wakes whoever waits for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout_s: float) -> bool:
        """True as soon as it is set, False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._event.wait()
        except TimeoutError:
            return False


class Service:
    """A loop in the background that its owner starts, stops and waits for."""

    def __init__(
        self, name: str, run: Callable[[Stop], Awaitable[None]], *, wake: Callable[[], None] | None = None
    ) -> None:
        self._stop = Stop()
        self._wake = wake
        self._task = asyncio.ensure_future(run(self._stop))
        self._task.set_name(name)

    def stop(self) -> None:
        """Ask it to end. ``wake`` ends a wait that knows no stop."""
        self._stop.set()
        if self._wake is not None:
            self._wake()

    async def close(self) -> None:
        """Ask it to end, wait until it has; raises what it ended with."""
        self.stop()
        await self._task

    def abandon(self) -> None:
        """Cancel it, and do not wait: nobody asks any more what it ends with."""
        self._task.cancel()
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())


class Ending:
    """It comes once, and whoever waits for it goes on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def come(self) -> None:
        """Let it come; it may have come already."""
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` at the first SIGTERM or Ctrl-C; the second ends the process at once.

    Signals are the main thread's: elsewhere, and for one that is ignored, as under nohup, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}
    chosen = [number for number, action in before.items() if action is not signal.SIG_IGN]

    def first() -> None:
        for number in chosen:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        end()

    for number in chosen:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        for number in chosen:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
