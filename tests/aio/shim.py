"""What tests need of the world they run in; its counterpart is ``tests.sync.shim``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def at_once(*calls: Callable[[], Coroutine[Any, Any, T]]) -> list[T]:
    """Run all calls at the same time; their results in order."""
    return list(await asyncio.gather(*(call() for call in calls)))
