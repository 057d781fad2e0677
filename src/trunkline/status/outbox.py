"""What an operator sees of a worker: how far its group is behind, how much has failed, and why. Values, and how they
are found."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from trunkline.engine.dead_letters import PREFIX

if TYPE_CHECKING:
    from trunkline import Client, Record


class WorkerStatus(msgspec.Struct, frozen=True):
    """A worker's group. ``dead_letters`` counts those in its dead letter topic, None where it has none; ``last_error``
    is the newest one's reason."""

    group: str
    lag: int
    members_alive: int
    partitions_held: int
    partitions: int
    dead_letters: int | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None


def worker_status(client: Client, group: str, dead_letter: str | None) -> WorkerStatus:
    """How a worker's group stands now."""
    found = client.describe_group(group)
    alive = {member.member_id for member in found.members if member.is_alive}
    letters: int | None = None
    last: Record | None = None
    if dead_letter is not None:
        letters, last = _letters(client, dead_letter)
    return WorkerStatus(
        group=group,
        lag=found.lag,
        members_alive=len(alive),
        partitions_held=sum(each.member_id in alive for each in found.partitions),
        partitions=len(found.partitions),
        dead_letters=letters,
        last_error=None if last is None else _reason(last),
        last_error_at=None if last is None else last.append_time,
    )


def _letters(client: Client, topic: str) -> tuple[int, Record | None]:
    """How many there are, and the newest."""
    logs = [log for log in client.offsets(topic) if log.end > log.start]
    newest = [client.read(topic, partition=log.partition, offset=log.end - 1, max_records=1)[-1] for log in logs]
    return sum(log.end - log.start for log in logs), max(newest, key=lambda record: record.append_time, default=None)


def _reason(record: Record) -> str:
    found = [value for name, value in record.headers if name == f"{PREFIX}reason"]
    return found[-1].decode(errors="backslashreplace") if found else "it has no reason"
