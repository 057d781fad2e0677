"""What the driver's side of a Spark query asks of the database: topics, offsets, proofs, and to be woken.

Spark never tries a call of the driver's again, so everything here reconnects by itself, within a deadline. One
database a process and URL: Spark makes readers and writers as it likes.
"""

from __future__ import annotations

import logging
import os
import re
import select
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any

import msgspec
import psycopg
from psycopg import Notify

from trunkline.client import protocol
from trunkline.client.arrays import EncodedArray, integer_array, offset_array, text_array
from trunkline.client.sync.connection import ServerConnection, open_connection
from trunkline.client.sync.pool import Pool
from trunkline.client.sync.server import Server
from trunkline.client.sync.topics import Topics
from trunkline.errors import TrunklineError
from trunkline.records import PartitionRange, Topic
from trunkline.settings import ClientSettings
from trunkline.spark.positions import Proof
from trunkline.spark.ranges import Place

logger = logging.getLogger("trunkline")

DEADLINE_S = 60.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_known: dict[tuple[int, str], Database] = {}


def database(url: str) -> Database:
    """The database behind a URL, for this process."""
    key = (os.getpid(), url)
    if key not in _known:
        _known[key] = Database(url)
    return _known[key]


@dataclass(frozen=True)
class Identity:
    """Which batch of which query this is, in one place where it writes. ``run_id`` tells one start from the next."""

    query_id: str
    sink_id: str
    batch_id: int
    run_id: str
    is_named: bool = True
    is_exact: bool = True
    """Whether the batch has as many records each time it is repeated."""


class Database:
    """Calls of the server's functions for one URL."""

    def __init__(self, url: str) -> None:
        self._settings = msgspec.structs.replace(
            ClientSettings.from_environment(), application_name="trunkline spark", deadline_s=DEADLINE_S
        )
        self._url = url
        self._pool = Pool(url, self._settings)
        self._server = Server(self._pool, self._settings)
        self._listener: ServerConnection | None = None
        self._listening: set[int] = set()
        self._rings = 0
        self.topics = Topics(self._server)

    # -- reading --

    def matching(self, pattern: str) -> list[Topic]:
        """The topics whose whole name matches, as Kafka's ``subscribePattern`` does."""
        wanted = re.compile(pattern)
        return [topic for topic in self.topics.all() if wanted.fullmatch(topic.name)]

    def ranges(self, topics: Sequence[Topic]) -> dict[Place, PartitionRange]:
        """What the log of every partition holds, in one statement."""
        if not topics:
            return {}
        names = {topic.topic_id: topic.name for topic in topics}
        rows = self._server.ask(protocol.RANGES, [integer_array(list(names))])
        return {(names[topic_id], partition): PartitionRange(partition, *ends) for topic_id, partition, *ends in rows}

    def offset_at(self, topic: Topic, partition: int, time_us: int) -> int:
        """The first offset that was appended at or after a time, in microseconds."""
        time = _EPOCH + timedelta(microseconds=time_us)
        ((offset,),) = self._server.ask(protocol.OFFSET_AT, [topic.topic_id, partition, time])
        return int(offset)

    def proofs(
        self, topics: Mapping[str, Topic], offsets: Mapping[Place, int]
    ) -> tuple[dict[Place, Proof], int | None]:
        """What must stand beside these offsets in a checkpoint, and the log epoch (None where there are no offsets)."""
        if not offsets:
            return {}, None
        places = list(offsets)
        rows = self._server.ask(
            protocol.PINS,
            [
                *_placed(topics, places, offsets),
            ],
        )
        found = {place: Proof(incarnation, batch) for place, (incarnation, batch, _) in zip(places, rows, strict=True)}
        return found, int(rows[0][2])

    def check(
        self, topics: Mapping[str, Topic], offsets: Mapping[Place, int], proofs: Mapping[Place, Proof], log_epoch: int
    ) -> None:
        """Prove that these offsets stand in the log they were taken from: LogDiverged, NotFound for a topic made again,
        OffsetOutOfRange where retention passed one."""
        if not offsets:
            return
        places = list(offsets)
        self._server.ask(
            protocol.CHECK_PINS,
            [
                log_epoch,
                *_placed(topics, places, offsets),
                offset_array([proofs[place].incarnation for place in places]),
                offset_array([proofs[place].batch_id for place in places]),
            ],
        )

    def report(self, group: str, topics: Mapping[str, Topic], offsets: Mapping[Place, int]) -> None:
        """Note how far a query has come, for `trunkline group` and for retention by consumption."""
        places = [place for place in offsets if place[0] in topics]
        if places and not self._is_standby():
            self._server.repeat(
                protocol.GROUP_REPORT,
                [
                    group,
                    *_placed(topics, places, offsets),
                ],
            )

    def _is_standby(self) -> bool:
        with self._pool.connection(self._server.deadline()) as connection:
            return connection.is_standby

    # -- waiting --

    def wait(self, topics: Iterable[Topic], wait_s: float) -> bool:
        """Until somebody rings for one of these topics, or the time is over; whether one was heard. Only a hint."""
        wanted = {topic.topic_id for topic in topics}
        until = monotonic() + wait_s
        try:
            listener = self._listen(wanted)
            if listener is not None:
                return self._heard_until(listener, until)
        except (TrunklineError, psycopg.Error, OSError) as error:
            logger.info("not listening, looking once a second: %s", error)
            self._hang_up()
        sleep(max(0.0, until - monotonic()))
        return False

    def _heard_until(self, listener: ServerConnection, until: float) -> bool:
        """What rang since the last wait counts too: it may have rung after the log was looked at."""
        ready = select.poll()
        ready.register(listener.pgconn.socket, select.POLLIN)
        listener.take_notifies()
        while not self._rings and (left_s := until - monotonic()) > 0:
            ready.poll(left_s * 1000)
            listener.take_notifies()
        rings, self._rings = self._rings, 0
        return rings > 0

    def _ring(self, _: Notify) -> None:
        self._rings += 1

    def _listen(self, wanted: set[int]) -> ServerConnection | None:
        """A session that hears these topics; None where none can: behind a pooler, on a standby."""
        if self._listener is not None and (self._listener.closed or not wanted <= self._listening):
            self._hang_up()
        if self._listener is None:
            connection = open_connection(self._url, self._settings, monotonic() + self._settings.connect_timeout_s)
            if connection.pooled or connection.is_standby:
                connection.close()
                return None
            self._listener = connection
        self._listener.deadline = monotonic() + self._settings.statement_timeout_s
        new = wanted - self._listening
        if new:
            self._listener.listen([protocol.topic_channel(topic_id) for topic_id in new], self._ring)
            self._listening |= new
        return self._listener

    def _hang_up(self) -> None:
        listener, self._listener = self._listener, None
        self._listening.clear()
        if listener is not None:
            listener.close()

    # -- writing --

    def open_stage(self) -> int:
        """A number under which a task stages its batches."""
        ((stage_no,),) = self._server.repeat(protocol.SINK_STAGE_OPEN)
        return int(stage_no)

    def put(
        self,
        stage_no: int,
        ordinal: int,
        topic: Topic,
        partition: int,
        record_count: int,
        arrays: Sequence[EncodedArray | None],
    ) -> None:
        """Put a batch into a stage; done again it changes nothing, as its place in the stage is a key."""
        place = [stage_no, ordinal, topic.topic_id, topic.partitions, partition]
        self._server.repeat(protocol.SINK_PUT, [*place, record_count, *arrays])

    def publish(
        self,
        batch: Identity,
        *,
        stage_nos: list[int],
        record_counts: list[int],
        topic_ids: Iterable[int],
    ) -> None:
        """Publish the staged records of a batch, once: whoever asks again finds it done, or goes on with it; refused
        with ``is_exact`` where the batch had another number of records then."""
        identity = [batch.query_id, batch.sink_id, batch.is_named, batch.batch_id, batch.run_id]
        staged = [integer_array(stage_nos), offset_array(record_counts)]
        ((sink_no, state, was_known, full),) = self._server.repeat(
            protocol.SINK_COMMIT, [*identity, *staged, batch.is_exact]
        )
        segments = set(full or ())
        while state != "done":
            ((state, full),) = self._server.repeat(protocol.SINK_STEP, [sink_no, batch.batch_id])
            segments.update(full or ())
        if was_known:
            self.discard(stage_nos)
        self._after(topic_ids, segments)

    def discard(self, stage_nos: Sequence[int]) -> None:
        """Take away what will not be published. Maintenance does it too, later: so a failure here is no error."""
        if stage_nos:
            self._try("what was staged stays for a day", protocol.SINK_DISCARD, [integer_array(stage_nos)])

    def _after(self, topic_ids: Iterable[int], full_segments: Iterable[int]) -> None:
        # Which partitions the tasks have written to is not known here.
        names = (protocol.topic_channel, protocol.whole_channel)
        channels = [name(topic_id) for topic_id in topic_ids for name in names]
        rings = [text_array(channels), text_array([""] * len(channels))]
        self._try("readers find the records when they poll", protocol.RING, rings)
        for segment_id in full_segments:
            self._try("the next publish rolls it", protocol.ROLL, [segment_id])

    def _try(self, otherwise: str, statement: str, parameters: Sequence[Any]) -> None:
        try:
            self._server.once(statement, parameters)
        except TrunklineError as error:
            logger.info("%s: %s", otherwise, error)


def _placed(topics: Mapping[str, Topic], places: Sequence[Place], offsets: Mapping[Place, int]) -> list[EncodedArray]:
    return [
        integer_array([topics[name].topic_id for name, _ in places]),
        integer_array([partition for _, partition in places]),
        offset_array([offsets[place] for place in places]),
    ]
