"""Which queue is to be read, how it should be set, and how much of it may be claimed ahead."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from trunkline.engine.checks import (
    check_between,
    check_queue_name,
    check_switch,
    check_topic_name,
    check_whole,
)
from trunkline.errors import InvalidArgument

ACK_DEADLINE_S_MAX = 86_400
ATTEMPTS_MAX = 1_000_000
PREFETCH_MAX = 10_000


class Prefetch(msgspec.Struct, frozen=True):
    """How much may be claimed ahead of the application at a time. Half as much may lie in memory by then."""

    records: int
    bytes_max: int

    @property
    def low(self) -> int:
        """With fewer than these in memory, more are claimed along with an acknowledgement."""
        return (self.records + 1) // 2


class QueueWanted(NamedTuple):
    """Which queue is to be read, and how it should be set; None: as it is."""

    topic: str
    name: str
    create: bool
    start: str
    ack_deadline_s: float | None
    max_attempts: int | None
    dead_letter: str | None
    ordered_by_key: bool | None
    pause_above: float | None
    bury_expired: bool | None
    prefetch: Prefetch

    def checked(self) -> QueueWanted:
        check_topic_name(self.topic)
        check_queue_name(self.name)
        check_switch("create", self.create)
        if self.start not in ("earliest", "latest"):
            raise InvalidArgument(f"start must be 'earliest' or 'latest', not {self.start!r}")
        if self.ack_deadline_s is not None:
            check_between("ack_deadline_s", self.ack_deadline_s, 0.001, ACK_DEADLINE_S_MAX)
        if self.pause_above is not None:
            check_between("pause_above", self.pause_above, 1e-9, 1)
        for name, switch in (("ordered_by_key", self.ordered_by_key), ("bury_expired", self.bury_expired)):
            if switch is not None:
                check_switch(name, switch)
        if self.dead_letter is not None and check_topic_name(self.dead_letter) == self.topic:
            raise InvalidArgument(f"records that fail would come back at once: {self.topic} is what the queue reads")
        if self.max_attempts is not None:
            check_whole("max_attempts", self.max_attempts, least=1, most=ATTEMPTS_MAX)
            if self.dead_letter is None:
                raise InvalidArgument(
                    "max_attempts needs a topic for what has failed so often: give dead_letter='…' too, and create it"
                )
        check_whole("prefetch", self.prefetch.records, most=PREFETCH_MAX)
        check_whole("prefetch_bytes", self.prefetch.bytes_max, least=1)
        return self
