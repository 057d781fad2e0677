"""`trunkline consume -g` and `-q`: reading as a member of a group, or from a queue; what was written is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trunkline.cli.follow import wait_unless_closed
from trunkline.cli.output import stdout

if TYPE_CHECKING:
    from trunkline import Client, Record
    from trunkline.cli.record import Show

AT_ONCE = 100
WAIT_S = 1.0


class Taking:
    """How much is taken, and how it is written. A record is acknowledged once it was written and flushed: whatever ends
    the command before that, it is delivered again."""

    def __init__(self, show: Show, count: int | None, *, exit_at_end: bool) -> None:
        self._show = show
        self._left = count
        self._wait_s = 0.0 if exit_at_end else WAIT_S
        self._exit_at_end = exit_at_end

    def from_group(self, tl: Client, topic: str, group: str) -> None:
        with tl.consumer(topic, group=group) as consumer:
            while self._left != 0:
                records = consumer.poll(self._most(), wait_s=self._wait_s)
                if not self._taken(records, consumer.commit):
                    return

    def from_queue(self, tl: Client, topic: str, name: str) -> None:
        # Nothing ahead: others get what is not written here.
        with tl.queue(topic, name, create=False, prefetch=0) as queue:
            while self._left != 0:
                deliveries = queue.receive(self._most(), wait_s=self._wait_s)
                if not self._taken(deliveries, partial(queue.ack, deliveries)):
                    return

    def _most(self) -> int:
        return AT_ONCE if self._left is None else min(AT_ONCE, self._left)

    def _taken(self, records: Sequence[Record], acknowledge: Callable[[], None]) -> bool:
        """Write and acknowledge them; whether to go on."""
        if not records:
            if not self._exit_at_end:
                wait_unless_closed(0)
            return not self._exit_at_end
        out = stdout()
        for record in records:
            out.write(self._show(record))
        out.flush()
        acknowledge()
        if self._left is not None:
            self._left -= len(records)
        return True
