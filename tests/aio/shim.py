"""What tests need of the world they run in; its counterpart is ``tests.sync.shim``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(*calls: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Run all calls at the same time; their results in order."""
    return list(await asyncio.gather(*(call() for call in calls)))


async def wait_until(condition: Callable[[], bool], bound_s: float = 30) -> None:
    """Let others run until a condition holds; the bound only guards against hanging."""
    async with asyncio.timeout(bound_s):
        while not condition():  # noqa: ASYNC110 - another process decides, and sends no event
            await asyncio.sleep(0)
