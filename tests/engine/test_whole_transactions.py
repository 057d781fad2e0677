"""Transactions are handed out whole: whatever was read so far and however few records are asked for, a take ends where
a transaction does, or the transaction is refused as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.holdings import Holding, Piece, TransactionLimits, by_transaction, extent
from trunkline.errors import TransactionTooLarge
from trunkline.records import Batch

AT = datetime(2026, 1, 1, tzinfo=UTC)
BYTES_EACH = 10
AMPLE = TransactionLimits(10**6, 10**9)

Log = list[Piece]


def log_of(transactions: Sequence[Sequence[int]], *, one_id: bool = False) -> Log:
    """A partition: for each transaction the sizes of its batches. ``one_id``: as if the server had counted anew."""
    log: Log = []
    first = 1
    for number, sizes in enumerate(transactions, start=100):
        count = 0
        for size in sizes:
            payloads = [b"%d" % offset for offset in range(first, first + size)]
            transaction = (7 if one_id else number, count, count + size)
            batch = Batch("orders", 3, first, None, payloads, None, AT, first, *transaction)
            log.append(Piece(batch, BYTES_EACH * size))
            first += size
            count += size
    return log


def ends_of(transactions: Sequence[Sequence[int]]) -> list[int]:
    """Where a transaction may end: before the first, and after each."""
    return list(accumulate(map(sum, transactions), initial=1))


def holding(at: int = 1) -> Holding:
    return Holding(cursor_id=1, topic="orders", topic_id=1, partition=3, partition_id=1, epoch=1, at=at)


def read(held: Holding, log: Log, batches: int) -> None:
    """As a read does: from the batch that holds the offset on, and whether there may be more."""
    left = [piece for piece in log if piece.batch.end > held.fetched]
    held.add(left[:batches])
    held.may_have_more = len(left) > batches


def take(held: Holding, log: Log, records_max: int, bytes_max: int, most: TransactionLimits, batches: int) -> list[int]:
    """As the fetcher does; the offsets that were handed out."""
    while held.needs_more(most):
        read(held, log, batches)
    taken = held.take_transactions(records_max, bytes_max, most)
    return [record.offset for piece in taken for record in piece.batch]


transactions = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), max_size=8)
limits = st.tuples(st.integers(1, 30), st.integers(1, 300))


@given(transactions, st.booleans(), st.lists(st.tuples(limits, st.integers(1, 5), st.booleans()), max_size=30))
def test_S4_11_and_S4_12_a_take_ends_where_a_transaction_does_and_no_later_than_it_must(
    sizes: list[list[int]], one_id: bool, asked: list[tuple[tuple[int, int], int, bool]]
) -> None:
    log = log_of(sizes, one_id=one_id)
    ends = ends_of(sizes)
    held, seen = holding(), 0
    for (records_max, bytes_max), batches, hinted in asked:
        held.may_have_more |= hinted
        before = held.handed
        offsets = take(held, log, records_max, bytes_max, AMPLE, batches)
        assert offsets == list(range(seen + 1, seen + len(offsets) + 1)), "in order, each once"
        seen += len(offsets)
        assert held.handed == seen + 1
        assert held.handed in ends, "never inside a transaction"
        assert offsets or seen == log_end(log) - 1, "at least one while there are any"
        if offsets:
            last_began = ends[ends.index(held.handed) - 1] - before
            assert last_began < records_max, "nothing is begun when the limit has been reached"
            assert last_began * BYTES_EACH < bytes_max


def log_end(log: Log) -> int:
    return log[-1].batch.end if log else 1


@given(transactions, st.integers(1, 40), st.integers(1, 5), st.tuples(st.integers(1, 20), st.integers(10, 200)))
def test_S4_11_what_is_over_the_limit_is_refused_as_a_whole_and_again_and_nothing_before_it_is_held_back(
    sizes: list[list[int]], records_max: int, batches: int, limit: tuple[int, int]
) -> None:
    log, most = log_of(sizes), TransactionLimits(*limit)
    fit = [sum(each) <= limit[0] and sum(each) * BYTES_EACH <= limit[1] for each in sizes]
    reachable = fit.index(False) if False in fit else len(fit)
    expected = ends_of(sizes)[reachable] - 1
    held = holding()
    seen: list[int] = []
    while len(seen) < expected:
        seen += take(held, log, records_max, 10**9, most, batches)
    assert seen == list(range(1, expected + 1))
    if reachable == len(fit):
        assert take(held, log, records_max, 10**9, most, batches) == []
        return
    for _ in range(2):
        with pytest.raises(TransactionTooLarge) as refused:
            take(held, log, records_max, 10**9, most, batches)
        assert (refused.value.offset, refused.value.transaction_id) == (expected + 1, 100 + reachable)
        assert held.handed == expected + 1
    in_memory, _ = extent(held.pieces)
    assert in_memory <= min(limit[0], limit[1] // BYTES_EACH) + 9 * batches, "no more is read than shows that"


@given(transactions.filter(bool), st.data())
def test_from_inside_a_transaction_the_rest_of_it_comes(sizes: list[list[int]], data: st.DataObject) -> None:
    log = log_of(sizes)
    at = data.draw(st.integers(1, log_end(log) - 1))
    held = holding(at)
    offsets = take(held, log, 1, 1, AMPLE, 1)
    assert offsets == list(range(at, min(end for end in ends_of(sizes) if end > at)))


@given(transactions, st.lists(st.integers(1, 200), max_size=20))
def test_what_iterating_has_handled_ends_where_a_transaction_does(sizes: list[list[int]], done: list[int]) -> None:
    """Records are done in any order; as without transactions, one counts for all before it."""
    log = log_of(sizes)
    held = holding()
    held.add(log)
    held.may_have_more = False
    marks = {}
    for transaction in by_transaction(held.take_transactions(10**6, 10**9, AMPLE)):
        for piece in transaction:
            marks.update(dict.fromkeys(range(piece.batch.first_offset, piece.batch.end), held.marker(transaction)))
    furthest = 0
    for offset in done:
        if offset in marks:
            marks[offset](offset)
            furthest = max(furthest, offset)
        assert held.handled == max(end for end in ends_of(sizes) if end <= furthest + 1)


def test_the_error_says_where_it_is_what_was_over_and_what_to_do() -> None:
    for most, named in (
        (TransactionLimits(5, 10**9), "transaction_records_max of 5"),
        (TransactionLimits(100, 50), "transaction_bytes_max of 50"),
    ):
        held = holding()
        held.add(log_of([[2, 4]]))
        with pytest.raises(TransactionTooLarge) as refused:
            held.take_transactions(1, 10**9, most)
        error = refused.value
        where = (error.topic, error.partition, error.offset, error.transaction_id)
        assert (*where, error.code, error.retryable) == ("orders", 3, 1, 100, "TL043", False)
        for text in (named, "transaction 100", "partition 3 of orders", "offset 1", "seek", "whole_transactions"):
            assert text in str(error)


def test_a_batch_that_is_cut_still_says_which_part_of_its_transaction_it_is() -> None:
    batch = log_of([[2, 5]])[1].batch
    assert (batch.first_offset, batch.transaction_ordinal, batch.transaction_count) == (3, 2, 7)
    cut = batch.cut(4, 6)
    assert (cut.payloads, cut.transaction_ordinal, cut.transaction_count) == ([b"4", b"5"], 3, 5)


def test_a_run_that_lost_its_transactions_is_never_taken_for_one() -> None:
    runs = [Batch("orders", 3, at, None, [b"x"], None, AT, None, None, None, None, [AT]) for at in (1, 2)]
    assert not runs[1].continues(runs[0])
