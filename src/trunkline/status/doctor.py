"""Examines one database as an operator would: everything that a role may see, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar

import msgspec

from trunkline.client import install
from trunkline.client.sync.connection import ServerConnection, open_connection
from trunkline.engine.redriving import GROUP_PREFIX
from trunkline.errors import PermissionDenied, SchemaError, SchemaMissing
from trunkline.settings import ClientSettings
from trunkline.sql import script
from trunkline.status import facts, findings
from trunkline.status.facts import (
    Ask,
    LockHolder,
    RetentionState,
    ServerFacts,
    SessionCount,
    SnapshotHolder,
)
from trunkline.status.findings import Finding, worst_first
from trunkline.status.group_findings import about_groups
from trunkline.status.groups import GroupStatus, statuses_of
from trunkline.status.queue_findings import about_queues
from trunkline.status.queues import TOPIC_NAMES, QueueStatus, read_queues, with_ready_since

T = TypeVar("T")


class Facts(msgspec.Struct, frozen=True):
    """What was read; None where the schema is missing, or this role may not see it."""

    schema_version: int | None = None
    log_epoch: int | None = None
    pooled: bool | None = None
    server: ServerFacts | None = None
    sessions: SessionCount | None = None
    snapshots: list[SnapshotHolder] | None = None
    retention: list[RetentionState] | None = None
    locks: list[LockHolder] | None = None
    groups: list[GroupStatus] | None = None
    queues: list[QueueStatus] | None = None


class Report(msgspec.Struct, frozen=True):
    """Findings, worst first, and the facts behind them."""

    at: datetime
    findings: list[Finding]
    facts: Facts

    @property
    def has_problem(self) -> bool:
        return any(finding.level == "problem" for finding in self.findings)


def examine(url: str, settings: ClientSettings | None = None) -> Report:
    """Look at everything once, through one connection. Changes nothing.

    A schema that is missing or damaged is a finding; a server that cannot be reached is Unavailable.
    """
    settings = settings or ClientSettings.from_environment()
    try:
        connection = open_connection(url, settings, monotonic() + settings.deadline_s)
    except SchemaError as error:
        return _report([Finding("problem", "schema", str(error))], Facts())
    try:
        return _Examination(connection).run(about_schema(url))
    finally:
        connection.close()


def about_schema(url: str) -> Finding:
    """Whether the schema is the one that this package installs."""
    try:
        return Finding("ok", "schema", f"version {script.schema_version()}, {install.verify(url)} objects as installed")
    except PermissionDenied:
        return Finding("note", "schema", "not verified: this role may not read it", "run doctor as its owner")
    except SchemaError as error:
        text, _, step = str(error).rpartition("run: ")
        return Finding("problem", "schema", text.strip(" ;\n") or str(error), f"run: {step}" if text else "")


class _Examination:
    """One run of the doctor. What this role may not see becomes a note, and the rest goes on."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._ask: Ask = connection.call
        self._found: list[Finding] = []

    def run(self, schema: Finding) -> Report:
        self._found += [schema, self._about_connection()]
        server = self._look("server", facts.read_server, findings.about_server)
        now = server.server_time if server else datetime.now(UTC)
        sessions = self._look("sessions", facts.read_sessions, lambda _: ())
        snapshots = self._look(
            "snapshots",
            facts.read_snapshots,
            lambda holders: findings.about_snapshots(holders, sessions or SessionCount(0, 0), now),
        )
        retention = self._look("retention", facts.read_retention, lambda states: findings.about_retention(states, now))
        locks = self._look("locks", facts.read_locks, lambda held: findings.about_locks(held, now))
        groups = self._look_at_groups(now)
        queues = self._look_at_queues(now)
        connection = self._connection
        return _report(
            self._found,
            Facts(
                connection.schema_version,
                connection.log_epoch,
                connection.pooled,
                server,
                sessions,
                snapshots,
                retention,
                locks,
                groups,
                queues,
            ),
            now,
        )

    def _look_at_groups(self, now: datetime) -> list[GroupStatus] | None:
        if self._connection.is_standby:
            text = "not looked at: a standby does not know who is alive"
            self._found.append(Finding("note", "groups", text, "run doctor on the primary"))
            return None
        return self._look(
            "groups", lambda ask: statuses_of(facts.read_groups(ask)), lambda groups: _about_groups(groups, now)
        )

    def _look_at_queues(self, now: datetime) -> list[QueueStatus] | None:
        def read(ask: Ask) -> list[QueueStatus]:
            return [with_ready_since(ask, queue) for queue in read_queues(ask)]

        def judge(queues: list[QueueStatus]) -> Iterable[Finding]:
            return about_queues(queues, [name for (name,) in self._ask(TOPIC_NAMES)], now)

        return self._look("queues", read, judge)

    def _about_connection(self) -> Finding:
        if self._connection.pooled:
            return Finding(
                "note",
                "connection",
                "through a pooler: statements are not prepared, readers poll instead of being woken, and each process "
                "that reads with a group writes a row at every heartbeat",
                "to wake them, let TRUNKLINE_DOORBELL_URL lead past the pooler, for the one session that listens",
            )
        return Finding("ok", "connection", "direct")

    def _look(self, subject: str, read: Callable[[Ask], T], judge: Callable[[T], Iterable[Finding]]) -> T | None:
        try:
            found = read(self._ask)
        except PermissionDenied:
            self._found.append(Finding("note", subject, "this role may not see it", "run doctor as an admin"))
        except SchemaMissing:
            step = "run: trunkline db upgrade"
            self._found.append(Finding("warning", subject, "the schema is too old to tell", step))
        else:
            self._found += judge(found)
            return found
        return None


def _about_groups(groups: list[GroupStatus], now: datetime) -> Iterable[Finding]:
    # A redrive is run by hand: that nobody reads with its group is how it should be.
    return about_groups([group for group in groups if not group.name.startswith(GROUP_PREFIX)], now)


def _report(found: list[Finding], known: Facts, now: datetime | None = None) -> Report:
    return Report(now or datetime.now(UTC), worst_first(found), known)
