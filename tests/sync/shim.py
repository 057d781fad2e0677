"""What tests need of the world they run in; its counterpart is ``tests.aio.shim``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

LOOK_S = 0.002
"""Between two looks at a condition: whoever looks without a pause takes a processor from whom he waits for."""


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Run all calls at the same time, each in a thread; their results in order."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def pause() -> None:
    """Between two looks at what another process decides."""
    time.sleep(LOOK_S)


def wait_until(condition: Callable[[], bool], bound_s: float = 60) -> None:
    """Let others run until a condition holds; the bound only guards against hanging."""
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end, "never happened"
        pause()


class Gate:
    """Closed until somebody opens it; whoever comes waits. ``count`` says how many have come."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._mutex = threading.Lock()
        self.count = 0

    def open(self) -> None:
        self._event.set()

    def wait(self) -> None:
        with self._mutex:
            self.count += 1
        self._event.wait()


async def handler_of_the_other_world(record: object) -> None:
    raise AssertionError(record)


def in_the_background() -> list[str]:
    """The names of our threads that run."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("trunkline")]


def ignoring_cancellation(call: Callable[[], T]) -> T:
    """There is none here."""
    return call()
