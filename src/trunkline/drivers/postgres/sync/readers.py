# Generated from src/trunkline/drivers/postgres/aio/readers.py by tools/twins.py (make fix). Change the source, not this file.
"""Readers of queues that subscriptions share: a hundred of one queue claim and acknowledge in the calls of one."""

from __future__ import annotations

import msgspec

from trunkline.client.sync.queue import Queue
from trunkline.client.sync.shim import Mutex


class Readers:
    """The readers of one client, one for each queue and way of reading it."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._shared: dict[object, Queue] = {}
        self._sharing: dict[Queue, int] = {}

    def share(self, opened: Queue, prefetch_bytes: int) -> Queue:
        """The one that reads the same queue in the same way; the one that was opened, where there is none."""
        # Set otherwise meanwhile, or made again under its name, it is not the same.
        kind = (opened.queue_id, prefetch_bytes, msgspec.json.encode(opened.settings, order="sorted"))
        with self._mutex:
            shared = self._shared.setdefault(kind, opened)
            self._sharing[shared] = self._sharing.get(shared, 0) + 1
        if shared is not opened:
            try:
                opened.close()
            except BaseException:
                self.leave(shared)
                raise
        return shared

    def leave(self, shared: Queue) -> None:
        """End the wait of one who has left; the last one closes it."""
        with self._mutex:
            self._sharing[shared] -= 1
            is_last = not self._sharing[shared]
            if is_last:
                del self._sharing[shared]
                self._shared = {kind: reader for kind, reader in self._shared.items() if reader is not shared}
        if is_last:
            shared.close()
        else:
            shared.leave()
