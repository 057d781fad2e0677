"""What differs between the two worlds; its counterpart is ``trunkline.drivers.memory.sync.shim``."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["Receiver", "give_way"]


class Receiver:
    """A task that waits for messages, which anybody may send: another task, a thread, another event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._future: asyncio.Future[bool] = self._loop.create_future()

    def wake(self) -> None:
        if threading.get_ident() == self._thread_id:
            self._end(True)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end, True)

    def _end(self, is_woken: bool) -> None:
        if not self._future.done():
            self._future.set_result(is_woken)

    async def wait(self, timeout_s: float) -> bool:
        """True when woken, False when the time is over."""
        timer = self._loop.call_later(timeout_s, self._end, False)
        try:
            return await self._future
        finally:
            timer.cancel()


async def give_way() -> None:
    """Let other tasks run, as every call of a broker does."""
    await asyncio.sleep(0)
