"""How many messages a subscription asks for at a time, and when it asks ahead.

It asks at a time for what its receivers handle while ``AHEAD_FETCHES`` fetches could be made, within ``AHEAD_MIN_S``
and ``AHEAD_MAX_S``, measured while they had messages to handle: so quick receivers never wait for the broker, and slow
ones keep nothing from others. The size moves towards that by at most twice as much, and not below three quarters, at
each step; while nothing comes it falls. More is fetched when half of it is used up.

Nothing here knows the time: whoever asks tells it, in seconds of one clock.
"""

from __future__ import annotations

import math

GROWTH_MAX = 2.0
SHRINK_MAX = 0.75
AHEAD_FETCHES = 32
"""So many times as long as a fetch takes is what lies in memory: fetching is a small part of the work."""
AHEAD_MIN_S = 0.1
AHEAD_MAX_S = 0.5
"""How much work is asked for at a time, at most; half as much may lie in memory by then. Long enough for any fetch,
short enough to leave work for others."""
RECENT_S = 0.5
"""What was handled before counts as if it had taken so long: receivers that come all at once, and then not for a while,
are no quick ones."""


class Appetite:
    """The size of one subscription's next batch. ``most`` bounds it, 0 means that nothing is fetched ahead."""

    def __init__(self, most: int, bytes_max: int, ack_deadline_s: float | None = None) -> None:
        self._most = most
        self._bytes_max = bytes_max
        # What lies in memory must be handled before its deadline.
        self._ahead_max_s = AHEAD_MAX_S if ack_deadline_s is None else min(AHEAD_MAX_S, ack_deadline_s / 4)
        self._fetch_s: float | None = None
        self._asked_at: float | None = None
        self._may_wait = False
        self._message_bytes = 0.0
        self._asked = 0
        self._recent = self._recent_s = 0.0
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
            self._time_fetch(now)

    def _time_fetch(self, now: float) -> None:
        """Learn how long a fetch takes. One for those who wait may have waited with them: it took no longer than
        that."""
        if self._asked_at is None:
            return
        took_s, self._asked_at = now - self._asked_at, None
        if self._fetch_s is None:
            self._fetch_s = took_s
        elif self._may_wait:
            self._fetch_s = min(self._fetch_s, took_s)
        else:
            self._fetch_s = (self._fetch_s + took_s) / 2

    def stays_hungry(self) -> None:
        """Nothing has come for a while."""
        self.size = max(1.0, self.size * SHRINK_MAX)

    # -- what is decided --

    @property
    def ahead_s(self) -> float:
        """How many seconds of work are to lie in memory."""
        return min(max(AHEAD_MIN_S, AHEAD_FETCHES * (self._fetch_s or 0.0)), self._ahead_max_s)

    def wanted(self, in_memory: int, waiting: int, handed: int, now: float) -> int:
        """How many to ask for now: a full size, however much of the last one is left, and in any case one for each that
        waits. ``handed`` is how many went to receivers, ever."""
        # Who asks has done with what he had before; who has just got something may take long.
        self._measure(handed + waiting, now)
        self._asked_at, self._may_wait = now, waiting > 0
        most = self._most
        if self._message_bytes:
            most = min(most, max(1, int(self._bytes_max / self._message_bytes)))
        full = min(int(self.size), most)
        self.low = full // 2
        # A whole size, not what is missing of it: brokers that store messages in batches hand out whole ones then.
        return max(waiting, min(full, most - in_memory), 1)

    def _measure(self, asked: int, now: float) -> None:
        """Move the size towards what receivers have handled in the time in which they had something to handle."""
        handled = asked - self._asked
        if self._since is not None and handled > 0:
            starved_s = self._starved_s + (0.0 if self._starved_since is None else now - self._starved_since)
            self._recent += handled
            self._recent_s += max(0.0, now - self._since - starved_s)
            ideal = self._recent / self._recent_s * self.ahead_s if self._recent_s else math.inf
            self.size = max(1.0, min(max(ideal, self.size * SHRINK_MAX), self.size * GROWTH_MAX, max(1.0, self._most)))
            if self._recent_s > RECENT_S:
                self._recent *= RECENT_S / self._recent_s
                self._recent_s = RECENT_S
        self._since, self._asked, self._starved_s = now, asked, 0.0
        if self._starved_since is not None:
            self._starved_since = now
