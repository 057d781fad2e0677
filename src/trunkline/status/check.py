"""Looks at groups once, for a monitor: what is wrong with them, and which limits they have passed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from time import monotonic

import msgspec

from trunkline.client.sync.connection import open_connection
from trunkline.engine.checks import check_group_name
from trunkline.engine.redriving import GROUP_PREFIX
from trunkline.errors import ReadOnly
from trunkline.settings import ClientSettings
from trunkline.status import facts
from trunkline.status.findings import Finding, worst_first
from trunkline.status.group_findings import Limits, check_group
from trunkline.status.groups import GroupStatus, statuses_of


class GroupCheck(msgspec.Struct, frozen=True):
    """Findings, worst first, and the groups as they stood."""

    at: datetime
    findings: list[Finding]
    groups: list[GroupStatus]

    @property
    def has_problem(self) -> bool:
        return any(finding.level == "problem" for finding in self.findings)


def check_groups(url: str, names: Sequence[str], limits: Limits, settings: ClientSettings | None = None) -> GroupCheck:
    """Check these groups, or all of them, by the server's clock. Changes nothing.

    NotFound where a group is missing; ReadOnly on a standby, which does not know who is alive.
    """
    for name in names:
        check_group_name(name)
    settings = settings or ClientSettings.from_environment()
    connection = open_connection(url, settings, monotonic() + settings.deadline_s)
    try:
        if connection.is_standby:
            raise ReadOnly("a standby does not know which members are alive; check groups on the primary")
        groups = [
            group
            for group in statuses_of(facts.read_groups(connection.call, names))
            if group.name in names or not group.name.startswith(GROUP_PREFIX)
        ]
        now = facts.read_server(connection.call).server_time
    finally:
        connection.close()
    found = [finding for group in groups for finding in check_group(group, limits, now)]
    return GroupCheck(now, worst_first(found), groups)
