"""What differs between the two worlds; its counterpart is ``trunkline.drivers.memory.aio.shim``."""

from __future__ import annotations

from trunkline.client.sync.shim import Waiter

__all__ = ["Receiver", "give_way"]


class Receiver:
    """A thread that waits for messages. Woken under the broker's lock, so once at a time."""

    def __init__(self) -> None:
        self._waiter: Waiter[bool] = Waiter()

    def wake(self) -> None:
        self._waiter.give(True)

    def wait(self, timeout_s: float) -> bool:
        """True when woken, False when the time is over."""
        try:
            return self._waiter.wait(timeout_s)
        except TimeoutError:
            return False


def give_way() -> None:
    """Nothing to do: threads take their turns."""
