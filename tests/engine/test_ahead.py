"""What lies in memory ahead of its receivers."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.ahead import Ahead


def test_messages_come_in_order_and_one_that_is_put_back_comes_next() -> None:
    ahead: Ahead[str] = Ahead()
    ahead.add("ab", inf)
    ahead.add("c", inf)
    assert ahead.take() == "a"
    ahead.put_back("a")
    assert [ahead.take() for _ in range(4)] == ["a", "b", "c", None]


def test_a_batch_that_is_stale_is_dropped_and_the_next_is_not() -> None:
    ahead: Ahead[str] = Ahead()
    ahead.add("abc", 10)
    ahead.add("de", 20)
    assert ahead.take() == "a"
    assert ahead.drop_stale(10) == []
    assert ahead.drop_stale(11) == ["b", "c"]
    assert [ahead.take(), ahead.take(), ahead.take()] == ["d", "e", None]


def test_all_that_is_left_can_be_dropped() -> None:
    ahead: Ahead[str] = Ahead()
    ahead.add("abc", 10)
    ahead.take()
    assert ahead.drop_all() == ["b", "c"]
    ahead.add("d", 30)
    assert ahead.drop_stale(20) == []
    assert ahead.take() == "d"


@given(st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["take", "back", "stale"])), max_size=60))
def test_nothing_is_lost_or_doubled(steps: list[int | str]) -> None:
    """Method: a number adds a batch of so many; what was taken and what was dropped is, together, what was added."""
    ahead: Ahead[int] = Ahead()
    added, gone, now = 0, [], 0.0
    for step in steps:
        if isinstance(step, int):
            ahead.add(range(added, added + step), now + 2)
            added += step
        elif step == "stale":
            now += 1
            gone += ahead.drop_stale(now)
        elif (found := ahead.take()) is not None:
            if step == "back":
                ahead.put_back(found)
            else:
                gone.append(found)
    assert gone + ahead.drop_all() == list(range(added))
