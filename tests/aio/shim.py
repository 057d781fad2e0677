"""What tests need of the world they run in; its counterpart is ``tests.sync.shim``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LOOK_S = 0.002
"""Between two looks at a condition: whoever looks without a pause takes a processor from whom he waits for."""


async def at_once(*calls: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Run all calls at the same time; their results in order."""
    return list(await asyncio.gather(*(call() for call in calls)))


async def pause() -> None:
    """Between two looks at what another process decides."""
    await asyncio.sleep(LOOK_S)


async def wait_until(condition: Callable[[], bool], bound_s: float = 60) -> None:
    """Let others run until a condition holds; the bound only guards against hanging."""
    async with asyncio.timeout(bound_s):
        while not condition():
            await pause()


class Gate:
    """Closed until somebody opens it; whoever comes waits. ``count`` says how many have come."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.count = 0

    def open(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        self.count += 1
        await self._event.wait()


def handler_of_the_other_world(record: object) -> None:
    raise AssertionError(record)


def in_the_background() -> list[str]:
    """The names of our tasks that run."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("trunkline")]


async def ignoring_cancellation(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As only a broken driver does."""
    task = asyncio.ensure_future(call())
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
