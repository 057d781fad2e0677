"""Which records a read covers: topics and bounds of the options, as places in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from trunkline.errors import InvalidArgument, NotFound, OffsetOutOfRange
from trunkline.records import PartitionRange, Topic
from trunkline.spark.database import Database
from trunkline.spark.options import EARLIEST, LATEST, Bound, Offsets, SourceOptions
from trunkline.spark.ranges import Place

logger = logging.getLogger("trunkline")


class Plan:
    """The topics that a read is about, as they are now, and what their logs hold."""

    def __init__(self, options: SourceOptions, database: Database, *, is_repeated: bool = False) -> None:
        self.options = options
        self._database = database
        try:
            self.topics = self._find(is_repeated=is_repeated)
            self.valid = self._look()
        except NotFound:
            if not is_repeated:
                raise
            # A topic that was remembered may be gone, or another one under its name.
            self.topics = self._find(is_repeated=False)
            self.valid = self._look()

    def _find(self, *, is_repeated: bool) -> dict[str, Topic]:
        """Who asks again and again is answered from memory where names are given: nothing that a read depends on
        changes while a topic's id stays."""
        if self.options.pattern is not None:
            return {topic.name: topic for topic in self._database.matching(self.options.pattern)}
        find = self._database.topics.find if is_repeated else self._database.topics.look_up
        return {name: find(name) for name in self.options.topics or tuple(self.options.assigned or ())}

    def _look(self) -> dict[Place, PartitionRange]:
        """What the logs hold now."""
        found = self._database.ranges(list(self.topics.values()))
        assigned = self.options.assigned
        if assigned is None:
            return found
        for topic, partitions in assigned.items():
            for partition in partitions:
                if (topic, partition) not in found:
                    count = self.topics[topic].partitions
                    raise NotFound(
                        f"option assign: topic {topic} has no partition {partition}; it has 0 to {count - 1}"
                    )
        return {place: range_ for place, range_ in found.items() if place[1] in assigned[place[0]]}

    def starts(self) -> dict[Place, int]:
        """Where to begin in each partition. Given offsets must lie in the log, unless data may be lost."""
        return self._resolve(self.options.starting, "startingOffsets", beyond=self.options.time_beyond_end)

    def ends(self) -> dict[Place, int]:
        """Where to end in each partition."""
        return self._resolve(self.options.ending, "endingOffsets", beyond="latest")

    def _resolve(self, bound: Bound, name: str, *, beyond: str) -> dict[Place, int]:
        if bound.everywhere is not None:
            return {place: self._edge(place, bound.everywhere) for place in self.valid}
        if bound.time_ms is not None:
            return {place: self._at_time(place, bound.time_ms, beyond) for place in self.valid}
        if bound.times_ms is not None:
            given = self._given(bound.times_ms, f"{name}ByTimestamp")
            return {place: self._at_time(place, time_ms, beyond) for place, time_ms in given.items()}
        given = self._given(bound.offsets or {}, name)
        return {place: self._at_offset(place, offset, name) for place, offset in given.items()}

    def _given(self, by_topic: Offsets, name: str) -> dict[Place, int]:
        """As Kafka's source: every partition is named, and no other."""
        given = {(topic, partition): value for topic, values in by_topic.items() for partition, value in values.items()}
        if missing := sorted(self.valid.keys() - given.keys()):
            raise InvalidArgument(f"option {name} does not name {_shown(missing)}; name every partition")
        if unknown := sorted(given.keys() - self.valid.keys()):
            raise InvalidArgument(f"option {name} names {_shown(unknown)}, which the read does not cover")
        return given

    def _edge(self, place: Place, edge: int) -> int:
        return self.valid[place].start if edge == EARLIEST else self.valid[place].end

    def _at_offset(self, place: Place, offset: int, name: str) -> int:
        if offset in (EARLIEST, LATEST):
            return self._edge(place, offset)
        valid = self.valid[place]
        if valid.start <= offset <= valid.end:
            return offset
        message = (
            f"option {name}: offset {offset} of {_shown([place])} is outside the log, [{valid.start}, {valid.end})"
        )
        if self.options.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{message}; read what is there with failOnDataLoss=false", start=valid.start, end=valid.end
            )
        logger.warning("%s; going on with what is there", message)
        return min(max(offset, valid.start), valid.end)

    def _at_time(self, place: Place, time_ms: int, beyond: str) -> int:
        topic, partition = place
        found = self._database.offset_at(self.topics[topic], partition, time_ms * 1000)
        if found >= self.valid[place].end and beyond == "error":
            raise OffsetOutOfRange(
                f"no record of {_shown([place])} was appended at or after {time_ms} ms; begin at the end there with "
                "startingOffsetsByTimestampStrategy=latest",
                start=self.valid[place].start,
                end=self.valid[place].end,
            )
        return min(found, self.valid[place].end)


def check_order(starts: Mapping[Place, int], ends: Mapping[Place, int]) -> None:
    """An end before its start is a mistake in the options."""
    for place, end in ends.items():
        if starts[place] > end:
            raise InvalidArgument(
                f"{_shown([place])} would end at {end}, before its start, {starts[place]}; "
                "compare startingOffsets with endingOffsets"
            )


def _shown(places: Iterable[Place]) -> str:
    return ", ".join(f"{topic} partition {partition}" for topic, partition in places)
