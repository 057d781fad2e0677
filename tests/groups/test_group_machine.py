"""A group against a model of it, in random order: join, leave, crash, poll, commit, partial commit, seek, admin seek,
pause, resume, publish, adding partitions, retention."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from itertools import chain
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
from tests.concurrency.sessions import wait_until
from tests.groups.model import Hold, Log, MemberModel
from trunkline import ClientSettings, Message, Position, Record, TopicSettings
from trunkline.client.sync.client import Client
from trunkline.errors import Fenced, NotFound, OffsetOutOfRange
from trunkline.records import GroupPartition

PATIENT = ClientSettings(heartbeat_s=0.05, session_timeout_s=60, connections_max=1)
"""Who is dead is known by the end of a session, and not by a time-out: a slow machine kills nobody."""
ROLL = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic where name = %s"

indexes = st.integers(0, 1000)
shares = st.floats(0, 1)


class GroupMachine(RuleBasedStateMachine):
    """One topic and one group. ``pick`` numbers choose among what there is; where there is nothing, nothing is done."""

    url: str
    tl: Client
    sql: psycopg.Connection[Any]
    met: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.topic = self.group = f"t/{uuid.uuid4().hex[:8]}"
        self.logs: list[Log] = []
        self.members: list[MemberModel] = []

    @initialize(partitions=st.integers(1, 3), records=st.integers(0, 10), members=st.integers(0, 3))
    def create(self, partitions: int, records: int, members: int) -> None:
        self.tl.create_topic(self.topic, partitions=partitions, settings=TopicSettings(retention_bytes=0))
        self.tl.create_group(self.group, self.topic)
        self.logs = [Log() for _ in range(partitions)]
        for number in range(records):
            self.publish(number, 3)
        for _ in range(members):
            self.join()

    def teardown(self) -> None:
        if not self.logs:
            return
        try:
            self._read_everything()
        finally:
            for member in self.members:
                member.consumer.close()
                member.client.close()
            self.tl.delete_group(self.group)
            self.tl.delete_topic(self.topic)

    def _read_everything(self) -> None:
        """Whatever has happened, the group can be read to its end."""
        if not self.members:
            self.join()
        self.settle_down()
        for member in self.members:
            for partition in list(member.paused):
                self._set_paused(member, partition, is_paused=False)
        self._until(self._has_read, "the group has read everything")

    def _has_read(self) -> bool:
        for index, _ in enumerate(self.members):
            self.poll(index, 100)
            self.commit(index)
        return all(log.cursor == log.end for log in self.logs)

    # -- the log --

    @rule(pick=indexes, count=st.integers(1, 6))
    def publish(self, pick: int, count: int) -> None:
        partition = pick % len(self.logs)
        log = self.logs[partition]
        messages = [Message(b"%d:%d" % (partition, log.end + n), partition=partition) for n in range(count)]
        self.tl.publish_many(self.topic, messages)
        log.end += count

    @precondition(lambda self: len(self.logs) < 5)
    @rule()
    def add_partition(self) -> None:
        self.tl.add_partitions(self.topic, len(self.logs) + 1)
        # Until a member has seen it, the group has no cursor there.
        for member in self.members or [self._joined()]:
            self._until(partial(self._reads_all, member), "the group reads the added partition")
        self.logs.append(Log())
        for member in self.members:
            member.learn(self.logs)

    def _reads_all(self, member: MemberModel) -> bool:
        member.attend()
        return len(self._described()) == len(self.logs) + 1

    @rule(pick=indexes)
    def retain(self, pick: int) -> None:
        """Retention takes everything that was written before; not too often, or there would be nothing to read."""
        if pick % 3:
            return
        self.sql.execute(ROLL, [self.topic])
        self.tl.retention_run(self.topic)
        for held in self.tl.offsets(self.topic):
            self.logs[held.partition].start = held.start

    # -- members --

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join(self) -> None:
        self._joined().learn(self.logs)

    def _joined(self) -> MemberModel:
        client = trunkline.connect(self.url, settings=PATIENT)
        consumer = client.consumer(self.topic, group=self.group)
        consumer.__enter__()
        member = MemberModel(client, consumer)
        self.members.append(member)
        return member

    @precondition(lambda self: self.members)
    @rule(pick=indexes)
    def leave(self, pick: int) -> None:
        member = self.members.pop(pick % len(self.members))
        member.consumer.close()
        member.client.close()

    @precondition(lambda self: self.members)
    @rule(pick=indexes)
    def crash(self, pick: int) -> None:
        """Its connections end, and it has told nobody."""
        self.members.pop(pick % len(self.members)).client.close()

    @precondition(lambda self: self.members)
    @rule(pick=indexes)
    def is_taken_for_dead(self, pick: int) -> None:
        """The others remove it, though it lives: what it holds is anybody's."""
        member = self.members[pick % len(self.members)]
        self.sql.execute("select trunkline.member_leave(array[%s::integer])", [member.member_id])

    @precondition(lambda self: self.members)
    @rule()
    def settle_down(self) -> None:
        """Once everybody has committed what it has in hand, each partition has one holder, and they share evenly."""
        self._until(self._is_balanced, "the partitions are shared evenly")

    def _is_balanced(self) -> bool:
        for index, member in enumerate(self.members):
            self.commit(index)
            member.attend()
            member.learn(self.logs)
        current = {each.partition: (each.epoch, each.member_id) for each in self._described()}
        held = [
            [p for p, hold in member.holds.items() if current[p] == (hold.epoch, member.member_id)]
            for member in self.members
        ]
        counts = [len(each) for each in held]
        return sorted(chain.from_iterable(held)) == list(range(len(self.logs))) and max(counts) - min(counts) <= 1

    @precondition(lambda self: self.members)
    @rule(pick=indexes, partition_pick=indexes, is_paused=st.booleans())
    def pause_or_resume(self, pick: int, partition_pick: int, *, is_paused: bool) -> None:
        member = self.members[pick % len(self.members)]
        self._set_paused(member, partition_pick % len(self.logs), is_paused=is_paused)

    def _set_paused(self, member: MemberModel, partition: int, *, is_paused: bool) -> None:
        if is_paused:
            member.consumer.pause(self.topic, partition)
            member.paused.add(partition)
        else:
            member.consumer.resume(self.topic, partition)
            member.paused.discard(partition)

    # -- reading --

    @precondition(lambda self: self.members)
    @rule(pick=indexes, max_records=st.sampled_from([1, 3, 10, 100]))
    def poll(self, pick: int, max_records: int) -> None:
        """Each partition goes on where it was, or at the cursor where it was taken just now; nothing comes only where
        there is nothing; what retention has taken is an error, or was in memory."""
        member = self.members[pick % len(self.members)]
        try:
            records = member.consumer.poll(max_records)
        except OffsetOutOfRange as outside:
            self.met["polls out of range"] += 1
            member.learn(self.logs)
            self._go_on(member, outside)
            return
        assert len(records) <= max_records
        self.met["polls with records" if records else "polls without"] += 1
        self._hand_out(member, records)
        member.learn(self.logs)
        if not records:
            ends = {partition: hold.handed for partition, hold in member.holds.items()}
            able = [partition for partition, holding in member.holdings.items() if holding.may_give]
            assert {p: ends[p] for p in able} == {p: self.logs[p].end for p in able}

    def _hand_out(self, member: MemberModel, records: list[Record]) -> None:
        by_partition: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            by_partition[record.partition].append(record)
        for partition, got in by_partition.items():
            assert partition not in member.paused
            epoch, log = member.holdings[partition].epoch, self.logs[partition]
            hold = member.holds.get(partition)
            if hold is None or hold.epoch != epoch:
                hold = member.holds[partition] = Hold(epoch, log.cursor, log.cursor)
            offsets = [record.offset for record in got]
            assert offsets == list(range(hold.handed, hold.handed + len(got)))
            assert [record.payload for record in got] == [b"%d:%d" % (partition, offset) for offset in offsets]
            hold.handed = offsets[-1] + 1

    def _go_on(self, member: MemberModel, outside: OffsetOutOfRange) -> None:
        """Retention has passed the group in some partition: seek to its start."""
        passed = [p for p, hold in member.holds.items() if hold.handed < self.logs[p].start]
        assert (outside.start, outside.end) in [(self.logs[p].start, self.logs[p].end) for p in passed]
        for partition in passed:
            self._seek(member, partition, self.logs[partition].start)

    @precondition(lambda self: self.members)
    @rule(max_records=st.sampled_from([2, 5]))
    def everybody_polls(self, max_records: int) -> None:
        for index, _ in enumerate(self.members):
            self.poll(index, max_records)

    # -- committing --

    @precondition(lambda self: self.members)
    @rule(pick=indexes)
    def commit(self, pick: int) -> None:
        member = self.members[pick % len(self.members)]
        moves = {partition: hold.handed for partition, hold in member.holds.items() if hold.has_uncommitted}
        self._commit(member, moves, member.consumer.commit)

    @precondition(lambda self: self.members)
    @rule()
    def everybody_commits(self) -> None:
        for index, _ in enumerate(self.members):
            self.commit(index)

    @precondition(lambda self: self.members)
    @rule(pick=indexes, partition_pick=indexes, share=shares)
    def commit_part(self, pick: int, partition_pick: int, share: float) -> None:
        member = self.members[pick % len(self.members)]
        in_hand = [partition for partition, hold in member.holds.items() if hold.has_uncommitted]
        if in_hand:
            partition = in_hand[partition_pick % len(in_hand)]
            hold = member.holds[partition]
            offset = hold.committed + round(share * (hold.handed - hold.committed))
            place = Position(self.topic, partition, offset)
            self._commit(member, {partition: offset}, lambda: member.consumer.commit([place]))

    def _commit(self, member: MemberModel, moves: dict[int, int], call: Callable[[], None]) -> None:
        """Refused, as a whole, where something was lost that it had in hand, or is moved now; else all is moved."""
        current = {each.partition: each.epoch for each in self._described()}
        if member.has_lost or any(current[p] != member.holds[p].epoch for p in moves):
            self.met["commits refused"] += 1
            with pytest.raises(Fenced):
                call()
        else:
            self.met["commits" if moves else "commits of nothing"] += 1
            call()
            for partition, offset in moves.items():
                member.holds[partition].committed = self.logs[partition].cursor = offset
        member.learn(self.logs)

    # -- seeking --

    @precondition(lambda self: self.members)
    @rule(pick=indexes, partition_pick=indexes, share=shares)
    def seek(self, pick: int, partition_pick: int, share: float) -> None:
        member = self.members[pick % len(self.members)]
        partition = partition_pick % len(self.logs)
        log = self.logs[partition]
        self._seek(member, partition, log.start + round(share * (log.end - log.start)))

    def _seek(self, member: MemberModel, partition: int, offset: int) -> None:
        hold = member.holds.get(partition)
        if hold is None:
            with pytest.raises(NotFound):
                member.consumer.seek(self.topic, partition, offset)
            return
        current = {each.partition: each.epoch for each in self._described()}
        if current[partition] != hold.epoch and offset != hold.committed:
            self.met["seeks refused"] += 1
            with pytest.raises(Fenced):
                member.consumer.seek(self.topic, partition, offset)
        else:
            self.met["seeks"] += 1
            member.consumer.seek(self.topic, partition, offset)
            if offset != hold.committed:
                self.logs[partition].cursor = offset
            epoch = member.holdings[partition].epoch
            member.holds[partition] = Hold(epoch, offset, offset)
        member.learn(self.logs)

    @rule(partition_pick=indexes, share=shares)
    def seek_group(self, partition_pick: int, share: float) -> None:
        """An administrator moves the group: whoever holds the partition loses it."""
        partition = partition_pick % len(self.logs)
        log = self.logs[partition]
        offset = log.start + round(share * (log.end - log.start))
        (move,) = self.tl.seek_group(self.group, self.topic, offset, partition=partition, execute=True)
        assert (move.from_offset, move.to_offset) == (log.cursor, offset)
        log.cursor = offset

    # -- what must hold at any time --

    @invariant()
    def the_group_is_the_models(self) -> None:
        """The cursors are the model's, and no partition is held by two in the epoch that counts."""
        if not self.logs:
            return
        for each in self._described():
            log = self.logs[each.partition]
            assert (each.cursor, each.start, each.end) == (log.cursor, log.start, log.end), each
            holders = [
                member.member_id
                for member in self.members
                if each.partition in member.holds and member.holds[each.partition].epoch == each.epoch
            ]
            assert holders in ([], [each.member_id]), each

    def _described(self) -> list[GroupPartition]:
        return self.tl.describe_group(self.group).partitions

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what)


@pytest.mark.parametrize(
    ("examples", "steps"), [(15, 25), pytest.param(200, 50, marks=pytest.mark.chaos)], ids=["short", "long"]
)
def test_a_group_behaves_as_its_model(db_url: str, seed: int, examples: int, steps: int) -> None:
    """Random sequences of operations, on the group and on the model; they must agree after every step, and at the end
    the group can be read to its end. A failure is shrunk to the shortest sequence that shows it."""
    with trunkline.connect(db_url) as tl, psycopg.connect(db_url, autocommit=True) as connection:

        @hypothesis.seed(seed)
        class Machine(GroupMachine):
            pass

        Machine.url, Machine.tl, Machine.sql, Machine.met = db_url, tl, connection, Counter()
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
