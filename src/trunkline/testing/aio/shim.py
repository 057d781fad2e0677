"""What the suite needs of the world it runs in; its counterpart is ``trunkline.testing.sync.shim``."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
SuiteT = TypeVar("SuiteT", bound=type)


def runs_by_itself(suite: SuiteT) -> SuiteT:
    """Make plain tests of a suite's coroutines: each on an event loop of its own, whatever plugins there are."""
    for name, test in list(vars(suite).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            setattr(suite, name, _blocking(test))
    return suite


def _blocking(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Running(Generic[T]):
    """A call that goes on beside the test, in a task."""

    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = asyncio.ensure_future(call())

    async def begin(self) -> None:
        """Let it come as far as it comes by itself."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def result(self, patience_s: float) -> T:
        """What it returns or raises; fails where it does not end in time."""
        done, _ = await asyncio.wait({self._task}, timeout=patience_s)
        assert done, f"it has not ended within {patience_s:g} s"
        return self._task.result()

    async def cancelled(self, patience_s: float) -> T | None:
        """Cancel it: what it had done by then, or None. Fails where it does not end at once, or not by the
        cancellation."""
        was_done = self._task.done()
        self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=patience_s)
        assert done, f"it was cancelled and has not ended within {patience_s:g} s"
        assert was_done or self._task.cancelled(), "it has swallowed its cancellation"
        return self._task.result() if was_done else None


async def at_once(patience_s: float, *calls: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Run all calls at the same time; their results in order."""
    running = [Running(call) for call in calls]
    return [await each.result(patience_s) for each in running]
