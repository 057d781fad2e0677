"""Which record may be handled next: order within a key, side by side otherwise, and what may be committed."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trunkline.engine.dispatch import Dispatch, PartitionName, Work
from trunkline.records import Position, Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def record(offset: int, key: bytes | None = None, *, partition: int = 0, payload: bytes = b"") -> Record:
    return Record("orders", partition, offset, key, payload, (), NOW)


def dispatch(concurrency: int = 8, records_max: int = 100, bytes_max: int = 1_000_000) -> Dispatch:
    return Dispatch(concurrency=concurrency, records_max=records_max, bytes_max=bytes_max)


def start_all(hand: Dispatch, now: float = 0.0) -> list[Work]:
    found: list[Work] = []
    while (work := hand.start(now)) is not None:
        found.append(work)
    return found


def offsets(works: list[Work]) -> list[int]:
    return [work.record.offset for work in works]


def test_records_of_one_key_start_one_after_the_other_and_others_beside_them() -> None:
    hand = dispatch()
    hand.add([record(1, b"a"), record(2, b"a"), record(3, b"b"), record(4), record(5), record(6, b"a")])
    first = start_all(hand)
    assert offsets(first) == [1, 3, 4, 5]
    hand.finish(first[0])
    second = start_all(hand)
    assert offsets(second) == [2]
    hand.finish(second[0])
    assert offsets(start_all(hand)) == [6]


def test_the_same_key_in_another_partition_is_another_key() -> None:
    hand = dispatch()
    hand.add([record(1, b"a"), record(1, b"a", partition=1)])
    assert len(start_all(hand)) == 2


def test_no_more_than_the_concurrency_are_handled_at_once() -> None:
    hand = dispatch(concurrency=2)
    hand.add([record(offset) for offset in range(1, 6)])
    first = start_all(hand)
    assert (offsets(first), hand.ready) == ([1, 2], 3)
    hand.finish(first[1])
    assert offsets(start_all(hand)) == [3]


def test_only_what_is_done_without_a_gap_is_committable() -> None:
    hand = dispatch()
    hand.add([record(5), record(6), record(7)])
    first, second, third = start_all(hand)
    assert hand.committable() == []
    hand.finish(second)
    assert hand.committable() == []
    hand.finish(first)
    assert hand.committable() == [Position("orders", 0, 7)]
    hand.committed([Position("orders", 0, 7)])
    assert hand.committable() == []
    hand.finish(third)
    assert hand.committable() == [Position("orders", 0, 8)]


def test_a_postponed_record_holds_up_its_key_alone_and_comes_when_it_is_due() -> None:
    hand = dispatch(concurrency=1)
    hand.add([record(1, b"a"), record(2, b"a"), record(3, b"b")])
    (work,) = start_all(hand)
    hand.postpone(work, until=10.0)
    assert (hand.due(), work.pauses) == (10.0, 1)
    (other,) = start_all(hand, 5.0)
    assert other.record.offset == 3
    hand.finish(other)
    assert start_all(hand, 9.9) == []
    assert start_all(hand, 10.0) == [work]
    assert (work.started, hand.due()) == (10.0, None)


def test_a_partition_with_too_many_records_or_bytes_is_full_until_they_are_done() -> None:
    hand = dispatch(records_max=2, bytes_max=10_000)
    hand.add([record(1), record(2), record(1, payload=b"x" * 10_000, partition=1), record(1, partition=2)])
    assert hand.full() == {("orders", 0), ("orders", 1)}
    works = start_all(hand)
    # Done, but behind one that is not: it is still remembered, and the window does not grow for ever.
    hand.finish(works[1])
    assert ("orders", 0) in hand.full()
    hand.finish(works[0])
    hand.finish(works[2])
    assert hand.full() == set()


def test_a_lost_partition_is_forgotten_and_what_still_runs_counts_for_nothing() -> None:
    hand = dispatch(concurrency=2)
    hand.add([record(1, b"a"), record(2, b"b"), record(3, b"c"), record(1, partition=1)])
    zombie, late = start_all(hand)
    hand.postpone(late, until=1.0)
    hand.drop([("orders", 0)])
    assert hand.due() is None
    (other,) = start_all(hand, 2.0)
    assert other.record.partition == 1
    hand.finish(zombie)
    assert hand.committable() == []
    hand.finish(other)
    assert hand.committable() == [Position("orders", 1, 2)]


def test_a_record_that_comes_again_waits_for_the_end_of_its_first_life() -> None:
    hand = dispatch()
    hand.add([record(1, b"a"), record(2, b"b")])
    zombie, other = start_all(hand)
    hand.drop([("orders", 0)])
    hand.add([record(1, b"a"), record(2, b"b")])
    assert start_all(hand) == []
    hand.finish(zombie)
    (again,) = start_all(hand)
    assert (again.record.offset, again is zombie) == (1, False)
    hand.postpone(other, until=9.0)
    assert offsets(start_all(hand)) == [2]
    hand.finish(again)
    assert hand.committable() == [Position("orders", 0, 2)]


def test_offsets_that_come_again_begin_the_partition_anew() -> None:
    hand = dispatch(concurrency=1)
    hand.add([record(1), record(2), record(3)])
    (work,) = start_all(hand)
    hand.add([record(2), record(3)])
    hand.finish(work)
    assert hand.committable() == []
    for expected in (2, 3):
        (work,) = start_all(hand)
        assert work.record.offset == expected
        hand.finish(work)
    assert hand.committable() == [Position("orders", 0, 4)]


def test_of_a_retired_partition_nothing_more_begins_and_what_runs_still_counts() -> None:
    hand = dispatch(concurrency=3)
    hand.add([record(1, b"a"), record(2, b"a"), record(3), record(4), record(5)])
    first, second, third = start_all(hand)
    hand.retire([("orders", 0)])
    assert hand.full() == {("orders", 0)}
    hand.finish(second)
    hand.postpone(third, until=0.0)
    assert (start_all(hand, 9.0), hand.is_busy(("orders", 0))) == ([], True)
    hand.finish(first)
    assert hand.is_busy(("orders", 0)) is False
    assert hand.committable() == [Position("orders", 0, 2)]
    hand.drop([("orders", 0)])
    assert hand.full() == set()
    hand.add([record(2, b"a"), record(3)])
    assert offsets(start_all(hand)) == [2, 3]


def test_what_is_being_handled_is_known_the_longest_first() -> None:
    hand = dispatch()
    hand.add([record(1), record(2)])
    first, second = hand.start(1.0), hand.start(2.0)
    assert hand.running == [first, second]
    assert first is not None
    hand.finish(first)
    assert hand.running == [second]


PARTITIONS = 2
partitions = st.integers(0, PARTITIONS - 1)


class Handling(RuleBasedStateMachine):
    """Random records, handlers that end or fail in any order, partitions that are lost and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.hand = dispatch(concurrency=3, records_max=10, bytes_max=10_000)
        self.now = 0.0
        self.logs: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        self.fetched = [0] * PARTITIONS
        self.cursors = [1] * PARTITIONS
        self.running: list[Work] = []
        self.done: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.retired: set[int] = set()
        self.started: dict[tuple[PartitionName, bytes], list[int]] = {}

    @rule(partition=partitions, keys=st.lists(st.sampled_from([None, b"a", b"b", b"c"]), max_size=5))
    def publish(self, partition: int, keys: list[bytes | None]) -> None:
        self.logs[partition] += keys

    @rule(partition=partitions, most=st.integers(1, 5))
    def fetch(self, partition: int, most: int) -> None:
        if ("orders", partition) not in self.hand.full():
            self.take_in(partition, most)

    def take_in(self, partition: int, most: int) -> None:
        at = self.fetched[partition]
        keys = self.logs[partition][at : at + most]
        self.hand.add([record(at + n, key, partition=partition) for n, key in enumerate(keys, 1)])
        self.fetched[partition] += len(keys)

    @rule()
    def start(self) -> None:
        work = self.hand.start(self.now)
        if work is None:
            return
        if (key := work.record.key) is not None:
            assert (work.partition, key) not in {(other.partition, other.record.key) for other in self.running}
            self.started.setdefault((work.partition, key), []).append(work.record.offset)
        self.running.append(work)

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 2))
    def finish(self, choice: int) -> None:
        work = self.running.pop(choice % len(self.running))
        self.hand.finish(work)
        self.done[work.record.partition].add(work.record.offset)

    @precondition(lambda self: self.running)
    @rule(choice=st.integers(0, 2), delay=st.integers(0, 5))
    def fail(self, choice: int, delay: int) -> None:
        self.hand.postpone(self.running.pop(choice % len(self.running)), self.now + delay)

    @rule(passed=st.integers(1, 5))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def commit(self) -> None:
        positions = self.hand.committable()
        for position in positions:
            assert position.offset > self.cursors[position.partition]
            self.cursors[position.partition] = position.offset
        self.hand.committed(positions)

    @rule(partition=partitions)
    def lose_and_regain(self, partition: int) -> None:
        self.retired.discard(partition)
        self.begin_anew(partition)
        self.hand.drop([("orders", partition)])

    @rule(partition=partitions)
    def regain_without_a_word(self, partition: int) -> None:
        """Fetching begins again at the cursor, and only the offsets say so."""
        if partition not in self.retired:
            self.begin_anew(partition)
            self.take_in(partition, 1)

    @rule(partition=partitions)
    def retire(self, partition: int) -> None:
        self.hand.retire([("orders", partition)])
        self.retired.add(partition)

    @rule()
    def give_back(self) -> None:
        for partition in list(self.retired):
            if not self.hand.is_busy(("orders", partition)):
                self.commit()
                self.lose_and_regain(partition)

    def begin_anew(self, partition: int) -> None:
        self.fetched[partition] = self.cursors[partition] - 1
        for (name, _), seen in self.started.items():
            if name == ("orders", partition):
                seen.clear()

    @invariant()
    def nothing_may_be_committed_before_it_is_done(self) -> None:
        for position in self.hand.committable():
            assert set(range(1, position.offset)) <= self.done[position.partition]

    @invariant()
    def keys_are_handled_in_order(self) -> None:
        for seen in self.started.values():
            assert all(earlier <= later for earlier, later in pairwise(seen))

    @invariant()
    def no_more_are_handled_than_may_be(self) -> None:
        assert set(self.hand.running) == set(self.running)
        assert len(self.running) <= 3

    def teardown(self) -> None:
        """Everything ends: once nothing fails any more, every record is handled and committed."""
        for _ in range(2 * sum(map(len, self.logs)) + 10):
            for partition in range(PARTITIONS):
                self.fetch(partition, 5)
            self.give_back()
            self.wait(5)
            self.start()
            if self.running:
                self.finish(0)
        self.commit()
        assert self.cursors == [len(log) + 1 for log in self.logs]


Handling.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestHandling = Handling.TestCase
