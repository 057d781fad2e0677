"""Claims of a queue in plain SQL: who gets what, for how long, and what comes again."""

from __future__ import annotations

import psycopg
import pytest

from tests.queues.conftest import MakeQueue
from tests.queues.driver import Claim, Clock, Queue

HAS_XID = "select pg_current_xact_id_if_assigned() is not null"


def test_claims_never_overlap_and_leave_nothing_out(queue: Queue) -> None:
    for count in (1, 2, 3, 4):
        queue.publish(count)
    first, second = queue.reader("a").claim(3), queue.reader("b").claim(100)
    assert first.offsets == [1, 2, 3]
    assert second.offsets == [4, 5, 6, 7, 8, 9, 10]
    assert queue.reader("c").claim().claims == []
    assert queue.describe().in_flight == 10


def test_a_claim_ends_with_a_batch_where_it_has_one(queue: Queue) -> None:
    """Of batches of 3, 3 and 3, four records are one whole batch; of a batch that is larger, they are its beginning."""
    for count in (3, 3, 9):
        queue.publish(count)
    reader = queue.reader()
    assert reader.take(4).offsets == (1, 2, 3)
    assert reader.take(3).offsets == (4, 5, 6)
    assert reader.take(4).offsets == (7, 8, 9, 10)
    assert reader.take(4).offsets == (11, 12, 13, 14)
    assert reader.take(4).offsets == (15,)


@pytest.mark.parametrize("batch", [1, 5, 30])
def test_what_comes_along_is_what_stands_in_the_log(queue: Queue, batch: int) -> None:
    payloads = [b"%d" % number for number in range(1, 181)]
    for at in range(0, 180, batch):
        queue.append([*payloads[at : at + batch]])
    reader = queue.reader()
    got: dict[int, bytes] = {}
    while claims := reader.claim(30).claims:
        for claim in claims:
            assert set(claim.payloads) == set(claim.offsets)
            got |= claim.payloads
    assert got == dict(enumerate(payloads, 1))


def test_a_part_of_a_batch_does_not_come_along(queue: Queue) -> None:
    queue.append([b"x", b"y", b"z"])
    reader = queue.reader()
    first = reader.take(2)
    assert (first.offsets, first.payloads) == ((1, 2), {})
    is_done, rest = reader.step(first, max_records=10)
    assert is_done
    assert rest is not None
    assert (rest.offsets, rest.payloads) == ((3,), {})


def test_what_is_large_does_not_come_along(queue: Queue) -> None:
    queue.append([b"x" * 70_000])
    claim = queue.reader().take()
    assert (claim.offsets, claim.payloads) == ((1,), {})


def test_a_call_claims_from_several_parts_up_to_its_limit(make_queue: MakeQueue, clock: Clock) -> None:
    """Time stands still: parts that nobody has claimed from for a while come before that in which it begins."""
    queue = make_queue(partitions=3)
    for partition in range(3):
        queue.publish(4, partition=partition)
    reader = queue.reader()
    first = reader.claim(8, start_part=queue.part_ids[1])
    assert [(claim.partition, claim.offsets) for claim in first.claims] == [(1, (1, 2, 3, 4)), (2, (1, 2, 3, 4))]
    assert [(claim.partition, claim.offsets) for claim in reader.claim(8).claims] == [(0, (1, 2, 3, 4))]


def test_bytes_bound_a_claim(queue: Queue) -> None:
    for _ in range(4):
        queue.append([b"x" * 1000] * 10)
    assert len(queue.reader().take(100, bytes_max=15_000).offsets) in (10, 20)


def test_two_queues_of_a_topic_know_nothing_of_each_other(queue: Queue) -> None:
    queue.publish(2)
    other_id, other_parts = queue.enter("other")
    reader = queue.reader()
    claim = reader.take()
    other = queue.reader("other")
    other.queue_id, other.part_ids = other_id, other_parts
    assert other.take().offsets == (1, 2)
    assert not other.ack(claim), "of another queue"
    claim.seq = 0
    assert reader.ack(claim)


def test_a_queue_may_begin_at_the_end(queue: Queue) -> None:
    queue.publish(3)
    latest = queue.reader()
    latest.queue_id, latest.part_ids = queue.enter("late", start="latest")
    queue.publish(2)
    assert latest.take().offsets == (4, 5)
    assert queue.describe(name="late").floor == 4


def test_a_partition_that_is_added_is_read_from_its_start(queue: Queue) -> None:
    queue.sql("select trunkline.topic_add_partitions('t', 2)")
    queue.publish(2, partition=1)
    reader = queue.reader()
    assert reader.claim().claims == []
    queue.enter()
    assert [(claim.partition, claim.offsets) for claim in reader.claim().claims] == [(1, (1, 2))]


# -- order --


def test_an_ordered_queue_hands_out_one_range_at_a_time(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    for _ in range(3):
        queue.publish(3)
    a, b = queue.reader("a"), queue.reader("b")
    claim = a.take(3)
    assert b.claim().claims == []
    assert a.ack(claim, [1, 2])
    assert b.claim().claims == []
    clock.advance(10)
    again = b.claim(3)
    assert again.offsets[0] == 3
    assert a.claim().claims == []
    for each in again.claims:
        assert b.ack(each)
    assert a.claim(100).offsets[0] == again.offsets[-1] + 1


def test_an_ordered_queue_gives_back_everything_from_there_on(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(5)
    reader = queue.reader()
    claim = reader.take()
    assert reader.ack(claim, [1, 2])
    assert reader.nack(claim, [3], delay_s=5)
    assert not reader.ack(claim, [4]), "given back, with what stands before it"
    queue.publish(1)
    assert reader.claim().claims == []
    clock.advance(5)
    assert reader.ack(again := reader.take())
    assert (again.offsets, again.attempt) == ((3,), 2)
    assert reader.take().offsets == (4, 5, 6)


def test_an_ordered_queue_gives_back_all_that_remains_of_a_range(make_queue: MakeQueue) -> None:
    """A reader gives back the third of five before it has said anything of the second: nothing passes another."""
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(5)
    a, b = queue.reader("a"), queue.reader("b")
    claim = a.take()
    assert a.ack(claim, [1])
    assert a.nack(claim, [3])
    assert not a.ack(claim, [2])
    again = b.take()
    assert (again.offsets, again.attempt) == ((2, 3), 2)
    assert b.claim().claims == []
    assert b.ack(again)
    rest = b.take()
    assert (rest.offsets, rest.attempt) == ((4, 5), 1)


def test_in_an_ordered_queue_what_was_done_is_not_delivered_again_with_what_is_given_back(
    make_queue: MakeQueue,
) -> None:
    """What is behind is not unclaimed where something behind it is done: it all comes again together."""
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(5)
    reader = queue.reader()
    claim = reader.take()
    assert reader.ack(claim, [4])
    assert reader.nack(claim, [1])
    again = reader.take()
    assert (again.offsets, again.attempt) == ((1, 2, 3, 5), 2)
    assert reader.ack(again)
    assert queue.floor() == 6


def test_in_an_ordered_queue_attempts_are_those_of_the_record(make_queue: MakeQueue) -> None:
    """What stood behind a record that failed was not tried."""
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True, max_attempts=3, dead_letter="t")
    queue.publish(3)
    reader = queue.reader()
    seen = []
    while not (claim := reader.take()).is_exhausted:
        seen.append((claim.offsets[0], claim.attempt))
        assert reader.nack(claim, claim.offsets[:1])
    assert seen == [(1, 1), (1, 2), (1, 3)]
    assert claim.offsets == (1,)
    assert reader.settle(claim, "d")
    claim = reader.take()
    assert (claim.offsets, claim.attempt) == ((2, 3), 1)


def test_an_ordered_queue_keeps_what_was_handed_out_when_the_rest_is_released(
    make_queue: MakeQueue, clock: Clock
) -> None:
    """As a reader does that ends with a record in its hands: that one comes after its deadline, as tried."""
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.release(claim, [2, 3])
    assert reader.claim().claims == []
    assert (queue.describe().in_flight, queue.floor()) == (1, 1)
    clock.advance(10)
    assert ((again := reader.take()).offsets, again.attempt) == ((1,), 2)
    assert reader.claim().claims == []
    assert not reader.ack(claim, [1])
    assert reader.ack(again)
    assert ((rest := reader.take()).offsets, rest.attempt) == ((2, 3), 1)


@pytest.mark.parametrize("open_", ["held", "waiting"])
def test_a_queue_becomes_ordered_when_nothing_of_it_is_open(queue: Queue, open_: str) -> None:
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take(1)
    if open_ == "waiting":
        assert reader.nack(claim)
    alter = "select trunkline.queue_alter('t', 'q', '{\"is_ordered\": true}')"
    with pytest.raises(psycopg.Error, match="held, or wait") as refused:
        queue.sql(alter)
    assert refused.value.sqlstate == "TL014"
    assert reader.ack(claim if open_ == "held" else reader.take(1))
    queue.sql(alter)
    assert reader.take(1).offsets == (2,)
    assert queue.reader("other").claim().claims == []


def test_in_an_ordered_queue_a_delayed_record_holds_back_what_follows(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(ack_deadline_s=10.0, is_ordered=True)
    queue.publish(delays=[None, 5, None])
    reader = queue.reader()
    claim = reader.take()
    assert claim.offsets == (1,)
    assert reader.ack(claim)
    answer = reader.claim()
    assert (answer.claims, answer.due_s) == ([], 5)
    clock.advance(5)
    assert reader.take().offsets == (2, 3)


# -- pause --


def test_a_queue_that_is_paused_hands_out_nothing_and_settles(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take(2)
    queue.sql("select trunkline.queue_pause('t', 'q', 'lunch')")
    assert reader.claim().claims == []
    assert reader.ack(claim, [1])
    clock.advance(10)
    assert reader.claim().claims == []
    assert queue.sql("select trunkline.queue_resume('t', 'q')") == [(True,)]
    assert [each.offsets for each in reader.claim().claims] == [(2,), (3,)]


@pytest.mark.parametrize(("failures", "is_paused"), [(50, False), (51, True)])
def test_a_queue_pauses_where_too_much_fails(
    make_queue: MakeQueue, clock: Clock, failures: int, *, is_paused: bool
) -> None:
    queue = make_queue(ack_deadline_s=10.0, pause_above=0.5)
    queue.publish(101)
    reader = queue.reader()
    claim = reader.take(100)
    assert reader.ack(claim, range(failures + 1, 101))
    clock.advance(1)
    assert reader.nack(claim, delay_s=5)
    assert [paused for (paused,) in queue.sql("select paused_at is not null from trunkline.queue")] == [is_paused]
    assert bool(reader.claim().claims) is not is_paused


def test_a_queue_pauses_where_deadlines_pass_and_nobody_says_a_word(make_queue: MakeQueue, clock: Clock) -> None:
    """Readers that die do not give anything back: who takes over notices."""
    queue = make_queue(ack_deadline_s=10.0, pause_above=0.5)
    queue.publish(101)
    reader = queue.reader()
    reader.take(100)
    clock.advance(10)
    assert len(reader.claim(200).offsets) == 101
    ((is_paused, reason),) = queue.sql("select paused_at is not null, pause_reason from trunkline.queue")
    assert is_paused
    assert reason == "100 of the last 100 deliveries failed"
    assert reader.claim().claims == []


# -- what it costs, and who may --


@pytest.mark.direct("asks whether this session has a transaction id")
def test_a_call_that_finds_nothing_writes_nothing(queue: Queue, still_server: None) -> None:
    """After everything that was due has been looked at once: no transaction id, no WAL."""
    queue.publish(3)
    reader = queue.reader()
    assert reader.ack(reader.take())
    reader.claim()
    with reader.connection.transaction():
        for _ in range(3):
            assert reader.claim().claims == []
            assert reader.connection.execute(HAS_XID).fetchone() == (False,)
    queue.sql("checkpoint")
    ((before,),) = queue.sql("select pg_current_wal_insert_lsn()")
    for _ in range(20):
        reader.claim()
    ((after,),) = queue.sql("select pg_current_wal_insert_lsn()")
    assert after == before


@pytest.mark.direct("asks whether this session has a transaction id")
def test_a_call_that_finds_nothing_due_yet_writes_nothing(queue: Queue) -> None:
    queue.publish(3)
    reader = queue.reader()
    assert reader.nack(reader.take(), delay_s=1000)
    reader.claim()
    with reader.connection.transaction():
        assert reader.claim().claims == []
        assert reader.connection.execute(HAS_XID).fetchone() == (False,)


@pytest.mark.parametrize(
    ("role", "may"), [("trunkline_consumer", True), ("trunkline_producer", False), ("pg_read_all_data", False)]
)
def test_who_may_read_a_queue(queue: Queue, role: str, *, may: bool) -> None:
    queue.publish(1)
    reader = queue.reader()
    with reader.connection.transaction(force_rollback=True):
        reader.connection.execute(f"set local role {role}".encode())
        if may:
            assert reader.ack(reader.take())
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.take()


def test_nobody_may_call_the_functions_that_need_a_lock(queue: Queue) -> None:
    ((number,),) = queue.sql("select table_no from trunkline.queue_part")
    found = queue.sql(
        "select p.proname from pg_proc p where p.pronamespace = 'trunkline'::regnamespace"
        " and p.proname like %s and (has_function_privilege('trunkline_consumer', p.oid, 'execute')"
        " or has_function_privilege('pg_read_all_data', p.oid, 'execute')) and p.proname <> %s",
        [f"claim_{number}%", f"claim_{number}_step"],
    )
    assert found == []


def test_by_the_short_way_what_is_done_is_passed_and_what_is_open_comes_in_time(queue: Queue, clock: Clock) -> None:
    """Claims that are done need no look when they are due; one that is open among them gets its look at its deadline,
    not when the newest one is due."""
    for _ in range(6):
        queue.publish(1)
    busy, dead = queue.reader("busy"), queue.reader("dead")
    held: Claim | None = busy.take(1)
    clock.advance(4)
    left = dead.take(1)
    # At 12 the first claim is due, and done; the other reader's is due at 14, and the newest later.
    for seconds in (4, 4, 1):
        clock.advance(seconds)
        is_done, held = busy.step(held, max_records=1)
        assert is_done
        assert held is not None
    clock.advance(1)
    assert busy.step(held, max_records=1) == (True, None)
    again = busy.take(1)
    assert (again.offsets, again.attempt) == (left.offsets, 2)


def test_by_the_short_way_a_reader_acknowledges_what_is_not_the_newest_claim(queue: Queue) -> None:
    for _ in range(5):
        queue.publish(1)
    one, other = queue.reader("one"), queue.reader("other")
    first, second = one.take(1), other.take(1)
    is_done, third = one.step(first, max_records=1)
    assert is_done
    assert third is not None
    is_done, fourth = other.step(second, max_records=1)
    assert is_done
    assert fourth is not None
    assert (third.offsets, fourth.offsets) == ((3,), (4,))
    # What is settled already is not done again, and nothing is claimed by the way.
    assert one.step(first, max_records=1) == (False, None)
    assert queue.describe().in_flight == 2
