"""What differs between the two worlds beyond the client's own shim; its counterpart is
``trunkline.portable.aio.shim``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from trunkline.client.forks import generation
from trunkline.client.sync.shim import Mutex, Service, Shield, Stop, Waiter, sleep
from trunkline.errors import Closed

T = TypeVar("T")

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
    "sleep",
    "turns",
]


LEAD = object()
"""What a turn brings to the one who has to do the work, for himself and for others."""


class Turn(Generic[T]):
    """An answer that one thread waits for. It keeps time itself, since the call that it waits for cannot be ended."""

    __slots__ = ("_answer", "_closed", "_is_done")

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._answer: T
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, answer: T) -> None:
        """Wake the waiting thread. Once."""
        self._answer = answer
        self._is_done = True
        self._closed.release()

    def result(self) -> T:
        return self._answer

    def wait(self, timeout_s: float) -> T:
        """The answer; TimeoutError when none came in time."""
        if not self._closed.acquire(timeout=timeout_s):
            raise TimeoutError
        self._closed.release()
        return self._answer


def turns() -> Callable[[], Turn[Any]]:
    """What makes turns."""
    return Turn


class Watch:
    """Nothing to do: a thread cannot be ended from outside, and drivers keep time themselves."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def close(self) -> None:
        return None


class Once:
    """Does something once, whoever asks for it, and everybody waits for its end. Interrupted by Ctrl-C, it is done again
    when somebody asks again."""

    def __init__(self) -> None:
        # A handler of signals may ask in the middle of it: that thread must not wait for itself.
        self._mutex = threading.RLock()
        self._has_begun = False
        self.is_done = False

    def run(self, work: Callable[[], None]) -> None:
        with self._mutex:
            if self._has_begun:
                return
            self._has_begun = True
            try:
                work()
            except (KeyboardInterrupt, SystemExit):
                self._has_begun = False
                raise
            finally:
                self.is_done = self._has_begun


def bounded(work: T, timeout_s: float) -> T:  # noqa: ARG001 - a thread cannot be ended from outside: drivers keep time
    """What was done by the time this is called."""
    return work


class Home:
    """The process in which something was opened, and must be used: its connections and threads are not its child's."""

    __slots__ = ("_generation",)

    def __init__(self) -> None:
        self._generation = generation()

    def check(self, what: object) -> None:
        """Closed in a forked child."""
        if generation() != self._generation:
            raise Closed(f"{what!r} was opened before a fork; open one in the child")


class Bell:
    """Wakes one thread that waits for nothing else. A ring that comes early is kept."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait()
        self._event.clear()
