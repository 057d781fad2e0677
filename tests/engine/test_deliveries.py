"""What a reader of a queue holds: claims, what of them lies in memory, what is in the application's hands."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from trunkline.engine.deliveries import Buffer, Claim, Settlement, merged, multirange, numbered, ranges_of
from trunkline.records import Batch

TIME = datetime(2026, 1, 1, tzinfo=UTC)


def claim(number: int = 1) -> Claim:
    return Claim(1, 0, number, number, attempt=1, held_from=0.0, held_s=30.0)


def batch(first: int, count: int) -> Batch:
    payloads = [b"%d" % offset for offset in range(first, first + count)]
    return Batch("t", 0, first, None, payloads, None, TIME, 1, 1, 0, count)


def buffer() -> Buffer[int]:
    def offsets(found: Batch, start: int, end: int, _: Claim) -> Iterator[int]:
        assert found.first_offset <= start < end <= found.end
        return iter(range(start, end))

    return Buffer(offsets)


@pytest.mark.parametrize(
    ("offsets", "text"),
    [([], None), ([5], "{[5,6)}"), ([5, 6, 7], "{[5,8)}"), ([1, 3, 4, 9], "{[1,2),[3,5),[9,10)}")],
)
def test_offsets_as_the_server_reads_them(offsets: list[int], text: str | None) -> None:
    assert multirange(offsets) == text


def test_ranges_hold_the_offsets_and_nothing_else() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(200):
        offsets = sorted(chance.sample(range(40), chance.randrange(40)))
        found = list(ranges_of(offsets))
        assert [offset for start, end in found for offset in range(start, end)] == offsets
        assert all(before[1] < after[0] for before, after in pairwise(found))


def test_settlements_of_a_claim_are_merged_by_kind_and_numbered_in_turn() -> None:
    first, second = claim(1), claim(2)
    first.seq = 4
    found = merged(
        [
            Settlement(first, "n", [9], 5.0),
            Settlement(first, "a", [3]),
            Settlement(second, "a", [1, 2]),
            Settlement(first, "e", (), 10.0),
            Settlement(first, "a", [1]),
            Settlement(first, "e", (), 20.0),
            Settlement(first, "n", [8], 6.0),
        ]
    )
    assert found == [
        Settlement(first, "e", [], 20.0),
        Settlement(first, "a", [1, 3]),
        Settlement(second, "a", [1, 2]),
        Settlement(first, "n", [9], 5.0),
        Settlement(first, "n", [8], 6.0),
    ]
    assert numbered(found) == [5, 6, 1, 7, 8]


def test_a_record_is_open_once_it_is_handed_out_until_it_is_settled() -> None:
    held = claim()
    assert held.standing(1) == "lost"
    held.hand_out([1, 2, 3])
    assert held.standing(1) == "open"
    held.begin([1])
    assert held.standing(1) == "settled"
    held.put_back([1])
    assert held.standing(1) == "open"
    held.begin([2])
    held.give_back()
    assert [held.standing(offset) for offset in (1, 2, 3)] == ["lost", "settled", "lost"]
    held.lose([2])
    assert [held.standing(offset) for offset in (1, 2, 3)] == ["lost", "lost", "lost"]


def test_a_buffer_hands_out_in_order_what_has_been_read() -> None:
    held, found = claim(), buffer()
    found.add(held, [(1, 3), (5, 6)], batch(1, 6))
    found.add(held, [(10, 14)], None)
    assert len(found) == 7
    assert found.take(2) == [1, 2]
    assert found.take(10) == [5]
    assert found.take(10) == []
    (unread,) = found.next_pieces(10)
    found.fill([unread], [batch(8, 4)])
    assert found.take(10) == [10, 11]
    (unread,) = found.next_pieces(10)
    found.fill([unread], [batch(12, 1), batch(13, 5)])
    assert found.take(10) == [12, 13]
    assert len(found) == 0
    assert all(held.standing(offset) == "open" for offset in (1, 2, 5, 10, 11, 12, 13))


def test_what_retention_took_is_left_out() -> None:
    held, found = claim(), buffer()
    found.add(held, [(1, 6)], None)
    (unread,) = found.next_pieces(1)
    found.fill([unread], [batch(4, 9)])
    found.fill([unread], [batch(4, 9)])
    assert found.take(10) == [4, 5]
    found.add(held, [(7, 9)], None)
    (unread,) = found.next_pieces(1)
    found.fill([unread], [])
    assert found.unread_run(unread) == []
    found.fill([unread], [])
    assert found.take(10) == []


def test_what_is_read_together_stands_together() -> None:
    """Pieces one behind the other in one partition are read at once, as far as the answer goes; what has gone from
    before it is left out, and what is behind it is read later."""
    held, other, found = claim(1), Claim(8, 1, 2, 5, attempt=1, held_from=0.0, held_s=60.0), buffer()
    found.add(held, [(1, 3), (3, 6), (6, 9), (10, 12)], None)
    found.add(other, [(12, 14)], None)
    pieces = found.next_pieces(100)
    run = found.unread_run(pieces[0])
    assert [(each.first, each.end) for each in run] == [(1, 3), (3, 6), (6, 9)]
    assert [(each.first, each.end) for each in found.unread_run(pieces[3])] == [(10, 12)]
    found.fill(run, [batch(4, 3)])
    assert found.take(100) == [4, 5, 6]
    (unread,) = found.next_pieces(1)
    assert (unread.first, unread.end) == (7, 9)
    found.fill(found.unread_run(unread), [])
    assert [(each.first, each.end) for each in found.next_pieces(100)] == [(10, 12), (12, 14)]


def test_what_is_lost_or_given_back_is_not_handed_out() -> None:
    first, second, found = claim(1), claim(2), buffer()
    found.add(first, [(1, 5)], batch(1, 4))
    found.add(second, [(5, 7), (7, 9)], batch(5, 4))
    assert found.take(1) == [1]
    first.lose()
    assert found.take(1) == [5]
    found.give_back(second)
    assert found.take(9) == []
    assert found.release() == []


def test_a_release_says_what_was_not_handed_out_by_claim() -> None:
    first, second, third, found = claim(1), claim(2), claim(3), buffer()
    found.add(first, [(1, 3), (4, 5)], batch(1, 4))
    found.add(second, [(9, 11)], None)
    found.add(third, [(20, 30)], None)
    third.lose()
    assert found.take(1) == [1]
    assert found.release() == [Settlement(first, "r", [2, 4]), Settlement(second, "r", [9, 10])]
    assert len(found) == 0
