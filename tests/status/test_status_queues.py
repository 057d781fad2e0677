"""What is wrong with queues, by facts that are made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from trunkline.errors import InvalidArgument
from trunkline.status.findings import Finding
from trunkline.status.queue_findings import about_queue, about_queues
from trunkline.status.queues import QueuePartition, QueueStatus, parse_rate

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AGES = {"soon": timedelta(seconds=-20), "now": timedelta(seconds=5), "old": timedelta(minutes=90)}


def part(**changes: Any) -> QueuePartition:
    at_rest = QueuePartition(
        partition=0,
        start=1,
        floor=11,
        frontier=10,
        end=11,
        in_flight=0,
        waiting=0,
        next_due=None,
        oldest_claim_at=None,
        expired=0,
        table_bytes=8192,
    )
    return msgspec.structs.replace(at_rest, **changes)


def queue(*parts: QueuePartition, **changes: Any) -> QueueStatus:
    parts = parts or (part(),)
    made = QueueStatus(
        topic="orders",
        name="billing",
        ack_deadline_s=30,
        max_attempts=None,
        dead_letter=None,
        ordered_by_key=False,
        pause_above=None,
        bury_expired=False,
        paused_at=None,
        pause_reason=None,
        created_at=NOW,
        ready=sum(each.ready for each in parts),
        in_flight=sum(each.in_flight for each in parts),
        waiting=sum(each.waiting for each in parts),
        expired=sum(each.expired for each in parts),
        partitions=list(parts),
    )
    return msgspec.structs.replace(made, **changes)


def findings(found: QueueStatus) -> list[Finding]:
    return list(about_queue(found, ["orders", "orders.dead"], NOW))


def test_what_is_ready_is_behind_the_frontier_and_still_there() -> None:
    assert (part().ready, part(end=15).ready, part(end=15, start=13).ready, part(end=15, start=15).ready) == (
        0,
        4,
        2,
        0,
    )


def test_a_queue_that_is_well_says_nothing() -> None:
    assert findings(queue(dead_letter="orders.dead")) == []
    assert list(about_queues([], [], NOW)) == []
    fuller = queue(part(end=15), name="mail")
    (ok,) = about_queues([queue(), fuller], ["orders"], NOW)
    assert (ok.level, ok.text) == ("ok", "2; fullest: orders/mail, 4 records to be delivered")


def test_a_paused_queue_is_a_warning_with_its_reason() -> None:
    (found,) = findings(queue(part(end=12), paused_at=NOW - AGES["old"], pause_reason="the bank is down"))
    assert (found.level, found.subject) == ("warning", "queues")
    assert found.text == "orders/billing: paused for 1 h 30 min: the bank is down; 1 record waits"
    assert found.next_step == "go on: trunkline queue resume orders billing"


def test_expired_records_are_a_warning() -> None:
    (found,) = findings(queue(part(expired=3)))
    assert (found.level, found.text) == ("warning", "orders/billing: retention took 3 records before they were done")
    assert "bury_expired=on" in found.next_step


def test_a_dead_letter_topic_that_is_missing_is_a_problem() -> None:
    (found,) = findings(queue(dead_letter="gone"))
    assert (found.level, found.next_step) == ("problem", "create it: trunkline topic create gone")


@pytest.mark.parametrize(
    ("changes", "is_unread"),
    [
        ({"end": 15, "ready_since": NOW - AGES["old"]}, True),
        ({"end": 15, "ready_since": NOW - AGES["now"]}, False),
        # Somebody holds a claim that has not run out: the rest waits for its turn.
        ({"end": 15, "ready_since": NOW - AGES["old"], "in_flight": 2, "next_due": NOW - AGES["soon"]}, False),
        # A claim that has run out long ago, and nobody took it over.
        ({"in_flight": 2, "next_due": NOW - AGES["old"]}, True),
        ({"waiting": 2, "next_due": NOW - AGES["old"]}, True),
        ({"waiting": 2, "next_due": NOW - AGES["soon"]}, False),
    ],
)
def test_a_queue_that_nobody_reads_is_a_warning(changes: dict[str, Any], is_unread: bool) -> None:
    found = findings(queue(part(**changes)))
    assert [each.level for each in found] == (["warning"] if is_unread else [])
    if is_unread:
        assert "nobody reads it" in found[0].text
        assert "the longest for 1 h 30 min" in found[0].text


@pytest.mark.parametrize(("text", "rate"), [("100/s", 100.0), ("30/m", 0.5), ("2.5", 2.5), ("3600/h", 1.0)])
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1/s", "1/d", "inf", "1e3", "s"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not a rate"):
        parse_rate(text)
