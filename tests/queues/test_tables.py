"""What is known of claims moves to new tables, retention takes the log from under them: nothing is lost or hangs."""

from __future__ import annotations

import psycopg
import pytest

from tests.queues.conftest import MakeQueue
from tests.queues.driver import STEP, TABLE, Clock, Queue
from trunkline.client.failures import translate

TABLES = "select count(*) from pg_class where relname ~ '^(claim|closure)_[0-9]+$'"


def test_a_late_acknowledgement_of_a_claim_that_was_carried_over(queue: Queue) -> None:
    queue.publish(5)
    queue.publish(5)
    reader = queue.reader()
    held, done = reader.take(5), reader.take(5)
    assert reader.ack(done)
    assert reader.ack(held, [2])
    before = queue.describe()
    assert queue.roll() == 0
    assert queue.describe() == before
    assert queue.sql(TABLES) == [(2,)]
    assert reader.ack(held, [1, 3])
    assert queue.floor() == 4
    assert queue.roll() == 0
    assert reader.ack(held)
    assert queue.floor() == 11
    assert reader.claim().claims == []


def test_what_was_settled_last_may_come_again_after_a_roll(queue: Queue) -> None:
    """The answer was lost, and the tables changed before it was asked for again."""
    queue.publish(5)
    reader = queue.reader()
    held = reader.take()
    assert reader.ack(held, [2])
    queue.roll()
    assert reader.ack(held, [2], seq=1)
    assert queue.describe().in_flight == 4


def test_a_straggler_that_outlives_two_rolls_comes_again(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    straggler = reader.take()
    assert reader.extend(straggler, 60)
    for _ in range(2):
        queue.roll()
        queue.publish(3)
        assert reader.ack(reader.take())
        clock.advance(20)
        assert reader.claim().claims == []
    assert reader.ack(straggler, [1])
    clock.advance(20)
    again = reader.take()
    assert (again.offsets, again.attempt) == ((2, 3), 2)
    assert not reader.ack(straggler)
    assert queue.floor() == 2
    assert reader.ack(again)
    assert queue.floor() == 10


def test_what_waits_is_carried_over(queue: Queue, clock: Clock) -> None:
    queue.publish(delays=[5, None, None])
    reader = queue.reader()
    assert reader.nack(reader.take(), [3], delay_s=20)
    for seconds, offsets in ((5, (1,)), (5, (2,)), (10, (3,))):
        queue.roll()
        clock.advance(seconds)
        claim = reader.take()
        assert claim.offsets == offsets
        assert reader.ack(claim)


def test_a_claim_that_expired_before_the_roll_comes_again_after_it(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    reader.take()
    clock.advance(10)
    queue.roll()
    assert reader.take().offsets == (1, 2, 3)


def test_numbers_of_claims_go_on_after_a_roll(queue: Queue) -> None:
    """An old number is never given again: whoever has it cannot settle somebody else's claim."""
    reader = queue.reader()
    numbers = []
    for _ in range(4):
        queue.publish(1)
        claim = reader.take()
        numbers.append(claim.claim_no)
        assert reader.ack(claim)
        queue.roll()
    assert numbers == sorted(set(numbers))


def test_an_ordered_queue_stays_so_over_a_roll(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(2)
    queue.publish(2)
    reader = queue.reader()
    held = reader.take(2)
    queue.roll()
    assert reader.claim().claims == []
    assert reader.ack(held)
    queue.roll()
    assert reader.take().offsets == (3, 4)


def test_a_table_that_is_full_says_so(queue: Queue) -> None:
    queue.sql("select trunkline.queue_alter('t', 'q', '{\"table_bytes\": 65536}')")
    reader = queue.reader()
    is_full = False
    for _ in range(2000):
        queue.publish(1)
        answer = reader.claim()
        is_full = is_full or answer.is_full
        assert reader.ack(answer.claim)
    assert is_full
    assert queue.sql("select trunkline.queue_roll(%s)", [queue.queue_id]) == [(True,)]
    assert queue.move() == 0
    assert queue.sql("select trunkline.queue_drop_old()") == [(1,)]
    assert queue.sql("select trunkline.queue_roll(%s)", [queue.queue_id]) == [(False,)]
    assert queue.floor() == 2001


def test_tables_that_are_in_use_are_not_dropped(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=2)
    assert queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id]) == [(True,)]
    assert queue.sql("select trunkline.queue_drop_old()") == [(0,)], "nobody has moved"
    assert queue.sql("select trunkline.queue_move_parts(%s)", [queue.queue_id]) == [(1,)]
    assert queue.sql("select trunkline.queue_drop_old()") == [(0,)], "one is still there"
    assert queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])[0][0] in (True, False)
    assert queue.move() == 0
    queue.sql("select trunkline.queue_drop_old()")
    assert queue.sql(TABLES) == [(2,)]


def test_the_short_way_finds_nothing_in_tables_that_its_part_has_left(queue: Queue) -> None:
    """A reader that knows the old tables comes after the part has moved, and before they are dropped."""
    queue.publish(5)
    reader = queue.reader()
    assert reader.ack(reader.take(2))
    part_id = reader.part_ids[0]
    ((old,),) = queue.sql(TABLE, [part_id])
    queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])
    assert queue.move() == 0
    given = [part_id, None, None, None, None, 0, 5, "late", True]
    ((is_done, is_more, number, *_),) = queue.sql(STEP.format(old), given)
    assert (is_done, is_more, number) == (None, True, None)
    assert reader.take(5).offsets == (3, 4, 5)


# -- retention --


def test_retention_under_an_open_claim(queue: Queue, clock: Clock) -> None:
    """Whoever holds it may still acknowledge it; what is not, is counted as expired when its deadline has passed."""
    queue.publish(6)
    reader = queue.reader()
    held = reader.take()
    queue.expire_log()
    queue.publish(2)
    assert queue.describe().start == 7
    assert reader.ack(held, [1, 2])
    clock.advance(10)
    answer = reader.claim()
    assert answer.offsets == [7, 8]
    assert queue.describe().expired == 4
    assert not reader.ack(held)
    assert reader.ack(answer.claims[-1])
    assert (queue.floor(), queue.describe().in_flight, queue.describe().waiting) == (9, 0, 0)
    clock.advance(100)
    assert reader.claim().claims == []


def test_retention_before_anybody_has_claimed(queue: Queue) -> None:
    queue.publish(6)
    queue.expire_log()
    queue.publish(2)
    assert queue.describe().expired == 6
    reader = queue.reader()
    got = reader.claim()
    assert (got.offsets or reader.claim().offsets) == [7, 8]
    assert got.claims or got.due_s == 0, "told to look again at once"
    assert queue.describe().expired == 6


@pytest.mark.parametrize("delay_s", [0.0, 5.0])
def test_retention_takes_what_waits(queue: Queue, clock: Clock, delay_s: float) -> None:
    queue.publish(3)
    reader = queue.reader()
    assert reader.nack(reader.take(), delay_s=delay_s)
    queue.expire_log()
    clock.advance(6)
    assert reader.claim().claims == []
    part = queue.describe()
    assert (part.expired, part.waiting, part.floor) == (3, 0, 4)


def test_retention_takes_part_of_a_claim(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    queue.sql("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic where name = 't'")
    queue.publish(3)
    held = reader.take(6)
    assert held.offsets == (1, 2, 3, 4, 5, 6)
    queue.expire_log(roll=False)
    assert queue.describe().start == 4
    clock.advance(10)
    again = reader.take()
    assert (again.offsets, again.attempt) == ((4, 5, 6), 2)
    assert queue.describe().expired == 3


def test_a_call_that_comes_to_tables_that_are_gone_is_tried_again(queue: Queue) -> None:
    """Between looking up the tables and calling them a part may have moved, and the old ones may have been dropped."""
    queue.publish(1)
    with pytest.raises(psycopg.errors.UndefinedFunction) as gone:
        queue.sql("select * from trunkline.claim_999999_ready(0)")
    error = translate(gone.value)
    assert error.retryable
    assert "moved to other tables" in str(error)
