"""What is wrong with groups, and which limits they have passed. Pure: the time is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from trunkline.status.findings import Finding, Level, age_text, names_text
from trunkline.status.groups import GroupStatus, PartitionStatus

WAITING_LONG = timedelta(hours=1)


class Limits(msgspec.Struct, frozen=True):
    """What a group must keep to; None where there is no limit.

    ``lag_max`` counts all its partitions together, ``age_max_s`` how long its oldest record may wait.
    """

    lag_max: int | None = None
    age_max_s: float | None = None
    members_min: int | None = None


def about_groups(groups: Sequence[GroupStatus], now: datetime) -> Iterator[Finding]:
    """What is wrong with any group."""
    found = [finding for group in groups for finding in about_group(group, now)]
    yield from found
    if not groups:
        yield Finding("ok", "groups", "there are none")
    elif not found:
        furthest = max(groups, key=lambda group: group.lag)
        yield Finding("ok", "groups", f"{len(groups):,}; furthest behind: {_well(furthest)}")


def about_group(group: GroupStatus, now: datetime) -> Iterator[Finding]:
    """What is wrong with a group; nothing where it is well."""
    for topic, partitions in _by_topic(group.partitions):
        yield from _outside(group, topic, partitions)
    yield from _parked(group)
    if not group.is_read:
        yield from _unread(group, now)
    for topic, partitions in _by_topic(group.partitions):
        yield from _unheld(group, topic, partitions)
        if group.is_read:
            yield from _still(group, topic, partitions, now)


def check_group(group: GroupStatus, limits: Limits, now: datetime) -> list[Finding]:
    """What is wrong with a group, and which limits it has passed, which is a problem; ok where there is nothing."""
    found = [*_past(group, limits, now), *about_group(group, now)]
    return found or [Finding("ok", "groups", _well(group))]


def _past(group: GroupStatus, limits: Limits, now: datetime) -> Iterator[Finding]:
    look = f"see: trunkline group describe {group.name}"
    if limits.lag_max is not None and group.lag > limits.lag_max:
        text = f"{group.name}: {_records(group.lag)} behind, more than {limits.lag_max:,}"
        yield Finding("problem", "groups", text, look)
    if limits.age_max_s is not None and group.waiting_since is not None:
        age, age_max = now - group.waiting_since, timedelta(seconds=limits.age_max_s)
        if age > age_max:
            text = f"{group.name}: its oldest record has waited for {age_text(age)}, longer than {age_text(age_max)}"
            yield Finding("problem", "groups", text, look)
    if limits.members_min is not None and group.members_alive < limits.members_min:
        text = f"{group.name}: {_members(group.members_alive)}, fewer than {limits.members_min:,}"
        step = "its readers read at most once, and are not members" if group.shared else "start its consumers"
        yield Finding("problem", "groups", text, step)


def _outside(group: GroupStatus, topic: str, partitions: Sequence[PartitionStatus]) -> Iterator[Finding]:
    """A consumer that comes to such a cursor gets OffsetOutOfRange, unless it says what to do then."""
    passed = [each for each in partitions if each.cursor < each.start]
    if passed:
        lost = sum(each.start - each.cursor for each in passed)
        text = f"{group.name}: retention passed it in {_where(topic, passed)}: {_records(lost)} went unread"
        yield Finding("problem", "groups", text, _seek(group, partitions, passed, "start"))
    beyond = [each for each in partitions if each.cursor > each.end]
    if beyond:
        text = (
            f"{group.name}: it stands beyond the end of {_where(topic, beyond)}, as after a restore that lost records"
        )
        yield Finding("problem", "groups", text, _seek(group, partitions, beyond, "end"))


def _seek(group: GroupStatus, known: Sequence[PartitionStatus], lost: Sequence[PartitionStatus], to: str) -> str:
    """How to bring back those that are lost, and no other one."""
    topic, partition = lost[0].topic, lost[0].partition
    only = f" --partition {partition}" if len(lost) < len(known) else ""
    return f"move it: trunkline group seek {group.name} --topic {topic}{only} --to {to} --execute"


def _parked(group: GroupStatus) -> Iterator[Finding]:
    failures = group.failures
    if failures.parked_records:
        keys = f"{failures.blocked_keys:,} key{'' if failures.blocked_keys == 1 else 's'}"
        why = f"; the last one: {failures.last_reason}" if failures.last_reason else ""
        text = f"{group.name}: {_records(failures.parked_records)} of {keys} parked{why}"
        yield Finding("warning", "groups", text, f"see: trunkline group blocked {group.name}")


def _unread(group: GroupStatus, now: datetime) -> Iterator[Finding]:
    if group.lag > 0:
        since = group.waiting_since
        oldest = f", the oldest for {age_text(now - since)}" if since is not None else ""
        text = f"{group.name}: nobody reads with it, and {_wait(group.lag)}{oldest}"
        yield Finding("warning", "groups", text, f"start its consumers, or: trunkline group delete {group.name}")


def _unheld(group: GroupStatus, topic: str, partitions: Sequence[PartitionStatus]) -> Iterator[Finding]:
    """Partitions that nobody reads, though somebody could. Most of it passes by itself within seconds."""
    gone = [each for each in partitions if each.held == "gone"]
    if gone:
        holders = names_text(list(dict.fromkeys(str(each.holder) for each in gone)))
        text = f"{group.name}: gone, and still holding {_where(topic, gone)}: member {holders}"
        level: Level = "warning" if group.members_alive else "note"
        yield Finding(level, "groups", text, "the next member that looks takes it over")
    free = [each for each in partitions if each.held == "free"]
    if not free or group.shared or not group.members_alive:
        return
    if any(member.is_alive and topic in member.topics for member in group.members):
        text = f"{group.name}: nobody holds {_where(topic, free)}, though {_members(group.members_alive)}"
        yield Finding("warning", "groups", text, "look again in a few seconds: it may be going from one to another")
    else:
        lag = sum(each.lag for each in free)
        text = f"{group.name}: none of its members reads {topic}" + (f", and {_wait(lag)}" if lag else "")
        yield Finding("warning" if lag else "note", "groups", text, "let its consumers read that topic too")


def _still(group: GroupStatus, topic: str, partitions: Sequence[PartitionStatus], now: datetime) -> Iterator[Finding]:
    """Somebody reads, but old records wait and the cursor does not move; that of a group which catches up does."""
    still = [
        (since, each)
        for each in partitions
        if (since := each.waiting_since) is not None and _is_still(each, since, now)
    ]
    if still:
        since, oldest = min(still, key=lambda pair: pair[0])
        text = (
            f"{group.name}: it does not move in {_where(topic, [each for _, each in still])}: "
            f"{_wait(sum(each.lag for _, each in still))}, the oldest for {age_text(now - since)}; "
            f"{oldest.moved} {age_text(now - oldest.moved_at)} ago, and not moved since"
        )
        yield Finding("warning", "groups", text, "a record may fail again and again, or a handler hang: see their logs")


def _is_still(partition: PartitionStatus, since: datetime, now: datetime) -> bool:
    if now - since < WAITING_LONG:
        return False
    # Taking and giving back move nothing. Members that die of a record, one after the other, leave nothing else behind.
    return partition.moved in ("taken", "released") or now - partition.moved_at >= WAITING_LONG


def _by_topic(partitions: Iterable[PartitionStatus]) -> list[tuple[str, list[PartitionStatus]]]:
    topics: dict[str, list[PartitionStatus]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each)
    return list(topics.items())


def _where(topic: str, partitions: Sequence[PartitionStatus]) -> str:
    plural = "s" if len(partitions) > 1 else ""
    return f"partition{plural} {names_text([str(each.partition) for each in partitions])} of {topic}"


def _well(group: GroupStatus) -> str:
    readers = "read at most once" if group.shared else _members(group.members_alive)
    return f"{group.name}, {_records(group.lag)} behind, {readers}"


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _wait(count: int) -> str:
    return f"{_records(count)} wait{'s' if count == 1 else ''}"


def _members(count: int) -> str:
    return f"{count:,} member{' is' if count == 1 else 's are'} alive"
