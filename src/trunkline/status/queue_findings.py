"""What is wrong with queues. Pure: the time is handed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from trunkline.status.findings import Finding, age_text
from trunkline.status.queues import QueueStatus

UNREAD_LONG = timedelta(minutes=1)


def about_queues(queues: Sequence[QueueStatus], topics: Sequence[str], now: datetime) -> Iterator[Finding]:
    """What is wrong with any queue; nothing where there are none. ``topics`` are those that exist."""
    found = [finding for queue in queues for finding in about_queue(queue, topics, now)]
    yield from found
    if queues and not found:
        fullest = max(queues, key=lambda queue: queue.ready + queue.waiting)
        text = (
            f"{len(queues):,}; fullest: {_name(fullest)}, {_records(fullest.ready + fullest.waiting)} to be delivered"
        )
        yield Finding("ok", "queues", text)


def about_queue(queue: QueueStatus, topics: Sequence[str], now: datetime) -> Iterator[Finding]:
    """What is wrong with a queue; nothing where it is well."""
    where = f"{queue.topic} {queue.name}"
    if queue.dead_letter is not None and queue.dead_letter not in topics:
        text = f"{_name(queue)}: its dead letter topic {queue.dead_letter} does not exist: what fails has no place"
        yield Finding("problem", "queues", text, f"create it: trunkline topic create {queue.dead_letter}")
    if queue.expired:
        yield Finding(
            "warning",
            "queues",
            f"{_name(queue)}: retention took {_records(queue.expired)} before they were done",
            f"keep more (trunkline topic alter {queue.topic} --set retention_age_s=…), or have them put away: "
            f"trunkline queue alter {where} --set bury_expired=on",
        )
    if queue.paused_at is not None:
        why = f": {queue.pause_reason}" if queue.pause_reason else ""
        text = f"{_name(queue)}: paused for {age_text(now - queue.paused_at)}{why}; {_wait(queue)}"
        yield Finding("warning", "queues", text, f"go on: trunkline queue resume {where}")
    else:
        yield from _unread(queue, now)


def _unread(queue: QueueStatus, now: datetime) -> Iterator[Finding]:
    """Nobody is a member of a queue. But where somebody reads, what is due is taken, and something is held."""
    overdue = queue.next_due if queue.next_due is not None and queue.next_due < now else None
    held = any(each.in_flight and (each.next_due is None or each.next_due >= now) for each in queue.partitions)
    since = min((time for time in (queue.ready_since, overdue) if time is not None), default=None)
    if held or since is None or now - since < UNREAD_LONG:
        return
    text = f"{_name(queue)}: nobody reads it, and {_wait(queue)}, the longest for {age_text(now - since)}"
    step = f"start its readers, or: trunkline queue delete {queue.topic} {queue.name}"
    yield Finding("warning", "queues", text, step)


def _name(queue: QueueStatus) -> str:
    return f"{queue.topic}/{queue.name}"


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _wait(queue: QueueStatus) -> str:
    count = queue.ready + queue.waiting + queue.in_flight
    return f"{_records(count)} wait{'s' if count == 1 else ''}"
