"""A log that stands there, read from its start to its end by groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import trunkline
from benchmarks.bench import Bench
from benchmarks.consumers import group_name, settle
from benchmarks.jobs import WARM_BATCHES, Content, Fill, Place
from benchmarks.payloads import Checksum, Payloads
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name
from trunkline.client.sync.consumer import Consumer

BATCH_RECORDS = 100
WINDOW_RECORDS = 10_000
STILL_S = 30.0


def filled(bench: Bench, log: int, partitions: int, batches: int) -> list[Content]:
    """What each partition holds, once it has so many batches of JSON."""
    places = [Place(Ours(), bench.url("fast"), log, partition) for partition in range(partitions)]
    fills = [Fill(place, Payloads("json", place.partition), BATCH_RECORDS, batches) for place in places]
    return [written.content for written in bench.crew.run(fills)]


@dataclass(frozen=True)
class GroupSeen:
    """What a member of a group saw of its partitions, and how long it took."""

    checksums: dict[int, Checksum]
    records: int
    started: float
    ended: float


@dataclass(frozen=True)
class GroupScan:
    """Read a share of the partitions to their ends as a member of a new group, with one commit for each poll."""

    url: str
    log: int
    group: str
    share: int
    records_each: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], GroupSeen]]:
        topic, group = topic_name(self.log), group_name(self.log, self.group)
        with (
            trunkline.connect(self.url, settings=ONE_CONNECTION) as client,
            client.consumer(topic, group=group, create=True, start="latest") as consumer,
        ):
            settle(consumer, self.share)
            for _ in range(WARM_BATCHES):
                _rewind(consumer)
                consumer.poll_batches(max_records=1)
                consumer.commit()
            _rewind(consumer)
            yield lambda: self._scan(consumer)

    def _scan(self, consumer: Consumer) -> GroupSeen:
        checksums = {partition: Checksum() for _, partition in consumer.assignment}
        left = self.share * self.records_each
        started = monotonic()
        while left:
            batches = consumer.poll_batches(max_records=WINDOW_RECORDS, wait_s=STILL_S)
            assert batches, f"{left} records of the log did not come"
            for batch in batches:
                checksums[batch.partition] = checksums[batch.partition].after(batch.payloads)
                left -= len(batch)
            consumer.commit()
        return GroupSeen(checksums, self.share * self.records_each, started, monotonic())


def _rewind(consumer: Consumer) -> None:
    for topic, partition in consumer.assignment:
        consumer.seek(topic, partition, "start")


def check(seen: list[GroupSeen], contents: list[Content]) -> None:
    """Every partition that somebody read was read as it was written."""
    for each in seen:
        for partition, checksum in each.checksums.items():
            assert checksum == contents[partition].whole, "a group lost or changed records"
