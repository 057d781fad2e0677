# Generated from src/trunkline/client/aio/reader.py by tools/twins.py (make fix). Change the source, not this file.
"""Reading the log by partition, and what positions in it mean."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate, islice, pairwise
from typing import Any, Literal

from trunkline.client import protocol
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.engine.checks import INT4_MAX, check_time, check_topic_name, check_whole
from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange
from trunkline.records import Batch, HeaderPairs, PinnedPosition, Record, Topic

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
        records = (record for batch in batches for record in batch)
        skipped = max(0, start - batches[0].first_offset) if batches else 0
        return list(islice(records, skipped, skipped + max_records))

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
        topic = self._partition(name, partition)
        ((offset,),) = self._server.ask(protocol.OFFSET_AT, [topic.topic_id, partition, time])
        return int(offset)

    def pin(self, name: str, partition: int, offset: int) -> PinnedPosition:
        check_whole("offset", offset, least=1)
        topic = self._partition(name, partition)
        (row,) = self._server.ask(protocol.PIN, [topic.topic_id, partition, offset])
        return PinnedPosition(name, partition, offset, *row)

    def check(self, pinned: PinnedPosition) -> None:
        if not isinstance(pinned, PinnedPosition):
            raise InvalidArgument(f"a position that was pinned is needed, not {type(pinned).__name__}")
        topic = self._topics.look_up(pinned.topic)
        proof = [pinned.offset, pinned.incarnation, pinned.batch_id, pinned.log_epoch]
        self._server.ask(protocol.CHECK_PIN, [topic.topic_id, pinned.partition, *proof])

    def _partition(self, name: str, partition: int) -> Topic:
        check_whole("partition", partition, most=INT4_MAX)
        topic = self._topics.find(check_topic_name(name))
        if partition >= topic.partitions:
            topic = self._topics.look_up(name)
        if partition >= topic.partitions:
            raise NotFound(
                f"topic {name} has no partition {partition}; its partitions are 0 to {topic.partitions - 1}"
            )
        return topic

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
        topic = self._partition(name, partition)
        while True:
            start = self._start(topic, partition, offset, since)
            try:
                return start, self._batches(topic, partition, start, max_records, bytes_max)
            except OffsetOutOfRange:
                # A start that we looked up may be dropped before it is read; one that the caller gave is an error.
                if isinstance(offset, int) and since is None:
                    raise
            except NotFound:
                topic = self._topics.look_up(name)

    def _start(self, topic: Topic, partition: int, offset: Start, since: datetime | None) -> int:
        if since is not None:
            if offset != "start":
                raise InvalidArgument("give offset or since, not both")
            return self.offset_at(topic.name, partition, since)
        if offset in ("start", "end"):
            (valid,) = self._topics.ranges(topic, partition)
            return valid.start if offset == "start" else valid.end
        if isinstance(offset, str):
            raise InvalidArgument(f"offset must be a whole number, 'start' or 'end', not {offset!r}")
        return check_whole("offset", offset, least=-(2**63))

    def _batches(
        self, topic: Topic, partition: int, start: int, max_records: int, bytes_max: int
    ) -> list[Batch]:
        rows = self._server.ask(protocol.READ, [topic.topic_id, partition, start, max_records, bytes_max])
        return [_batch(topic.name, partition, row) for row in rows]


def _batch(topic: str, partition: int, row: tuple[Any, ...]) -> Batch:
    first_offset, _, append_time, batch_id, keys, payloads, counts, names, values, *transaction = row
    headers = _headers(counts, names, values) if counts is not None else None
    return Batch(
        topic,
        partition,
        first_offset,
        keys,
        payloads,
        headers,
        append_time.astimezone(UTC),
        batch_id,
        *transaction,
    )


def _headers(counts: list[int], names: list[str], values: list[bytes]) -> list[HeaderPairs]:
    pairs = list(zip(names, values, strict=True))
    return [tuple(pairs[start:end]) for start, end in pairwise(accumulate(counts, initial=0))]
