"""What differs between the two worlds; its counterpart is ``trunkline.drivers.postgres.sync.shim``."""

from __future__ import annotations

import asyncio

__all__ = ["Home", "here", "is_gone"]

Home = asyncio.AbstractEventLoop


def here() -> Home:
    """Where clients are shared: one event loop."""
    return asyncio.get_running_loop()


def is_gone(home: Home) -> bool:
    """Whether nobody can use, or close, what was opened there."""
    return home.is_closed()
