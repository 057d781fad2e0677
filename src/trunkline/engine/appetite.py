"""How many messages a subscription asks for at a time, and when it asks ahead.

It wants in memory what its receivers handle in ``AHEAD_S``, measured while they had messages to handle: so quick
receivers never wait for the broker, and slow ones keep nothing from others. The size moves towards that by at most
twice as much, and not below three quarters, at each step; while nothing comes it falls. More is fetched when half of it
is used up.

Nothing here knows the time: whoever asks tells it, in seconds of one clock.
"""

from __future__ import annotations

import math

GROWTH_MAX = 2.0
SHRINK_MAX = 0.75
AHEAD_S = 0.5
"""How much work lies in memory, at most. Long enough for any fetch, short enough to leave work for others."""


class Appetite:
    """The size of one subscription's next batch. ``most`` bounds it, 0 means that nothing is fetched ahead."""

    def __init__(self, most: int, bytes_max: int, ack_deadline_s: float | None = None) -> None:
        self._most = most
        self._bytes_max = bytes_max
        # What lies in memory must be handled before its deadline.
        self._ahead_s = AHEAD_S if ack_deadline_s is None else min(AHEAD_S, ack_deadline_s / 4)
        self._message_bytes = 0.0
        self._handed = 0
        self._since: float | None = None
        self._starved_since: float | None = None
        self._starved_s = 0.0
        self.size = 1.0
        self.low = 0
        """With fewer in memory, more is fetched: half is used up. 0 where there is nothing to halve: who handles one at
        a time, or less, takes nothing from others."""

    # -- what happens --

    def starves(self, now: float) -> None:
        """Somebody asks, and there is nothing in memory."""
        if self._starved_since is None:
            self._starved_since = now

    def is_fed(self, count: int, size: int, now: float) -> None:
        """So many messages have come, of so many bytes."""
        if self._starved_since is not None:
            self._starved_s += now - self._starved_since
            self._starved_since = None
        if count:
            self._message_bytes = size / count

    def stays_hungry(self) -> None:
        """Nothing has come for a while."""
        self.size = max(1.0, self.size * SHRINK_MAX)

    # -- what is decided --

    def wanted(self, in_memory: int, waiting: int, handed: int, now: float) -> int:
        """How many to ask for now: the rest of a full size, and in any case one for each that waits. ``handed`` is how
        many went to receivers, ever."""
        self._measure(handed, now)
        full = self._full()
        self.low = full // 2
        return max(waiting, full - in_memory, 1)

    def _full(self) -> int:
        most = min(math.ceil(self.size), self._most)
        if not self._message_bytes:
            return most
        return min(most, max(1, int(self._bytes_max / self._message_bytes)))

    def _measure(self, handed: int, now: float) -> None:
        """Move the size towards what receivers have handled in the time in which they had something to handle."""
        handled = handed - self._handed
        if self._since is not None and handled:
            starved_s = self._starved_s + (0.0 if self._starved_since is None else now - self._starved_since)
            busy_s = now - self._since - starved_s
            ideal = math.inf if busy_s <= 0 else handled / busy_s * self._ahead_s
            self.size = max(1.0, min(max(ideal, self.size * SHRINK_MAX), self.size * GROWTH_MAX, max(1.0, self._most)))
        self._since, self._handed, self._starved_s = now, handed, 0.0
        if self._starved_since is not None:
            self._starved_since = now
