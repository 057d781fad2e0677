"""The invariants of an outbox as pure functions: a history in, violations out. None knows our client or our SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TypeAlias

from tests.checker.invariants import SHOWN_MAX, Violation
from tests.checker.outbox_history import NEVER, Event, OutboxHistory, Stood, Transaction, Where

OutboxCheck = Callable[[OutboxHistory], Iterator[Violation]]
Node: TypeAlias = tuple[str, int]
"""A transaction by its place in the history, or by its id where it is not known, or a moment."""


def outbox_violations(history: OutboxHistory, checks: Iterable[OutboxCheck] | None = None) -> list[Violation]:
    """Everything that is wrong with an outbox's history."""
    return [found for check in (checks or OUTBOX_CHECKS.values()) for found in check(history)]


def assert_outbox_clean(history: OutboxHistory, checks: Iterable[OutboxCheck] | None = None) -> None:
    """Print what the history holds, and fail where it violates anything."""
    print(history.summary())
    found = outbox_violations(history, checks)
    shown = "\n  ".join(str(violation) for violation in found[:SHOWN_MAX])
    assert not found, f"{len(found)} violations\n  {shown}"


def row_and_event(history: OutboxHistory) -> Iterator[Violation]:
    """A transaction's row is there if and only if all its events are."""
    rows, stood = set(history.rows), history.by_payload()
    for each in history.transactions:
        there = [event.payload in stood for event in each.events]
        committed = any(there) if each.row is None else each.row in rows
        if not all(found == committed for found in there):
            yield Violation(
                "row-and-event",
                f"row {each.row} of {each.session} is {'there' if committed else 'not there'}, "
                f"{sum(there)} of its {len(there)} events are",
            )


def lost_commit(history: OutboxHistory) -> Iterator[Violation]:
    """What was acknowledged is there, what failed is not."""
    rows, stood = set(history.rows), history.by_payload()
    for each in history.transactions:
        there = [event.payload in stood for event in each.events]
        there += [each.row in rows] if each.row is not None else []
        if each.outcome == "acknowledged" and not all(there):
            yield Violation("lost-commit", f"row {each.row} of {each.session}, or an event of it, is gone")
        if each.outcome == "failed" and any(there):
            yield Violation("lost-commit", f"row {each.row} of {each.session} failed, and something of it is there")


def duplicate(history: OutboxHistory) -> Iterator[Violation]:
    """An event stands in the log once, and a row in its table."""
    for payload, times in Counter(stood.payload for stood in history.log).items():
        if times > 1:
            yield Violation("duplicate", f"{payload[:40]!r} stands in the log {times} times")
    for row, times in Counter(history.rows).items():
        if times > 1:
            yield Violation("duplicate", f"row {row} is there {times} times")


def gap(history: OutboxHistory) -> Iterator[Violation]:
    """The offsets of a partition are 1, 2, 3, … in its order."""
    for where, records in history.partitions():
        offsets = [stood.offset for stood in records]
        if offsets != list(range(1, len(offsets) + 1)):
            yield Violation("gap", f"{_shown(where)} has offsets {_differing(offsets)}")


def aborted_read(history: OutboxHistory) -> Iterator[Violation]:
    """Nobody, now or in any snapshot before, sees what was rolled back or undone, or was published by nobody."""
    known = {event.payload: event for each in history.transactions for event in each.events}
    undone = {event.payload for each in history.transactions for event in each.undone}
    failed = {e.payload for each in history.transactions if each.outcome == "failed" for e in each.events}
    for stood in (*history.log, *(stood for snapshot in history.snapshots for stood in snapshot)):
        place = f"{_shown(stood.where)}:{stood.offset}"
        if stood.payload in undone or stood.payload in failed:
            yield Violation("aborted-read", f"{stood.payload[:40]!r}, which was undone, was seen at {place}")
        elif not _is_as_given(stood, known.get(stood.payload)):
            yield Violation("aborted-read", f"{stood.payload[:40]!r}, as nobody published it, was seen at {place}")


def _is_as_given(stood: Stood, event: Event | None) -> bool:
    return event is not None and (event.topic, event.key) == (stood.topic, stood.key)


def inconsistent_offsets(history: OutboxHistory) -> Iterator[Violation]:
    """What a snapshot had at an offset stands there for ever, with all that belongs to it."""
    final = {(*stood.where, stood.offset): stood for stood in history.log}
    for snapshot in history.snapshots:
        for stood in snapshot:
            if final.get((*stood.where, stood.offset)) != stood:
                place = f"{_shown(stood.where)}:{stood.offset}"
                yield Violation("inconsistent-offsets", f"{stood.payload[:40]!r} was seen at {place}, not so any more")


def torn_transaction(history: OutboxHistory) -> Iterator[Violation]:
    """What a transaction has in a partition stands together, under one id that no other has, numbered from 0, counted,
    in the order in which it was published."""
    yield from runs_of_the_log(history)
    stood = history.by_payload()
    owners: dict[int, int] = {}
    for number, each in enumerate(history.transactions):
        present = [stood[event.payload] for event in each.events if event.payload in stood]
        ids = {record.transaction_id for record in present}
        if len(ids) > 1 or (ids and each.transaction_id is not None and ids != {each.transaction_id}):
            yield Violation("torn-transaction", f"row {each.row} has the ids {sorted(ids)}, not {each.transaction_id}")
        for found in ids:
            if owners.setdefault(found, number) != number:
                yield Violation("torn-transaction", f"id {found} is that of two transactions")
        for where, records in _by_partition(present).items():
            offsets = [record.offset for record in records]
            if offsets != list(range(offsets[0], offsets[0] + len(offsets))):
                yield Violation("torn-transaction", f"row {each.row} has {_differing(offsets)} in {_shown(where)}")


def runs_of_the_log(history: OutboxHistory) -> Iterator[Violation]:
    """The same of the log alone: the records of one id are one run, numbered from 0 and counted."""
    for where, records in history.partitions():
        runs: dict[int, list[Stood]] = defaultdict(list)
        for record in records:
            runs[record.transaction_id].append(record)
        for transaction_id, run in runs.items():
            numbered = [(record.offset, record.ordinal) for record in run]
            if numbered != [(run[0].offset + n, n) for n in range(len(run))] or run[-1].count != len(run):
                yield Violation(
                    "torn-transaction",
                    f"transaction {transaction_id} in {_shown(where)}: {len(run)} records, counted as {run[-1].count}, "
                    f"offsets and ordinals {numbered[:SHOWN_MAX]}",
                )


def torn_read(history: OutboxHistory) -> Iterator[Violation]:
    """A snapshot that has one record of a transaction has all of them, in all partitions."""
    whole: Counter[int] = Counter(stood.transaction_id for stood in history.log)
    for snapshot in history.snapshots:
        for transaction_id, count in Counter(stood.transaction_id for stood in snapshot).items():
            if count != whole[transaction_id]:
                yield Violation(
                    "torn-read", f"{count} of the {whole[transaction_id]} records of {transaction_id} were seen at once"
                )


def key_order(history: OutboxHistory) -> Iterator[Violation]:
    """The events of a key stand in one partition, in the order in which their transactions committed: by the versions
    of the key, and, of two of which one began when the other was acknowledged, the later stands later."""
    given = {event.payload: (each, event) for each in history.transactions for event in each.events}
    by_key: dict[tuple[str, bytes], list[Stood]] = defaultdict(list)
    for stood in history.log:
        if stood.key is not None and stood.payload in given:
            by_key[stood.topic, stood.key].append(stood)
    for (topic, key), records in by_key.items():
        if len({record.partition for record in records}) > 1:
            yield Violation("key-order", f"key {key!r} of {topic} stands in several partitions")
        placed = [given[record.payload] for record in sorted(records, key=lambda record: record.offset)]
        versions = [event.version for _, event in placed if event.version is not None]
        if any(later <= earlier for earlier, later in pairwise(versions)):
            yield Violation("key-order", f"the versions of key {key!r} of {topic} are {_differing(versions)}")
        begun = -1
        for each, event in placed:
            if each.ended < begun:
                yield Violation("key-order", f"{event.payload[:40]!r} of key {key!r} stands after a later one")
            begun = max(begun, each.begun)


def commit_order(history: OutboxHistory) -> Iterator[Violation]:
    """There is one order of all transactions that explains every partition, and what was acknowledged before what
    began."""
    owners = {event.payload: number for number, each in enumerate(history.transactions) for event in each.events}
    after: dict[Node, set[Node]] = defaultdict(set)
    for _, records in history.partitions():
        nodes = [_node(record, owners.get(record.payload)) for record in records]
        for before, later in pairwise(nodes):
            if before != later:
                after[later].add(before)
    committed = {owners[record.payload] for record in history.log if record.payload in owners}
    _add_moments(after, {number: history.transactions[number] for number in committed})
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        circle = [node for node in error.args[1] if node[0] != "moment"]
        yield Violation("commit-order", f"each of these stands before the next: {circle[:SHOWN_MAX]}")


def _node(record: Stood, number: int | None) -> Node:
    return ("id", record.transaction_id) if number is None else ("transaction", number)


def _add_moments(after: dict[Node, set[Node]], committed: dict[int, Transaction]) -> None:
    """Whoever was acknowledged stands before whoever began later. Moments stand in a row of their own, so that there
    are as many edges as transactions, and not as many as pairs of them."""
    moments = sorted({each.ended for each in committed.values() if each.ended != NEVER})
    for earlier, later in pairwise(moments):
        after["moment", later].add(("moment", earlier))
    for number, each in committed.items():
        if each.ended != NEVER:
            after["moment", each.ended].add(("transaction", number))
    at = -1
    for number, each in sorted(committed.items(), key=lambda item: item[1].begun):
        while at + 1 < len(moments) and moments[at + 1] < each.begun:
            at += 1
        if at >= 0:
            after["transaction", number].add(("moment", moments[at]))


def _by_partition(records: Iterable[Stood]) -> dict[Where, list[Stood]]:
    found: dict[Where, list[Stood]] = defaultdict(list)
    for record in records:
        found[record.where].append(record)
    return found


def _shown(where: Where) -> str:
    return f"{where[0]}/{where[1]}"


def _differing(numbers: list[int]) -> str:
    """Some numbers from where they first are not one after the other."""
    at = next((n for n, (a, b) in enumerate(pairwise(numbers)) if b != a + 1), 0)
    return f"… {numbers[max(0, at - 2) : at + SHOWN_MAX]} …"


OUTBOX_CHECKS: dict[str, OutboxCheck] = {
    "row-and-event": row_and_event,
    "lost-commit": lost_commit,
    "duplicate": duplicate,
    "gap": gap,
    "aborted-read": aborted_read,
    "inconsistent-offsets": inconsistent_offsets,
    "torn-transaction": torn_transaction,
    "torn-read": torn_read,
    "key-order": key_order,
    "commit-order": commit_order,
}
"""By the name that each violation carries."""
