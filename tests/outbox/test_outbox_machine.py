"""One connection that publishes, against a model of it, in random order: publish to partitions of two topics,
savepoint, rollback to, release, set constraints, failures, rollback, commit; others publish meanwhile."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import trunkline
from tests.checker.outbox_history import Where
from tests.outbox.applications import read_from
from tests.outbox.model import Model, Shown
from trunkline import Message, PendingPosition, TopicSettings
from trunkline.client.sync.client import Client
from trunkline.errors import InvalidArgument

ROLL = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic where name = %s"
IS_LEFT = "select exists (select from trunkline.outbox_stage)"

places = st.integers(0, 4)
"""Two partitions of the first topic, three of the second."""
indexes = st.integers(0, 1000)


class OutboxMachine(RuleBasedStateMachine):
    """``pick`` numbers choose among what there is."""

    tl: Client
    conn: psycopg.Connection[Any]
    other: psycopg.Connection[Any]
    sql: psycopg.Connection[Any]
    met: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.pending: list[PendingPosition] = []
        self.topic_ids: dict[str, int] = {}
        self.names = [f"{kind}/{uuid.uuid4().hex[:8]}" for kind in ("a", "b")]
        self.numbers = count(1)

    @initialize(records_max=st.sampled_from([6, 10_000]))
    def create(self, records_max: int) -> None:
        settings = TopicSettings(batch_records_max=records_max)
        for name, partitions in zip(self.names, (2, 3), strict=True):
            self.topic_ids[name] = self.tl.create_topic(name, partitions=partitions, settings=settings).topic_id

    def teardown(self) -> None:
        self.conn.rollback()
        for name in self.topic_ids:
            self.tl.delete_topic(name)

    def _where(self, place: int) -> Where:
        return (self.names[0], place) if place < 2 else (self.names[1], place - 2)

    def _payload(self) -> bytes:
        return b"%d" % next(self.numbers)

    # -- the connection --

    @precondition(lambda self: not self.model.has_failed)
    @rule(place=places)
    def publish(self, place: int) -> None:
        topic, partition = self._where(place)
        payload = self._payload()
        at = self.tl.publish(topic, payload, partition=partition, conn=self.conn)
        assert (at.topic, at.partition) == (topic, partition)
        self.pending.append(at)
        self.model.begin().publish((topic, partition), payload)

    @precondition(lambda self: not self.model.has_failed)
    @rule(chosen=st.lists(places, min_size=1, max_size=6), is_first=st.booleans())
    def publish_many(self, chosen: Sequence[int], is_first: bool) -> None:
        """A few records to partitions of one topic in any order; each partition keeps its own."""
        topic = self.names[0 if is_first else 1]
        partitions = [place % (2 if is_first else 3) for place in chosen]
        messages = [Message(self._payload(), partition=partition) for partition in partitions]
        pending = self.tl.publish_many(topic, messages, conn=self.conn)
        assert [(at.topic, at.partition) for at in pending] == [(topic, partition) for partition in partitions]
        self.pending += pending
        transaction = self.model.begin()
        for message, partition in zip(messages, partitions, strict=True):
            transaction.publish((topic, partition), message.body)

    @precondition(lambda self: not self.model.has_failed and len(self.model.savepoints) < 4)
    @rule()
    def savepoint(self) -> None:
        self.conn.execute(b"savepoint s%d" % len(self.model.savepoints))
        self.model.savepoint()

    @precondition(lambda self: self.model.savepoints)
    @rule(pick=indexes)
    def rollback_to(self, pick: int) -> None:
        index = pick % len(self.model.savepoints)
        self.conn.execute(b"rollback to s%d" % index)
        self.model.rollback_to(index)

    @precondition(lambda self: self.model.savepoints and not self.model.has_failed)
    @rule(pick=indexes)
    def release(self, pick: int) -> None:
        index = pick % len(self.model.savepoints)
        self.conn.execute(b"release s%d" % index)
        self.model.release(index)

    @precondition(lambda self: not self.model.has_failed)
    @rule()
    def fire(self) -> None:
        """What was put down is appended now, and what follows at once."""
        self.conn.execute("set constraints all immediate")
        transaction = self.model.begin()
        transaction.is_immediate = True
        transaction.fire()
        self.met["fired"] += 1

    @precondition(lambda self: not self.model.has_failed)
    @rule()
    def defer(self) -> None:
        self.conn.execute("set constraints all deferred")
        self.model.begin().is_immediate = False

    @precondition(lambda self: self.model.open is not None and not self.model.has_failed)
    @rule()
    def fail(self) -> None:
        """A statement fails: nothing can be published until the transaction, or a part of it, is rolled back."""
        with pytest.raises(psycopg.errors.DivisionByZero):
            self.conn.execute("select 1 / 0")
        self.model.has_failed = True
        with pytest.raises(InvalidArgument, match="failed already"):
            self.tl.publish(self.names[0], b"refused", partition=0, conn=self.conn)

    @precondition(lambda self: self.model.open is not None)
    @rule()
    def commit(self) -> None:
        self.met["commits that failed before" if self.model.has_failed else "commits"] += 1
        self.conn.commit()
        self._end(is_kept=True)

    @precondition(lambda self: self.model.open is not None)
    @rule()
    def rollback(self) -> None:
        self.conn.rollback()
        self._end(is_kept=False)

    def _end(self, *, is_kept: bool) -> None:
        assert len({at.transaction_id for at in self.pending}) <= 1
        self.pending = []
        self.model.end(is_kept=is_kept)

    # -- others --

    @rule(place=places, is_outbox=st.booleans())
    def others_publish(self, place: int, is_outbox: bool) -> None:
        """They wait only for partitions to which the connection has appended already."""
        topic, partition = where = self._where(place)
        if where in self.model.locked:
            self.met["left out: locked"] += 1
            return
        payload = self._payload()
        self.tl.publish(topic, payload, partition=partition, conn=self.other if is_outbox else None)
        self.other.commit()
        self.model.append({where: [payload]})

    @precondition(lambda self: not self.model.locked)
    @rule(is_first=st.booleans())
    def roll(self, is_first: bool) -> None:
        self.sql.execute(ROLL, [self.names[0 if is_first else 1]])

    # -- what must hold at any time --

    @invariant()
    def the_log_is_the_models(self) -> None:
        """Every partition holds what the model holds, in transactions that are told apart by their ids; the last record
        of each tells how many it has there."""
        numbers: dict[int, int] = {}
        for topic, topic_id in self.topic_ids.items():
            for partition in range(2 if topic == self.names[0] else 3):
                found = read_from(self.sql, topic_id, topic, partition, 1)
                assert [each.offset for each in found] == list(range(1, len(found) + 1))
                shown: list[Shown] = []
                counts: dict[int, tuple[int, int]] = {}
                expected = self.model.log[topic, partition]
                for each, (_, number, _) in zip(found, expected, strict=False):
                    shown.append((each.payload, numbers.setdefault(each.transaction_id, number), each.ordinal))
                    counts[each.transaction_id] = (each.count, each.ordinal + 1)
                assert shown + [(each.payload, 0, 0) for each in found[len(shown) :]] == expected
                assert all(told == counted for told, counted in counts.values())
        assert len(set(numbers.values())) == len(numbers)

    @invariant()
    def nobody_sees_the_stage(self) -> None:
        assert self.sql.execute(IS_LEFT).fetchone() == (False,)


@pytest.mark.parametrize(
    ("examples", "steps"), [(25, 30), pytest.param(300, 60, marks=pytest.mark.chaos)], ids=["short", "long"]
)
def test_a_connection_that_publishes_behaves_as_its_model(db_url: str, seed: int, examples: int, steps: int) -> None:
    """Random sequences of operations, on a connection and on the model; the log must be the model's after every step. A
    failure is shrunk to the shortest sequence that shows it."""
    with (
        trunkline.connect(db_url) as tl,
        psycopg.connect(db_url) as conn,
        psycopg.connect(db_url) as other,
        psycopg.connect(db_url, autocommit=True) as connection,
    ):

        @hypothesis.seed(seed)
        class Machine(OutboxMachine):
            pass

        Machine.tl, Machine.conn, Machine.other, Machine.sql, Machine.met = tl, conn, other, connection, Counter()
        run_state_machine_as_test(
            Machine,
            settings=hypothesis.settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                print_blob=True,
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )
        print(dict(Machine.met))
