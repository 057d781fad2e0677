"""Trunkline's consumers as members of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import trunkline
from benchmarks.members import Handed, Member, Seat
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name
from trunkline.client.sync import watch
from trunkline.client.sync.consumer import Consumer
from trunkline.records import Batch

SETTLE_S = 60.0
LOOK_S = 0.05


@dataclass(frozen=True)
class Consumers(Ours):
    """A consumer in each process: one connection for its statements, and the doorbell's."""

    def drop(self, url: str, log: int) -> None:
        with trunkline.connect(url) as client:
            for group in client.groups():
                if topic_name(log) in group.topics:
                    client.delete_group(group.name, cut_off=True)
        super().drop(url, log)

    def create_groups(self, url: str, log: int, groups: Sequence[str]) -> None:
        with trunkline.connect(url) as client:
            for group in groups:
                client.create_group(group_name(log, group), topics=[topic_name(log)], start="earliest")

    @contextmanager
    def member(self, url: str, log: int, seat: Seat) -> Iterator[Member]:
        with (
            _waits_noted() as waited_until,
            trunkline.connect(url, settings=ONE_CONNECTION) as client,
            client.consumer(topic_name(log), group=group_name(log, seat.group)) as consumer,
        ):
            settle(consumer, seat.share)
            yield PollingMember(consumer, seat.max_records, waited_until)


class PollingMember:
    """One consumer: a poll, and one commit for it."""

    def __init__(self, consumer: Consumer, max_records: int, waited_until: Callable[[], float]) -> None:
        self._consumer = consumer
        self._max_records = max_records
        self._waited_until = waited_until

    def take(self, wait_s: float) -> Handed | None:
        called = monotonic()
        batches = self._consumer.poll_batches(max_records=self._max_records, wait_s=wait_s)
        if not batches:
            return None
        return Handed(
            max(called, self._waited_until()),
            [batch.payloads for batch in batches],
            [created for batch in batches for created in _created(batch)],
        )

    def commit(self) -> None:
        self._consumer.commit()


def _created(batch: Batch) -> list[tuple[float, int]]:
    if batch.append_times is None:
        return [(batch.append_time.timestamp(), len(batch))]
    return [(time.timestamp(), count) for time, count in Counter(batch.append_times).items()]


def settle(consumer: Consumer, share: int) -> None:
    """Wait until a consumer has its share of the partitions. There is nothing to read yet."""
    deadline = monotonic() + SETTLE_S
    while len(consumer.assignment) != share:
        assert not consumer.poll(max_records=1, wait_s=LOOK_S), "a record came before the readers were ready"
        if monotonic() > deadline:
            raise TimeoutError(f"a consumer has {consumer.assignment} after {SETTLE_S:g} s, not {share} partitions")


def group_name(log: int, group: str) -> str:
    return f"bench-{log}-{group}"


@contextmanager
def _waits_noted() -> Iterator[Callable[[], float]]:
    """When a reader of this process last ended to wait: what a poll does after that is the read."""
    ended = [0.0]
    wait = watch.Seat.wait

    def noted(seat: watch.Seat, awaited: dict[int, int], timeout_s: float) -> None:
        wait(seat, awaited, timeout_s)
        ended[0] = monotonic()

    watch.Seat.wait = noted  # type: ignore[assignment,method-assign]
    try:
        yield lambda: ended[0]
    finally:
        watch.Seat.wait = wait  # type: ignore[method-assign]
