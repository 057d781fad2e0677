"""How many messages are asked for: it follows the receivers, in bounded steps, and never hoards.

The profiles play a subscription on a clock of their own: receivers handle, the broker answers after a while, and the
size decides what is fetched.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

import pytest

from trunkline.engine.appetite import AHEAD_FETCHES, AHEAD_MAX_S, AHEAD_MIN_S, GROWTH_MAX, SHRINK_MAX, Appetite

BYTES = 2**40


def fed(appetite: Appetite, handled: int, busy_s: float, now: float) -> float:
    """One round, the next, in which receivers have handled so many, ever, after so many seconds; the time after it."""
    appetite.is_fed(handled, handled, now)
    now += busy_s
    appetite.wanted(0, 0, handled, now)
    return now


def test_S2_26_a_size_grows_to_twice_at_most_and_falls_to_three_quarters_at_most() -> None:
    appetite = Appetite(10_000, BYTES)
    sizes, now = [appetite.size], 0.0
    appetite.wanted(0, 1, 0, now)
    for turn, busy_s in enumerate([0.001] * 12 + [100.0] * 12 + [0.0] * 3):
        now = fed(appetite, 1_000 * (turn + 1), busy_s, now)
        sizes.append(appetite.size)
    for before, after in pairwise(sizes):
        assert SHRINK_MAX * before <= after <= GROWTH_MAX * before or after == 1.0
    assert max(sizes) > 1_000
    assert sizes[13:25] == sorted(sizes[13:25], reverse=True)


def test_S2_26_a_size_falls_while_nothing_comes_and_never_below_one() -> None:
    appetite = Appetite(1_000, BYTES)
    appetite.size = 100.0
    appetite.stays_hungry()
    assert appetite.size == 75.0
    for _ in range(50):
        appetite.stays_hungry()
    assert appetite.size == 1.0


def test_receivers_that_got_messages_all_at_once_are_not_quick_before_they_come_again() -> None:
    """Method: ten wait, and ten times in a row a message comes for one of them; nobody has handled any."""
    appetite = Appetite(1_000, BYTES)
    for handed in range(10):
        appetite.wanted(0, 10 - handed, handed, handed * 1e-6)
        appetite.is_fed(1, 1, handed * 1e-6)
    assert appetite.size == 1.0
    appetite.wanted(0, 0, 15, 1e-5)
    assert appetite.size == 2.0


def test_those_who_wait_are_asked_for_whatever_the_size() -> None:
    assert Appetite(1_000, BYTES).wanted(0, 100, 0, 0.0) == 100
    assert Appetite(0, BYTES).wanted(0, 7, 0, 0.0) == 7


def test_with_nothing_ahead_nothing_is_ever_low() -> None:
    appetite = Appetite(0, BYTES)
    appetite.size = 100.0
    appetite.wanted(0, 1, 0, 0.0)
    assert appetite.low == 0


def test_large_messages_are_asked_for_by_their_bytes() -> None:
    appetite = Appetite(1_000, 10_000)
    appetite.size = 1_000.0
    appetite.is_fed(2, 2_000, 0.0)
    assert appetite.wanted(0, 1, 0, 0.0) == 10
    appetite.is_fed(1, 50_000, 0.0)
    assert appetite.wanted(0, 1, 0, 0.0) == 1


def test_a_short_deadline_leaves_less_in_memory() -> None:
    """Method: a slow broker, and a hundred messages in two seconds; a quarter of the deadline is the most."""
    near, far = Appetite(1_000, BYTES, 0.2), Appetite(1_000, BYTES, 60)
    for appetite in (near, far):
        now = 1.0
        appetite.wanted(0, 1, 0, 0.0)
        for turn in range(20):
            now = fed(appetite, 100 * (turn + 1), 1.0, now)
            now += 1.0
    assert near.size == pytest.approx(50 * 0.05)
    assert far.size == pytest.approx(50 * AHEAD_MAX_S)


def test_a_slow_broker_is_asked_for_more_at_a_time_within_a_bound() -> None:
    """Method: fetches that nobody waits for take so long; one that waits for messages to come says nothing."""
    appetite = Appetite(1_000, BYTES)
    now = 0.0
    for fetch_s, ahead_s in ((0.0, AHEAD_MIN_S), (0.01, AHEAD_FETCHES * 0.01), (9.0, AHEAD_MAX_S), (0.0, AHEAD_MIN_S)):
        for waiting in [0] * 20 + [1]:
            appetite.wanted(0, waiting, 0, now)
            now += 50.0 if waiting else fetch_s
            appetite.is_fed(1, 1, now)
        assert appetite.ahead_s == pytest.approx(ahead_s, rel=0.01)


@dataclass
class World:
    """A subscription on a clock of its own: so many receivers, of which each handles a message in ``handle_s``."""

    receivers: int
    handle_s: Callable[[int], float]
    arrivals: Callable[[float], int]
    fetch_s: float = 0.005
    appetite: Appetite = field(default_factory=lambda: Appetite(1_000, BYTES))
    memory: int = 0
    at_broker: int = 0
    handled: int = 0
    memory_max: int = 0
    fetching_until: float | None = None
    dry: bool = False

    def run(self, seconds: float, step_s: float = 0.001) -> World:
        waiting = deque(range(self.receivers))
        busy: list[tuple[float, int]] = []
        numbers = count()
        fetch_size = 0
        for tick in range(round(seconds / step_s)):
            now = tick * step_s
            self.at_broker += self.arrivals(now)
            while busy and busy[0][0] <= now + step_s / 2:
                waiting.append(heapq.heappop(busy)[1])
            if self.fetching_until is not None and self.fetching_until <= now:
                got = min(fetch_size, self.at_broker)
                self.at_broker -= got
                self.memory += got
                self.dry = not got
                self.fetching_until = None
                if got:
                    self.appetite.is_fed(got, got, now)
                self.memory_max = max(self.memory_max, self.memory - len(waiting))
            while waiting and self.memory:
                self.memory -= 1
                self.handled += 1
                heapq.heappush(busy, (now + self.handle_s(next(numbers)), waiting.popleft()))
            if waiting:
                self.appetite.starves(now)
            if self.fetching_until is None and (
                (waiting and self.at_broker) or (not self.dry and self.memory < self.appetite.low)
            ):
                fetch_size = self.appetite.wanted(self.memory, len(waiting), self.handled, now)
                self.fetching_until = now + self.fetch_s
        return self


def steady(per_s: float) -> Callable[[float], int]:
    return lambda now: int((now + 0.001) * per_s) - int(now * per_s)


def bursty(size: int, every_s: float) -> Callable[[float], int]:
    return lambda now: size if int((now + 0.001) / every_s) > int(now / every_s) or now == 0 else 0


def constant(seconds: float) -> Callable[[int], float]:
    return lambda number: seconds


def mixed(number: int) -> float:
    return 0.2 if number % 20 == 0 else 0.002


PROFILES = {
    "1 quick, steady": World(1, constant(0.002), steady(400)),
    "1 quick, backlog": World(1, constant(0.002), bursty(20_000, 100)),
    "1 quick, bursty": World(1, constant(0.002), bursty(500, 2)),
    "1 slow, backlog": World(1, constant(0.5), bursty(1_000, 100)),
    "1 slow, steady": World(1, constant(0.5), steady(4)),
    "1 mixed, backlog": World(1, mixed, bursty(20_000, 100)),
    "10 quick, backlog": World(10, constant(0.01), bursty(50_000, 100)),
    "10 slow, backlog": World(10, constant(0.5), bursty(1_000, 100)),
    "10 mixed, bursty": World(10, mixed, bursty(2_000, 2)),
    "100 quick, backlog": World(100, constant(0.05), bursty(50_000, 100)),
    "100 slow, bursty": World(100, constant(0.5), bursty(1_000, 2)),
    "100 mixed, steady": World(100, mixed, steady(2_000)),
}


@pytest.mark.parametrize("name", PROFILES)
def test_S2_26_receivers_are_kept_busy_and_nothing_is_hoarded(name: str) -> None:
    """Goal: of twelve profiles none starves: receivers handle nine in ten of what they could, or of what there was; and
    none hoards: in memory is at most what they handle in a second."""
    world = PROFILES[name]
    seconds = 20.0
    world.run(seconds)
    capacity = world.receivers / (sum(map(world.handle_s, range(20))) / 20)
    possible = min(world.handled + world.memory + world.at_broker, capacity * seconds)
    assert world.handled >= 0.9 * possible, f"{world.handled} of {possible:.0f}"
    assert world.memory_max <= max(2, capacity), f"{world.memory_max} in memory, {capacity:.0f} a second"
