"""A queue that moves to new tables, and its floor, in forced interleavings."""

from __future__ import annotations

import pytest

from tests.concurrency.sessions import ROLL, WAIT_S, Sessions, wait_until
from tests.mutants.mutants import install_changes
from tests.queues.conftest import MakeQueue
from tests.queues.driver import Clock, Queue
from tests.queues.parties import ACKS, Ack, MakeParty, Party
from trunkline.sql import script

# -- new tables --


@ACKS
def test_a_part_whose_claim_is_being_acknowledged_is_moved_later(queue: Queue, party: MakeParty, ack: Ack) -> None:
    """Nobody waits: neither the one who rolls nor, afterwards, anybody else."""
    queue.publish(2)
    queue.publish(2)
    slow, other = party("slow"), queue.reader("other")
    held = slow.do(lambda: slow.reader.take(2))
    slow.commit()
    assert slow.do(lambda: ack(slow.reader, held))
    assert queue.roll() == 1
    assert other.ack(other.take())
    slow.commit()
    assert queue.move() == 0
    assert queue.floor() == 5
    assert queue.sql("select trunkline.queue_drop_old()") == [(1,)]


@ACKS
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_ack_that_meets_the_move_of_its_part(
    queue: Queue, sessions: Sessions, party: MakeParty, ack: Ack, ending: str
) -> None:
    """It waits, and finds its claim where it is then."""
    queue.publish(2)
    reader, mover = party("reader"), party("mover")
    held = reader.do(reader.reader.take)
    reader.commit()
    queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])
    assert mover.session.run("select trunkline.queue_move_parts(%s)", [queue.queue_id]) == [(0,)]
    waiting = reader.session.do(lambda: ack(reader.reader, held))
    sessions.watcher.wait_blocked(reader.session, mover.session)
    getattr(mover, ending)()
    assert waiting.result(WAIT_S)
    reader.commit()
    assert queue.move() == 0
    queue.sql("select trunkline.queue_drop_old()")
    assert (queue.floor(), queue.describe().in_flight) == (3, 0)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("kind", ["claim", "nack"])
def test_others_that_meet_the_move_of_a_part(
    queue: Queue, sessions: Sessions, party: MakeParty, kind: str, ending: str
) -> None:
    queue.publish(2)
    queue.publish(2)
    reader, mover = party("reader"), party("mover")
    held = reader.do(lambda: reader.reader.take(2))
    reader.commit()
    queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])
    assert mover.session.run("select trunkline.queue_move_parts(%s)", [queue.queue_id]) == [(0,)]
    waiting = reader.session.do(
        lambda: bool(reader.reader.claim(2).claims) if kind == "claim" else reader.reader.nack(held)
    )
    sessions.watcher.wait_blocked(reader.session, mover.session)
    getattr(mover, ending)()
    assert waiting.result(WAIT_S)
    reader.commit()
    part = queue.describe()
    assert (part.in_flight, part.waiting) == ((4, 0) if kind == "claim" else (0, 2))
    assert queue.move() == 0
    assert queue.describe() == part


def test_whoever_moves_parts_and_a_reader_of_two_do_not_wait_for_each_other(
    make_queue: MakeQueue, sessions: Sessions
) -> None:
    """A claim of one part is being acknowledged, so that this part cannot be moved now. Somebody gives back in the
    other part, then in this one. Which part is moved first is chance, so it is done again and again."""
    queue = make_queue(partitions=2, ack_deadline_s=60.0)
    slow, giver, mover = (Party(queue, sessions, name) for name in ("slow", "giver", "mover"))
    for _ in range(6):
        queue.publish(1, partition=0)
        queue.publish(1, partition=0)
        queue.publish(1, partition=1)
        claims = [slow.do(lambda: slow.reader.take(1)) for _ in range(3)]
        slow.commit()
        acked, given = (claim for claim in claims if claim.partition == 0)
        (other,) = (claim for claim in claims if claim.partition == 1)
        slow.do(lambda acked=acked: slow.reader.ack(acked))  # type: ignore[misc]
        giver.do(lambda other=other: giver.reader.nack(other, delay_s=50))  # type: ignore[misc]
        queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])
        moved = mover.session.do(lambda: _move_and_commit(mover))
        wait_until(
            lambda moved=moved: moved.done() or sessions.watcher.blocked_by(mover.session, giver.session),  # type: ignore[misc]
            "the mover is done, or waits",
        )
        assert giver.do(lambda given=given: giver.reader.nack(given, delay_s=50))  # type: ignore[misc]
        giver.commit()
        assert moved.result(WAIT_S) in (1, 2)
        slow.commit()
        assert queue.move() == 0
        queue.sql("select trunkline.queue_drop_old()")
    assert (queue.describe(0).waiting, queue.describe(1).waiting) == (6, 6)


def _move_and_commit(mover: Party) -> int:
    row = mover.session.connection.execute("select trunkline.queue_move_parts(%s)", [mover.reader.queue_id]).fetchone()
    mover.session.connection.commit()
    assert row is not None
    return int(row[0])


# -- the floor --


def test_the_floor_does_not_pass_what_is_taken_over_while_somebody_asks(
    queue: Queue, clock: Clock, sessions: Sessions, party: MakeParty
) -> None:
    """Whoever describes the queue is stopped between two looks, and meanwhile a claim is taken over by another."""
    stop = "begin perform pg_advisory_xact_lock_shared(77, 77);"
    install_changes(queue.url, [("queue_open_claims", "begin", stop)])
    try:
        queue.publish(2)
        reader = queue.reader()
        reader.take()
        clock.advance(10)
        gate, watcher = party("gate"), party("watcher")
        gate.session.run("select pg_advisory_xact_lock(77, 77)")
        asked = watcher.session.start("select floor from trunkline.queue_describe('t', 'q')")
        sessions.watcher.wait_blocked(watcher.session, gate.session)
        assert reader.take().offsets == (1, 2)
        gate.commit()
        assert asked.result(WAIT_S) == [(1,)]
    finally:
        restored = script.functions()["queue_open_claims"].replace("create function", "create or replace function", 1)
        queue.sql(restored)


@pytest.mark.parametrize("asks", ["queue_describe", "retention_release"])
def test_the_floor_does_not_pass_what_moves_to_other_tables_while_somebody_asks(
    queue: Queue, sessions: Sessions, party: MakeParty, asks: str
) -> None:
    """Whoever asks knows the tables, and is stopped before he looks into them; meanwhile the part moves to others."""
    looks = "execute format('select s.frontier"
    install_changes(queue.url, [("queue_positions", looks, f"perform pg_advisory_xact_lock_shared(77, 77); {looks}")])
    try:
        queue.publish(5)
        queue.reader().take(2)
        ((segment_id,),) = queue.sql(
            "select open_segment_id from trunkline.topic where topic_id = %s", [queue.topic_id]
        )
        queue.sql("select trunkline.topic_alter('t', '{\"retention_consumed\": true, \"retention_age_s\": 86400}')")
        queue.sql(ROLL, [queue.topic_id])
        queue.sql("select trunkline.segment_seal(%s)", [segment_id])
        queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id])
        gate, watcher = party("gate"), party("watcher")
        gate.session.run("select pg_advisory_xact_lock(77, 77)")
        question = {
            "queue_describe": "select floor from trunkline.queue_describe('t', 'q')",
            "retention_release": f"select reason from trunkline.retention_release({queue.topic_id})",
        }
        asked = watcher.session.start(question[asks])
        sessions.watcher.wait_blocked(watcher.session, gate.session)
        assert queue.move() == 0
        gate.commit()
        assert asked.result(WAIT_S) == {"queue_describe": [(1,)], "retention_release": []}[asks]
        watcher.commit()
    finally:
        restored = script.functions()["queue_positions"].replace("create function", "create or replace function", 1)
        queue.sql(restored)


def test_whoever_describes_a_queue_whose_old_tables_go_meanwhile_looks_at_the_new_ones(
    queue: Queue, sessions: Sessions, party: MakeParty
) -> None:
    looks = "execute format('select s.frontier"
    install_changes(queue.url, [("queue_positions", looks, f"perform pg_advisory_xact_lock_shared(77, 77); {looks}")])
    try:
        queue.publish(5)
        queue.reader().take(2)
        gate, watcher = party("gate"), party("watcher")
        gate.session.run("select pg_advisory_xact_lock(77, 77)")
        asked = watcher.session.start("select floor, frontier from trunkline.queue_describe('t', 'q')")
        sessions.watcher.wait_blocked(watcher.session, gate.session)
        assert queue.roll() == 0
        gate.commit()
        assert asked.result(WAIT_S) == [(1, 2)]
        watcher.commit()
    finally:
        restored = script.functions()["queue_positions"].replace("create function", "create or replace function", 1)
        queue.sql(restored)
