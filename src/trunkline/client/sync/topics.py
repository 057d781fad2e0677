# Generated from src/trunkline/client/aio/topics.py by tools/twins.py (make fix). Change the source, not this file.
"""Topics: looked up, remembered while they are used, created and changed."""

from __future__ import annotations

from typing import Any

import msgspec

from trunkline.client import protocol
from trunkline.client.sync.server import Server
from trunkline.engine.checks import check_topic_name, check_whole
from trunkline.errors import InvalidArgument
from trunkline.records import PartitionRange, Segment, Topic, TopicDescription
from trunkline.settings import TopicSettings

PARTITIONS_MAX = 1024


class Topics:
    """The topics of one database."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: dict[str, Topic] = {}

    def find(self, name: str) -> Topic:
        """The topic as last seen; NotFound where there is none."""
        known = self._known.get(name)
        return known if known is not None else self.look_up(name)

    def look_up(self, name: str) -> Topic:
        """The topic as it is now."""
        self._known.pop(check_topic_name(name), None)
        (row,) = self._server.ask(protocol.TOPICS, [name])
        topic = _topic(row)
        self._known[name] = topic
        return topic

    def forget(self, name: str) -> None:
        """Look it up again when it is needed next."""
        self._known.pop(name, None)

    def moved_on(self, name: str, open_segment_id: int) -> None:
        """Remember which segment a publish found open."""
        known = self._known.get(name)
        if known is not None and known.open_segment_id != open_segment_id:
            self._known[name] = msgspec.structs.replace(known, open_segment_id=open_segment_id)

    def all(self) -> list[Topic]:
        return [_topic(row) for row in self._server.ask(protocol.TOPICS, [None])]

    def create(self, name: str, partitions: int, settings: TopicSettings | None) -> Topic:
        check_topic_name(name)
        check_whole("partitions", partitions, least=1, most=PARTITIONS_MAX)
        given = (settings or TopicSettings()).given()
        self._server.change(protocol.TOPIC_CREATE, [name, partitions, _json(given)])
        return self.look_up(name)

    def alter(self, name: str, changes: dict[str, Any]) -> Topic:
        check_topic_name(name)
        given = TopicSettings.of(changes).given()
        if not given:
            raise InvalidArgument("alter_topic needs at least one setting to change")
        self._server.change(protocol.TOPIC_ALTER, [name, _json(given)])
        return self.look_up(name)

    def add_partitions(self, name: str, partitions: int, *, break_key_order: bool) -> Topic:
        check_topic_name(name)
        check_whole("partitions", partitions, least=1, most=PARTITIONS_MAX)
        if not isinstance(break_key_order, bool):
            raise InvalidArgument(f"break_key_order must be True or False, not {break_key_order!r}")
        self._server.change(protocol.TOPIC_ADD_PARTITIONS, [name, partitions, break_key_order])
        return self.look_up(name)

    def delete(self, name: str) -> list[int]:
        """Delete it; the ids of the segments whose tables are left to be dropped."""
        check_topic_name(name)
        self.forget(name)
        ((segments,),) = self._server.change(protocol.TOPIC_DELETE, [name])
        return list(segments)

    def describe(self, name: str) -> TopicDescription:
        topic = self.look_up(name)
        segments = [Segment(*row) for row in self._server.ask(protocol.SEGMENTS, [name])]
        return TopicDescription(topic, self.ranges(topic), segments)

    def ranges(self, topic: Topic, partition: int | None = None) -> list[PartitionRange]:
        rows = self._server.ask(protocol.RANGE, [topic.topic_id, partition])
        return [PartitionRange(*row) for row in rows]


def _topic(row: tuple[Any, ...]) -> Topic:
    return Topic(*(*row[:-1], tuple(row[-1])))


def _json(given: dict[str, Any]) -> str:
    return msgspec.json.encode(given).decode()
