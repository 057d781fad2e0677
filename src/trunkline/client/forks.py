"""How often this process is a child of a process that used the client: asked with every call, so without a call of the
system each time."""

from __future__ import annotations

import os
from functools import cache


class Forks:
    """``generation`` is another number in a child process."""

    generation = 0

    def add(self) -> None:
        self.generation += 1


@cache
def forks() -> Forks:
    """The one of this process."""
    counted = Forks()
    os.register_at_fork(after_in_child=counted.add)
    return counted


def generation() -> int:
    """A number that is another one in a child process."""
    return forks().generation
