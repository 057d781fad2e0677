"""What is seen of groups, and what it means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from trunkline.records import GroupDescription, GroupFailures, GroupMember, GroupPartition
from trunkline.status.facts import Waiting
from trunkline.status.findings import Finding
from trunkline.status.group_findings import Limits, about_group, about_groups, check_group
from trunkline.status.groups import GroupStatus, lag_rows, status_of, with_rates

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
MEMBER = GroupMember(7, "host:1", ["orders"], NOW - DAY, True, 1, True)
HELD = GroupPartition("orders", 0, 11, 1, 11, 3, 7, "host:1", True, NOW - MINUTE, "c")


def changed(value: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(value, **fields)


def group(
    *partitions: GroupPartition, members: list[GroupMember] | None = None, waiting: timedelta | None = None
) -> GroupStatus:
    """Group billing; ``waiting`` says how long ago the first record that waits in each partition was appended."""
    described = GroupDescription("billing", list(partitions), [MEMBER] if members is None else members)
    waits = [Waiting(each.topic, each.partition, NOW - waiting) for each in partitions] if waiting else []
    return status_of(described, waits)


def found(status: GroupStatus) -> list[tuple[str, str]]:
    return [(finding.level, finding.text) for finding in about_group(status, NOW)]


# -- what is seen --


@pytest.mark.parametrize(
    ("fields", "held", "holder"),
    [
        ({}, "held", "#7 host:1"),
        ({"is_alive": False}, "gone", "#7 host:1"),
        ({"is_alive": False, "member_name": None}, "gone", "#7"),
        ({"member_id": None, "member_name": None, "is_alive": None}, "free", None),
        ({"member_id": None, "member_name": None, "is_alive": None, "kind": "m"}, "shared", None),
    ],
)
def test_who_holds_a_partition(fields: dict[str, Any], held: str, holder: str | None) -> None:
    (partition,) = group(changed(HELD, **fields)).partitions
    assert (partition.held, partition.holder) == (held, holder)


def test_a_group_is_the_sum_of_its_partitions_and_counts_the_living() -> None:
    dead = changed(MEMBER, member_id=8, is_alive=False)
    behind = changed(HELD, partition=1, cursor=4)
    status = group(HELD, behind, members=[MEMBER, dead], waiting=MINUTE)
    assert (status.lag, [each.lag for each in status.partitions]) == (7, [0, 7])
    assert (status.members_alive, status.waiting_since) == (1, NOW - MINUTE)
    assert [each.moved for each in status.partitions] == ["committed", "committed"]


def test_S4_22_what_is_parked_is_a_warning_and_what_failed_and_was_put_away_is_not() -> None:
    failures = GroupFailures(3, 0, 0, "orders", 0, 7, "ValueError: no", NOW)
    described = GroupDescription("billing", [HELD], [MEMBER], failures)
    assert status_of(described).failures == failures
    assert found(status_of(described)) == []
    parked = changed(described, failures=changed(failures, blocked_keys=2, parked_records=5))
    ((level, text),) = found(status_of(parked))
    assert (level, text) == ("warning", "billing: 5 records of 2 keys parked; the last one: ValueError: no")


def test_a_rate_is_what_changed_since_the_last_look() -> None:
    before = lag_rows([group(HELD)])
    after = lag_rows([group(changed(HELD, cursor=21, end=51), changed(HELD, partition=1))])
    first, added = with_rates(after, before, 2.0)
    assert (first.consumed_per_s, first.published_per_s) == (5.0, 20.0)
    assert (added.consumed_per_s, added.published_per_s) == (None, None)


def test_what_went_back_has_no_rate() -> None:
    before = lag_rows([group(HELD)])
    (row,) = with_rates(lag_rows([group(changed(HELD, cursor=1))]), before, 2.0)
    assert (row.consumed_per_s, row.published_per_s) == (None, 0.0)
    (row,) = with_rates(lag_rows([group(HELD)]), before, 0.0)
    assert (row.consumed_per_s, row.published_per_s) == (None, None)


# -- what it means --


def test_a_group_that_is_read_is_well_however_far_behind_it_is() -> None:
    catching_up = changed(HELD, cursor=1, end=1_000_001)
    assert found(group(HELD)) == found(group(catching_up, waiting=DAY)) == []


def test_a_group_that_retention_passed_says_what_is_lost_and_how_to_go_on() -> None:
    passed = changed(HELD, cursor=3, start=8)
    (finding,) = about_group(group(passed), NOW)
    assert finding == Finding(
        "problem",
        "groups",
        "billing: retention passed it in partition 0 of orders: 5 records went unread",
        "move it: trunkline group seek billing --topic orders --to start --execute",
    )
    (finding,) = about_group(group(changed(HELD, partition=1), changed(passed, partition=2)), NOW)
    assert "--partition 2 --to start" in finding.next_step


def test_a_group_beyond_the_end_is_a_problem() -> None:
    (finding,) = about_group(group(changed(HELD, cursor=15)), NOW)
    assert (finding.level, "beyond the end of partition 0 of orders" in finding.text) == ("problem", True)
    assert "--to end --execute" in finding.next_step


def test_a_group_that_nobody_reads_is_a_warning_once_records_wait() -> None:
    free = changed(HELD, member_id=None, member_name=None, is_alive=None, kind="r")
    assert found(group(free, members=[])) == []
    behind = changed(free, cursor=10)
    assert found(group(behind, members=[], waiting=DAY)) == [
        ("warning", "billing: nobody reads with it, and 1 record waits, the oldest for 1 d")
    ]
    assert found(group(behind, members=[])) == [("warning", "billing: nobody reads with it, and 1 record waits")]


def test_a_partition_of_a_dead_member_is_a_warning_where_others_could_take_it() -> None:
    gone = changed(HELD, member_id=8, member_name="host:2", is_alive=False)
    text = "billing: gone, and still holding partition 0 of orders: member #8 host:2"
    assert found(group(gone)) == [("warning", text)]
    assert found(group(gone, members=[])) == [("note", text)]


def test_a_free_partition_is_a_warning_while_members_live() -> None:
    free = [
        changed(HELD, partition=number, member_id=None, member_name=None, is_alive=None, kind="r")
        for number in range(7)
    ]
    assert found(group(HELD, *free[1:2])) == [
        ("warning", "billing: nobody holds partition 1 of orders, though 1 member is alive")
    ]
    ((_, text),) = found(group(*free))
    assert "partitions 0, 1, 2, 3, 4 and 2 more of orders" in text


def test_a_topic_that_no_member_reads_is_worse_when_records_wait_in_it() -> None:
    unread = changed(HELD, topic="refunds", member_id=None, member_name=None, is_alive=None, kind="b")
    assert found(group(HELD, unread)) == [("note", "billing: none of its members reads refunds")]
    assert found(group(HELD, changed(unread, cursor=1))) == [
        ("warning", "billing: none of its members reads refunds, and 10 records wait")
    ]


@pytest.mark.parametrize(
    ("fields", "waiting", "is_still"),
    [
        ({}, DAY, False),
        ({"moved_at": NOW - DAY}, DAY, True),
        ({"moved_at": NOW - DAY}, MINUTE, False),
        ({"kind": "t"}, DAY, True),
        ({"kind": "t"}, MINUTE, False),
        ({"kind": "s"}, DAY, False),
    ],
)
def test_a_group_that_nobody_has_moved_for_long_is_a_warning(
    fields: dict[str, Any], waiting: timedelta, is_still: bool
) -> None:
    """A record that has come just now after a quiet day is no reason; members that die of a record take and never
    commit."""
    status = group(changed(HELD, cursor=1, **fields), waiting=waiting)
    assert [level for level, _ in found(status)] == (["warning"] if is_still else [])


def test_a_group_that_does_not_move_says_since_when() -> None:
    ((_, text),) = found(group(changed(HELD, cursor=1, kind="t"), waiting=DAY))
    assert text == (
        "billing: it does not move in partition 0 of orders: 10 records wait, the oldest for 1 d; "
        "taken 1 min ago, and not moved since"
    )


def test_readers_at_most_once_are_no_members_and_miss_none() -> None:
    shared = changed(HELD, cursor=5, member_id=None, member_name=None, is_alive=None, kind="m")
    added = changed(shared, partition=1, kind="b")
    assert found(group(shared, added, members=[], waiting=MINUTE)) == []
    assert [level for level, _ in found(group(changed(shared, moved_at=NOW - DAY), members=[], waiting=DAY))] == [
        "warning"
    ]


def test_all_groups_together_are_ok_or_their_findings() -> None:
    assert [each.text for each in about_groups([], NOW)] == ["there are none"]
    well, worse = group(HELD), group(changed(HELD, cursor=1))
    assert [(each.level, each.text) for each in about_groups([well, worse], NOW)] == [
        ("ok", "2; furthest behind: billing, 10 records behind, 1 member is alive")
    ]
    passed = group(changed(HELD, cursor=3, start=8))
    assert [each.level for each in about_groups([well, passed], NOW)] == ["problem"]


@pytest.mark.parametrize(
    ("limits", "problems"),
    [
        (Limits(), 0),
        (Limits(lag_max=10, age_max_s=60, members_min=1), 0),
        (Limits(lag_max=9), 1),
        (Limits(age_max_s=59), 1),
        (Limits(members_min=2), 1),
        (Limits(lag_max=0, age_max_s=1, members_min=5), 3),
    ],
)
def test_only_a_limit_that_is_passed_is_a_problem(limits: Limits, problems: int) -> None:
    status = group(changed(HELD, cursor=1), waiting=MINUTE)
    levels = [finding.level for finding in check_group(status, limits, NOW)]
    assert levels == (["problem"] * problems or ["ok"])
