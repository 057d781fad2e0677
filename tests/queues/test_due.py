"""What falls due in a queue: deadlines that pass, attempts that are counted, delays."""

from __future__ import annotations

import pytest

from tests.queues.conftest import MakeQueue
from tests.queues.driver import Clock, Queue, Settlement

# -- deadlines --


def test_S3_10_a_claim_that_expires_is_retried_though_later_ranges_are_done(queue: Queue, clock: Clock) -> None:
    """Three ranges are claimed; the later two are acknowledged, the first one's reader says nothing. Its offsets are
    handed out again, in full, and until they are done the floor stands before them."""
    for _ in range(3):
        queue.publish(5)
    reader = queue.reader()
    silent, second, third = (reader.take(5) for _ in range(3))
    assert reader.ack(third)
    assert queue.floor() == 1
    assert reader.ack(second)
    assert (queue.floor(), queue.describe().frontier) == (1, 15)
    assert reader.claim().claims == [], "its deadline has not passed"
    clock.advance(10)
    assert queue.floor() == 1
    again = reader.take()
    assert (again.offsets, again.attempt) == (silent.offsets, 2)
    assert queue.floor() == 1
    assert reader.ack(again, [1, 2, 4])
    assert queue.floor() == 3
    assert reader.ack(again, [3])
    assert queue.floor() == 5
    clock.advance(10)
    last = reader.take()
    assert (last.offsets, last.attempt) == ((5,), 3)
    assert reader.ack(last)
    assert queue.floor() == 16
    clock.advance(100)
    assert reader.claim().claims == []


def test_what_expires_comes_before_what_is_new(queue: Queue, clock: Clock) -> None:
    queue.publish(2)
    reader = queue.reader()
    reader.take()
    queue.publish(2)
    clock.advance(10)
    answer = reader.claim(3)
    assert [(claim.offsets, claim.attempt) for claim in answer.claims] == [((1, 2), 2), ((3,), 1)]


def test_a_large_claim_that_expires_is_taken_in_parts(queue: Queue, clock: Clock) -> None:
    queue.publish(10)
    reader = queue.reader()
    reader.take()
    clock.advance(10)
    claims = []
    for _ in range(4):
        claims += reader.claim(3).claims
        clock.advance(0.001)
    assert [claim.offsets for claim in claims] == [(1, 2, 3), (4, 5, 6), (7, 8, 9), (10,)]
    assert {claim.attempt for claim in claims} == {2}


def test_due_says_when_to_look_again(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    assert reader.claim(2).due_s == 10
    clock.advance(4)
    answer = reader.claim(1)
    assert answer.due_s == 6
    assert reader.next([Settlement(answer.claim, "n", delay_s=3)], 1).due_s == 3


def test_the_deadline_is_left_out_where_nothing_waits(queue: Queue) -> None:
    assert queue.reader().claim().due_s is None


def test_extending_holds_a_claim_beyond_its_deadline(queue: Queue, clock: Clock) -> None:
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take()
    clock.advance(9)
    assert reader.extend(claim, 20)
    clock.advance(19)
    assert reader.claim().claims == []
    assert reader.ack(claim, [1])
    clock.advance(1)
    assert reader.take().offsets == (2,)
    assert not reader.ack(claim)


def test_extending_again_and_shorter(queue: Queue, clock: Clock) -> None:
    """Each counts from now; a shorter one gives the records back sooner."""
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take()
    assert reader.extend(claim, 100)
    assert reader.extend(claim, 3)
    clock.advance(2.9)
    assert reader.claim().claims == []
    clock.advance(0.1)
    assert not reader.ack(claim)
    assert reader.take().offsets == (1, 2)
    clock.advance(5)
    assert reader.claim().claims == [], "the old deadlines mean nothing any more"


def test_many_claims_that_expire_at_once_all_come_again(queue: Queue, clock: Clock) -> None:
    """More than are looked at in one go."""
    for _ in range(450):
        queue.publish(1)
    reader = queue.reader()
    for _ in range(450):
        reader.take(1)
    clock.advance(10)
    got = reader.claim(1000).offsets
    clock.advance(0.001)
    got += reader.claim(1000).offsets
    assert sorted(got) == list(range(1, 451))


# -- attempts --


def _expire(queue: Queue, clock: Clock, times: int) -> None:
    for _ in range(times):
        queue.reader().claim()
        clock.advance(10.001)


def test_attempts_are_counted_at_the_claim(queue: Queue, clock: Clock) -> None:
    """Nobody has to live to count."""
    queue.publish(1)
    reader = queue.reader()
    for attempt in range(1, 6):
        assert reader.take().attempt == attempt
        clock.advance(10.001)


def test_the_last_attempt_is_made_alone(make_queue: MakeQueue, clock: Clock) -> None:
    """Three records were claimed together and killed their reader twice: each gets its third attempt by itself, in an
    answer of its own. Whoever dies of one has no other in hand for which it was the last attempt."""
    queue = make_queue(ack_deadline_s=10.0, max_attempts=3, dead_letter="dead")
    queue.publish(3)
    _expire(queue, clock, 2)
    for offset in (1, 2, 3):
        claim = queue.reader().take()
        assert (claim.offsets, claim.attempt, claim.is_exhausted) == ((offset,), 3, False)
        clock.advance(0.001)
    assert queue.reader().claim().claims == []


def test_what_has_no_attempt_left_is_flagged_and_stays_so(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, max_attempts=2, dead_letter="dead")
    queue.publish(2)
    _expire(queue, clock, 1)
    for _ in range(2):
        queue.reader().claim()
        clock.advance(0.001)
    clock.advance(10)
    reader = queue.reader()
    for _ in range(3):
        claims = reader.claim().claims
        assert [(claim.offsets, claim.attempt, claim.is_exhausted) for claim in claims] == [
            ((1,), 2, True),
            ((2,), 2, True),
        ]
        clock.advance(10.001)


def test_what_is_buried_is_done(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, max_attempts=1, dead_letter="dead")
    queue.publish(1)
    _expire(queue, clock, 1)
    reader = queue.reader()
    assert reader.settle(reader.take(), "d")
    clock.advance(100)
    assert reader.claim().claims == []
    assert queue.floor() == 2


def test_the_only_attempt_is_made_alone_and_within_the_limit(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, max_attempts=1, dead_letter="dead")
    queue.publish(5)
    reader = queue.reader()
    assert reader.claim(3).offsets == [1]
    clock.advance(10)
    assert reader.claim(1).offsets == [1], "one was asked for, and this one is due"


def test_a_release_does_not_count(queue: Queue) -> None:
    queue.publish(2)
    reader = queue.reader()
    for _ in range(5):
        claim = reader.take()
        assert claim.attempt == 1
        assert reader.release(claim)


def test_a_nack_counts(queue: Queue) -> None:
    queue.publish(2)
    reader = queue.reader()
    for attempt in range(1, 6):
        claim = reader.take()
        assert claim.attempt == attempt
        assert reader.nack(claim)


# -- delays --


def test_what_was_published_with_a_delay_comes_after_it(queue: Queue, clock: Clock) -> None:
    queue.publish(delays=[None, 5, None, 20, 5])
    reader = queue.reader()
    first = reader.claim()
    assert first.claim.offsets == (1, 3)
    assert reader.ack(first.claim)
    assert (queue.floor(), queue.describe().waiting) == (2, 3)
    assert reader.claim().due_s == 5
    clock.advance(5)
    second = reader.take()
    assert (second.offsets, second.attempt) == ((2, 5), 1)
    assert reader.ack(second)
    assert queue.floor() == 4
    clock.advance(15)
    assert reader.ack(reader.take())
    assert queue.floor() == 6


def test_a_delay_that_is_over_when_somebody_comes_is_none(queue: Queue, clock: Clock) -> None:
    queue.publish(delays=[3, None, 4])
    clock.advance(4)
    assert queue.reader().take().offsets == (1, 2, 3)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_each_delay_counts_from_its_own_records_time(make_queue: MakeQueue, clock: Clock, *, is_ordered: bool) -> None:
    """Also where so many were published one by one that they are read as one."""
    queue = make_queue(ack_deadline_s=10.0, is_ordered=is_ordered)
    for _ in range(70):
        queue.publish(delays=[100])
        clock.advance(1)
    reader = queue.reader()
    assert reader.claim(200).claims == []
    clock.advance(30)
    for offset in (1, 2, 3):
        claim = reader.take(200)
        assert claim.offsets == (offset,)
        assert reader.ack(claim)
        assert reader.claim(200).due_s == 1
        clock.advance(1)


def test_a_batch_that_waits_hides_nothing_behind_it(queue: Queue, clock: Clock) -> None:
    """Whoever gets nothing is told to look again at once, or gets what stands behind it."""
    queue.publish(delays=[60, 60])
    queue.publish(2)
    reader = queue.reader()
    answer = reader.claim()
    assert answer.claims or answer.due_s == 0
    assert (answer.offsets or reader.claim().offsets) == [3, 4]


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "inf", "NaN", "1" * 12, "é", " 1"])
def test_what_is_no_delay_is_ignored(queue: Queue, clock: Clock, text: str) -> None:
    queue.publish(delays=[text])
    assert queue.reader().take().offsets == (1,)


def test_a_nack_with_a_delay(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.nack(claim, [2], delay_s=30)
    assert reader.ack(claim, [1])
    assert queue.floor() == 2
    clock.advance(5)
    assert reader.ack(claim)
    assert (queue.floor(), queue.describe().waiting, queue.describe().in_flight) == (2, 1, 0)
    assert reader.claim().claims == []
    clock.advance(25)
    again = reader.take()
    assert (again.offsets, again.attempt) == ((2,), 2)
