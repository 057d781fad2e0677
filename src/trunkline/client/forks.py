"""How often this process is a child of a process that used the client: asked with every call, so without a call of the
system each time."""

from __future__ import annotations

import os
from functools import cache


class _Forks:
    generation = 0

    def add(self) -> None:
        self.generation += 1


@cache
def _forks() -> _Forks:
    forks = _Forks()
    os.register_at_fork(after_in_child=forks.add)
    return forks


def generation() -> int:
    """A number that is another one in a child process."""
    return _forks().generation
