# Generated from src/trunkline/drivers/postgres/aio/readers.py by tools/twins.py (make fix). Change the source, not this file.
"""Readers of queues that subscriptions share: a hundred of one queue claim and acknowledge in the calls of one."""

from __future__ import annotations

import msgspec

from trunkline.client.sync.queue import Queue
from trunkline.client.sync.shim import Mutex


class _Shared:
    __slots__ = ("reader", "sharers")

    def __init__(self, reader: Queue) -> None:
        self.reader = reader
        self.sharers = 0


class Readers:
    """The readers of one client, one for each queue and way of reading it."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._shared: dict[object, _Shared] = {}

    def share(self, opened: Queue, prefetch_bytes: int) -> Queue:
        """The one that reads the same queue in the same way; the one that was opened, where there is none.

        A queue that is set otherwise by now, or was made again under its name, is not the same."""
        settings = {name: value for name, value in opened.settings.items() if not name.startswith("pause")}
        kind = (opened.queue_id, prefetch_bytes, msgspec.json.encode(settings, order="sorted"))
        with self._mutex:
            shared = self._shared.get(kind)
            if shared is None or shared.reader.is_closed:
                shared = self._shared[kind] = _Shared(opened)
            shared.sharers += 1
        if shared.reader is not opened:
            try:
                opened.close()
            except BaseException:
                self.leave(shared.reader)
                raise
        return shared.reader

    def leave(self, reader: Queue) -> None:
        """Share it no more; the last one closes it. What was claimed for one who leaves and did not wait for it is
        given back: others of the reader may ask for nothing soon."""
        with self._mutex:
            kind = next((kind for kind, each in self._shared.items() if each.reader is reader), None)
            if kind is None:
                return  # It was closed by itself, and another one has its place.
            shared = self._shared[kind]
            shared.sharers -= 1
            is_last = not shared.sharers
            if is_last:
                del self._shared[kind]
        (reader.close() if is_last else reader.give_back())
