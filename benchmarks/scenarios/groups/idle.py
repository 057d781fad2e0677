"""Readers that have nothing to read: what they cost the server, and how many connections and how much memory they take.

A hundred of them in one process: 25 groups of 4 on 4 partitions. Beside them the baseline's hundred readers, which look
every 500 ms, on as many connections. What the server does by itself is over before the clock starts. Behind a pooler
a process shows by a row now and then that it lives; what that costs is measured too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from time import monotonic
from typing import Any

import psycopg

from benchmarks.bench import Bench, Scenario
from benchmarks.crew import Crew
from benchmarks.crowds import ConsumerCrowd, Crowd, PollingCrowd, Ways, names
from benchmarks.lines import Finding
from benchmarks.memory import peak_mb
from benchmarks.payloads import SEED
from benchmarks.pooler import NoPooler, pooled
from benchmarks.processor import server_processor_s
from benchmarks.quiet import undisturbed
from benchmarks.sides import topic_name
from benchmarks.stamps import stamped
from trunkline import ClientSettings, aio

PARTITIONS = 4
GROUPS, MANY_GROUPS = 25, 250
POLL_S = 0.5
QUIET_S = 16.0
"""The server notes its running transactions up to 15 s after somebody wrote."""
SILENT_RECORDS, QUICK_SILENT_RECORDS = 20, 4
ARRIVAL_S = 30.0
BEATS_MIN = 4


@dataclass(frozen=True)
class State:
    """What the server has done so far."""

    wal_bytes: int
    transaction_id: int
    processor_s: float | None
    connections: int


def look(connection: psycopg.Connection[tuple[Any, ...]]) -> State:
    row = connection.execute(
        "select pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())::text::bigint, count(*) "
        "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
        prepare=False,
    ).fetchone()
    assert row is not None
    return State(int(row[0]), int(row[1]), server_processor_s(connection), int(row[2]))


@dataclass(frozen=True)
class Idled:
    """What the server did for a crowd while it waited, and what the crowd's process took."""

    duration_s: float
    wal_bytes: int
    transactions: int
    processor_ms: float | None
    """Of the server, in a second."""
    connections: int
    peak_mb: float
    gathered_s: float
    ways: Ways


@dataclass(frozen=True)
class Idle:
    """Wait with a crowd for some time, once the server is quiet; then publish a few records of which no ring tells.

    ``crowd_url`` is how the crowd reaches the server, if not directly. ``quiet_max_s`` bounds the wait for quiet.
    """

    crowd: Crowd
    url: str
    log: int
    duration_s: float
    silent_records: int = 0
    crowd_url: str | None = None
    quiet_max_s: float = 60.0

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Idled]]:
        yield lambda: asyncio.run(self._idle())

    async def _idle(self) -> Idled:
        began = monotonic()
        with psycopg.connect(self.url, autocommit=True) as connection:
            async with self.crowd.gathered(self.crowd_url or self.url, self.log) as ways:
                gathered_s = monotonic() - began
                before = await _quiet(connection, self.quiet_max_s)
                await asyncio.sleep(self.duration_s)
                after = await asyncio.to_thread(look, connection)
                if self.silent_records:
                    await self._publish(ways)
                return _idled(before, after, self.duration_s, gathered_s, ways)

    async def _publish(self, ways: Ways) -> None:
        chance = Random(SEED)
        async with await aio.connect(self.url, settings=ClientSettings(ring=False)) as client:
            for number in range(self.silent_records):
                await asyncio.sleep(chance.random())
                payload = stamped([b"silent"], monotonic())[0]
                await client.publish(topic_name(self.log), payload, partition=number % PARTITIONS)
                async with asyncio.timeout(ARRIVAL_S):
                    # Looked for, not waited for: those who receive it are not to do more than receive it.
                    while len(ways) < (number + 1) * len(self.crowd.groups):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)


async def _quiet(connection: psycopg.Connection[tuple[Any, ...]], most_s: float) -> State:
    """The state of the server once it has written nothing for a while, or after so long."""
    state = await asyncio.to_thread(look, connection)
    began = still_since = monotonic()
    while (now := monotonic()) - still_since < QUIET_S and now - began < most_s:
        await asyncio.sleep(0.5)
        latest = await asyncio.to_thread(look, connection)
        if latest.wal_bytes != state.wal_bytes:
            still_since = now
        state = latest
    return state


def _idled(before: State, after: State, duration_s: float, gathered_s: float, ways: Ways) -> Idled:
    spent_ms = None
    if before.processor_s is not None and after.processor_s is not None:
        spent_ms = (after.processor_s - before.processor_s) / duration_s * 1e3
    return Idled(
        duration_s,
        after.wal_bytes - before.wal_bytes,
        after.transaction_id - before.transaction_id,
        spent_ms,
        after.connections,
        peak_mb(),
        gathered_s,
        list(ways),
    )


def measure(bench: Bench) -> Iterator[Finding]:
    silent = SILENT_RECORDS if bench.scale.name == "full" else QUICK_SILENT_RECORDS
    duration_s = bench.scale.snapshot_s
    ours = _idle(bench, ConsumerCrowd(names(GROUPS), PARTITIONS), duration_s=duration_s, silent_records=silent)
    polling = PollingCrowd(names(GROUPS), PARTITIONS, ours.connections, POLL_S)
    yield from _of_hundred(ours, _idle(bench, polling, duration_s=duration_s))
    yield _of_pooled(bench)
    many = ConsumerCrowd(names(MANY_GROUPS), PARTITIONS)
    yield from _of_thousand(_idle(bench, many, duration_s=bench.scale.stream_s, quiet_max_s=0.0))


def _idle(bench: Bench, crowd: Crowd, **how: Any) -> Idled:
    """In a process of its own, so that the memory is the crowd's. ``how`` is what Idle may be given."""
    with bench.log(crowd.side, PARTITIONS) as log, Crew(1) as crew, undisturbed(bench):
        crowd.side.create_groups(bench.url("fast"), log, crowd.groups)
        (idled,) = crew.run([Idle(crowd, bench.url("fast"), log, **how)])
    bench.say(
        f"idle, {len(crowd.groups) * PARTITIONS} readers of {crowd.side.name}: {idled.wal_bytes} bytes of WAL, "
        f"{idled.transactions} transaction ids, {idled.connections} connections, {idled.peak_mb:.0f} MB, "
        f"gathered in {idled.gathered_s:.1f} s"
    )
    return idled


def _of_hundred(ours: Idled, theirs: Idled) -> Iterator[Finding]:
    note = f"in {ours.duration_s:g} s; {ours.connections} connections"
    yield Finding(name="idle.wal", value=ours.wal_bytes, baseline=theirs.wal_bytes, note=note)
    yield Finding(name="idle.transactions", value=ours.transactions, baseline=theirs.transactions, note=note)
    if ours.processor_ms is None or theirs.processor_ms is None:
        yield Finding(name="idle.processor", note="not measured: the server is not on this machine")
    else:
        ratio = ours.processor_ms / theirs.processor_ms
        yield Finding(
            name="idle.processor", value=ours.processor_ms, baseline=theirs.processor_ms, ratio=ratio, note=note
        )
    late = f"p50 {median(ours.ways):.2f} s, {len(ours.ways)} deliveries to {GROUPS} groups"
    yield Finding(name="idle.silent", value=max(ours.ways), note=late)


def _of_pooled(bench: Bench) -> Finding:
    name, heartbeat_s = "idle.wal_pooled", ClientSettings().heartbeat_s
    beats = max(BEATS_MIN, bench.scale.snapshot_s // heartbeat_s)
    try:
        with pooled(bench.url("fast")) as url:
            # Quiet is what it does not get: somebody writes with every beat.
            crowd = ConsumerCrowd(names(GROUPS), PARTITIONS)
            idled = _idle(bench, crowd, duration_s=beats * heartbeat_s, crowd_url=url, quiet_max_s=QUIET_S)
    except NoPooler as reason:
        return Finding(name=name, note=f"not measured: {reason}")
    note = f"{idled.wal_bytes} bytes in {idled.duration_s:g} s, a heartbeat every {heartbeat_s:g} s"
    return Finding(name=name, value=idled.wal_bytes / beats, note=note)


def _of_thousand(many: Idled) -> Iterator[Finding]:
    note = f"{MANY_GROUPS * PARTITIONS} consumers, gathered in {many.gathered_s:.1f} s"
    yield Finding(name="idle-1000.connections", value=many.connections, note=note)
    yield Finding(name="idle-1000.memory", value=many.peak_mb, note=note)


HUNDRED = ("idle.wal", "idle.transactions", "idle.processor", "idle.silent", "idle.wal_pooled")
LINES = (*HUNDRED, "idle-1000.connections", "idle-1000.memory")
SCENARIO = Scenario("idle", LINES, measure)
