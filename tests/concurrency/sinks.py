"""Calls of the sinks' functions from sessions that may be left waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from tests.concurrency.sessions import OPEN, ROLL, WAIT_S, Session, Sessions

PUT = "select trunkline.sink_put(%s::int4, %s, %s::int4, 2, %s::int4, %s::int4, null, %s, null, null, null)"
COMMIT = "select state, was_known from trunkline.sink_commit(%s, 's', true, %s, %s, %s::int4[], %s::int8[])"
STEP = "select s.state from trunkline.sink k, trunkline.sink_step(k.sink_no, %s) s where k.query_id = %s"

Answer = Future[list[tuple[Any, ...]]]
Batches = Sequence[tuple[int, list[bytes]]]


class Sinks:
    """A topic ``t`` of two partitions, and what a job does that writes there."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.admin = sessions.open("admin", autocommit=True)
        self.topic_id = int(self.admin.run("select trunkline.topic_create('t', 2)")[0][0])

    def stage(self, batches: Batches) -> int:
        """A stage with these batches: partition and payloads."""
        number = int(self.admin.run("select trunkline.sink_stage_open()")[0][0])
        for ordinal, (partition, payloads) in enumerate(batches, start=1):
            self.put(number, ordinal, partition, payloads)
        return number

    def put(self, stage_no: int, ordinal: int, partition: int, payloads: list[bytes]) -> None:
        self.start_put(self.admin, stage_no, ordinal, partition, payloads).result(WAIT_S)

    def start_put(self, session: Session, stage_no: int, ordinal: int, partition: int, payloads: list[bytes]) -> Answer:
        return session.start(PUT, [stage_no, ordinal, self.topic_id, partition, len(payloads), payloads])

    def start_commit(
        self, session: Session, batch_id: int, stages: Mapping[int, int], *, run: str = "run-1", query: str = "q"
    ) -> Answer:
        return session.start(COMMIT, [query, batch_id, run, list(stages), list(stages.values())])

    def commit(
        self, batch_id: int, stages: Mapping[int, int], *, session: Session | None = None, **others: str
    ) -> tuple[str, bool]:
        state, was_known = self.start_commit(session or self.admin, batch_id, stages, **others).result(WAIT_S)[0]
        return state, was_known

    def finish(self, batch_id: int, *, query: str = "q") -> None:
        """Take steps until the batch is done."""
        while self.admin.run(STEP, [batch_id, query]) == [("begun",)]:
            pass

    def discard(self, *stage_nos: int) -> int:
        return int(self.admin.run("select trunkline.sink_discard(%s::int4[])", [list(stage_nos)])[0][0])

    def read(self, partition: int) -> list[bytes]:
        """The payloads of a partition, whose offsets must be 1, 2, 3 and so on."""
        records = self.admin.read(self.topic_id, partition=partition)
        assert [offset for offset, _ in records] == list(range(1, len(records) + 1))
        return [payload for _, payload in records]

    def open_segment(self) -> int:
        return int(self.admin.run(OPEN, [self.topic_id])[0][0])

    def roll(self) -> None:
        """Let the topic have a newer segment."""
        self.admin.run(ROLL, [self.topic_id])
