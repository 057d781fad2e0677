"""How far a consumer has come in a partition: fetched, handed, handled, committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.holdings import Holding
from trunkline.records import Batch

AT = datetime(2026, 1, 1, tzinfo=UTC)


def batch(first: int, count: int, *, run: bool = False) -> Batch:
    payloads = [b"%d" % offset for offset in range(first, first + count)]
    times = [AT + timedelta(seconds=offset) for offset in range(first, first + count)] if run else None
    return Batch("orders", 0, first, None, payloads, None, times[0] if times else AT, 1, None, None, None, times)


def holding(at: int = 1) -> Holding:
    return Holding(cursor_id=1, topic="orders", topic_id=1, partition=0, partition_id=1, epoch=1, at=at)


@given(st.lists(st.integers(1, 9), max_size=6), st.lists(st.integers(1, 12), max_size=40), st.booleans())
def test_whatever_the_sizes_every_record_is_handed_out_once_and_in_order(
    sizes: list[int], asked: list[int], whole: bool
) -> None:
    held, first = holding(), 1
    for size in sizes:
        held.add([batch(first, size, run=size % 2 == 0)])
        first += size
    seen: list[int] = []
    for count in asked:
        pieces = list(held.take(count, None, whole=whole))
        taken = [record.offset for piece in pieces for record in piece]
        assert [int(record.payload) for piece in pieces for record in piece] == taken
        assert whole or len(taken) <= count
        seen += taken
        assert held.handed == len(seen) + 1
    assert seen == list(range(1, len(seen) + 1))


def test_a_batch_that_begins_before_the_position_is_cut_there() -> None:
    held = holding(at=4)
    held.add([batch(1, 10, run=True)])
    ((piece),) = held.take(100, None, whole=True)
    assert [record.offset for record in piece] == [4, 5, 6, 7, 8, 9, 10]
    assert next(iter(piece)).append_time == AT + timedelta(seconds=4)


def test_bytes_end_a_take_after_at_least_one_batch() -> None:
    held = holding()
    held.add([batch(1, 3), batch(4, 3)])
    assert [len(piece) for piece in held.take(100, 1, whole=True)] == [3]
    assert [len(piece) for piece in held.take(100, 1, whole=True)] == [3]


def test_what_is_rewound_is_read_again_and_a_late_mark_counts_no_further() -> None:
    held = holding()
    held.add([batch(1, 5)])
    list(held.take(5, None, whole=False))
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
