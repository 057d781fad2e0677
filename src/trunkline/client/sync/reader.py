# Generated from src/trunkline/client/aio/reader.py by tools/twins.py (make fix). Change the source, not this file.
"""Reading the log by partition, and what positions in it mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import accumulate, chain, islice, pairwise
from typing import Any, Literal, TypeVar

from trunkline.client import protocol
from trunkline.client.sync.connection import Row
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.engine.checks import INT4_MAX, check_time, check_topic_name, check_whole
from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange
from trunkline.records import Batch, HeaderPairs, PartitionRange, PinnedPosition, Record, Topic

T = TypeVar("T")
Start = int | Literal["start", "end"]


class Reader:
    """Reads of one client. Nothing here writes, or waits for records to come."""

    def __init__(self, server: Server, topics: Topics) -> None:
        self._server = server
        self._topics = topics

    def read(
        self,
        name: str,
        *,
        partition: int,
        offset: Start,
        since: datetime | None,
        max_records: int,
        bytes_max: int | None,
    ) -> list[Record]:
        """Records in offset order, at most ``max_records``."""
        start, batches = self._fetch(name, partition, offset, since, max_records, bytes_max)
        skipped = max(0, start - batches[0].first_offset) if batches else 0
        return list(islice(chain.from_iterable(batches), skipped, skipped + max_records))

    def read_batches(
        self,
        name: str,
        *,
        partition: int,
        offset: Start,
        since: datetime | None,
        max_records: int,
        bytes_max: int | None,
    ) -> list[Batch]:
        """Whole batches in offset order: the first one holds the offset, the last may pass ``max_records``."""
        _, batches = self._fetch(name, partition, offset, since, max_records, bytes_max)
        return batches

    def offset_at(self, name: str, partition: int, time: datetime) -> int:
        check_time("time", time)

        def ask(topic: Topic) -> int:
            ((offset,),) = self._server.ask(protocol.OFFSET_AT, [topic.topic_id, partition, time])
            return int(offset)

        return self._of_partition(name, partition, ask)

    def ranges(self, name: str) -> list[PartitionRange]:
        return self._of_topic(name, self._topics.ranges)

    def pin(self, name: str, partition: int, offset: int) -> PinnedPosition:
        check_whole("offset", offset, least=1)

        def ask(topic: Topic) -> PinnedPosition:
            (row,) = self._server.ask(protocol.PIN, [topic.topic_id, partition, offset])
            return PinnedPosition(name, partition, offset, *row)

        return self._of_partition(name, partition, ask)

    def check(self, pinned: PinnedPosition) -> None:
        if not isinstance(pinned, PinnedPosition):
            raise InvalidArgument(f"a position that was pinned is needed, not {type(pinned).__name__}")
        topic = self._topics.look_up(pinned.topic)
        proof = [pinned.offset, pinned.incarnation, pinned.batch_id, pinned.log_epoch]
        self._server.ask(protocol.CHECK_PIN, [topic.topic_id, pinned.partition, *proof])

    def _of_topic(self, name: str, ask: Callable[[Topic], T]) -> T:
        """Ask about the topic as last seen; where it has been made again since, about the one there is now."""
        known = self._topics.find(check_topic_name(name))
        try:
            return ask(known)
        except NotFound:
            found = self._topics.look_up(name)
            if found.topic_id == known.topic_id and found.partitions == known.partitions:
                raise
            return ask(found)

    def _of_partition(self, name: str, partition: int, ask: Callable[[Topic], T]) -> T:
        check_whole("partition", partition, most=INT4_MAX)

        def ask_checked(topic: Topic) -> T:
            if partition >= topic.partitions:
                raise NotFound(
                    f"topic {name} has no partition {partition}; its partitions are 0 to {topic.partitions - 1}"
                )
            return ask(topic)

        return self._of_topic(name, ask_checked)

    def _fetch(
        self,
        name: str,
        partition: int,
        offset: Start,
        since: datetime | None,
        max_records: int,
        bytes_max: int | None,
    ) -> tuple[int, list[Batch]]:
        check_whole("max_records", max_records, least=1, most=INT4_MAX)
        bytes_max = self._server.settings.read_bytes_max if bytes_max is None else bytes_max
        check_whole("bytes_max", bytes_max, least=1)
        if since is not None:
            check_time("since", since)

        def ask(topic: Topic) -> tuple[int, list[Batch]]:
            parameters = [max_records, bytes_max]
            while True:
                start = self._start(topic, partition, offset, since)
                try:
                    rows = self._server.read([topic.topic_id, partition, start, *parameters])
                except OffsetOutOfRange:
                    # A start that we looked up may be dropped before it is read; one that was given is an error.
                    if since is None and not isinstance(offset, str):
                        raise
                else:
                    return start, batches_of(topic.name, partition, rows)

        return self._of_partition(name, partition, ask)

    def _start(self, topic: Topic, partition: int, offset: Start, since: datetime | None) -> int:
        if since is not None:
            if offset != "start":
                raise InvalidArgument("give offset or since, not both")
            ((found,),) = self._server.ask(protocol.OFFSET_AT, [topic.topic_id, partition, since])
            return int(found)
        if offset in ("start", "end"):
            (valid,) = self._topics.ranges(topic, partition)
            return valid.start if offset == "start" else valid.end
        if isinstance(offset, str):
            raise InvalidArgument(f"offset must be a whole number, 'start' or 'end', not {offset!r}")
        return check_whole("offset", offset, least=-(2**63))


def batches_of(topic: str, partition: int, rows: Iterable[Row]) -> list[Batch]:
    """The batches that a read gave; not the row that says that more was left for the next one."""
    return [_batch(topic, partition, row) for row in rows if row[1]]


def _batch(topic: str, partition: int, row: tuple[Any, ...]) -> Batch:
    first_offset, _, append_time, batch_id, keys, payloads, counts, names, values, *rest = row
    transaction_id, ordinal, count, append_times, joined, lengths, _ = rest
    if payloads is None:
        # From a schema that has not been upgraded.
        payloads = [joined[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
    headers = _headers(counts, names, values) if counts is not None else None
    if append_time.tzinfo is not UTC:
        # Only behind a pooler: elsewhere the session's zone is UTC.
        append_time = append_time.astimezone(UTC)
    what = (topic, partition, first_offset, keys, payloads, headers, append_time)
    return Batch(*what, batch_id, transaction_id, ordinal, count, append_times)


def _headers(counts: list[int], names: list[str], values: list[bytes]) -> list[HeaderPairs]:
    pairs = list(zip(names, values, strict=True))
    return [tuple(pairs[start:end]) for start, end in pairwise(accumulate(counts, initial=0))]
