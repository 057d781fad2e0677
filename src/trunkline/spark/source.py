"""Reading topics in Spark: ``spark.read.format("trunkline")`` and ``spark.readStream.format("trunkline")``.

What is here decides which records a read covers; it runs on the driver's side, in a process of Spark's. The tasks then
fetch their ranges (``fetch.py``).
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from trunkline.errors import GroupActive, NotFound, OffsetOutOfRange, TrunklineError
from trunkline.records import PartitionRange, Topic
from trunkline.spark.database import Database, database
from trunkline.spark.filters import Narrowing
from trunkline.spark.options import SourceOptions
from trunkline.spark.planning import Plan, check_order
from trunkline.spark.positions import Positions, Proof
from trunkline.spark.ranges import Place, Range, gathered, limited, split
from trunkline.spark.workers import leave_quietly, spare_collections

logger = logging.getLogger("trunkline")

leave_quietly()
spare_collections()

IDLE_WAIT_S = 1.0
"""How long an idle query waits for a ring before it looks at the log again."""


REPORT_EVERY_S = 1.0
"""How often a busy query says how far it is: a flushed commit, which a short micro-batch would notice."""


GATHERED_RECORDS = 1_000
"""Ranges of a micro-batch that are no more together are one task's: starting one costs more than reading them."""


class RangePartition(InputPartition):
    """What one task reads, one range after the other."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(ranges)


@dataclass(frozen=True)
class Fetching:
    """What the tasks of a read need to know; it is pickled and sent to them."""

    options: SourceOptions
    columns: tuple[str, ...]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The records of one partition of Spark's. Spark hands None where a read has no partitions."""
        if partition is not None and partition.value is not None:
            for range_ in partition.value:
                yield from self._batches(range_)

    def _batches(self, range_: Range) -> Iterator[pa.RecordBatch]:
        # Only tasks fetch. The process that plans a stream starts with its query, and would wait a second for this.
        from trunkline.spark.fetch import RangeReader

        url, options = self.options.read_url, self.options
        return RangeReader(url, range_, self.columns, options.read_bytes, may_lag=url != options.url).batches()


class TopicReader(DataSourceReader):
    """A batch read: from where the options begin to where they end, as the log is when the read is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._fetching = Fetching(options, columns)
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        connected = database(self._options.url)
        plan = Plan(self._options, connected)
        starts, ends = plan.starts(), plan.ends()
        check_order(starts, ends)
        ranges = []
        for place, end in ends.items():
            topic = plan.topics[place[0]]
            first, last = self._narrowing.narrow(connected, topic, place[1], starts[place], end)
            ranges.append(_range(topic, place[1], first, last))
        pieces = split(ranges, self._options.min_partitions, self._options.max_records)
        return [RangePartition((piece,)) for piece in pieces] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._fetching.read(partition)


class NarrowedReader(TopicReader):
    """A batch read that takes filters, of option ``pushFilters``.

    It must be asked for. Spark keeps what was planned with one filter for the whole DataFrame that ``load()`` returned
    (4.1 to 4.3), so the same DataFrame with another filter, or with none, in the same query or a later one, would
    silently lack records. A DataFrame of this kind is for one filter.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Leave out what cannot match. Every filter is handed back, and Spark applies it to the rest."""
        for each in filters:
            self._narrowing.add(each)
        return filters


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over topics. Spark plans one micro-batch after the other with it, in one process."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._fetching = Fetching(options, columns)
        self._target: dict[Place, int] | None = None
        self._reported: Mapping[Place, int] | None = None
        self._reported_at = 0.0
        self._planned: tuple[dict[str, Any], dict[str, Topic]] | None = None
        self._initial: Positions | None = None
        self._ends: dict[Place, int] = {}
        self._is_proven = False
        self._waited_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The tasks get a copy, and need what to fetch alone.
        return {"_options": self._options, "_fetching": self._fetching}

    # -- what Spark calls, in this order --

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        """Where the stream begins. Spark asks more than once, and must get one answer."""
        if self._initial is None:
            plan = Plan(self._options, self._database)
            self._initial = replace(self._proven(plan.topics, plan.starts(), self._group()), is_initial=True)
        return self._initial.as_spark()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {place: valid.end for place, valid in Plan(self._options, self._database).valid.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends. Everything before ``start`` has been processed: Spark asks after a batch.

        Waits a second for records where there are none, so that an idle query is quiet.
        """
        begun = Positions.of_spark(start)
        topics, starts, ends = self._available(begun)
        self._report(begun.group, topics, starts, may_wait=ends != starts)
        if self._target is None and not self._is_enough(starts, ends):
            if not self._database.wait(topics.values(), IDLE_WAIT_S):
                return start
            topics, starts, ends = self._available(begun)
            if not self._is_enough(starts, ends):
                return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = limited(starts, ends, most)
        if ends == dict(begun.offsets):
            return start
        self._waited_since = None
        kept = {place: begun.proofs[place] for place, end in ends.items() if begun.offsets.get(place) == end}
        planned = self._proven(topics, ends, begun.group, kept=kept, log_epoch=begun.log_epoch)
        said = (replace(planned, begun=begun.settled()) if begun.is_initial else planned).as_spark()
        self._planned = (said, topics)
        return said

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of one micro-batch. Both ends are proven first: after a restart they come from the checkpoint."""
        until = Positions.of_spark(end)
        begun = until.begun if until.begun is not None else Positions.of_spark(start)
        topics, starts = self._proven_ends(begun, until, end)
        ranges = []
        valid = self._database.ranges(
            [topics[name] for name, _ in until.offsets.keys() - starts.keys() if name in topics]
        )
        for place, last in until.offsets.items():
            if place[0] in topics:
                first = starts[place] if place in starts else self._beginning(place, valid[place])
                ranges.append(_range(topics[place[0]], place[1], min(first, last), last))
        pieces = split(ranges, self._options.min_partitions, self._options.max_records)
        most = min(GATHERED_RECORDS, self._options.max_records or GATHERED_RECORDS)
        if self._options.min_partitions is not None:
            most = 0
        return [RangePartition(task) for task in gathered(pieces, most)] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._fetching.read(partition)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: where the log ends. Spark asks after each ``latestOffset``, which has looked."""
        shown: dict[str, Any] = {}
        for (topic, partition), end in sorted(self._ends.items()):
            shown.setdefault(topic, {})[str(partition)] = end
        return shown or None

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what is done shows in ``latestOffset``, also for the last batch."""

    def stop(self) -> None:
        """Nothing to give back: connections go with the process.

        Where Spark has closed its end, the process is over. Its answer would reach nobody, and failing to write it
        would end the query with a traceback on the terminal.
        """
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    # -- how it is done --

    @property
    def _database(self) -> Database:
        return database(self._options.url)

    def _group(self) -> str:
        if self._options.group_id is not None:
            return self._options.group_id
        return f"{self._options.group_prefix}-{secrets.token_hex(6)}"

    def _proven(
        self,
        topics: Mapping[str, Topic],
        offsets: Mapping[Place, int],
        group: str,
        *,
        kept: Mapping[Place, Proof] | None = None,
        log_epoch: int = 0,
    ) -> Positions:
        known = dict(kept or {})
        missing = {place: offset for place, offset in offsets.items() if place not in known}
        found, epoch = self._database.proofs(topics, missing)
        return Positions(dict(offsets), known | found, log_epoch if epoch is None else epoch, group)

    def _available(self, begun: Positions) -> tuple[dict[str, Topic], dict[Place, int], dict[Place, int]]:
        """The topics, and from where to where there are records: partitions that were added begin at their start."""
        plan = Plan(self._options, self._database, is_repeated=True)
        self._ends = {place: valid.end for place, valid in plan.valid.items()}
        for place in begun.offsets.keys() - plan.valid.keys():
            self._gone(place)
        here = {place: offset for place, offset in begun.offsets.items() if place in plan.valid}
        if not self._is_proven or any(not self._may_stand(plan, begun, place) for place in here):
            here = {**here, **self._checked(plan.topics, begun)}
            self._is_proven = True
        starts = {
            place: here[place] if place in here else self._beginning(place, valid)
            for place, valid in plan.valid.items()
        }
        ends = {place: max(valid.end, starts[place]) for place, valid in plan.valid.items()}
        if self._target is None:
            return plan.topics, starts, ends
        # What was added later is for the next run: each would be a change, and the run would not end.
        ends = {
            place: max(starts[place], min(end, self._target.get(place, 0)))
            for place, end in ends.items()
            if place in self._target or place in begun.offsets
        }
        return plan.topics, starts, ends

    def _may_stand(self, plan: Plan, begun: Positions, place: Place) -> bool:
        """Whether a place looks right without being proven; before anything is read it is."""
        valid, incarnation = plan.valid[place], plan.topics[place[0]].incarnation
        return begun.proofs[place].incarnation == incarnation and valid.start <= begun.offsets[place] <= valid.end

    def _beginning(self, place: Place, valid: PartitionRange) -> int:
        """Where a partition begins that was added: at its start, of which nothing may have been dropped."""
        if valid.start > 1:
            self._lose(
                OffsetOutOfRange(
                    f"topic {place[0]}, partition {place[1]}, which this query reads from its start, begins at "
                    f"{valid.start}: retention has dropped what was before",
                    start=valid.start,
                    end=valid.end,
                )
            )
        return valid.start

    def _gone(self, place: Place) -> None:
        what = f"topic {place[0]}, of which this query has read partition {place[1]}, is not there any more"
        self._lose(NotFound(f"{what}, or is not among the options"))

    def _lose(self, error: OffsetOutOfRange | NotFound) -> None:
        """Records that were to be read cannot be: an error, or a warning where the options say so."""
        if not self._options.fail_on_data_loss:
            logger.warning("going on without: %s", error)
            return
        message = f"{error}. Go on with what is there with failOnDataLoss=false, or start with a new checkpoint"
        if isinstance(error, NotFound):
            raise NotFound(message) from error
        raise OffsetOutOfRange(message, start=error.start, end=error.end) from error

    def _is_enough(self, starts: Mapping[Place, int], ends: Mapping[Place, int]) -> bool:
        waiting = sum(ends[place] - starts[place] for place in ends)
        least = self._options.min_offsets
        if least is None or waiting == 0 or waiting >= least:
            return waiting > 0
        now = monotonic()
        if self._waited_since is None:
            self._waited_since = now
        return now - self._waited_since >= self._options.max_delay_s

    def _proven_ends(
        self, begun: Positions, until: Positions, end: dict[str, Any]
    ) -> tuple[dict[str, Topic], dict[Place, int]]:
        """The topics of a micro-batch, and where it begins. An end that was planned a moment ago is proven."""
        planned, self._planned = self._planned, None
        if planned is not None and planned[0] == end:
            with suppress(NotFound):  # then a topic is gone, or another one: look again, and say which
                return planned[1], self._checked(planned[1], begun)
        topics = self._topics_of(until)
        starts = self._checked(topics, begun)
        self._checked(topics, until)
        return topics, starts

    def _topics_of(self, positions: Positions) -> dict[str, Topic]:
        found = {}
        for name in sorted({topic for topic, _ in positions.offsets}):
            try:
                found[name] = self._database.topics.look_up(name)
            except NotFound as error:
                self._lose(error)
        return found

    def _checked(self, topics: Mapping[str, Topic], positions: Positions) -> dict[Place, int]:
        """Where positions stand, proven; where retention has passed one, an error, or where the log starts now."""
        here = {place: offset for place, offset in positions.offsets.items() if place[0] in topics}
        try:
            self._database.check(topics, here, positions.proofs, positions.log_epoch)
        except OffsetOutOfRange as error:
            self._lose(error)
            # The server stops at the first that is gone: the others are not proven yet.
            return {place: self._proven_alone(topics, positions, place) for place in here}
        return here

    def _proven_alone(self, topics: Mapping[str, Topic], positions: Positions, place: Place) -> int:
        offset = positions.offsets[place]
        try:
            self._database.check(topics, {place: offset}, positions.proofs, positions.log_epoch)
        except OffsetOutOfRange:
            return max(offset, self._database.ranges([topics[place[0]]])[place].start)
        return offset

    def _report(self, group: str, topics: Mapping[str, Topic], offsets: Mapping[Place, int], *, may_wait: bool) -> None:
        """Once a second while there is more to read, and when there is not."""
        is_early = self._reported is not None and monotonic() - self._reported_at < REPORT_EVERY_S
        if self._reported == offsets or (may_wait and is_early):
            return
        try:
            self._database.report(group, topics, offsets)
            self._reported, self._reported_at = dict(offsets), monotonic()
        except GroupActive:
            raise
        except TrunklineError as error:
            # Reading does not depend on it; the next batch tries again.
            logger.warning("the progress of %s was not reported: %s", group, error)


def _range(topic: Topic, partition: int, start: int, end: int) -> Range:
    return Range(topic.name, topic.topic_id, partition, start, end, topic.incarnation)
