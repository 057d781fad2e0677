# Generated from src/trunkline/drivers/postgres/aio/turn.py by tools/twins.py (make fix). Change the source, not this file.
"""Taking turns: one at a time, in the order in which they came."""

from __future__ import annotations

from collections import deque
from types import TracebackType

from trunkline.client.sync.shim import Mutex, Waiter


class Turn:
    """``with turn:`` waits for those who came before. Cancelled, it leaves the line."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._line: deque[Waiter[bool]] = deque()
        self._is_taken = False

    def __enter__(self) -> None:
        with self._mutex:
            if not self._is_taken:
                self._is_taken = True
                return
            waiter: Waiter[bool] = Waiter()
            self._line.append(waiter)
        try:
            waiter.wait()
        except BaseException:
            with self._mutex:
                if waiter.given:
                    self._hand_over()
                else:
                    self._line.remove(waiter)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._mutex:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._line:
            self._line.popleft().give(True)
        else:
            self._is_taken = False
