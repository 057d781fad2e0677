"""The invariants of the log as pure functions: a history in, violations out.

Each stands for one line of what must never happen; ``violations`` asks all of them. They know nothing of Postgres or
of our client: a history of another log is judged the same way, which is how the mutants are caught.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.checker.history import History, OutOfRange, Place, Publish, Read, Seen

SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """What was violated, and where."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


Check = Callable[[History], Iterator[Violation]]


def violations(history: History, checks: Iterable[Check] | None = None) -> list[Violation]:
    """Everything that is wrong with a history."""
    return [found for check in (checks or CHECKS.values()) for found in check(history)]


def assert_clean(history: History, checks: Iterable[Check] | None = None) -> None:
    """Print what the history holds, and fail where it violates anything."""
    print(history.summary())
    found = violations(history, checks)
    shown = "\n  ".join(str(violation) for violation in found[:SHOWN_MAX])
    assert not found, f"{len(found)} violations\n  {shown}"


def lost_write(history: History) -> Iterator[Violation]:
    """Every acknowledged record stands where it was said to stand, unless the log start has passed it."""
    content = _final_content(history)
    for publish in _acknowledged(history):
        if len(publish.places) != len(publish.records):
            yield Violation("lost-write", f"{len(publish.places)} places for {len(publish.records)} records")
        for sent, place in zip(publish.records, publish.places, strict=False):
            partition = history.final.get(place[0])
            if partition is None:
                yield Violation("lost-write", f"{_shown(sent.payload)} went to partition {place[0]}, which is gone")
            elif place[1] >= partition.start and place not in content:
                yield Violation("lost-write", f"{_shown(sent.payload)} was acknowledged at {_at(place)}: nothing there")


def inconsistent_offsets(history: History) -> Iterator[Violation]:
    """An offset has one value: for its producer, for every reader, before and after crashes, for ever."""
    first: dict[Place, bytes] = {}
    for place, payload in _claims(history):
        if first.setdefault(place, payload) != payload:
            yield Violation("inconsistent-offsets", f"{_at(place)} holds {_shown(first[place])} and {_shown(payload)}")


def duplicate(history: History) -> Iterator[Violation]:
    """A record stands in the log once (with idempotent producers), and is seen at one place only."""
    first: dict[bytes, Place] = {}
    reported: set[bytes] = set()
    for place, payload in _claims(history):
        if first.setdefault(payload, place) != place and payload not in reported:
            reported.add(payload)
            yield Violation("duplicate", f"{_shown(payload)} stands at {_at(first[payload])} and at {_at(place)}")
    for number, partition in history.final.items():
        offsets = [seen.offset for seen in partition.records]
        if len(set(offsets)) != len(offsets):
            yield Violation("duplicate", f"an offset of partition {number} was returned twice by one read")


def gap(history: History) -> Iterator[Violation]:
    """The log is without a hole from its start to its end, and so is every read."""
    for number, partition in history.final.items():
        offsets = [seen.offset for seen in partition.records]
        if offsets != list(range(partition.start, partition.end)):
            missing = sorted(set(range(partition.start, partition.end)) - set(offsets))
            yield Violation(
                "gap",
                f"partition {number} should hold [{partition.start}, {partition.end}), "
                f"has {len(offsets)} records, misses {missing[:SHOWN_MAX]}",
            )
    for read in history.reads():
        offsets = [seen.offset for seen in read.seen]
        if offsets != list(range(read.start, read.start + len(offsets))):
            yield Violation(
                "gap", f"{read.reader} read {offsets[:SHOWN_MAX]} of partition {read.partition} from {read.start}"
            )


def aborted_read(history: History) -> Iterator[Violation]:
    """Nobody sees a record that was rolled back or refused, or that nobody sent; no failed write is in the log."""
    outcome = {sent.payload: publish.outcome for publish in history.publishes() for sent in publish.records}
    reported: set[bytes] = set()
    for place, seen in _sightings(history):
        if outcome.get(seen.payload, "failed") == "failed" and seen.payload not in reported:
            reported.add(seen.payload)
            why = "failed" if seen.payload in outcome else "was sent by nobody"
            yield Violation("aborted-read", f"{_shown(seen.payload)}, which {why}, was seen at {_at(place)}")


def poll_skip(history: History) -> Iterator[Violation]:
    """A reader that went on from n to m has seen every record between them that ever stood there."""
    known: dict[int, set[int]] = defaultdict(set)
    for (partition, offset), _ in _claims(history):
        known[partition].add(offset)
    for (reader, partition), stretch in _stretches(history):
        seen = {record.offset for read in stretch for record in read.seen}
        skipped = sorted(set(range(stretch[0].start, stretch[-1].end)) & known[partition] - seen)
        if skipped:
            yield Violation(
                "poll-skip",
                f"{reader} passed offsets {skipped[:SHOWN_MAX]} of partition {partition} without seeing them",
            )


def non_monotonic_poll(history: History) -> Iterator[Violation]:
    """A reader that goes on where it stopped never gets an offset again, nor an earlier one."""
    for (reader, partition), stretch in _stretches(history):
        offsets = [seen.offset for read in stretch for seen in read.seen]
        for before, after in pairwise(offsets):
            if after <= before:
                yield Violation(
                    "non-monotonic-poll", f"{reader} got offset {after} of partition {partition} after {before}"
                )


def key_order(history: History) -> Iterator[Violation]:
    """Records of one key that were published one after the other stand in that order, in one partition."""
    by_key: dict[bytes, list[tuple[Publish, bytes, Place]]] = defaultdict(list)
    for publish in _acknowledged(history):
        for sent, place in zip(publish.records, publish.places, strict=False):
            if sent.key is not None and sent.partition is None:
                by_key[sent.key].append((publish, sent.payload, place))
    for key, placed in by_key.items():
        if len({place[0] for _, _, place in placed}) > 1:
            yield Violation("key-order", f"key {key!r} stands in several partitions")
            continue
        yield from _order_of(key, sorted(placed, key=lambda each: each[2]))


def _order_of(key: bytes, placed: list[tuple[Publish, bytes, Place]]) -> Iterator[Violation]:
    begun = -1
    for publish, payload, place in placed:
        # An earlier place was asked for only after this one was acknowledged.
        if publish.ended < begun:
            yield Violation("key-order", f"{_shown(payload)} of key {key!r} at {_at(place)} stands after a later one")
        begun = max(begun, publish.invoked)


def torn_transaction(history: History) -> Iterator[Violation]:
    """The records of a transaction are in the log together or not at all, side by side in each partition, in order."""
    content = {payload: place for place, payload in _final_content(history).items()}
    starts_moved = any(partition.start > 1 for partition in history.final.values())
    for publish in history.publishes():
        places = [content.get(sent.payload) for sent in publish.records]
        present = [place for place in places if place is not None]
        # What the log start has passed is gone without being torn; lost_write looks after what was acknowledged.
        if present and len(present) < len(places) and not starts_moved:
            yield Violation(
                "torn-transaction", f"{len(present)} of {len(places)} records of {_shown(publish.records[0].payload)}"
            )
        for partition in {place[0] for place in present}:
            offsets = [place[1] for place in present if place[0] == partition]
            if offsets != list(range(offsets[0], offsets[0] + len(offsets))):
                yield Violation(
                    "torn-transaction", f"records of one transaction at {offsets[:SHOWN_MAX]} of partition {partition}"
                )


def append_time_order(history: History) -> Iterator[Violation]:
    """Append times never run backwards in offset order, for any reader."""
    stretches = [(f"partition {number}", p.records) for number, p in history.final.items()]
    stretches += [(f"{read.reader} in partition {read.partition}", read.seen) for read in history.reads()]
    for where, records in stretches:
        for before, after in pairwise(records):
            if after.append_time < before.append_time:
                yield Violation("append-time-order", f"{where}: offset {after.offset} is older than {before.offset}")


def short_read(history: History) -> Iterator[Violation]:
    """A read returns everything that was known to be there before it began, up to its limit; never less in silence.

    Known: acknowledged, seen by a read that had ended, or in one transaction with such a record.
    """
    for read, known_end in _with_known_ends(history):
        if isinstance(read, OutOfRange):
            inside = read.valid_start <= read.start <= read.valid_end
            if inside or known_end > read.valid_end:
                yield Violation(
                    "short-read",
                    f"{read.reader} was told [{read.valid_start}, {read.valid_end}) for offset {read.start} of "
                    f"partition {read.partition}, whose end was at least {known_end}",
                )
        elif not read.cut and read.end < known_end:
            yield Violation(
                "short-read",
                f"{read.reader} read [{read.start}, {read.end}) of partition {read.partition}, "
                f"whose end was at least {known_end}",
            )


def _with_known_ends(history: History) -> Iterator[tuple[Read | OutOfRange, int]]:
    """Each read with the offset below which its partition was known to be written when it began."""
    together = _transactions(history)
    proofs: list[tuple[int, Place]] = []
    for publish in _acknowledged(history):
        proofs += [(publish.ended, place) for place in publish.places]
    for read in history.reads():
        for seen in read.seen[-1:]:
            proofs.append((read.ended, (read.partition, seen.offset)))
        for seen in read.seen:
            proofs += [(read.ended, place) for place in together.get(seen.payload, ())]
    proofs.sort()
    questions: list[Read | OutOfRange] = [*history.reads(), *history.out_of_ranges()]
    ends: dict[int, int] = defaultdict(lambda: 1)
    at = 0
    for question in sorted(questions, key=lambda asked: asked.invoked):
        while at < len(proofs) and proofs[at][0] < question.invoked:
            partition, offset = proofs[at][1]
            ends[partition] = max(ends[partition], offset + 1)
            at += 1
        yield question, ends[question.partition]


def _transactions(history: History) -> dict[bytes, tuple[Place, ...]]:
    """Payload to the last place in each partition of the transaction it came in, where that has several."""
    found: dict[bytes, tuple[Place, ...]] = {}
    for publish in _acknowledged(history):
        last = {partition: (partition, offset) for partition, offset in sorted(publish.places)}
        if len(last) > 1:
            found.update((sent.payload, tuple(last.values())) for sent in publish.records)
    return found


def _acknowledged(history: History) -> Iterator[Publish]:
    return (publish for publish in history.publishes() if publish.outcome == "acknowledged")


def _final_content(history: History) -> dict[Place, bytes]:
    return {(number, seen.offset): seen.payload for number, p in history.final.items() for seen in p.records}


def _sightings(history: History) -> Iterator[tuple[Place, Seen]]:
    """Every record that anybody got, with its place."""
    for read in history.reads():
        for seen in read.seen:
            yield (read.partition, seen.offset), seen
    for number, partition in history.final.items():
        for seen in partition.records:
            yield (number, seen.offset), seen


def _claims(history: History) -> Iterator[tuple[Place, bytes]]:
    """Everything that anybody was told about what stands where."""
    for publish in _acknowledged(history):
        for sent, place in zip(publish.records, publish.places, strict=False):
            yield place, sent.payload
    for place, seen in _sightings(history):
        yield place, seen.payload


def _stretches(history: History) -> Iterator[tuple[tuple[str, int], list[Read]]]:
    """The reads of each reader in each partition, as long as each begins where the one before ended."""
    open_stretches: dict[tuple[str, int], list[Read]] = {}
    for read in history.reads():
        who = (read.reader, read.partition)
        stretch = open_stretches.get(who)
        if stretch and stretch[-1].end == read.start:
            stretch.append(read)
        else:
            if stretch:
                yield who, stretch
            open_stretches[who] = [read]
    yield from open_stretches.items()


def _at(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def _shown(payload: bytes) -> str:
    return repr(payload[:40])


CHECKS: dict[str, Check] = {
    "lost-write": lost_write,
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "gap": gap,
    "aborted-read": aborted_read,
    "poll-skip": poll_skip,
    "non-monotonic-poll": non_monotonic_poll,
    "key-order": key_order,
    "torn-transaction": torn_transaction,
    "append-time-order": append_time_order,
    "short-read": short_read,
}
"""By the name that each violation carries."""
