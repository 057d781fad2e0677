"""Who shares a batch: what waits in line while one is under way makes the next. Nothing here waits or sends."""

from __future__ import annotations

from collections import deque
from typing import Protocol, TypeVar

import msgspec


class InLine(Protocol):
    """What stands in line; ``size`` is about how many bytes it takes."""

    @property
    def size(self) -> int: ...


InLineT = TypeVar("InLineT", bound=InLine)


class GatherLimits(msgspec.Struct, frozen=True):
    """How much one batch may hold, and how much may wait. A single entry over a limit goes all the same, alone."""

    batch_max: int
    batch_bytes_max: int
    buffer_bytes_max: int


class Line(deque[InLineT]):
    """Entries in the order in which they came, with the bytes that they take."""

    __slots__ = ("bytes", "bytes_max", "limits")

    def __init__(self, limits: GatherLimits) -> None:
        super().__init__()
        self.limits = limits
        self.bytes = 0
        self.bytes_max = limits.buffer_bytes_max

    def has_room(self, size: int) -> bool:
        """Whether one more may wait."""
        return not self or self.bytes + size <= self.bytes_max

    def is_full(self) -> bool:
        """Whether a whole batch has gathered."""
        return len(self) >= self.limits.batch_max or self.bytes >= self.limits.batch_bytes_max

    def join(self, entry: InLineT) -> None:
        self.append(entry)
        self.bytes += entry.size

    def leave(self, entry: InLineT) -> bool:
        """Take it out; False where it has gone already."""
        try:
            self.remove(entry)
        except ValueError:
            return False
        self.bytes -= entry.size
        return True

    def next_batch(self) -> list[InLineT]:
        """Take as many from the front as fit into a batch, and at least one."""
        if len(self) <= self.limits.batch_max and self.bytes <= self.limits.batch_bytes_max:
            everything = list(self)
            self.clear()
            self.bytes = 0
            return everything
        taken = [self.popleft()]
        size = taken[0].size
        while self and len(taken) < self.limits.batch_max and size + self[0].size <= self.limits.batch_bytes_max:
            taken.append(self.popleft())
            size += taken[-1].size
        self.bytes -= size
        return taken
