"""Messages that are in memory before anybody has asked for them, and until when they may still be handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from math import inf
from typing import TypeVar

T = TypeVar("T")


class Ahead(deque[T]):
    """Messages in the order in which they came, batch by batch: the next one is the first.

    A batch is of use until a time of the caller's clock: later its deadline is so near that whoever got a message might
    not be done with it in time. Nothing is stale before ``useful_until``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ends: deque[tuple[int, float]] = deque()
        self._added = 0
        self.useful_until = inf

    @property
    def taken(self) -> int:
        """How many were handed out or dropped, ever."""
        return self._added - len(self)

    def add(self, messages: Collection[T], useful_until: float) -> None:
        self.extend(messages)
        self._added += len(messages)
        if useful_until != inf:
            self._ends.append((self._added, useful_until))
            self.useful_until = self._ends[0][1]

    def take(self) -> T | None:
        """The next one; None: there is none. Drop what is stale first."""
        return self.popleft() if self else None

    def put_back(self, message: T) -> None:
        """It was taken and is not wanted: it is the next one again."""
        self.appendleft(message)

    def drop_stale(self, now: float) -> list[T]:
        """Take out the batches at the front that are of no more use."""
        dropped: list[T] = []
        while self._ends:
            end, useful_until = self._ends[0]
            if end > self.taken:
                if useful_until >= now:
                    break
                dropped += [self.popleft() for _ in range(end - self.taken)]
            self._ends.popleft()
        self.useful_until = self._ends[0][1] if self._ends else inf
        return dropped

    def drop_all(self) -> list[T]:
        dropped = list(self)
        self.clear()
        self._ends.clear()
        self.useful_until = inf
        return dropped
