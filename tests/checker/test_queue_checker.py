"""The checker of queues is shown every violation that it knows, and histories without any."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.queue_history import Closure, Floor, Handed, QueueHistory, Row, Settled
from tests.checker.queue_invariants import QUEUE_CHECKS, assert_queue_clean, queue_violations

ALL = frozenset({1, 2, 3})
NONE: frozenset[int] = frozenset()


def handed(
    claim_no: int = 1, offsets: Iterable[int] = ALL, *, at: float = 1, reader: str = "a", **others: Any
) -> Handed:
    given_ = {"attempt": 1, "deadline_s": 10.0, **others}
    return Handed(reader, 0, claim_no, offsets=frozenset(offsets), invoked=at - 0.5, at=at, **given_)


def settled(
    kind: Any = "a", offsets: Iterable[int] = ALL, *, at: float = 2, claim_no: int = 1, **others: Any
) -> Settled:
    given_ = {"reader": "a", "answer": "done", **others}
    return Settled(
        partition=0, claim_no=claim_no, kind=kind, offsets=frozenset(offsets), invoked=at, ended=at + 0.5, **given_
    )


def row(
    claim_no: int = 1, kind: Literal["c", "t"] = "c", offsets: Iterable[int] = ALL, *, attempt: int = 1, at: float = 1
) -> Row:
    return Row(0, claim_no, kind, attempt, frozenset(offsets), at, at + 10)


def closure(claim_no: int = 1, kind: str = "a", remains: Iterable[int] = NONE, *, seq: int = 1) -> Closure:
    return Closure(0, claim_no, seq, kind, frozenset(remains))


WHOLE = QueueHistory([handed()], [settled()], [row()], [closure()], starts={0: 1}, ends={0: 4})
"""Three records, claimed and acknowledged."""
TAKEN_OVER = replace(
    WHOLE,
    handed=[handed(), handed(2, at=12, reader="b", attempt=2)],
    settled=[settled(at=13, answer="lost"), settled(claim_no=2, at=14, reader="b")],
    rows=[row(), row(2, attempt=2, at=12)],
    closures=[closure(1, "t"), closure(2)],
)
BURIED = replace(WHOLE, settled=[settled("d")], closures=[closure(1, "d")], buried=[(0, 1), (0, 2), (0, 3)])

WRONG: dict[str, list[QueueHistory]] = {
    "unsettled": [
        replace(WHOLE, ends={0: 5}),
        replace(WHOLE, ends={0: 4, 1: 2}),
        replace(WHOLE, closures=[closure(1, "a", [2])]),
        replace(WHOLE, closures=[]),
        replace(WHOLE, rows=[row(), row(2, "t")], closures=[closure(1, "n")]),
    ],
    "two-holders": [
        replace(WHOLE, rows=[row(), row(2, offsets=[3])], closures=[closure(2)]),
        replace(WHOLE, rows=[row(), row(2, "t", [2])], closures=[closure(1, "a", [2])]),
    ],
    "held-by-two": [
        replace(TAKEN_OVER, handed=[handed(), handed(2, [2], at=9, reader="b")]),
        replace(TAKEN_OVER, settled=[settled("e", at=5, delay_s=10.0)]),
        replace(TAKEN_OVER, handed=[handed(), handed(2, at=3)], settled=[settled("n", [1, 2], at=2)]),
    ],
    "done-twice": [
        replace(TAKEN_OVER, closures=[closure(1), closure(2)]),
        replace(TAKEN_OVER, closures=[closure(1, "a", [2, 3]), closure(1, "t", seq=2), closure(2)]),
    ],
    "zombie-ack": [
        replace(TAKEN_OVER, settled=[settled(at=13)]),
        replace(TAKEN_OVER, settled=[settled("n", [2], at=13)]),
        replace(TAKEN_OVER, settled=[settled("e", at=13)]),
    ],
    "lost-ack": [
        replace(WHOLE, closures=[]),
        replace(WHOLE, closures=[closure(1, "n")]),
        replace(WHOLE, closures=[closure(1, "a", [1])]),
    ],
    "robbed": [
        replace(WHOLE, settled=[settled(answer="lost")]),
        replace(WHOLE, settled=[settled("e", delay_s=20.0), settled(at=15, answer="lost")]),
    ],
    "uncounted": [
        replace(TAKEN_OVER, rows=[row(), row(2)]),
        replace(TAKEN_OVER, closures=[closure(1, "r"), closure(2)]),
        replace(TAKEN_OVER, max_attempts=1),
        replace(WHOLE, rows=[row(attempt=2)]),
    ],
    "early": [
        replace(WHOLE, rows=[row(1, "t"), row(2, at=5)], closures=[closure(1, "t"), closure(2)]),
    ],
    "floor-passed": [
        replace(WHOLE, floors=[Floor(0, 2, 0.1, 0.2)]),
        replace(WHOLE, floors=[Floor(0, 4, 1.5, 1.6)]),
    ],
    "buried-once": [
        replace(BURIED, buried=[(0, 1), (0, 2)]),
        replace(BURIED, buried=[(0, 1), (0, 2), (0, 3), (0, 3)]),
        replace(WHOLE, buried=[(0, 1)]),
    ],
    "out-of-order": [
        replace(
            WHOLE,
            handed=[handed(1, [1, 2]), handed(2, [3])],
            rows=[row(1, offsets=[1, 2]), row(2, offsets=[3])],
            closures=[closure(2)],
            is_ordered=True,
        ),
    ],
}

FINE: dict[str, QueueHistory] = {
    "claimed and acknowledged": replace(WHOLE, floors=[Floor(0, 1, 0, 0.1), Floor(0, 4, 3, 3.1)]),
    "taken over, and the late one refused": TAKEN_OVER,
    "a reader that died": replace(TAKEN_OVER, settled=TAKEN_OVER.settled[1:]),
    "an answer that was lost": replace(WHOLE, settled=[settled(answer="unknown")]),
    "given back in part, and done by another": replace(
        WHOLE,
        handed=[handed(), handed(3, [2], at=3, reader="b", attempt=2)],
        settled=[settled("n", [2]), settled("a", [1, 3], at=4), settled("a", [2], claim_no=3, at=5, reader="b")],
        rows=[row(), replace(row(2, "t", [2]), deadline=2.5), row(3, "c", [2], attempt=2, at=3)],
        closures=[closure(1, "n", [1, 3]), closure(1, "a", seq=2), closure(2, "t"), closure(3)],
        floors=[Floor(0, 2, 4.6, 4.7), Floor(0, 4, 6, 7)],
    ),
    "released, and claimed again": replace(
        WHOLE,
        handed=[handed(), handed(3, at=3)],
        settled=[settled("r"), settled(claim_no=3, at=4)],
        rows=[row(), replace(row(2, "t", attempt=0), deadline=2.5), row(3, at=3)],
        closures=[closure(1, "r"), closure(2, "t"), closure(3)],
    ),
    "dead letters": BURIED,
    "retention took it": replace(WHOLE, settled=[], closures=[closure(1, "x")]),
    "not finished": replace(WHOLE, settled=[], closures=[], is_finished=False),
}


@pytest.mark.parametrize(("kind", "history"), [(kind, each) for kind, every in WRONG.items() for each in every])
def test_every_violation_is_caught_by_its_own_check(kind: str, history: QueueHistory) -> None:
    assert {violation.kind for violation in queue_violations(history, [QUEUE_CHECKS[kind]])} == {kind}
    with pytest.raises(AssertionError, match=kind):
        assert_queue_clean(history, [QUEUE_CHECKS[kind]])


def test_a_floor_that_goes_back_is_caught() -> None:
    history = replace(WHOLE, floors=[Floor(0, 4, 3, 3.1), Floor(0, 1, 4, 4.1)])
    assert {violation.kind for violation in queue_violations(history)} == {"floor-back"}


def test_every_check_has_a_history_that_violates_it() -> None:
    assert set(WRONG) == set(QUEUE_CHECKS)


@pytest.mark.parametrize("history", FINE.values(), ids=FINE.keys())
def test_a_history_without_fault_passes(history: QueueHistory) -> None:
    assert queue_violations(history) == []


@st.composite
def runs(draw: st.DrawFn) -> QueueHistory:
    """A perfect queue of one record after the other: each is claimed, lost so often, and then acknowledged."""
    history = QueueHistory(starts={0: 1}, ends={0: 1})
    at, number = 1.0, 0
    for offset, losses in enumerate(draw(st.lists(st.integers(0, 3), min_size=1, max_size=8)), 1):
        for attempt in range(1, losses + 2):
            number += 1
            history.rows.append(row(number, "c", [offset], attempt=attempt, at=at))
            history.handed.append(handed(number, [offset], at=at, attempt=attempt))
            is_last = attempt == losses + 1
            history.closures.append(closure(number, "a" if is_last else "t"))
            late = 1 if is_last else 12
            answer = "done" if is_last else "lost"
            history.settled.append(settled("a", [offset], claim_no=number, at=at + late, answer=answer))
            at += late + 1
        history.floors.append(Floor(0, offset + 1, at, at + 0.1))
        at += 1
        history.ends[0] = offset + 1
    return history


@given(runs())
def test_whatever_a_perfect_queue_does_passes(history: QueueHistory) -> None:
    assert queue_violations(history) == []


@given(runs(), st.data())
def test_a_perfect_queue_that_forgets_something_is_caught(history: QueueHistory, data: st.DataObject) -> None:
    forgotten = data.draw(st.sampled_from(history.closures))
    kept = [each for each in history.closures if each is not forgotten]
    found = {violation.kind for violation in queue_violations(replace(history, closures=kept))}
    assert found & {"unsettled", "two-holders"}
