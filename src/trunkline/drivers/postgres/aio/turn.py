"""Taking turns: one at a time, in the order in which they came."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from trunkline.client.aio.shim import Mutex, Waiter


class Turn:
    """``async with turn:`` waits for those who came before. Cancelled, it leaves the line."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._line: deque[Waiter[bool]] = deque()
        self._is_taken = False

    async def __aenter__(self) -> None:
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            waiter: Waiter[bool] = Waiter()
            self._line.append(waiter)
        try:
            await waiter.wait()
        except BaseException:
            with self._mutex:
                if waiter.given:
                    self._hand_over()
                else:
                    self._line.remove(waiter)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._mutex:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._line:
            self._line.popleft().give(True)
        else:
            self._is_taken = False
