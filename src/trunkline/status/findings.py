"""What facts mean: ok, a note, a warning or a problem, and what to do next. Pure: the time is handed in.

A problem stops work or risks data; a warning will become one; a note is worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from trunkline.status.facts import LockHolder, RetentionState, ServerFacts, SessionCount, SnapshotHolder

Level = Literal["ok", "note", "warning", "problem"]
LEVELS: tuple[Level, ...] = ("problem", "warning", "note", "ok")

SNAPSHOT_OLD = timedelta(hours=1)
PREPARED_OLD = timedelta(minutes=5)
UPKEEP_LATE = timedelta(hours=1)
LOCK_LONG = timedelta(seconds=5)
LOCK_TOO_LONG = timedelta(seconds=60)
SEGMENTS_MANY = 0.75
SEGMENTS_TOO_MANY = 0.95
NAMES_SHOWN = 5


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. ``subject`` is where: server, schema, snapshots, retention, locks …"""

    level: Level
    subject: str
    text: str
    next_step: str = ""


def about_server(server: ServerFacts) -> Iterator[Finding]:
    kind = "a standby, which takes no writes" if server.is_standby else "takes writes"
    yield Finding("note" if server.is_standby else "ok", "server", f"PostgreSQL {server.server_version}, {kind}")
    if server.has_lz4:
        yield Finding("ok", "lz4", "there, and used for new segments")
    else:
        yield Finding("note", "lz4", "not there: segments are compressed by pglz, which is slower and larger")
    yield from about_durability(server)
    yield _about_segments(server)


def about_durability(server: ServerFacts) -> Iterator[Finding]:
    """Whether what was acknowledged survives a crash."""
    if not server.fsync:
        yield Finding(
            "problem",
            "durability",
            "fsync is off: a crash of the machine can destroy the database",
            "set fsync = on",
        )
    if not server.full_page_writes:
        yield Finding(
            "warning",
            "durability",
            "full_page_writes is off: a crash can tear pages, unless the file system forbids it",
            "set full_page_writes = on",
        )
    if server.synchronous_commit == "off":
        yield Finding(
            "note",
            "durability",
            "synchronous_commit is off; publishing turns it on for its own transactions",
        )
    if server.fsync and server.full_page_writes:
        checksums = "on" if server.data_checksums else "off"
        yield Finding(
            "ok",
            "durability",
            f"fsync on, full_page_writes on, synchronous_commit {server.synchronous_commit}, checksums {checksums}",
        )


def _about_segments(server: ServerFacts) -> Finding:
    share = server.segments / server.segments_max
    level: Level = "ok"
    if share >= SEGMENTS_MANY:
        level = "problem" if share >= SEGMENTS_TOO_MANY else "warning"
    step = "raise segment_bytes of large topics, or let retention drop old segments" if level != "ok" else ""
    return Finding(level, "segments", f"{server.segments:,} of {server.segments_max:,} in this database", step)


def about_snapshots(holders: Sequence[SnapshotHolder], sessions: SessionCount, now: datetime) -> Iterator[Finding]:
    """Who holds an old snapshot. The log does not slow down by it, but the rest of the database does."""
    old = [holder for holder in holders if _is_old(holder, now)]
    for holder in old:
        yield Finding("warning", "snapshots", f"{_who(holder, now)}", _end_it(holder))
    if not old and holders:
        yield Finding("ok", "snapshots", f"the oldest: {_who(holders[0], now)}")
    elif not old:
        yield Finding("ok", "snapshots", "none is held")
    if sessions.hidden:
        yield Finding(
            "note",
            "snapshots",
            f"{sessions.hidden} of {sessions.hidden + sessions.visible} sessions may not be looked into by this role",
            "grant it pg_read_all_stats to see what they hold",
        )


def _is_old(holder: SnapshotHolder, now: datetime) -> bool:
    if holder.since is None:
        return holder.holder == "slot" and holder.pid is None
    return now - holder.since >= (PREPARED_OLD if holder.holder == "prepared" else SNAPSHOT_OLD)


def _who(holder: SnapshotHolder, now: datetime) -> str:
    behind = f"{holder.transactions_behind:,} transactions behind"
    if holder.holder == "slot":
        state = f"used by pid {holder.pid}" if holder.pid is not None else "used by nobody"
        return f"replication slot {holder.name}, {state}, {behind}"
    age = age_text(now - holder.since) if holder.since else "unknown"
    if holder.holder == "prepared":
        return f"prepared transaction {holder.name!r} of {holder.user_name}, {age} old, {behind}"
    query = f", query began {age_text(now - holder.query_start)} ago" if holder.query_start else ""
    app = f" ({holder.application})" if holder.application else ""
    return f"pid {holder.pid} of {holder.user_name}{app}, {holder.state}, {age} old{query}, {behind}"


def _end_it(holder: SnapshotHolder) -> str:
    if holder.holder == "session":
        return f"let it end, or end it: select pg_terminate_backend({holder.pid})"
    if holder.holder == "prepared":
        return "commit it or roll it back: it keeps its locks for ever"
    return "drop the slot if nothing will use it again"


def about_retention(states: Sequence[RetentionState], now: datetime) -> Iterator[Finding]:
    """Whether somebody runs retention, and what it cannot do."""
    endless = [
        state.topic
        for state in states
        if state.topic is not None and state.retention_age_s is None and state.retention_bytes is None
    ]
    if endless:
        yield Finding(
            "note",
            "retention",
            f"kept for ever: {names_text(endless)}",
            "limit it: trunkline topic alter TOPIC --set retention_age_s=7d",
        )
    late = [finding for state in states for finding in _late(state, now)]
    yield from late
    if not late:
        yield Finding("ok", "retention", "nothing is overdue")


def _late(state: RetentionState, now: datetime) -> Iterator[Finding]:
    name = state.topic or "deleted topics"
    run = "run `trunkline retention run` often, or host it: client.retention_host()"
    limited = state.retention_age_s is not None
    for since, text, step in (
        (state.expired_since, "records are past retention_age_s, and still there", run),
        (state.roll_due_since if limited else None, "the open segment is due to be rolled", run),
        (state.moving_since, f"{state.segments_moving} segments are no longer open, and not sealed", run),
        (
            state.released_since,
            f"{state.segments_released} released segments are not dropped",
            f"{run}; somebody may be reading them",
        ),
    ):
        if since is not None and now - since >= UPKEEP_LATE:
            yield Finding("warning", "retention", f"{name}: {text}, for {age_text(now - since)}", step)
    if state.bytes_over:
        yield Finding("note", "retention", f"{name}: {state.bytes_over:,} bytes are over retention_bytes", run)


def about_locks(locks: Sequence[LockHolder], now: datetime) -> Iterator[Finding]:
    """Who keeps publishers, or readers of a group, waiting. Both hold their locks for a few milliseconds."""
    found = False
    for lock in locks:
        if not lock.granted:
            continue
        waiters = [other for other in locks if not other.granted and other.place == lock.place]
        held = _held(lock, waiters, now)
        if held is not None and held >= LOCK_LONG:
            found = True
            yield _about_lock(lock, len(waiters), held)
    if not found:
        yield Finding("ok", "locks", "no partition is held for long")


def _held(lock: LockHolder, waiters: Sequence[LockHolder], now: datetime) -> timedelta | None:
    """For how long, at most by the holder's transaction, at least by those who wait; None where nobody can say."""
    since = lock.transaction_since or min(
        (waiter.waiting_since for waiter in waiters if waiter.waiting_since is not None), default=None
    )
    return now - since if since is not None else None


def _about_lock(lock: LockHolder, waiters: int, held: timedelta) -> Finding:
    what = f"partition {lock.partition} of {lock.topic}" if lock.partition is not None else f"topic {lock.topic}"
    if lock.group_name is not None:
        what = f"the cursor of group {lock.group_name} in {what}"
    who = "a prepared transaction" if lock.pid is None else f"pid {lock.pid} of {lock.user_name}"
    app = f" ({lock.application})" if lock.application else ""
    return Finding(
        "problem" if held >= LOCK_TOO_LONG else "warning",
        "locks",
        f"{what}: locked by {who}{app}, {lock.state or 'state unknown'}, its transaction is {age_text(held)} old; "
        f"{waiters} wait for it",
        f"commit or end that transaction: nobody else can {'publish there' if lock.group_name is None else 'move it'}",
    )


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def age_text(age: timedelta) -> str:
    """An age in its two largest units."""
    left = max(0, round(age.total_seconds()))
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, length)
        if amount:
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2]) or "0 s"


def names_text(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
