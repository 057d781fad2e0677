"""Settlements of claims in plain SQL: what is done, what is refused, and that a refusal disturbs nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.queues.conftest import MakeQueue
from tests.queues.driver import NEXT, Claim, Clock, Kind, Queue, Reader, Settlement

KINDS: list[Kind] = ["a", "n", "r", "d", "j", "e"]


def _sqlstate(reader: Reader, settlements: list[Settlement], max_records: int = 0, **others: Any) -> str | None:
    with pytest.raises(psycopg.Error) as raised:
        reader.next(settlements, max_records, **others)
    return raised.value.sqlstate


def test_records_are_acknowledged_one_by_one_in_any_order(queue: Queue) -> None:
    queue.publish(4)
    reader = queue.reader()
    claim = reader.take()
    floors = []
    for offset in (3, 1, 4, 2):
        assert reader.ack(claim, [offset])
        floors.append(queue.floor())
    assert floors == [1, 2, 2, 5]
    assert queue.describe().in_flight == 0


def test_settlements_of_one_call_may_be_of_several_claims_and_kinds(make_queue: MakeQueue, clock: Clock) -> None:
    queue = make_queue(partitions=2, ack_deadline_s=10.0)
    queue.publish(4, partition=0)
    queue.publish(4, partition=1)
    reader = queue.reader()
    one, two = reader.claim().claims
    answer = reader.next(
        [
            Settlement(one, "a", [1, 2]),
            Settlement(two, "n", [4], delay_s=5),
            Settlement(one, "r", [4]),
            Settlement(two, "d", [1]),
            Settlement(two, "j", [2]),
            Settlement(one, "e", delay_s=60),
        ],
        100,
    )
    assert answer.lost == []
    assert [(claim.partition, claim.offsets, claim.attempt) for claim in answer.claims] == [(0, (4,), 1)]
    assert [queue.floor(0), queue.floor(1)] == [3, 3]
    clock.advance(20)
    again = reader.claim()
    assert {(claim.partition, claim.offsets, claim.attempt) for claim in again.claims} == {
        (0, (4,), 2),
        (1, (3,), 2),
        (1, (4,), 2),
    }
    assert reader.ack(one)


# -- what is refused --


def _wrong_token(claim: Claim) -> Settlement:
    return Settlement(replace(claim, token=claim.token ^ 1))


def _no_token(claim: Claim) -> Settlement:
    return Settlement(replace(claim, token=None))  # type: ignore[arg-type]


def _no_such_claim(claim: Claim) -> Settlement:
    return Settlement(replace(claim, claim_no=claim.claim_no + 1000))


def _no_such_part(claim: Claim) -> Settlement:
    return Settlement(replace(claim, part_id=claim.part_id + 1000))


def _not_held(claim: Claim) -> Settlement:
    return Settlement(claim, "a", [1, 99])


def _nothing(claim: Claim) -> Settlement:
    return Settlement(claim, "a", [])


def _leap(claim: Claim) -> Settlement:
    return Settlement(claim, "a", [1], seq=claim.seq + 2)


@pytest.mark.parametrize(
    "wrong",
    [_wrong_token, _no_token, _no_such_claim, _no_such_part, _not_held, _nothing, _leap],
    ids=lambda f: f.__name__,
)
def test_a_settlement_that_is_wrong_is_lost_and_disturbs_no_other(queue: Queue, wrong: Any) -> None:
    queue.publish(3)
    queue.publish(3)
    reader = queue.reader()
    claim, other = reader.take(3), reader.take(3)
    given = wrong(claim)
    seq = claim.seq
    answer = reader.next([Settlement(other, "a", [4]), given, Settlement(other, "a", [5])])
    assert answer.lost == [1]
    claim.seq = seq
    assert (queue.floor(), queue.describe().in_flight) == (1, 4)
    assert reader.ack(claim)
    assert reader.ack(other)
    assert queue.floor() == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_past_its_deadline_is_lost_even_where_nobody_took_it(queue: Queue, clock: Clock, kind: Kind) -> None:
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take()
    clock.advance(10)
    assert not reader.settle(claim, kind)
    assert queue.floor() == 1
    assert reader.take().offsets == (1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_claim_that_was_taken_over_is_lost(queue: Queue, clock: Clock, kind: Kind) -> None:
    queue.publish(2)
    a, b = queue.reader("a"), queue.reader("b")
    late = a.take()
    clock.advance(10)
    heir = b.take()
    for seq in (1, 2):
        assert not a.settle(late, kind, seq=seq)
    assert queue.describe().in_flight == 2
    assert b.ack(heir)
    assert queue.floor() == 3


@pytest.mark.parametrize("kind", ["a", "n", "r", "d", "j"])
def test_what_was_settled_cannot_be_settled_otherwise(queue: Queue, clock: Clock, kind: Kind) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.settle(claim, kind, [2], delay_s=100)
    for other in KINDS[:-1]:
        seq = claim.seq
        assert not reader.settle(claim, other, [2])
        claim.seq = seq
    assert reader.ack(claim, [1, 3])


def test_part_of_what_is_named_is_not_held_so_nothing_is_settled(queue: Queue) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.ack(claim, [1])
    assert not reader.ack(claim, [1, 2])
    claim.seq -= 1
    assert queue.floor() == 2
    assert reader.ack(claim, [2, 3])


# -- the same again --


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_settlement_again_is_answered_as_done_and_is_done_once(queue: Queue, clock: Clock, kind: Kind) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.settle(claim, kind, None if kind == "e" else [2], delay_s=5)
    before = queue.describe()
    for _ in range(2):
        assert reader.settle(claim, kind, None if kind == "e" else [2], delay_s=5, seq=1)
    assert queue.describe() == before
    if kind in ("n", "r"):
        clock.advance(5)
        assert reader.take().offsets == (2,)


@pytest.mark.parametrize("moves", [False, True], ids=["here", "after a roll"])
@pytest.mark.parametrize("kind", ["a", "n", "r", "d", "j"])
def test_another_settlement_under_the_same_number_is_not_called_done(queue: Queue, kind: Kind, *, moves: bool) -> None:
    """The answer to the first was lost, and the reader has gone on as if nothing had been done."""
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.settle(claim, kind, [1], seq=1)
    if moves:
        queue.roll()
    assert not reader.settle(claim, kind, [2], seq=1)
    assert not reader.settle(claim, kind, seq=1), "all that it holds"
    assert reader.settle(claim, kind, [1], seq=1), "the same again"
    assert reader.ack(claim, [2, 3], seq=2)


def test_the_same_again_is_answered_even_after_the_deadline(queue: Queue, clock: Clock) -> None:
    queue.publish(3)
    reader = queue.reader()
    claim = reader.take()
    assert reader.ack(claim, [1])
    clock.advance(10)
    assert reader.take().offsets == (2, 3)
    assert reader.ack(claim, [1], seq=1)
    assert not reader.ack(claim, [2], seq=2)


def test_the_same_again_after_a_rollback_is_done(queue: Queue) -> None:
    queue.publish(1)
    reader = queue.reader()
    claim = reader.take()
    with reader.connection.transaction(force_rollback=True):
        assert reader.ack(claim)
    assert queue.floor() == 1
    assert reader.ack(claim, seq=1)
    assert queue.floor() == 2


def test_a_claim_that_was_rolled_back_was_never_made(queue: Queue) -> None:
    queue.publish(2)
    reader = queue.reader()
    with reader.connection.transaction(force_rollback=True):
        claim = reader.take()
    again = reader.take()
    assert (again.offsets, again.attempt) == ((1, 2), 1)
    assert not reader.ack(claim)
    assert reader.ack(again)


# -- bad input --


@pytest.mark.parametrize(
    "wrong",
    [
        {"seqs": [1, 2]},
        {"seqs": []},
        {"seqs": None},
        {"seqs": [None]},
        {"kinds": ["x"]},
        {"kinds": [None]},
        {"kinds": []},
        {"offsets": []},
        {"offsets": ["{[1,2)}", None]},
        {"delays": []},
        {"tokens": []},
        {"tokens": None},
        {"part_ids": [None]},
        {"part_ids": []},
        {"max_records": -1},
        {"max_records": None},
        {"max_records": 10_001},
        {"max_records": 1, "bytes_max": 0},
        {"max_records": 1, "bytes_max": None},
        {"kinds": ["n"], "delays": [-1.0]},
        {"kinds": ["n"], "delays": [float("nan")]},
        {"kinds": ["n"], "delays": [float("inf")]},
        {"kinds": ["n"], "delays": [None]},
        {"kinds": ["n"], "delays": [1e10]},
        {"kinds": ["e"], "delays": [-1.0]},
        {"kinds": ["e"], "delays": [86_401.0]},
        {"offsets": ["5"]},
        {"offsets": ["{[2,1)}"]},
    ],
    ids=str,
)
def test_bad_arrays_are_refused_and_nothing_is_written(queue: Queue, wrong: dict[str, Any]) -> None:
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take()
    assert _sqlstate(reader, [Settlement(claim)], **wrong) in ("TL001", "22P02", "22000")
    assert queue.describe().in_flight == 2
    assert reader.ack(claim, seq=1)


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_an_older_snapshot_is_refused(queue: Queue, level: psycopg.IsolationLevel) -> None:
    queue.publish(1)
    reader = queue.reader()
    claim = reader.take()
    reader.connection.isolation_level = level
    with reader.connection.transaction():
        assert _sqlstate(reader, [], 1) == "TL001"
    with reader.connection.transaction():
        assert _sqlstate(reader, [Settlement(claim)]) == "TL001"


def test_a_transaction_that_is_read_only_is_refused(queue: Queue) -> None:
    queue.publish(1)
    reader = queue.reader()
    reader.connection.read_only = True
    with reader.connection.transaction():
        assert _sqlstate(reader, [], 1) == "25006"


def test_an_acknowledgement_is_flushed_whatever_the_session_wants(queue: Queue) -> None:
    queue.publish(1)
    reader = queue.reader()
    claim = reader.take()
    reader.connection.execute("set synchronous_commit = off")
    with reader.connection.transaction():
        assert reader.ack(claim)
        assert reader.connection.execute("show synchronous_commit").fetchone() == ("on",)


# -- the queue or its topic goes --


@pytest.mark.parametrize("settles", [False, True], ids=["a claim", "an ack and a claim"])
def test_only_a_claim_alone_is_not_flushed(queue: Queue, *, settles: bool) -> None:
    """Both in one query without parameters, as psql sends it: a transaction of its own."""
    queue.publish(1)
    queue.publish(1)
    reader = queue.reader()
    settlements = [Settlement(reader.take(1))] if settles else []
    with psycopg.ClientCursor(reader.connection) as cursor:
        cursor.execute(f"{NEXT}; show synchronous_commit", reader.parameters(settlements, 1))
        cursor.nextset()
        assert cursor.fetchone() == ("on" if settles else "off",)
    assert queue.describe().in_flight == 1


def test_a_queue_that_was_deleted_says_so(queue: Queue) -> None:
    queue.publish(1)
    reader = queue.reader()
    claim = reader.take()
    queue.sql("select trunkline.queue_delete('t', 'q')")
    assert _sqlstate(reader, [], 1) == "TL002"
    assert _sqlstate(reader, [Settlement(claim)]) == "TL002"
    assert queue.sql("select trunkline.queue_drop_old()") == [(1,)]


def test_a_topic_that_was_deleted_takes_its_queues_along(queue: Queue) -> None:
    queue.publish(1)
    reader = queue.reader()
    claim = reader.take()
    queue.sql("select trunkline.topic_delete('t')")
    assert _sqlstate(reader, [Settlement(claim)], 1) == "TL002"
    assert queue.sql("select trunkline.queue_drop_old()") == [(1,)]
    left = "select count(*) from pg_class where relname ~ '^(claim|closure)_[0-9]'"
    assert queue.sql(left) == [(0,)]


def test_a_queue_that_is_made_again_knows_no_old_claims(queue: Queue) -> None:
    queue.publish(2)
    reader = queue.reader()
    claim = reader.take()
    queue.sql("select trunkline.queue_delete('t', 'q')")
    reader.queue_id, reader.part_ids = queue.enter()
    assert not reader.ack(claim)
    assert reader.take().offsets == (1, 2)
