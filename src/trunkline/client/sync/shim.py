"""What differs between the two worlds, and nothing else; its counterpart is ``trunkline.client.aio.shim``.

Here callers are threads. Nothing runs in the background unless a Service was started, which its owner joins.
"""

from __future__ import annotations

import math
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import socketpair
from types import FrameType
from typing import Generic, TypeVar

from psycopg.waiting import wait as wait_for_socket

T = TypeVar("T")
IS_ASYNC = False
SIGNAL_SEEN_S = 0.5
"""After that at the latest, a signal that came at an odd moment is seen."""

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


class Waiter(Generic[T]):
    """A value that one thread waits for and another one gives, once."""

    __slots__ = ("_closed", "_value")

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._value: T | None = None

    def give(self, value: T) -> None:
        """Wake the waiting thread. A second value is ignored."""
        if self._value is None:
            self._value = value
            self._closed.release()

    @property
    def given(self) -> T | None:
        """The value, if it has been given."""
        return self._value

    def wait(self, timeout_s: float | None = None) -> T:
        """The value; TimeoutError when none came in time."""
        if not self._closed.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0)):
            raise TimeoutError
        self._closed.release()
        assert self._value is not None
        return self._value


class Waker:
    """Wakes one thread that waits for a socket, for a time, or for nothing else. A wake that comes early is kept."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._woken = False
        self._hear, self._call = socketpair()
        self._poll = select.poll()
        self._poll.register(self._hear, select.POLLIN)

    def wake(self) -> None:
        with self._mutex:
            if not self._woken and self._call.fileno() >= 0:
                self._call.send(b"!")
            self._woken = True

    def wait(self, timeout_s: float | None, socket: int | None = None) -> None:
        """Return when woken, when the socket can be read, or when the time is over."""
        if socket is not None:
            self._poll.register(socket, select.POLLIN)
        try:
            # Rounded up: a wait that ends too early would be begun again at once.
            self._poll.poll(None if timeout_s is None else math.ceil(max(0.0, timeout_s) * 1000))
        finally:
            if socket is not None:
                self._poll.unregister(socket)
        with self._mutex:
            if self._woken:
                self._hear.recv(1)
            self._woken = False

    def close(self) -> None:
        """Give the pair of sockets back."""
        with self._mutex:
            self._hear.close()
            self._call.close()


def caller() -> object:
    """Who calls: the thread."""
    return threading.get_ident()


def sleep(delay_s: float) -> None:
    time.sleep(delay_s)


def give_way() -> None:
    """Nothing to do: threads go on by themselves."""


class Shield:
    """Nothing to do: a thread is not cancelled."""

    def run(self, work: T) -> T:
        return work

    def drain(self) -> None:
        return None


class Stop:
    """A flag that wakes whoever waits for it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """True as soon as it is set, False when the time is over."""
        return self._event.wait(timeout_s)


class Service:
    """A loop in a thread that its owner starts, stops and joins."""

    def __init__(self, name: str, run: Callable[[Stop], None], *, wake: Callable[[], None] | None = None) -> None:
        self._stop = Stop()
        self._wake = wake
        self._failure: BaseException | None = None
        self._run = run
        self._thread = threading.Thread(target=self._guard, name=name, daemon=True)
        self._thread.start()

    def _guard(self) -> None:
        try:
            self._run(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again by close, in the thread that owns this
            self._failure = error

    def stop(self) -> None:
        """Ask it to end. ``wake`` ends a wait that knows no stop."""
        self._stop.set()
        if self._wake is not None:
            self._wake()

    def close(self) -> None:
        """Ask it to end, wait until it has; raises what it ended with."""
        self.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Do not wait for it. A thread cannot be ended from outside; this one does not keep the process alive."""


class Ending:
    """It comes once, and whoever waits for it goes on."""

    def __init__(self) -> None:
        self._has_come = threading.Lock()
        self._awaited = threading.Lock()
        self._awaited.acquire()

    def come(self) -> None:
        """Let it come; it may have come already. Waits for nothing: a signal may arrive in the middle of ``wait``."""
        if self._has_come.acquire(blocking=False):
            self._awaited.release()

    def wait(self) -> None:
        # A signal that another thread gets, or that comes just before this one blocks, wakes nobody: Python calls its
        # handler when the main thread is next awake.
        while not self._awaited.acquire(timeout=SIGNAL_SEEN_S):
            pass
        self._awaited.release()


ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` at the first SIGTERM or Ctrl-C; the second ends the process at once.

    ``end`` runs in the middle of whatever the main thread does, so it must not wait, as for a lock. Signals are the main
    thread's: elsewhere, and for one that is ignored, as under nohup, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    chosen = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]

    def first(_: int, __: FrameType | None) -> None:
        for number in chosen:
            signal.signal(number, signal.SIG_DFL)
        end()

    before = {number: signal.signal(number, first) for number in chosen}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
