"""What is read of a server and its log. Each value is one row of a function of the schema, in its words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

import msgspec

from trunkline.client import protocol
from trunkline.errors import NotFound
from trunkline.records import GroupDescription, GroupFailures, GroupMember, GroupPartition

SERVER = "select * from trunkline.server_describe()"
SESSIONS = "select * from trunkline.session_count()"
SNAPSHOTS = "select * from trunkline.snapshot_list(%s::int4)"
LOCKS = "select * from trunkline.lock_holder_list()"
RETENTION = "select * from trunkline.retention_describe()"
WAITING = "select * from trunkline.group_waiting(%s)"

SNAPSHOTS_MAX = 20


class Ask(Protocol):
    """Runs one statement that changes nothing; its rows."""

    def __call__(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


class ServerFacts(msgspec.Struct, frozen=True):
    """The server, and the settings that decide whether a commit survives a crash."""

    server_version: str
    server_version_num: int
    is_standby: bool
    has_lz4: bool
    fsync: bool
    synchronous_commit: str
    full_page_writes: bool
    data_checksums: bool
    synchronous_standby_names: str
    segments: int
    segments_max: int
    server_time: datetime


class SessionCount(msgspec.Struct, frozen=True):
    """How many sessions of the database this role may look into, and how many it may not."""

    visible: int
    hidden: int


class SnapshotHolder(msgspec.Struct, frozen=True):
    """Who keeps old row versions alive: ``holder`` is session, prepared (a transaction) or slot (of replication)."""

    holder: str
    name: str | None
    pid: int | None
    user_name: str | None
    application: str | None
    state: str | None
    since: datetime | None
    query_start: datetime | None
    transactions_behind: int


class LockHolder(msgspec.Struct, frozen=True):
    """A session that holds, or waits for, the lock of a partition, of a whole topic (``partition`` is None), or of a
    group's cursor in a partition (``group_name``)."""

    topic: str
    partition: int | None
    pid: int | None
    granted: bool
    waiting_since: datetime | None
    user_name: str | None
    application: str | None
    state: str | None
    transaction_since: datetime | None
    query_start: datetime | None
    group_name: str | None = None

    @property
    def place(self) -> tuple[str, int | None, str | None]:
        """What is locked."""
        return self.topic, self.partition, self.group_name


class RetentionState(msgspec.Struct, frozen=True):
    """How far the upkeep of a topic has come (``topic`` is None: what deleted topics left).

    ``…_since`` says since when something is due, None where nothing is.
    """

    topic: str | None
    retention_age_s: int | None
    retention_bytes: int | None
    segments: int
    segments_moving: int
    segments_released: int
    byte_count: int
    roll_due_since: datetime | None
    moving_since: datetime | None
    expired_since: datetime | None
    released_since: datetime | None
    bytes_over: int | None


class Waiting(msgspec.Struct, frozen=True):
    """A partition in which a group is behind, and since when the first record that it has not passed is there."""

    topic: str
    partition: int
    since: datetime


class GroupFacts(msgspec.Struct, frozen=True):
    """A group with its partitions and members, and how long it lets records wait."""

    group: GroupDescription
    waiting: list[Waiting]


def read_server(ask: Ask) -> ServerFacts:
    (row,) = ask(SERVER)
    return ServerFacts(*row)


def read_sessions(ask: Ask) -> SessionCount:
    (row,) = ask(SESSIONS)
    return SessionCount(*row)


def read_snapshots(ask: Ask) -> list[SnapshotHolder]:
    """Oldest first, as far as this role may see them."""
    return [SnapshotHolder(*row) for row in ask(SNAPSHOTS, [SNAPSHOTS_MAX])]


def read_locks(ask: Ask) -> list[LockHolder]:
    return [LockHolder(*row) for row in ask(LOCKS)]


def read_retention(ask: Ask) -> list[RetentionState]:
    return [RetentionState(*row) for row in ask(RETENTION)]


def read_groups(ask: Ask, names: Sequence[str] = ()) -> list[GroupFacts]:
    """The groups of these names, NotFound where one is missing; without names all of them."""
    if names:
        return [_read_group(ask, name) for name in dict.fromkeys(names)]
    found: list[GroupFacts] = []
    for name, *_ in ask(protocol.GROUP_LIST):
        # Whoever deletes one meanwhile does not spoil the rest.
        with suppress(NotFound):
            found.append(_read_group(ask, name))
    return found


def _read_group(ask: Ask, name: str) -> GroupFacts:
    partitions = [GroupPartition(*row) for row in ask(protocol.GROUP_DESCRIBE, [name])]
    members = [GroupMember(*row) for row in ask(protocol.MEMBER_LIST, [name])]
    waiting = [Waiting(*row) for row in ask(WAITING, [name])]
    (failures,) = ask(protocol.FAILURE_DESCRIBE, [name])
    return GroupFacts(GroupDescription(name, partitions, members, GroupFailures(*failures)), waiting)
