"""The checker of outboxes is shown every violation that it knows, and histories without any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checker.history import Outcome
from tests.checker.outbox_history import NEVER, Event, OutboxHistory, Stood, Transaction
from tests.checker.outbox_invariants import OUTBOX_CHECKS, assert_outbox_clean, outbox_violations


def event(name: str, version: int | None = None) -> Event:
    """An event of key k; the name is its payload."""
    return Event("t", name.encode(), b"k", version)


def done(row: int | None, *names: str, at: tuple[int, int] = (0, 1), outcome: Outcome = "acknowledged") -> Transaction:
    return Transaction("s", row, tuple(event(name) for name in names), *at, outcome)


def at(offset: int, name: str, transaction_id: int, *, ordinal: int = 0, count: int = 1, partition: int = 0) -> Stood:
    return Stood("t", partition, offset, b"k", name.encode(), transaction_id, ordinal, count)


A, B = at(1, "a", 7, count=2), at(2, "b", 7, ordinal=1, count=2)
C = at(3, "c", 8)
FIRST = done(1, "a", "b")
SECOND = done(2, "c", at=(2, 3))
WHOLE = OutboxHistory([FIRST, SECOND], [1, 2], [A, B, C], [[A, B], [C]])

WRONG: dict[str, list[OutboxHistory]] = {
    "row-and-event": [
        replace(WHOLE, rows=[1]),
        replace(WHOLE, log=[A, B]),
        replace(WHOLE, log=[A, C]),
        replace(WHOLE, transactions=[replace(FIRST, outcome="unknown", ended=NEVER), SECOND], rows=[2]),
        replace(WHOLE, transactions=[done(None, "a", "b"), SECOND], rows=[2], log=[A, C]),
    ],
    "lost-commit": [
        replace(WHOLE, rows=[1], log=[A, B]),
        replace(WHOLE, transactions=[done(None, "a", "b"), done(None, "c")], log=[A, B]),
        replace(WHOLE, transactions=[FIRST, done(2, "c", outcome="failed")]),
        replace(WHOLE, transactions=[FIRST, done(2, "c", outcome="failed")], rows=[1]),
    ],
    "duplicate": [
        replace(WHOLE, log=[A, B, C, at(4, "c", 9)]),
        replace(WHOLE, log=[A, B, C, at(1, "c", 9, partition=1)]),
        replace(WHOLE, rows=[1, 2, 2]),
    ],
    "gap": [
        replace(WHOLE, log=[A, B, replace(C, offset=4)]),
        replace(WHOLE, log=[B, C]),
        replace(WHOLE, log=[A, A, B, C]),
    ],
    "aborted-read": [
        replace(WHOLE, transactions=[FIRST, done(2, "c", outcome="failed")]),
        replace(WHOLE, transactions=[FIRST, replace(SECOND, undone=(event("c"),), events=())]),
        replace(WHOLE, transactions=[FIRST]),
        replace(WHOLE, snapshots=[[at(4, "d", 9)]]),
        replace(WHOLE, log=[A, B, replace(C, key=None)]),
        replace(
            WHOLE,
            transactions=[*WHOLE.transactions, done(3, "d", outcome="failed")],
            snapshots=[[at(4, "d", 9)]],
        ),
    ],
    "inconsistent-offsets": [
        replace(WHOLE, snapshots=[[at(1, "c", 8)]]),
        replace(WHOLE, snapshots=[[replace(A, transaction_id=6)]]),
        replace(WHOLE, log=[A, B]),
    ],
    "torn-transaction": [
        replace(WHOLE, log=[A, at(2, "c", 8), at(3, "b", 7, ordinal=1, count=2)]),
        replace(WHOLE, log=[A, replace(B, transaction_id=9, ordinal=0), C]),
        replace(WHOLE, log=[A, B, replace(C, transaction_id=7)]),
        replace(WHOLE, log=[A, B, replace(C, transaction_id=7, ordinal=2, count=3)]),
        replace(WHOLE, log=[A, replace(B, ordinal=0), C]),
        replace(WHOLE, log=[A, replace(B, count=3), C]),
        replace(WHOLE, log=[replace(A, payload=b"b"), replace(B, payload=b"a"), C]),
        replace(WHOLE, transactions=[replace(FIRST, transaction_id=6), SECOND]),
    ],
    "torn-read": [
        replace(WHOLE, snapshots=[[A], [B, C]]),
        replace(WHOLE, log=[A, replace(B, partition=1, offset=1)], snapshots=[[A]]),
    ],
    "key-order": [
        replace(WHOLE, transactions=[replace(FIRST, begun=4, ended=5), SECOND]),
        replace(WHOLE, log=[A, B, replace(C, partition=1, offset=1)]),
        replace(
            WHOLE,
            transactions=[replace(FIRST, events=(event("a", 2), event("b"))), replace(SECOND, events=(event("c", 1),))],
        ),
        replace(
            WHOLE,
            transactions=[replace(FIRST, events=(event("a", 1), event("b"))), replace(SECOND, events=(event("c", 1),))],
        ),
    ],
    "commit-order": [
        replace(WHOLE, transactions=[replace(FIRST, begun=4, ended=5), SECOND]),
        OutboxHistory(
            [done(1, "a", "b", at=(0, 9)), done(2, "c", "d", at=(0, 9))],
            [1, 2],
            [at(1, "a", 7), at(2, "c", 8), at(1, "d", 8, partition=1), at(2, "b", 7, partition=1)],
        ),
        # Of these nothing is known but what the log says.
        OutboxHistory(
            log=[at(1, "a", 7), at(2, "c", 8), at(1, "d", 8, partition=1), at(2, "b", 7, partition=1)],
        ),
        # The first stands before the second, and after a third that began when the second was acknowledged.
        OutboxHistory(
            [done(1, "a", "x", at=(0, 9)), done(2, "b", at=(0, 2)), done(3, "c", at=(3, 4))],
            [1, 2, 3],
            [at(1, "a", 7), at(2, "b", 8), at(1, "c", 9, partition=1), at(2, "x", 7, partition=1)],
        ),
    ],
}

FINE: dict[str, OutboxHistory] = {
    "nothing happened": OutboxHistory(),
    "two transactions": WHOLE,
    "at the same time, in either order": replace(
        WHOLE, transactions=[replace(FIRST, ended=9), replace(SECOND, begun=0)]
    ),
    "one that failed": replace(WHOLE, transactions=[*WHOLE.transactions, done(3, "d", outcome="failed")]),
    "one that nobody was told of, and is there": replace(
        WHOLE, transactions=[FIRST, replace(SECOND, ended=NEVER, outcome="unknown")]
    ),
    "one that nobody was told of, and is not there": replace(
        WHOLE, transactions=[*WHOLE.transactions, done(3, "d", at=(4, NEVER), outcome="unknown")]
    ),
    "several partitions in one order": OutboxHistory(
        [
            Transaction("s", 1, (Event("t", b"a"), Event("t", b"b")), 0, 9, "acknowledged", transaction_id=7),
            Transaction("s", 2, (Event("t", b"c"), Event("t", b"d")), 0, 9, "acknowledged"),
        ],
        [1, 2],
        [
            replace(at(1, "a", 7), key=None),
            replace(at(2, "c", 8), key=None),
            replace(at(1, "b", 7, partition=1), key=None),
            replace(at(2, "d", 8, partition=1), key=None),
        ],
    ),
    "versions that rise": replace(
        WHOLE,
        transactions=[replace(FIRST, events=(event("a", 1), event("b", 2))), replace(SECOND, events=(event("c", 5),))],
    ),
}


def test_every_check_is_shown_what_it_must_find() -> None:
    assert set(WRONG) == set(OUTBOX_CHECKS)


@pytest.mark.parametrize(
    ("name", "history"),
    [(name, history) for name, histories in WRONG.items() for history in histories],
    ids=[f"{name}-{number}" for name, histories in WRONG.items() for number, _ in enumerate(histories)],
)
def test_a_wrong_history_is_found_by_its_check(name: str, history: OutboxHistory) -> None:
    found = outbox_violations(history, [OUTBOX_CHECKS[name]])
    assert {violation.kind for violation in found} == {name}
    with pytest.raises(AssertionError, match=name):
        assert_outbox_clean(history, [OUTBOX_CHECKS[name]])


@pytest.mark.parametrize("history", FINE.values(), ids=FINE.keys())
def test_a_history_without_a_fault_is_clean(history: OutboxHistory) -> None:
    assert_outbox_clean(history)


@given(
    st.lists(st.tuples(st.sampled_from([None, 0, 1]), st.integers(1, 3), st.integers(0, 5), st.booleans()), max_size=20)
)
def test_whatever_commits_in_one_order_is_clean(plan: list[tuple[int | None, int, int, bool]]) -> None:
    """Transactions commit one after the other, to one partition or to both, some of them rolled back. Each began at
    most so many before it."""
    history = OutboxHistory()
    for number, (partition, size, back, is_kept) in enumerate(plan):
        events = tuple(Event("t", b"%d-%d" % (number, n)) for n in range(size))
        outcome: Outcome = "acknowledged" if is_kept else "failed"
        moments = (10 * (number - back), 10 * number + 5)
        history.transactions.append(Transaction("s", number, events, *moments, outcome))
        if is_kept:
            history.rows.append(number)
            placed = [((n if partition is None else partition) % 2, each) for n, each in enumerate(events)]
            history.snapshots.append([])
            for where in (0, 1):
                mine = [each.payload for place, each in placed if place == where]
                start = sum(1 for stood in history.log if stood.partition == where) + 1
                stood = [
                    Stood("t", where, start + n, None, payload, number, n, len(mine)) for n, payload in enumerate(mine)
                ]
                history.log += stood
                history.snapshots[-1] += stood
    assert_outbox_clean(history)
