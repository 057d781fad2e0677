"""Reads partitions of a topic one after the other, from given offsets on, to given stops or for ever."""

from __future__ import annotations

import random
import select
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.engine.backoff import backoff_s

if TYPE_CHECKING:
    from trunkline import Client, PartitionRange, Record

POLL_FIRST_S = 0.01
POLL_MAX_S = 1.0
RECORDS_AT_ONCE = 1_000


class Follower:
    """The next offset of each partition, and where each one stops (None: nowhere).

    Records of a partition come in order and without a gap; partitions take turns. One that retention has overtaken
    is OffsetOutOfRange, never a silent skip. With ``all_partitions``, one that is added later is followed too.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        next_offsets: Mapping[int, int],
        stops: Mapping[int, int | None],
        all_partitions: bool = False,
    ) -> None:
        self._client = client
        self._topic = topic
        self._next = dict(next_offsets)
        self._stops = dict(stops)
        self._all = all_partitions

    def records(self, count_max: int | None = None) -> Iterator[list[Record]]:
        """Lists of records as they are found, at most ``count_max`` records in all; ends when every stop is reached.

        At the end of the log it asks again after 10 ms, then less often, up to once a second; an empty list is
        given before each wait, so that what was written can be flushed.
        """
        left = count_max
        idle = 0
        while left != 0 and not self._done():
            found = False
            for partition in self._with_more(self._client.offsets(self._topic)):
                records = self._read(partition, left)
                found = True
                left = None if left is None else left - len(records)
                yield records
                if left == 0:
                    return
            idle = 0 if found else idle + 1
            if not found and not self._done():
                yield []
                chance = random.random()
                wait_unless_closed(backoff_s(idle - 1, first_s=POLL_FIRST_S, max_s=POLL_MAX_S, chance=chance))

    def _done(self) -> bool:
        stops = self._stops
        return all(stop is not None and self._next[part] >= stop for part, stop in stops.items())

    def _with_more(self, ranges: Iterable[PartitionRange]) -> Iterator[int]:
        for each in ranges:
            if self._all and each.partition not in self._next:
                self._next[each.partition], self._stops[each.partition] = each.start, None
            if each.partition in self._next and self._next[each.partition] < self._until(each):
                yield each.partition

    def _until(self, log: PartitionRange) -> int:
        stop = self._stops[log.partition]
        return log.end if stop is None else min(stop, log.end)

    def _read(self, partition: int, left: int | None) -> list[Record]:
        at, stop = self._next[partition], self._stops[partition]
        wanted = [RECORDS_AT_ONCE, left, None if stop is None else stop - at]
        count = min(number for number in wanted if number is not None)
        records = self._client.read(self._topic, partition=partition, offset=at, max_records=count)
        self._next[partition] = at + len(records)
        return records


def wait_unless_closed(delay_s: float) -> None:
    """Wait, but not for a reader that has gone: BrokenPipeError as soon as nobody reads our output."""
    poll = select.poll()
    with suppress(OSError, ValueError):
        poll.register(sys.stdout.fileno(), 0)
    for _, event in poll.poll(delay_s * 1000):
        if event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
