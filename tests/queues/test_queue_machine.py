"""A queue against a model of it, in random order: claim, partial acknowledgement, nack with delay, extension,
expiry, release, crash, new tables, delayed publish, dead letters that are published again, retention."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis
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

from tests.queues.driver import Claim, Clock, Kind, Queue, Reader, Settlement

DEADLINE_S = 10.0
TICK_S = 0.001
"""More than what the server puts between two deadlines so that none is passed over."""

indexes = st.integers(0, 1000)
delays = st.sampled_from([0.0, 1.0, 7.0, 30.0])


@dataclass
class Kept:
    """What the model knows of a record. ``due``: from when it may be handed out, while it is open. ``holder``: the
    claim that has it. ``end``: how it ended."""

    due: float
    tried: int = 0
    holder: Claim | None = None
    is_claimed: bool = False
    end: Kind | None = None

    @property
    def is_open(self) -> bool:
        return self.end is None


@dataclass
class Log:
    """A partition, by offset."""

    records: dict[int, Kept] = field(default_factory=dict)
    start: int = 1

    def open(self) -> dict[int, Kept]:
        """Those that are not done, and not gone."""
        return {o: kept for o, kept in self.records.items() if kept.is_open and o >= self.start}

    def held_by(self, claim: Claim, now: float) -> set[int]:
        held = {o for o, kept in self.records.items() if kept.is_open and kept.holder is claim}
        return held if all(self.records[o].due > now for o in held) else set()


class QueueMachine(RuleBasedStateMachine):
    """One queue. ``pick`` numbers choose among what there is; where there is nothing, nothing is done."""

    url: str
    clock: Clock
    met: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.logs: list[Log] = []
        self.claims: list[Claim] = []
        self.last: Settlement | None = None
        self.buried = 0

    @initialize(
        partitions=st.integers(1, 2),
        max_attempts=st.sampled_from([None, 1, 3]),
        is_ordered=st.booleans(),
        data=st.data(),
    )
    def create(self, partitions: int, max_attempts: int | None, data: st.DataObject, *, is_ordered: bool) -> None:
        self.max_attempts, self.is_ordered = max_attempts, is_ordered
        self.queue = Queue(
            self.url,
            partitions=partitions,
            topic=f"t/{uuid.uuid4().hex[:8]}",
            ack_deadline_s=DEADLINE_S,
            max_attempts=max_attempts,
            dead_letter="dead" if max_attempts else None,
            is_ordered=is_ordered,
        )
        self.reader: Reader = self.queue.reader()
        self.logs = [Log() for _ in range(partitions)]
        for partition in range(partitions):
            self.publish(partition, data.draw(st.lists(st.just(0.0), min_size=3, max_size=6)))

    def teardown(self) -> None:
        if not self.logs:
            return
        try:
            self._finish()
        finally:
            self.queue.sql("select trunkline.topic_delete(%s)", [self.queue.topic])
            self.queue.sql("select trunkline.queue_drop_old()")
            self.queue.close()

    def _finish(self) -> None:
        """Whatever has happened, everything can be brought to an end, and each record has one."""
        for _ in range(200):
            self.advance(DEADLINE_S * 4)
            self.claim(100)
            while self.claims:
                self._end(self.claims.pop())
            if not any(log.open() for log in self.logs):
                break
        self.claim(100)
        for partition, log in enumerate(self.logs):
            part = self.queue.describe(partition)
            assert not log.open()
            assert (part.floor, part.in_flight, part.waiting) == (len(log.records) + 1, 0, 0)
            ended = sum(kept.end is not None for kept in log.records.values())
            assert part.expired == len(log.records) - ended

    def _end(self, claim: Claim) -> None:
        if claim.is_exhausted:
            self._bury(claim)
        else:
            self._settle(claim, "a", None)

    # -- the log and time --

    @rule(pick=indexes, given=st.lists(delays, min_size=1, max_size=6))
    def publish(self, pick: int, given: list[float]) -> None:
        partition = pick % len(self.logs)
        log = self.logs[partition]
        plain = not any(given)
        first = self.queue.publish(len(given), partition=partition, delays=() if plain else [d or None for d in given])
        assert first == len(log.records) + 1
        for offset, delay_s in enumerate(given, first):
            log.records[offset] = Kept(self.now + delay_s)

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.999, DEADLINE_S, 31.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.now += seconds

    @rule(pick=indexes)
    def retain(self, pick: int) -> None:
        """Retention takes everything that was written before; not too often."""
        if pick % 5 == 0:
            self.queue.expire_log()
            for partition, log in enumerate(self.logs):
                log.start = self.queue.describe(partition).start

    @rule()
    def roll(self) -> None:
        assert self.queue.roll() == 0
        # A claim that is done is not carried over, and its last settlement is not known any more.
        self.last = None

    # -- claiming --

    @rule(max_records=st.sampled_from([1, 2, 5, 100]))
    def claim(self, max_records: int) -> None:
        """Whatever comes is to be had, is counted, and is now this claim's alone; nothing comes only where nothing
        is to be had."""
        self._take(max_records)

    def _take(self, max_records: int) -> None:
        while True:
            self.advance(TICK_S)
            answer = self.reader.claim(max_records)
            for claim in answer.claims:
                self._hold(claim)
            self.claims += answer.claims
            if self.max_attempts != 1 and not self.is_ordered:
                assert len(answer.offsets) <= max_records
            if answer.claims or answer.due_s != 0:
                break
            self.met["asked to look again at once"] += 1
        self.met["claims" if answer.claims else "claims of nothing"] += 1
        if not answer.claims:
            assert [self._claimable(log) for log in self.logs] == [[] for _ in self.logs]

    def _claimable(self, log: Log) -> list[int]:
        able = [offset for offset, kept in log.open().items() if kept.due <= self.now - 2 * TICK_S]
        if self.is_ordered:
            first = min(log.open(), default=None)
            return [offset for offset in able if offset == first]
        return able

    def _hold(self, claim: Claim) -> None:
        log = self.logs[claim.partition]
        assert claim.offsets
        tried = {log.records[offset].tried for offset in claim.offsets}
        assert len(tried) == 1, "one attempt is counted for all of a claim"
        limit = self.max_attempts
        (before,) = tried
        assert claim.is_exhausted == (limit is not None and before >= limit)
        assert claim.attempt == (before if claim.is_exhausted else before + 1)
        if claim.attempt == limit and not self.is_ordered:
            assert len(claim.offsets) == 1, "the last attempt is made alone"
        for offset in claim.offsets:
            kept = log.records[offset]
            assert kept.is_open, f"{offset} was done"
            assert kept.due <= self.now + TICK_S / 2, f"{offset} is held, or has to wait"
            kept.due, kept.holder, kept.tried, kept.is_claimed = self.now + DEADLINE_S, claim, claim.attempt, True
        if self.is_ordered:
            assert min(claim.offsets) == min(log.open(), default=0), "nothing is before it"
        self.met["exhausted"] += claim.is_exhausted

    @rule(max_records=st.sampled_from([1, 5]))
    def claim_and_crash(self, max_records: int) -> None:
        """The transaction is not committed: nothing was claimed, and no attempt is counted."""
        self.advance(TICK_S)
        with self.reader.connection.transaction(force_rollback=True):
            self.reader.claim(max_records)

    @precondition(lambda self: self.claims)
    @rule(pick=indexes)
    def die(self, pick: int) -> None:
        """A reader ends with what it holds, and says nothing."""
        self.claims.pop(pick % len(self.claims))

    # -- settling --

    @precondition(lambda self: self.claims)
    @rule(pick=indexes, part=st.sampled_from([0, 1, 2, 3]), kind=st.sampled_from("aaaarn"), delay_s=delays)
    def settle(self, pick: int, part: int, kind: Kind, delay_s: float) -> None:
        """All of it, or every so-manieth. Claims that were lost long ago are settled too."""
        claim = self.claims[pick % len(self.claims)]
        held = sorted(claim.offsets)
        chosen = held[::part] if part else None
        if self.is_ordered and kind != "a":
            chosen = None
        self._settle(claim, kind, chosen, delay_s)

    def _settle(self, claim: Claim, kind: Kind, chosen: list[int] | None, delay_s: float = 0.0) -> bool:
        log = self.logs[claim.partition]
        held = log.held_by(claim, self.now)
        wanted = held if chosen is None else set(chosen)
        is_able = bool(wanted) and wanted <= held
        seq = claim.seq
        given = Settlement(claim, kind, chosen, delay_s)
        is_done = not self.reader.next([given]).lost
        assert is_done == is_able, (kind, chosen, sorted(held))
        self.met[f"{kind} done" if is_done else f"{kind} lost"] += 1
        if not is_done:
            claim.seq = seq
            return False
        self.last = Settlement(claim, kind, chosen, delay_s, seq=seq + 1)
        for offset in wanted:
            self._note(log.records[offset], claim, kind, delay_s)
        return True

    def _note(self, kept: Kept, claim: Claim, kind: Kind, delay_s: float) -> None:
        match kind:
            case "a" | "d" | "j":
                kept.end = kind
            case "e":
                kept.due = self.now + delay_s
            case _:
                kept.holder, kept.due = None, self.now + delay_s
                kept.tried = claim.attempt if kind == "n" else max(claim.attempt - 1, 0)

    @precondition(lambda self: self.claims)
    @rule(pick=indexes, part=st.sampled_from([0, 1, 2]))
    def ack_shortly(self, pick: int, part: int) -> None:
        """By the short way, which does it or leaves it to the other."""
        claim = self.claims[pick % len(self.claims)]
        log = self.logs[claim.partition]
        held = log.held_by(claim, self.now)
        chosen = sorted(claim.offsets)[::part] if part else None
        wanted = held if chosen is None else set(chosen)
        is_able = bool(wanted) and wanted <= held
        seq = claim.seq
        is_done = self.reader.ack_shortly(claim, chosen)
        assert is_done == is_able
        if not is_done:
            claim.seq = seq
            return
        self.last = Settlement(claim, "a", chosen, seq=seq + 1)
        for offset in wanted:
            log.records[offset].end = "a"

    @rule(pick=indexes, max_records=st.sampled_from([1, 5]))
    def claim_shortly(self, pick: int, max_records: int) -> None:
        partition = pick % len(self.logs)
        self.advance(TICK_S)
        _, claim = self.reader.step(None, part_id=self.queue.part_ids[partition], max_records=max_records)
        if claim is not None:
            self.met["claims the short way"] += 1
            assert len(claim.offsets) <= max_records
            self._hold(claim)
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(pick=indexes, delay_s=st.sampled_from([0.5, 20.0]))
    def extend(self, pick: int, delay_s: float) -> None:
        self._settle(self.claims[pick % len(self.claims)], "e", None, delay_s)

    @precondition(lambda self: self.last is not None)
    @rule()
    def settle_the_same_again(self) -> None:
        """Its answer was lost. It is answered as done, and not done again: the model does not change."""
        given = self.last
        assert given is not None
        seq = given.claim.seq
        assert self.reader.next([given]).lost == []
        given.claim.seq = seq

    @precondition(lambda self: self.claims)
    @rule(pick=indexes, kind=st.sampled_from("anred"))
    def settle_and_crash(self, pick: int, kind: Kind) -> None:
        claim = self.claims[pick % len(self.claims)]
        seq = claim.seq
        with self.reader.connection.transaction(force_rollback=True):
            self.reader.settle(claim, kind)
        claim.seq = seq

    @precondition(lambda self: any(claim.is_exhausted for claim in self.claims))
    @rule(pick=indexes)
    def bury(self, pick: int) -> None:
        exhausted = [claim for claim in self.claims if claim.is_exhausted]
        self._bury(exhausted[pick % len(exhausted)])

    def _bury(self, claim: Claim) -> None:
        """The first is a dead letter, the others are released. Now and then somebody publishes it again."""
        first, *others = sorted(claim.offsets)
        if self._settle(claim, "d", [first]):
            self.buried += 1
            if others:
                assert self._settle(claim, "r", None)
            if self.buried % 3 == 1:
                self.publish(claim.partition, [0.0])

    # -- what must hold at any time --

    @invariant()
    def the_queue_is_the_models(self) -> None:
        """The floor passes nothing that is open, and stands as high as it can. What retention took may be open until
        somebody looks."""
        for partition, log in enumerate(self.logs):
            part = self.queue.describe(partition)
            known = [offset for offset, kept in log.records.items() if kept.is_open]
            may_be_gone = [offset for offset in known if offset < log.start]
            first = min((offset for offset in known if offset >= log.start), default=len(log.records) + 1)
            assert part.floor <= first
            assert part.floor >= min([first, part.frontier + 1, *may_be_gone])
            had = [kept for kept in log.open().values() if kept.holder is not None]
            # What has expired may have been put aside already, for whoever comes next.
            held = [kept for kept in had if kept.due > self.now]
            assert len(held) <= part.in_flight <= len(had) + len(may_be_gone)
            assert len(had) <= part.in_flight + part.waiting


@pytest.mark.parametrize(
    ("examples", "steps"), [(15, 30), pytest.param(200, 50, marks=pytest.mark.chaos)], ids=["short", "long"]
)
def test_a_queue_behaves_as_its_model(db_url: str, clock: Clock, seed: int, examples: int, steps: int) -> None:
    """Random sequences of operations, on the queue and on the model; they must agree after every step, and at the end
    every record was acknowledged, buried, or taken by retention. A failure is shrunk to the shortest sequence that
    shows it."""

    @hypothesis.seed(seed)
    class Machine(QueueMachine):
        pass

    Machine.url, Machine.clock, Machine.met = db_url, clock, Counter()
    settings: dict[str, Any] = {"deadline": None, "database": None, "print_blob": True}
    run_state_machine_as_test(
        Machine,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            suppress_health_check=list(hypothesis.HealthCheck),
            **settings,
        ),
    )
    print(dict(Machine.met))
