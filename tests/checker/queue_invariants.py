"""The invariants of a queue as pure functions: a history in, violations out. None knows our client or our SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from tests.checker.history import Place
from tests.checker.invariants import SHOWN_MAX, Violation
from tests.checker.queue_history import Handed, QueueHistory, Row, Settled

QueueCheck = Callable[[QueueHistory], Iterator[Violation]]

DONE = frozenset("adjx")
"""With these a record leaves a claim for good."""


def queue_violations(history: QueueHistory, checks: Iterable[QueueCheck] | None = None) -> list[Violation]:
    """Everything that is wrong with a queue's history."""
    return [found for check in (checks or QUEUE_CHECKS.values()) for found in check(history)]


def assert_queue_clean(history: QueueHistory, checks: Iterable[QueueCheck] | None = None) -> None:
    """Print what the history holds, and fail where it violates anything."""
    print(history.summary())
    found = queue_violations(history, checks)
    shown = "\n  ".join(str(violation) for violation in found[:SHOWN_MAX])
    assert not found, f"{len(found)} violations\n  {shown}"


def unsettled(history: QueueHistory) -> Iterator[Violation]:
    """Every record ends acknowledged, dead-lettered, rejected, or gone by retention."""
    if not history.is_finished:
        return
    done = {place for place, chain in history.chains() if chain[-1][1] in DONE}
    for partition, end in history.ends.items():
        missing = [offset for offset in range(history.starts.get(partition, 1), end) if (partition, offset) not in done]
        if missing:
            yield Violation("unsettled", f"{len(missing)} of partition {partition} are not done: {missing[:SHOWN_MAX]}")


def two_holders(history: QueueHistory) -> Iterator[Violation]:
    """A record is in one claim or ticket at a time, as the server knows it."""
    for place, chain in history.chains():
        for (row, left), (later, _) in pairwise(chain):
            if left is None:
                yield Violation("two-holders", f"{_at(place)} is in {_shown(row)} and in {_shown(later)}")


def held_by_two(history: QueueHistory) -> Iterator[Violation]:
    """A record is handed to another reader only after its deadline, or after it was given back, as readers saw it."""
    ends = _ends_of_claims(history)
    by_place: dict[Place, list[Handed]] = defaultdict(list)
    for each in history.handed:
        for offset in each.offsets:
            by_place[each.partition, offset].append(each)
    for place, every in by_place.items():
        for before, after in pairwise(sorted(every, key=lambda handed: handed.claim_no)):
            if after.at < ends.get((before.partition, before.claim_no, place[1]), before.invoked + before.deadline_s):
                text = f"{_at(place)} went to {after.reader} (claim {after.claim_no}) while {before.reader} held it"
                yield Violation("held-by-two", text)


def _ends_of_claims(history: QueueHistory) -> dict[tuple[int, int, int], float]:
    """The earliest moment at which a record of a claim may be another's, where it is not its first deadline."""
    ends: dict[tuple[int, int, int], float] = {}
    for each in sorted(history.settled, key=lambda settled: settled.invoked):
        if each.answer == "lost" or each.kind == "a":
            continue
        for offset in each.offsets:
            at = each.invoked + (each.delay_s if each.kind == "e" else 0.0)
            known = ends.get((each.partition, each.claim_no, offset))
            if each.kind == "e" and each.answer == "unknown":
                # It may have shortened the deadline, or not have been done.
                at = min(at, known if known is not None else 0.0)
            ends[each.partition, each.claim_no, offset] = at
    return ends


def done_twice(history: QueueHistory) -> Iterator[Violation]:
    """What is done is never handed out again."""
    for place, chain in history.chains():
        for (row, left), (later, _) in pairwise(chain):
            if left in DONE:
                yield Violation("done-twice", f"{_at(place)} was done in {_shown(row)}, and is in {_shown(later)}")


def zombie_ack(history: QueueHistory) -> Iterator[Violation]:
    """Whoever has lost a claim is refused: after another was handed the record, or after its deadline."""
    later: dict[Place, list[Handed]] = defaultdict(list)
    for handed in history.handed:
        for offset in handed.offsets:
            later[handed.partition, offset].append(handed)
    for each in history.settled:
        if each.answer != "done":
            continue
        for offset in each.offsets:
            heirs = [
                handed
                for handed in later[each.partition, offset]
                if handed.claim_no > each.claim_no and handed.at < each.invoked
            ]
            if heirs:
                yield Violation("zombie-ack", f"{_settling(each)} of {offset} was done, {_claimed(heirs[0])} before")


def lost_ack(history: QueueHistory) -> Iterator[Violation]:
    """What was answered as done is done: the record left the claim by it, for ever."""
    left = {(row.partition, row.claim_no, place[1]): kind for place, chain in history.chains() for row, kind in chain}
    for each in history.settled:
        if each.answer == "done" and each.kind != "e":
            missing = [o for o in each.offsets if left.get((each.partition, each.claim_no, o)) != each.kind]
            if missing:
                yield Violation("lost-ack", f"{_settling(each)} was answered as done, not so for {missing[:SHOWN_MAX]}")


def robbed(history: QueueHistory) -> Iterator[Violation]:
    """A settlement within the deadline, of what the reader has not settled before, is not refused."""
    handed = {(each.partition, each.claim_no, each.reader): each for each in history.handed}
    before: dict[tuple[int, int, int], float] = {}
    for each in sorted(history.settled, key=lambda settled: settled.invoked):
        claim = handed.get((each.partition, each.claim_no, each.reader))
        if claim is None or not each.offsets <= claim.offsets:
            continue
        limits = [
            before.get((each.partition, each.claim_no, o), claim.invoked + claim.deadline_s) for o in each.offsets
        ]
        if each.answer == "lost" and limits and each.ended < min(limits):
            yield Violation("robbed", f"{_settling(each)} was refused before its deadline")
        for offset in each.offsets:
            # Settled, or perhaps: then a refusal is no surprise. Extended: it holds for longer.
            at = each.invoked + each.delay_s if each.kind == "e" and each.answer == "done" else 0.0
            before[each.partition, each.claim_no, offset] = at


def uncounted(history: QueueHistory) -> Iterator[Violation]:
    """Every claim counts as an attempt, unless it was released; none is made past the limit."""
    limit = history.max_attempts
    for place, chain in history.chains():
        tried = 0
        for row, left in chain:
            if row.kind == "c":
                expected = tried + 1 if limit is None or tried < limit else limit
                if row.attempt != expected:
                    yield Violation(
                        "uncounted", f"{_shown(row)} of {_at(place)} is attempt {row.attempt}, not {expected}"
                    )
                tried = max(row.attempt - 1, 0) if left == "r" else row.attempt


def early(history: QueueHistory) -> Iterator[Violation]:
    """What waits is not claimed before it is due, and what is held not before its deadline."""
    for place, chain in history.chains():
        for (row, left), (later, _) in pairwise(chain):
            if left == "t" and row.kind == "t" and later.at < row.deadline:
                yield Violation("early", f"{_at(place)} waited in {_shown(row)}, and is in {_shown(later)} too soon")


def floor_passed(history: QueueHistory) -> Iterator[Violation]:
    """The floor never goes back, and never passes a record that is handed out, or done, later."""
    floors: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for each in history.floors:
        floors[each.partition].append((each.ended, each.invoked, each.floor))
    for partition, seen in floors.items():
        ordered = sorted(seen)
        for (ended, _, floor), (_, invoked, next_floor) in pairwise(ordered):
            if invoked >= ended and next_floor < floor:
                yield Violation("floor-back", f"the floor of partition {partition} went from {floor} to {next_floor}")
        for handed in history.handed:
            passed = [floor for ended, _, floor in ordered if ended < handed.invoked and handed.partition == partition]
            if passed and max(passed) > min(handed.offsets):
                yield Violation("floor-passed", f"{_claimed(handed)}, where the floor was {max(passed)}")
        for settled in history.settled:
            if settled.answer != "done" or settled.kind == "e" or settled.partition != partition:
                continue
            passed = [floor for ended, _, floor in ordered if ended < settled.invoked]
            if passed and max(passed) > min(settled.offsets):
                yield Violation("floor-passed", f"{_settling(settled)}, where the floor was {max(passed)}")


def buried_once(history: QueueHistory) -> Iterator[Violation]:
    """What left the queue as a dead letter is among the dead letters, once; nothing else is."""
    gone = {place for place, chain in history.chains() if chain[-1][1] == "d"}
    letters = Counter(history.buried)
    for place in sorted(gone | set(letters)):
        if letters[place] != (place in gone):
            text = (
                f"{_at(place)} is {letters[place]} times among the dead letters, and {'' if place in gone else 'not '}"
            )
            yield Violation("buried-once", f"{text}settled as one")


def out_of_order(history: QueueHistory) -> Iterator[Violation]:
    """In an ordered queue nothing is handed out while something before it is open."""
    if not history.is_ordered:
        return
    last: dict[int, Handed] = {}
    done = {place for place, chain in history.chains() if chain[-1][1] in DONE}
    for each in sorted(history.handed, key=lambda handed: (handed.partition, handed.claim_no)):
        before = last.get(each.partition)
        if before is not None and min(each.offsets) > max(before.offsets):
            open_ = [offset for offset in before.offsets if (each.partition, offset) not in done]
            if open_:
                yield Violation("out-of-order", f"{_claimed(each)}, and {sorted(open_)[:SHOWN_MAX]} were open")
        last[each.partition] = each


def _at(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def _shown(row: Row) -> str:
    return f"{'claim' if row.kind == 'c' else 'ticket'} {row.claim_no}"


def _claimed(handed: Handed) -> str:
    offsets = sorted(handed.offsets)
    return f"{handed.reader} was handed {offsets[:SHOWN_MAX]} of {handed.partition} (claim {handed.claim_no})"


def _settling(each: Settled) -> str:
    return f"{each.kind} by {each.reader} for claim {each.claim_no} of partition {each.partition}"


QUEUE_CHECKS: dict[str, QueueCheck] = {
    "unsettled": unsettled,
    "two-holders": two_holders,
    "held-by-two": held_by_two,
    "done-twice": done_twice,
    "zombie-ack": zombie_ack,
    "lost-ack": lost_ack,
    "robbed": robbed,
    "uncounted": uncounted,
    "early": early,
    "floor-passed": floor_passed,
    "buried-once": buried_once,
    "out-of-order": out_of_order,
}
"""By the name that each violation carries; floor-passed may be floor-back as well."""
