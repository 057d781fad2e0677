"""What tests need of the world they run in; its counterpart is ``tests.aio.shim``."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Run all calls at the same time, each in a thread; their results in order."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def wait_until(condition: Callable[[], bool], bound_s: float = 30) -> None:
    """Let others run until a condition holds; the bound only guards against hanging."""
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end, "never happened"
