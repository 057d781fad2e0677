"""Reading for at most once: readers of a group share its cursors, and each range goes to one of them.

A range is claimed, and the cursor moved past it, before it is read. Nobody is a member, nothing is committed; what a
reader dies with is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from trunkline.client import protocol
from trunkline.client.aio.server import Server
from trunkline.client.aio.topics import Topics
from trunkline.client.aio.watch import Seat, Watch
from trunkline.engine.holdings import Holding
from trunkline.records import Topic
from trunkline.settings import OnOutOfRange


class Claims:
    """The cursors of a group that one reader shares with others. Used by one task at a time."""

    def __init__(self, server: Server, topics: Topics, watch: Watch, seat: Seat, outside: OnOutOfRange) -> None:
        self._server = server
        self._topics = topics
        self._watch = watch
        self._seat = seat
        self._outside = outside
        self._group_id = 0
        self._read: dict[int, Topic] = {}
        self._look_due = 0.0
        self.holdings: dict[int, Holding] = {}

    async def join(self, group_id: int, topics: Sequence[Topic]) -> None:
        self._group_id = group_id
        self._read = {topic.topic_id: topic for topic in topics}
        await self._watch.start()
        await self._look()

    async def refresh(self) -> None:
        """Now and then, find partitions that were added."""
        if monotonic() < self._look_due:
            return
        for topic in list(self._read.values()):
            found = await self._topics.look_up(topic.name)
            if found.topic_id == topic.topic_id and found.partitions > topic.partitions:
                await self._server.repeat(protocol.GROUP_BEGIN, [self._group_id, topic.topic_id])
                self._read[topic.topic_id] = found
                self._watch.follow(self._seat, found)
        await self._look()

    async def _look(self) -> None:
        self._look_due = monotonic() + self._server.settings.heartbeat_s
        for cursor_id, topic_id, partition, next_offset in await self._server.ask(
            protocol.GROUP_CURSORS, [self._group_id]
        ):
            topic = self._read.get(topic_id)
            if topic is None or partition >= topic.partitions or cursor_id in self.holdings:
                continue
            self.holdings[cursor_id] = Holding(
                cursor_id=cursor_id,
                topic=topic.name,
                topic_id=topic_id,
                partition=partition,
                partition_id=topic.partition_ids[partition],
                epoch=0,
                at=next_offset,
            )

    async def claim(self, holding: Holding, max_records: int) -> tuple[int, int]:
        """The next range of a partition, which is now this reader's alone; empty where there is nothing."""
        # Not tried again where its outcome is unknown: the range may be claimed, and must not be handed out twice.
        parameters = [holding.cursor_id, max_records, self._outside]
        ((start, end),) = await self._server.change(protocol.GROUP_CLAIM, parameters)
        self._seat.wrote |= end > start
        return int(start), int(end)
