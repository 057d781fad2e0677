"""What differs between the two worlds; its counterpart is ``trunkline.drivers.postgres.aio.shim``."""

from __future__ import annotations

import os

__all__ = ["Home", "here", "is_gone"]

Home = int


def here() -> Home:
    """Where clients are shared: one process."""
    return os.getpid()


def is_gone(home: Home) -> bool:
    """Whether nobody can use, or close, what was opened there: in a forked child, what is its parent's."""
    return home != os.getpid()
