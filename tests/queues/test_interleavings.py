"""Readers that meet, in orders that are forced: only one wins, nobody waits who need not, nothing is held by two."""

from __future__ import annotations

import pytest

from tests.concurrency.sessions import WAIT_S, Sessions, wait_until
from tests.queues.conftest import MakeQueue
from tests.queues.driver import Answer, Clock, Queue, Settlement
from tests.queues.parties import ACKS, Ack, MakeParty, Party

# -- an acknowledgement meets a take-over --


@ACKS
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_ack_that_is_under_way_at_the_deadline_wins_if_it_commits(
    queue: Queue, clock: Clock, party: MakeParty, ack: Ack, ending: str
) -> None:
    """It came in time, and its transaction goes on past the deadline. Others do not wait for it, and do not take it."""
    queue.publish(3)
    slow, other = party("slow"), queue.reader("other")
    claim = slow.do(slow.reader.take)
    slow.commit()
    clock.advance(9)
    assert slow.do(lambda: ack(slow.reader, claim))
    clock.advance(1)
    answer = other.claim()
    assert answer.claims == []
    assert answer.due_s is not None
    assert 0 < answer.due_s <= 1, "it is looked at again soon"
    getattr(slow, ending)()
    clock.advance(1)
    if ending == "commit":
        assert other.claim().claims == []
        assert queue.floor() == 4
    else:
        assert other.take().offsets == (1, 2, 3)
        assert not slow.do(lambda: ack(slow.reader, claim))


@ACKS
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_ack_that_meets_a_take_over_is_refused(
    queue: Queue, clock: Clock, sessions: Sessions, party: MakeParty, ack: Ack, ending: str
) -> None:
    """The take-over is not committed yet: the late one waits to know. Even where it comes to nothing, the deadline has
    passed."""
    queue.publish(3)
    late, heir = party("late"), party("heir")
    claim = late.do(late.reader.take)
    late.commit()
    clock.advance(10)
    again = heir.do(heir.reader.take)
    waiting = late.session.do(lambda: ack(late.reader, claim))
    sessions.watcher.wait_blocked(late.session, heir.session)
    getattr(heir, ending)()
    assert waiting.result(WAIT_S) is False
    late.commit()
    if ending == "commit":
        assert heir.do(lambda: heir.reader.ack(again))
        heir.commit()
        assert queue.floor() == 4
    else:
        assert queue.reader().take().offsets == (1, 2, 3)


@ACKS
def test_a_partial_ack_in_a_long_transaction_keeps_the_rest_until_it_ends(
    queue: Queue, clock: Clock, party: MakeParty, ack: Ack
) -> None:
    queue.publish(3)
    slow, other = party("slow"), queue.reader("other")
    claim = slow.do(slow.reader.take)
    slow.commit()
    assert slow.do(lambda: slow.reader.ack(claim, [2]))
    for _ in range(3):
        clock.advance(10)
        assert other.claim().claims == []
    slow.commit()
    clock.advance(1)
    again = other.take()
    assert (again.offsets, again.attempt) == ((1, 3), 2)
    assert not slow.do(lambda: ack(slow.reader, claim))


# -- a long transaction --


@ACKS
def test_nobody_waits_for_an_ack_that_is_held_open(queue: Queue, clock: Clock, party: MakeParty, ack: Ack) -> None:
    """An application acknowledges in its own transaction, which takes long. Others claim, acknowledge, give back and
    extend meanwhile, in the same part."""
    for _ in range(4):
        queue.publish(2)
    slow, other = party("slow"), queue.reader("other")
    held = slow.do(lambda: slow.reader.take(2))
    slow.commit()
    assert slow.do(lambda: ack(slow.reader, held))
    one, two, three = (other.take(2) for _ in range(3))
    assert {*one.offsets, *two.offsets, *three.offsets} == {3, 4, 5, 6, 7, 8}
    assert other.ack(one)
    assert other.nack(two)
    assert other.extend(three, 60)
    assert other.take().offsets == two.offsets
    assert queue.floor() == 1
    slow.commit()
    assert queue.floor() == 5


# -- one part --


@pytest.mark.parametrize(("ending", "offsets"), [("commit", (3, 4)), ("rollback", (1, 2))])
def test_two_claimers_on_one_partition(
    queue: Queue, sessions: Sessions, party: MakeParty, ending: str, offsets: tuple[int, ...]
) -> None:
    """The second waits for the first, as there is nothing else to be had, and sees what it has left."""
    queue.publish(2)
    queue.publish(2)
    first, second = party("first"), party("second")
    assert first.do(lambda: first.reader.take(2)).offsets == (1, 2)
    waiting = second.session.do(lambda: second.reader.take(2))
    sessions.watcher.wait_blocked(second.session, first.session)
    getattr(first, ending)()
    assert waiting.result(WAIT_S).offsets == offsets


def test_a_claimer_goes_elsewhere_before_it_waits(make_queue: MakeQueue, sessions: Sessions) -> None:
    queue = make_queue(partitions=2)
    queue.publish(2, partition=0)
    queue.publish(2, partition=1)
    first, second = Party(queue, sessions, "first"), Party(queue, sessions, "second")
    assert first.do(lambda: first.reader.take(2)).partition == 0
    assert second.do(lambda: second.reader.take(2)).partition == 1


@pytest.mark.parametrize(("ending", "got"), [("commit", [((1, 2), 2), ((3, 4), 1)]), ("rollback", [((3, 4), 1)])])
def test_a_nack_meets_a_claim(
    queue: Queue, sessions: Sessions, party: MakeParty, ending: str, got: list[tuple[tuple[int, ...], int]]
) -> None:
    """A claimer that finds the part locked by somebody who gives back gets what was given back."""
    queue.publish(2)
    queue.publish(2)
    giver, taker = party("giver"), party("taker")
    claim = giver.do(lambda: giver.reader.take(2))
    giver.commit()
    assert giver.do(lambda: giver.reader.nack(claim))
    waiting = taker.session.do(taker.reader.claim)
    sessions.watcher.wait_blocked(taker.session, giver.session)
    getattr(giver, ending)()
    assert [(each.offsets, each.attempt) for each in waiting.result(WAIT_S).claims] == got


def test_a_nack_waits_for_a_claim_and_is_not_passed_over(
    queue: Queue, clock: Clock, sessions: Sessions, party: MakeParty
) -> None:
    """Whoever claims has looked at all that was due up to now. What is given back now must not be due before that."""
    queue.publish(2)
    queue.publish(2)
    giver, taker = party("giver"), party("taker")
    claim = giver.do(lambda: giver.reader.take(2))
    giver.commit()
    assert taker.do(lambda: taker.reader.take(2)).offsets == (3, 4)
    waiting = giver.session.do(lambda: giver.reader.nack(claim, delay_s=5))
    sessions.watcher.wait_blocked(giver.session, taker.session)
    taker.commit()
    assert waiting.result(WAIT_S)
    giver.commit()
    clock.advance(5)
    assert queue.reader().take().offsets == (1, 2)


def test_two_who_give_back_in_different_parts_and_claim_do_not_wait_for_each_other(
    make_queue: MakeQueue, sessions: Sessions
) -> None:
    """Each gives back in one part and then looks for records in all of them, in one call. Others hold their claims
    for a moment, so that both have locked their parts before either looks."""
    queue = make_queue(partitions=2, ack_deadline_s=60.0)
    queue.publish(1, partition=0)
    queue.publish(1, partition=1)
    names = ("a", "b")
    parties = [Party(queue, sessions, name) for name in names]
    holders = [Party(queue, sessions, f"holder of {name}'s") for name in names]
    claims = [each.do(lambda each=each: each.reader.take(1)) for each in parties]  # type: ignore[misc]
    for each in parties:
        each.commit()
    assert {claim.partition for claim in claims} == {0, 1}
    for holder, claim in zip(holders, claims, strict=True):
        holder.session.run("select trunkline.lock_claim(%s, %s)", [claim.part_id, claim.claim_no])
    answers = []
    for each, holder, claim in zip(parties, holders, claims, strict=True):
        given = [Settlement(claim, "n", delay_s=30)]
        answers.append(each.session.do(lambda each=each, given=given: _next_and_commit(each, given)))  # type: ignore[misc]
        sessions.watcher.wait_blocked(each.session, holder.session)
    holders[0].rollback()
    wait_until(
        lambda: answers[0].done() or sessions.watcher.blocked_by(parties[0].session, parties[1].session),
        "the first looks for records",
    )
    holders[1].rollback()
    assert [answer.result(WAIT_S).lost for answer in answers] == [[], []]


def test_two_who_hold_a_part_and_find_nothing_there_do_not_wait_for_each_other(
    make_queue: MakeQueue, clock: Clock, sessions: Sessions
) -> None:
    """In each part a claim has expired, and cannot be taken over yet, as it is being acknowledged. Two readers give
    back in one part each, and look for records in both. Neither waits, and both are told to look again at once."""
    queue = make_queue(partitions=2, ack_deadline_s=10.0)
    a, b, slow = (Party(queue, sessions, name) for name in ("a", "b", "slow"))
    for partition in (0, 1):
        queue.publish(1, partition=partition)
    expired = slow.do(lambda: slow.reader.claim(2)).claims
    slow.commit()
    clock.advance(5)
    for partition in (0, 1):
        queue.publish(1, partition=partition)
    held = {claim.partition: claim for claim in queue.reader().claim(2).claims}
    for claim in expired:
        assert slow.do(lambda claim=claim: slow.reader.ack(claim))  # type: ignore[misc]
    clock.advance(5)
    for party, partition in ((a, 0), (b, 1)):
        claim = held[partition]
        assert party.do(lambda party=party, claim=claim: party.reader.nack(claim, delay_s=60))  # type: ignore[misc]
    answers = [party.do(party.reader.claim) for party in (a, b)]
    assert [(answer.claims, answer.due_s) for answer in answers] == [([], 0), ([], 0)]


def _next_and_commit(party: Party, given: list[Settlement]) -> Answer:
    answer = party.reader.next(given, 10)
    party.session.connection.commit()
    return answer


# -- whoever changes a queue --


CHANGES = (
    "select trunkline.queue_pause('t', 'q')",
    "select trunkline.queue_resume('t', 'q')",
    "select trunkline.queue_alter('t', 'q', '{\"max_attempts\": 3}')",
)


@pytest.mark.parametrize("change", CHANGES, ids=["pause", "resume", "alter"])
def test_a_change_and_a_deletion_do_not_wait_for_each_other(
    queue: Queue, sessions: Sessions, party: MakeParty, change: str
) -> None:
    """The deletion has the queue's lock and has not deleted it yet."""
    queue.sql(CHANGES[0])
    deleting, changing = party("deleting"), party("changing")
    deleting.session.run("select trunkline.queue_forget(%s)", [queue.queue_id])
    asked = changing.session.start(change)
    sessions.watcher.wait_blocked(changing.session, deleting.session)
    deleting.session.run("select trunkline.queue_delete('t', 'q')")
    deleting.commit()
    asked.result(WAIT_S)
    changing.commit()
    assert queue.sql("select count(*) from trunkline.queue") == [(0,)]


def test_old_tables_are_left_alone_while_somebody_changes_the_queue(queue: Queue, party: MakeParty) -> None:
    assert queue.sql("select trunkline.queue_roll(%s, true)", [queue.queue_id]) == [(True,)]
    assert queue.move() == 0
    changing = party("changing")
    changing.session.run("select trunkline.queue_pause('t', 'q')")
    assert queue.sql("select trunkline.queue_drop_old()") == [(0,)]
    changing.commit()
    assert queue.sql("select trunkline.queue_drop_old()") == [(1,)]


def test_a_part_that_cannot_move_makes_no_more_tables(make_queue: MakeQueue, sessions: Sessions) -> None:
    queue = make_queue(partitions=2, ack_deadline_s=60.0)
    queue.publish(1, partition=0)
    slow = Party(queue, sessions, "slow")
    held = slow.do(slow.reader.take)
    slow.commit()
    assert slow.do(lambda: slow.reader.ack(held))
    tables = "select table_no from trunkline.queue_table order by 1"
    assert queue.roll() == 1
    old, new = queue.sql(tables)
    assert queue.roll() == 1
    assert queue.sql(tables) == [old, new]
    slow.commit()
    assert queue.roll() == 0
    assert queue.sql(tables) == [new]
