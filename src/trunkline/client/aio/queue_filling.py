"""Records that did not come along with their claim are read once for all who share a reader."""

from __future__ import annotations

from trunkline.client.aio.queue_calls import QueueCalls
from trunkline.client.aio.queue_delivery import AsyncDelivery
from trunkline.client.aio.shim import Mutex, Waiter
from trunkline.engine.deliveries import Buffer, Piece


class Filling:
    """Fills the pieces of a buffer that has none of their records. ``mutex`` guards the buffer; about ``bytes_max`` are
    read at a time."""

    def __init__(self, mutex: Mutex, buffer: Buffer[AsyncDelivery], bytes_max: int) -> None:
        self._mutex = mutex
        self._buffer = buffer
        self._bytes_max = bytes_max
        self._waiting: dict[Piece[AsyncDelivery], list[Waiter[bool]]] = {}
        """Pieces that are being read, and who waits for them, whoever reads included."""

    async def fill(self, calls: QueueCalls, piece: Piece[AsyncDelivery]) -> None:
        """Read a piece, and what can be read with it. One does, others who want the same wait; they look again,
        whatever came of it."""
        waiter: Waiter[bool] = Waiter()
        with self._mutex:
            waiting = self._waiting.setdefault(piece, [])
            waiting.append(waiter)
            is_first = len(waiting) == 1
        if not is_first:
            await waiter.wait()
            return
        try:
            await self._read(calls, piece)
        finally:
            with self._mutex:
                waiting = self._waiting.pop(piece)
            for each in waiting:
                each.give(True)

    async def _read(self, calls: QueueCalls, piece: Piece[AsyncDelivery]) -> None:
        with self._mutex:
            run = self._buffer.unread_run(piece)
        if run:
            batches = await calls.read(piece.claim.partition, piece.first, run[-1].end, self._bytes_max)
            with self._mutex:
                self._buffer.fill(run, batches)
