"""The checker of groups is shown every violation that it knows, and histories without any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.group_history import Commit, Entry, GroupHistory, Handed, Kind
from tests.checker.group_invariants import GROUP_CHECKS, assert_group_clean, group_violations

A, B = 1, 2


def ledger(*rows: tuple[Kind, int, int | None, int]) -> list[Entry]:
    """Rows of partition 0 as (kind, epoch, member, next offset), after one with which the group begins at 1."""
    every: list[tuple[Kind, int, int | None, int]] = [("begun", 0, None, 1), *rows]
    return [Entry(0, seq, epoch, at, member, kind) for seq, (kind, epoch, member, at) in enumerate(every, 1)]


def handed(start: int, end: int, *, at: int = 1, member: int = A, epoch: int = 1) -> Handed:
    return Handed(member, 0, epoch, start, end, at)


def refused(next_offset: int, *, member: int = A, epoch: int = 1) -> Commit:
    return Commit(member, 0, epoch, next_offset, 5, 6, "refused")


def acknowledged(next_offset: int, *, at: int = 2, member: int = A, epoch: int = 1) -> Commit:
    return Commit(member, 0, epoch, next_offset, at, at, "acknowledged")


TAKEN: tuple[Kind, int, int | None, int] = ("taken", 1, A, 1)
DONE: tuple[Kind, int, int | None, int] = ("committed", 1, A, 4)
"""Of three records."""

WHOLE = GroupHistory("at_least_once", [handed(1, 4)], [acknowledged(4)], ledger(TAKEN, DONE), {0: 4})

WRONG: dict[str, list[GroupHistory]] = {
    "unseen": [
        replace(WHOLE, ends={0: 5}),
        replace(WHOLE, ends={0: 4, 1: 1}),
    ],
    "poll-skip": [
        replace(WHOLE, handed=[handed(1, 3)]),
        replace(WHOLE, handed=[handed(1, 4, member=B)]),
        replace(WHOLE, handed=[handed(1, 4, epoch=2)]),
        GroupHistory("at_most_once", [handed(2, 4)], [], ledger(("claimed", 0, None, 4)), {0: 4}, dead={A}),
        GroupHistory("at_most_once", [], [], ledger(("claimed", 0, None, 4)), {0: 4}, dead=set()),
    ],
    "non-monotonic-poll": [
        replace(WHOLE, handed=[handed(1, 3), handed(2, 4, at=2)]),
        replace(WHOLE, handed=[handed(2, 4), handed(1, 2, at=2)]),
        replace(WHOLE, handed=[handed(1, 4), handed(1, 4, at=3)]),
        GroupHistory("at_least_once", [handed(1, 2, member=B, epoch=2)], [], ledger(TAKEN, DONE, ("taken", 2, B, 4))),
    ],
    "two-holders": [
        replace(WHOLE, ledger=ledger(TAKEN, ("taken", 1, B, 1))),
        replace(WHOLE, ledger=ledger(TAKEN, ("taken", 1, A, 1))),
        replace(WHOLE, ledger=ledger(TAKEN, DONE, ("taken", 1, B, 4))),
        replace(WHOLE, handed=[handed(1, 4, member=B)]),
    ],
    "stolen": [
        replace(WHOLE, ledger=ledger(TAKEN, ("taken", 2, B, 1)), dead=set()),
        replace(WHOLE, ledger=ledger(TAKEN, ("taken", 2, B, 1)), dead={B}),
    ],
    "zombie-commit": [
        replace(WHOLE, ledger=ledger(TAKEN, ("taken", 2, B, 1), DONE)),
        replace(WHOLE, ledger=ledger(TAKEN, ("released", 2, None, 1), DONE)),
        replace(WHOLE, ledger=ledger(TAKEN, ("committed", 1, B, 4))),
        replace(WHOLE, ledger=[*ledger(TAKEN, DONE), Entry(0, 3, 1, 4, A, "committed")]),
        replace(WHOLE, commits=[refused(4)]),
        replace(WHOLE, commits=[acknowledged(3)]),
        replace(WHOLE, commits=[acknowledged(4, member=B)]),
    ],
    "cursor-back": [
        replace(WHOLE, ledger=ledger(TAKEN, DONE, ("committed", 1, A, 3))),
        replace(WHOLE, ledger=ledger(TAKEN, DONE, ("taken", 2, B, 1))),
        replace(WHOLE, ledger=ledger(("claimed", 0, None, 4), ("claimed", 0, None, 2))),
    ],
    "effect-count": [
        replace(WHOLE, delivery="exactly_once", effects=[(0, 1), (0, 2)]),
        replace(WHOLE, delivery="exactly_once", effects=[(0, 1), (0, 2), (0, 2), (0, 3)]),
        replace(WHOLE, delivery="exactly_once", effects=[(0, 1), (0, 2), (0, 3), (0, 4)]),
    ],
    "handed-twice": [
        GroupHistory("at_most_once", [handed(1, 3), handed(2, 4, member=B)], [], ledger(("claimed", 0, None, 4))),
    ],
}

FINE: dict[str, GroupHistory] = {
    "nothing happened": GroupHistory("at_least_once"),
    "handed out and committed": WHOLE,
    "a member that died, and another that got the same again": GroupHistory(
        "at_least_once",
        [handed(1, 4), handed(1, 4, at=3, member=B, epoch=2)],
        [acknowledged(4, at=4, member=B, epoch=2)],
        ledger(TAKEN, ("taken", 2, B, 1), ("committed", 2, B, 4)),
        {0: 4},
        dead={A},
    ),
    "a commit that came too late": replace(
        WHOLE,
        handed=[handed(1, 3), handed(1, 4, at=3, member=B, epoch=2)],
        commits=[refused(3)],
        ledger=ledger(TAKEN, ("taken", 2, B, 1), ("committed", 2, B, 4)),
    ),
    "a transaction that failed, and its records again": GroupHistory(
        "exactly_once",
        [handed(1, 4), handed(1, 4, at=2)],
        [refused(4), acknowledged(4, at=7)],
        ledger(TAKEN, DONE),
        {0: 4},
        [(0, 1), (0, 2), (0, 3)],
    ),
    "a transaction that failed, and one that died after its commit": GroupHistory(
        "exactly_once",
        [handed(1, 4), handed(1, 4, at=7)],
        [refused(4)],
        ledger(TAKEN, DONE),
        {0: 4},
        [(0, 1), (0, 2), (0, 3)],
    ),
    "somebody went back on purpose": GroupHistory(
        "at_least_once",
        [handed(1, 4), handed(2, 4, at=3, epoch=2)],
        [acknowledged(4), acknowledged(4, at=4, epoch=2)],
        ledger(TAKEN, DONE, ("sought", 2, A, 2), ("committed", 2, A, 4)),
        {0: 4},
    ),
    "a reader that died with what it had claimed": GroupHistory(
        "at_most_once",
        [handed(3, 4, epoch=0)],
        [],
        ledger(("claimed", 0, None, 3), ("claimed", 0, None, 4)),
        {0: 4},
        dead={A},
    ),
    "handed over, and taken by the other": GroupHistory(
        "at_least_once",
        [handed(1, 3), handed(3, 4, at=4, member=B, epoch=3)],
        [acknowledged(3), acknowledged(4, at=5, member=B, epoch=3)],
        ledger(TAKEN, ("committed", 1, A, 3), ("released", 2, None, 3), ("taken", 3, B, 3), ("committed", 3, B, 4)),
        {0: 4},
        dead=set(),
    ),
}


@pytest.mark.parametrize(
    ("kind", "history"), [(kind, history) for kind, histories in WRONG.items() for history in histories]
)
def test_every_violation_is_caught_by_its_own_check(kind: str, history: GroupHistory) -> None:
    assert {violation.kind for violation in group_violations(history, [GROUP_CHECKS[kind]])} == {kind}
    with pytest.raises(AssertionError, match=kind):
        assert_group_clean(history, [GROUP_CHECKS[kind]])


def test_every_check_has_a_history_that_violates_it() -> None:
    assert set(WRONG) == set(GROUP_CHECKS)


@pytest.mark.parametrize("history", FINE.values(), ids=FINE.keys())
def test_a_history_without_fault_passes(history: GroupHistory) -> None:
    assert group_violations(history) == []


@st.composite
def runs(draw: st.DrawFn) -> GroupHistory:
    """Members that come, read, commit some of it and go, as a perfect group would let them; the last reads all."""
    end = draw(st.integers(2, 30))
    cuts = draw(st.lists(st.tuples(st.integers(1, end), st.integers(1, end)), max_size=6))
    history = GroupHistory("at_least_once", ledger=ledger(), ends={0: end}, dead=set())
    for read, committed in [*cuts, (end, end)]:
        _read_and_go(history, read, min(read, committed))
    return history


def _read_and_go(history: GroupHistory, read: int, committed: int) -> None:
    """One more member takes the partition, reads up to an offset and commits up to another one, if there are any."""
    before = history.ledger[-1]
    member = before.seq
    lease = replace(before, seq=before.seq + 1, epoch=before.epoch + 1, member=member, kind="taken")
    history.ledger.append(lease)
    if committed > before.next_offset:
        history.handed.append(Handed(member, 0, lease.epoch, before.next_offset, read, lease.seq))
        asked = Commit(member, 0, lease.epoch, committed, lease.seq + 1, lease.seq + 1, "acknowledged")
        history.commits.append(asked)
        history.ledger.append(replace(lease, seq=lease.seq + 1, next_offset=committed, kind="committed"))
    last = history.ledger[-1]
    history.ledger.append(replace(last, seq=last.seq + 1, epoch=last.epoch + 1, member=None, kind="released"))


@given(runs())
def test_whatever_a_perfect_group_does_passes(history: GroupHistory) -> None:
    assert group_violations(history) == []


@given(runs(), st.data())
def test_a_perfect_group_that_forgets_to_hand_out_something_is_caught(
    history: GroupHistory, data: st.DataObject
) -> None:
    moves = [(before, entry) for before, entry in history.moves("committed") if entry.next_offset > before.next_offset]
    _, entry = data.draw(st.sampled_from(moves))
    kept = [each for each in history.handed if each.member != entry.member]
    assert "poll-skip" in {violation.kind for violation in group_violations(replace(history, handed=kept))}
