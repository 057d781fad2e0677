"""The log against a model of it, in random order: publish, abort, retry, several partitions, roll, seal, retention,
time, reads of every kind, altering, adding partitions, deleting and making again."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
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
from tests.concurrency.model import Given, PartitionModel, TopicModel
from tests.concurrency.sessions import APPEND, append_parameters
from trunkline.client.sync.client import Client
from trunkline.engine.routing import partition_of_key
from trunkline.errors import KeyOrderAtRisk, NotFound, OffsetOutOfRange
from trunkline.records import Message, PinnedPosition, Position, Record

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CLOCK = (
    "create table public.test_clock (at timestamptz)",
    (
        "create or replace function trunkline.clock_now() returns timestamptz language sql volatile parallel safe"
        " as $$ select at from public.test_clock $$"
    ),
)
PRODUCERS = [str(uuid.UUID(int=number)) for number in (1, 2)]

payloads = st.binary(max_size=40)
keys = st.none() | st.sampled_from([b"", b"a", b"b", b"\x00\xff", b"long" * 50])
header_pairs = st.lists(st.tuples(st.sampled_from(["h", "i", "é"]), st.binary(max_size=5)), max_size=3)
given_records = st.builds(Given, payloads, keys, st.just(()) | header_pairs.map(tuple))
some_records = st.lists(given_records, min_size=1, max_size=5)
indexes = st.integers(0, 1000)


class LogMachine(RuleBasedStateMachine):
    """One topic at a time. ``pick`` numbers choose among what there is."""

    tl: Client
    sql: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.clock = NOON
        self.model: TopicModel
        self.name = f"t/{uuid.uuid4().hex[:8]}"

    # -- topics --

    @initialize(partitions=st.integers(1, 3))
    def create(self, partitions: int) -> None:
        self._set_clock(NOON)
        topic = self.tl.create_topic(self.name, partitions=partitions)
        self.topic_id = topic.topic_id
        self.model = TopicModel([PartitionModel() for _ in range(partitions)], [topic.open_segment_id])
        self.pins: list[PinnedPosition] = []

    def teardown(self) -> None:
        self.sql.rollback()
        if hasattr(self, "model"):
            self.tl.delete_topic(self.name)

    @rule(partitions=st.integers(1, 3))
    def delete_and_make_again(self, partitions: int) -> None:
        pinned = self.tl.pin(self.name, 0, self.model.partitions[0].end)
        self.tl.delete_topic(self.name)
        self.create(partitions)
        with pytest.raises(NotFound):
            self.tl.check(pinned)

    @precondition(lambda self: len(self.model.partitions) < 6)
    @rule(more=st.integers(1, 2), break_key_order=st.booleans())
    def add_partitions(self, more: int, *, break_key_order: bool) -> None:
        count = len(self.model.partitions) + more
        if self.model.is_keyed and not break_key_order:
            with pytest.raises(KeyOrderAtRisk):
                self.tl.add_partitions(self.name, count)
            return
        topic = self.tl.add_partitions(self.name, count, break_key_order=break_key_order)
        self.model.partitions += [PartitionModel() for _ in range(more)]
        self.model.segments.append(topic.open_segment_id)

    @rule(age_s=st.none() | st.integers(1, 500), everything=st.booleans())
    def alter(self, age_s: int | None, *, everything: bool) -> None:
        limit = 0 if everything else None
        self.tl.alter_topic(self.name, retention_age_s=age_s, retention_bytes=limit)
        self.model.retention_age_s, self.model.retention_bytes = age_s, limit

    # -- publishing --

    @rule(record=given_records, pick=st.none() | indexes)
    def publish(self, record: Given, pick: int | None) -> None:
        """Through the client: by key, to a partition, or to any."""
        partition = None if pick is None else pick % len(self.model.partitions)
        at = self.tl.publish(self.name, record.payload, key=record.key, headers=record.headers, partition=partition)
        self._expect([at], [record], [partition])

    @rule(records=st.lists(st.tuples(given_records, st.none() | indexes), max_size=8))
    def publish_many(self, records: list[tuple[Given, int | None]]) -> None:
        """Through the client: one transaction over the partitions of all of them."""
        count = len(self.model.partitions)
        chosen = [None if pick is None else pick % count for _, pick in records]
        messages = [
            Message(record.payload, record.key, record.headers, partition)
            for (record, _), partition in zip(records, chosen, strict=True)
        ]
        at = self.tl.publish_many(self.name, messages)
        self._expect(at, [record for record, _ in records], chosen)

    def _expect(self, places: list[Position], records: list[Given], chosen: list[int | None]) -> None:
        """The places are the next ones of their partitions, and the partitions the right ones."""
        anywhere: set[int] = set()
        by_partition: dict[int, list[Given]] = {}
        for at, record, partition in zip(places, records, chosen, strict=True):
            if partition is not None:
                assert at.partition == partition
            elif record.key is not None:
                assert at.partition == partition_of_key(record.key, len(self.model.partitions))
            else:
                anywhere.add(at.partition)
            pending = by_partition.setdefault(at.partition, [])
            assert at.offset == self.model.partitions[at.partition].end + len(pending)
            pending.append(record)
        assert len(anywhere) <= 1, "records without a key stay together in a batch"
        for number, given in by_partition.items():
            self.model.append(number, given, self.clock)

    @rule(pick=indexes, payload=payloads)
    def publish_in_sql(self, pick: int, payload: bytes) -> None:
        partition = pick % len(self.model.partitions)
        row = self.sql.execute(
            "select * from trunkline.log_publish(%s, %s, partition => %s)", [self.name, payload, partition]
        ).fetchone()
        self.sql.commit()
        assert row == (partition, self.model.append(partition, [Given(payload)], self.clock))

    @rule(
        batches=st.lists(st.dictionaries(indexes, some_records, min_size=1, max_size=3), min_size=1, max_size=3),
        end=st.sampled_from(["commit", "commit", "rollback", "savepoint"]),
    )
    def transaction(self, batches: list[dict[int, list[Given]]], end: str) -> None:
        """Several appends in one transaction of a caller: committed, rolled back, or back to a savepoint at the end."""
        ends = [partition.end for partition in self.model.partitions]
        kept = [list(partition.records) for partition in self.model.partitions]
        for number, batch in enumerate(batches):
            if end == "savepoint" and number == len(batches) - 1:
                kept = [list(partition.records) for partition in self.model.partitions]
                self.sql.execute("savepoint s")
            self._append(batch)
        assert [held.end for held in self.tl.offsets(self.name)] == ends, "nothing is visible before the commit"
        if end == "savepoint":
            self.sql.execute("rollback to savepoint s")
        if end == "rollback":
            self.sql.rollback()
        else:
            self.sql.commit()
        if end != "commit":
            for partition, records in zip(self.model.partitions, kept, strict=True):
                partition.records = records

    def _append(self, batch: dict[int, list[Given]], **numbered: Any) -> list[int]:
        """Append in the open transaction, to the model too, and compare; headers are left to the client's rules."""
        count = len(self.model.partitions)
        records: dict[int, list[Given]] = {}
        for pick, given in batch.items():
            records.setdefault(pick % count, []).extend(given)
        ordered = dict(sorted(records.items()))
        flat = [record for given in ordered.values() for record in given]
        keyed = [record.key for record in flat] if any(record.key is not None for record in flat) else None
        parameters = append_parameters(
            self.topic_id,
            {number: [record.payload for record in given] for number, given in ordered.items()},
            keys=keyed,
            **numbered,
        )
        row = self.sql.execute(APPEND, parameters).fetchone()
        plain = {n: [Given(record.payload, record.key) for record in given] for n, given in ordered.items()}
        firsts = [self.model.append(number, given, self.clock) for number, given in plain.items()]
        assert row == (firsts,)
        return firsts

    # -- numbered producers --

    @rule(producer=st.sampled_from(PRODUCERS), pick=indexes, records=some_records)
    def publish_numbered(self, producer: str, pick: int, records: list[Given]) -> None:
        partition = self.model.partitions[pick % len(self.model.partitions)]
        sequence = partition.last_sequence.get(producer, 0) + 1
        (first,) = self._append({pick: records}, producer=producer, epoch=0, sequences=[sequence])
        self.sql.commit()
        partition.last_sequence[producer] = sequence
        partition.numbered[producer, sequence] = (first, len(records))

    @precondition(lambda self: any(partition.numbered for partition in self.model.partitions))
    @rule(pick=indexes, back=st.sampled_from([0, 0, 1, 2]))
    def retry(self, pick: int, back: int) -> None:
        """The last sequence is answered with its offset, wherever its segment is by now; an older one too, or it is
        refused as too old. Nothing is written."""
        last = [
            (number, producer, sequence)
            for number, partition in enumerate(self.model.partitions)
            for producer, sequence in partition.last_sequence.items()
        ]
        number, producer, newest = last[pick % len(last)]
        sequence = newest - back
        if sequence < 1:
            return
        first, size = self.model.partitions[number].numbered[producer, sequence]
        parameters = append_parameters(
            self.topic_id, {number: [b"again"] * size}, producer=producer, epoch=0, sequences=[sequence]
        )
        try:
            row = self.sql.execute(APPEND, parameters).fetchone()
        except psycopg.Error as error:
            self.sql.rollback()
            if back == 0 or error.sqlstate != "TL008":
                raise
        else:
            self.sql.commit()
            assert row == ([first],)

    @rule(producer=st.sampled_from(PRODUCERS), pick=indexes, ahead=st.integers(2, 5))
    def skip_a_sequence(self, producer: str, pick: int, ahead: int) -> None:
        number = pick % len(self.model.partitions)
        last = self.model.partitions[number].last_sequence.get(producer, 0)
        parameters = append_parameters(
            self.topic_id, {number: [b"gap"]}, producer=producer, epoch=0, sequences=[last + ahead]
        )
        with pytest.raises(psycopg.Error) as refused:
            self.sql.execute(APPEND, parameters)
        self.sql.rollback()
        assert refused.value.sqlstate == ("TL008" if last else "TL009")

    # -- segments, retention, time --

    @rule()
    def roll(self) -> None:
        ((opened,),) = self._ask("select trunkline.segment_roll(%s, true)", self.model.open_segment)
        assert opened not in self.model.segments
        self.model.segments.append(opened)

    @rule(pick=indexes)
    def seal(self, pick: int) -> None:
        """Any segment, in any order: the open one and those that are sealed already stay as they are."""
        segment = self.model.segments[pick % len(self.model.segments)]
        if segment in self.model.released:
            return
        expected = segment != self.model.open_segment and segment not in self.model.sealed
        assert self._ask("select trunkline.segment_seal(%s)", segment) == [(expected,)]
        if expected:
            self.model.sealed[segment] = self.clock

    @rule()
    def roll_and_seal(self) -> None:
        """As maintenance does it."""
        self.roll()
        self.seal(len(self.model.segments) - 2)

    @rule(drop=st.booleans())
    def release(self, *, drop: bool) -> None:
        due = self.model.due(self.clock)
        released = self._ask("select segment_id from trunkline.retention_release(%s)", self.topic_id)
        assert [segment for (segment,) in released] == due
        self.model.released += due
        for segment in due if drop else ():
            assert self._ask("select trunkline.segment_drop(%s)", segment) == [(True,)]

    @rule(seconds=st.integers(-100, 300))
    def clock_steps(self, seconds: int) -> None:
        """Forwards or backwards."""
        self._set_clock(self.clock + timedelta(seconds=seconds))

    # -- reading --

    @rule(pick=indexes, at=st.integers(-2, 3) | st.floats(0, 1), limit=st.integers(1, 12))
    def read(self, pick: int, at: float, limit: int) -> None:
        """From an offset inside the log, or around its ends."""
        number = pick % len(self.model.partitions)
        start, end = self.model.start(number), self.model.partitions[number].end
        offset = int(start + at * (end - start)) if isinstance(at, float) else (end if at >= 0 else start) + at
        if not start <= offset <= end:
            with pytest.raises(OffsetOutOfRange) as outside:
                self.tl.read(self.name, partition=number, offset=offset)
            assert (outside.value.start, outside.value.end) == (start, end)
            return
        records = self.tl.read(self.name, partition=number, offset=offset, max_records=limit)
        assert _shown(records) == self.model.held(number, offset)[:limit]
        batches = self.tl.read_batches(self.name, partition=number, offset=offset, max_records=limit)
        whole = [record for batch in batches for record in batch]
        assert len(records) <= len([record for record in whole if record.offset >= offset])
        assert _shown(whole) == self.model.held(number, whole[0].offset if whole else end)[: len(whole)]

    @rule(pick=indexes, seconds=st.integers(-400, 3000))
    def read_by_time(self, pick: int, seconds: int) -> None:
        number = pick % len(self.model.partitions)
        time = NOON + timedelta(seconds=seconds)
        expected = self.model.offset_at(number, time)
        assert self.tl.offset_at(self.name, number, time) == expected
        records = self.tl.read(self.name, partition=number, since=time, max_records=10_000)
        assert _shown(records) == self.model.held(number, expected)

    @rule(pick=indexes, limit=st.integers(1, 20))
    def read_in_sql(self, pick: int, limit: int) -> None:
        number = pick % len(self.model.partitions)
        rows = self._ask(
            "select r.offset, r.payload, r.key, r.header_names, r.header_values"
            " from trunkline.records(%s, %s, null, %s) r",
            self.name,
            number,
            limit,
        )
        shown = [
            (offset, Given(payload, key, tuple(zip(names or (), values or (), strict=True))))
            for offset, payload, key, names, values in rows
        ]
        assert shown == self.model.held(number, self.model.start(number))[:limit]

    @rule(pick=indexes, back=st.integers(0, 5))
    def pin(self, pick: int, back: int) -> None:
        number = pick % len(self.model.partitions)
        start, end = self.model.start(number), self.model.partitions[number].end
        self.pins.append(self.tl.pin(self.name, number, max(start, end - back)))

    @rule(pick=indexes)
    def check(self, pick: int) -> None:
        """A position that was kept outside is in order until retention has passed it."""
        if self.pins:
            pinned = self.pins[pick % len(self.pins)]
            if pinned.offset < self.model.start(pinned.partition):
                with pytest.raises(OffsetOutOfRange):
                    self.tl.check(pinned)
            else:
                self.tl.check(pinned)

    @invariant()
    def the_log_is_the_models(self) -> None:
        """Every partition holds what the model holds, with its times."""
        for held in self.tl.offsets(self.name):
            number = held.partition
            partition = self.model.partitions[number]
            assert (held.start, held.end) == (self.model.start(number), partition.end)
            records = self.tl.read(self.name, partition=number, max_records=10_000)
            assert _shown(records) == self.model.held(number, held.start)
            times = [kept.append_time for kept in partition.records[held.start - 1 :]]
            assert [record.append_time for record in records] == times

    def _ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        rows = self.sql.execute(statement, parameters).fetchall()
        self.sql.commit()
        return rows

    def _set_clock(self, clock: datetime) -> None:
        self.clock = clock
        self.sql.execute("update public.test_clock set at = %s", [clock])
        self.sql.commit()


def _shown(records: list[Record]) -> list[tuple[int, Given]]:
    return [(record.offset, Given(record.payload, record.key, record.headers)) for record in records]


@pytest.mark.parametrize(
    ("examples", "steps"), [(25, 25), pytest.param(200, 50, marks=pytest.mark.chaos)], ids=["short", "long"]
)
def test_the_log_behaves_as_its_model(make_database: Callable[[], str], seed: int, examples: int, steps: int) -> None:
    """Random sequences of operations, on the log and on the model; they must agree after every step. A failure is
    shrunk to the shortest sequence that shows it."""
    url = make_database()
    with trunkline.connect(url) as tl, psycopg.connect(url) as connection:
        for statement in CLOCK:
            connection.execute(statement)
        connection.execute("insert into public.test_clock values (%s)", [NOON])
        connection.commit()

        @hypothesis.seed(seed)
        class Machine(LogMachine):
            pass

        Machine.tl, Machine.sql = tl, connection
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
