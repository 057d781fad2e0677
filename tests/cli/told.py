"""For handlers inside a command that a test sends a signal: they return once the app around them has been told to end.

A handler that returned when the signal was *sent* would race with the thread that gets it, and now and then be given
one more record. To import this is to look on at the app's own steps; nothing of them changes.
"""

from __future__ import annotations

import asyncio
import threading

from trunkline.client.aio.at_least_once import AtLeastOnce as AsyncAtLeastOnce
from trunkline.client.sync.at_least_once import AtLeastOnce
from trunkline.client.sync.shim import Service

DEADLINE_S = 60.0
"""It only guards against hanging."""

_nothing_begins = threading.Event()
_nothing_begins_async = asyncio.Event()
_stopped = threading.Event()


def until_nothing_begins() -> None:
    """Until no other record will be begun."""
    assert _nothing_begins.wait(DEADLINE_S)


async def until_nothing_begins_async() -> None:
    await asyncio.wait_for(_nothing_begins_async.wait(), DEADLINE_S)


def until_stopped() -> None:
    """Until the app's own loop was asked to end: what a handler exactly once does next, it does knowing that."""
    assert _stopped.wait(DEADLINE_S)


_end, _end_async, _stop = AtLeastOnce._end, AsyncAtLeastOnce._end, Service.stop


def _end_and_tell(self: AtLeastOnce) -> None:
    _end(self)
    _nothing_begins.set()


def _end_and_tell_async(self: AsyncAtLeastOnce) -> None:
    _end_async(self)
    _nothing_begins_async.set()


def _stop_and_tell(self: Service) -> None:
    _stop(self)
    if self._thread.name == "trunkline-app":
        _stopped.set()


AtLeastOnce._end = _end_and_tell  # type: ignore[method-assign]
AsyncAtLeastOnce._end = _end_and_tell_async  # type: ignore[method-assign]
Service.stop = _stop_and_tell  # type: ignore[method-assign]
