"""What it costs to commit a cursor and nothing else: 8 clients, each with a partition of its own.

Ours is appended, fenced, and cleaned up later; the baseline's is an update of one row. Then the same while somebody
holds a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import monotonic

import psycopg
from psycopg import sql

import trunkline
from benchmarks.baselines.claims import Claims
from benchmarks.baselines.rows import composed, connect
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers, group_name, settle
from benchmarks.jobs import Flow, records_per_s
from benchmarks.lines import Finding, Flush, paired
from benchmarks.members import GroupSide
from benchmarks.sides import ONE_CONNECTION, topic_name
from benchmarks.snapshot import hold
from trunkline import Position

CLIENTS = 8
GROUP = "cursor"
WARM_COMMITS = 20
RECORDS_A_SECOND = 10_000
"""More commits than one client makes in a second: each moves the cursor by one record."""
_MOVE = "update {schema}.consumer_offsets set next_offset = %s where group_id = {group} and topic_id = {partition}"

Move = Callable[[int], object]
"""Commits that the group goes on at an offset."""


@contextmanager
def our_cursor(url: str, log: int, reader: int) -> Iterator[Move]:  # noqa: ARG001 - it gets any partition
    """A consumer that has been given its partition to the end."""
    topic = topic_name(log)
    with (
        trunkline.connect(url, settings=ONE_CONNECTION) as client,
        client.consumer(topic, group=group_name(log, GROUP), create=True, start="latest") as consumer,
    ):
        settle(consumer, 1)
        ((_, partition),) = consumer.assignment
        consumer.seek(topic, partition, "start")
        while consumer.poll_batches():
            pass
        yield lambda offset: consumer.commit([Position(topic, partition, offset)])


@contextmanager
def their_cursor(url: str, log: int, reader: int) -> Iterator[Move]:
    statement = composed(_MOVE, log, reader, group=sql.Literal(GROUP))
    with connect(url) as connection:
        cursor = connection.cursor(binary=True)
        yield lambda offset: cursor.execute(statement, [offset], prepare=True)


@dataclass(frozen=True)
class Commit:
    """Move a cursor by one record, again and again."""

    cursor: Callable[[str, int, int], AbstractContextManager[Move]]
    url: str
    log: int
    reader: int
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Flow]]:
        with self.cursor(self.url, self.log, self.reader) as move:
            for offset in range(1, WARM_COMMITS):
                move(offset)
            yield lambda: self._commit(move)

    def _commit(self, move: Move) -> Flow:
        flow = Flow(1, monotonic(), [])
        offset, now = WARM_COMMITS, flow.started
        while now < flow.started + self.duration_s:
            move(offset)
            now = monotonic()
            flow.commits.append(now)
            offset += 1
        return flow


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        yield from _findings(bench, "cursor.commit", flush, max(1.0, bench.scale.stream_s), held=False)
        yield from _findings(bench, "cursor.commit_held", flush, bench.scale.snapshot_s / 4, held=True)


def _findings(bench: Bench, name: str, flush: Flush, duration_s: float, *, held: bool) -> Iterator[Finding]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(max(1, bench.rounds(flush) - 2)):
        for side, found in ((Consumers(), ours), (Claims(), theirs)):
            found.append(_rate(bench, side, flush, duration_s, held=held))
        bench.say(f"{name} {flush} flush: {ours[-1]:,.0f} commits/s, one updated row each {theirs[-1]:,.0f}")
    yield paired(name, ours, theirs, flush=flush, note=f"{duration_s:g} s each")


def _rate(bench: Bench, side: GroupSide, flush: Flush, duration_s: float, *, held: bool) -> float:
    ours = isinstance(side, Consumers)
    with bench.log(side, CLIENTS) as log, psycopg.connect(bench.url("fast")) as holder:
        if ours:
            _fill(bench, log, WARM_COMMITS + round(duration_s * RECORDS_A_SECOND))
        else:
            side.create_groups(bench.url("fast"), log, [GROUP])
        bench.settle()
        opened = our_cursor if ours else their_cursor
        jobs = [Commit(opened, bench.url(flush), log, reader, duration_s) for reader in range(CLIENTS)]
        flows = bench.crew.run(jobs, before=(lambda: hold(holder)) if held else None)
    return records_per_s(flows)


def _fill(bench: Bench, log: int, records: int) -> None:
    """There is only so much to commit: small records, so that reading them takes no time."""
    with trunkline.connect(bench.url("fast")) as client:
        for partition in range(CLIENTS):
            client.publish_many(topic_name(log), [b""] * records, partition=partition)


SCENARIO = Scenario("cursor", ("cursor.commit", "cursor.commit_held"), measure)
