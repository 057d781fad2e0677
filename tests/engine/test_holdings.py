"""How far a consumer has come in a partition: fetched, handed, handled, committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.holdings import Holding, Piece
from trunkline.records import Batch

AT = datetime(2026, 1, 1, tzinfo=UTC)


def piece(first: int, count: int, *, run: bool = False) -> Piece:
    payloads = [b"%d" % offset for offset in range(first, first + count)]
    times = [AT + timedelta(seconds=offset) for offset in range(first, first + count)] if run else None
    when = times[0] if times else AT
    return Piece(Batch("orders", 0, first, None, payloads, None, when, 1, None, None, None, times), 10 * count)


def holding(at: int = 1) -> Holding:
    return Holding(cursor_id=1, topic="orders", topic_id=1, partition=0, partition_id=1, epoch=1, at=at)


@given(st.lists(st.integers(1, 9), max_size=6), st.lists(st.integers(1, 12), max_size=40), st.booleans())
def test_whatever_the_sizes_every_record_is_handed_out_once_and_in_order(
    sizes: list[int], asked: list[int], whole: bool
) -> None:
    held, first = holding(), 1
    for size in sizes:
        held.add([piece(first, size, run=size % 2 == 0)])
        first += size
    seen: list[int] = []
    for count in asked:
        records = [record for given in held.take(count, 10**9, whole=whole) for record in given.batch]
        taken = [record.offset for record in records]
        assert [int(record.payload) for record in records] == taken
        assert whole or len(taken) <= count
        seen += taken
        assert held.handed == len(seen) + 1
    assert seen == list(range(1, len(seen) + 1))


def test_a_batch_that_begins_before_the_position_is_cut_there() -> None:
    held = holding(at=4)
    held.add([piece(1, 10, run=True)])
    (given,) = held.take(100, 10**9, whole=True)
    assert [record.offset for record in given.batch] == [4, 5, 6, 7, 8, 9, 10]
    assert next(iter(given.batch)).append_time == AT + timedelta(seconds=4)
    assert given.size == 70


def test_bytes_end_a_take_after_at_least_one_batch() -> None:
    held = holding()
    held.add([piece(1, 3), piece(4, 3)])
    assert [len(given.batch) for given in held.take(100, 1, whole=True)] == [3]
    assert [len(given.batch) for given in held.take(100, 1, whole=True)] == [3]


def test_what_did_not_reach_the_application_is_handed_out_again() -> None:
    held = holding()
    held.add([piece(1, 3), piece(4, 3)])
    held.put_back(held.take(4, 10**9, whole=False))
    assert held.handed == 1
    assert [len(given.batch) for given in held.take(100, 10**9, whole=True)] == [3, 1, 2]


def test_what_is_rewound_is_read_again_and_a_late_mark_counts_no_further() -> None:
    held = holding()
    held.add([piece(1, 5)])
    held.take(5, 10**9, whole=False)
    held.mark(2)
    held.rewind(held.handled)
    assert (held.handled, held.handed, held.fetched, held.may_have_more) == (3, 3, 3, True)
    held.mark(5)
    assert held.handled == 3


def test_nothing_is_handed_out_while_paused_or_leaving() -> None:
    free, paused, leaving = holding(), holding(), holding()
    paused.is_paused = True
    leaving.leaving_since = 1.0
    assert [each.may_give for each in (free, paused, leaving)] == [True, False, False]
