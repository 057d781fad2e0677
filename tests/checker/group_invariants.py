"""The invariants of a group as pure functions: a history in, violations out. None knows our client or our SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from tests.checker.group_history import Commit, Entry, GroupHistory, Handed
from tests.checker.invariants import SHOWN_MAX, Violation

GroupCheck = Callable[[GroupHistory], Iterator[Violation]]


def group_violations(history: GroupHistory, checks: Iterable[GroupCheck] | None = None) -> list[Violation]:
    """Everything that is wrong with a group's history."""
    return [found for check in (checks or GROUP_CHECKS.values()) for found in check(history)]


def assert_group_clean(history: GroupHistory, checks: Iterable[GroupCheck] | None = None) -> None:
    """Print what the history holds, and fail where it violates anything."""
    print(history.summary())
    found = group_violations(history, checks)
    shown = "\n  ".join(str(violation) for violation in found[:SHOWN_MAX])
    assert not found, f"{len(found)} violations\n  {shown}"


def unseen(history: GroupHistory) -> Iterator[Violation]:
    """The group reaches the end of every partition."""
    entries = dict(history.entries())
    for partition, end in history.ends.items():
        cursor = entries[partition][-1].next_offset if partition in entries else None
        if cursor != end:
            yield Violation("unseen", f"the cursor of partition {partition} stands at {cursor}, the log ends at {end}")


def poll_skip(history: GroupHistory) -> Iterator[Violation]:
    """What a commit passes was handed to its member, under its epoch. What a claim passes was handed to somebody, or
    its reader has died with the whole of it."""
    handed: dict[tuple[int, int, int], set[int]] = defaultdict(set)
    anybody: dict[int, set[int]] = defaultdict(set)
    for each in history.handed:
        handed[each.partition, each.member, each.epoch].update(range(each.start, each.end))
        anybody[each.partition].update(range(each.start, each.end))
    for before, entry in history.moves("committed"):
        passed = set(range(before.next_offset, entry.next_offset))
        skipped = sorted(passed - handed[entry.partition, entry.member or 0, entry.epoch])
        if skipped:
            yield Violation("poll-skip", f"{_shown(entry)} passed {skipped[:SHOWN_MAX]}, which it had not been handed")
    for before, entry in history.moves("claimed"):
        passed = set(range(before.next_offset, entry.next_offset))
        skipped = sorted(passed - anybody[entry.partition])
        if skipped and (history.dead == set() or len(skipped) < len(passed)):
            yield Violation("poll-skip", f"{_shown(entry)} passed {skipped[:SHOWN_MAX]}, which nobody was handed")


def non_monotonic_poll(history: GroupHistory) -> Iterator[Violation]:
    """A member that holds a partition gets its records one after the other; again only those that it has not
    committed, from the cursor on. What others had committed before never comes again."""
    if history.delivery == "at_most_once":
        return
    begins = {
        (entry.partition, entry.member, entry.epoch): entry.next_offset
        for entry in history.ledger
        if entry.kind in ("taken", "sought") and entry.member is not None
    }
    steps: dict[tuple[int, int, int], list[Handed | Commit]] = defaultdict(list)
    for handed in history.handed:
        steps[handed.partition, handed.member, handed.epoch].append(handed)
    for commit in history.commits:
        if commit.answer == "acknowledged":
            steps[commit.partition, commit.member, commit.epoch].append(commit)
    for lease, each in steps.items():
        if lease in begins:
            yield from _steps_of(lease, begins[lease], sorted(each, key=_moment))


def _steps_of(lease: tuple[int, int, int], begin: int, steps: list[Handed | Commit]) -> Iterator[Violation]:
    cursor = at = begin
    for step in steps:
        if isinstance(step, Commit):
            cursor = step.next_offset
            continue
        if step.start not in (cursor, at):
            yield Violation(
                "non-monotonic-poll",
                f"member {lease[1]} got [{step.start}, {step.end}) of partition {lease[0]} in epoch {lease[2]}, "
                f"where it had come to {at} and committed {cursor}",
            )
        at = step.end


def _moment(step: Handed | Commit) -> int:
    return step.at if isinstance(step, Handed) else step.ended


def two_holders(history: GroupHistory) -> Iterator[Violation]:
    """An epoch belongs to one member, taking begins a new one, and records are handed out only by its holder."""
    for before, entry in history.moves("taken"):
        if entry.epoch <= before.epoch:
            yield Violation("two-holders", f"{_shown(entry)} did not begin a new epoch")
    holders: dict[tuple[int, int], set[int]] = defaultdict(set)
    for entry in history.ledger:
        if entry.member is not None:
            holders[entry.partition, entry.epoch].add(entry.member)
    for (partition, epoch), members in holders.items():
        if len(members) > 1:
            yield Violation("two-holders", f"members {members} hold partition {partition} in epoch {epoch}")
    for each in history.handed if history.delivery != "at_most_once" else ():
        if each.member not in holders[each.partition, each.epoch]:
            yield Violation("two-holders", f"{each} was handed out by one who never held it")


def stolen(history: GroupHistory) -> Iterator[Violation]:
    """A partition is taken only when nobody holds it, or when its holder has died."""
    if history.dead is None:
        return
    for before, entry in history.moves("taken"):
        if before.member not in (None, entry.member) and before.member not in history.dead:
            yield Violation("stolen", f"{_shown(entry)} was taken from member {before.member}, which lives")


def zombie_commit(history: GroupHistory) -> Iterator[Violation]:
    """Only the holder moves a cursor, in its own epoch. What was refused is not written, what was acknowledged is."""
    for partition, entries in history.entries():
        if len({entry.seq for entry in entries}) != len(entries):
            yield Violation("zombie-commit", f"the ledger of partition {partition} has two rows of one number")
        newest = entries[0]
        for entry in entries[1:]:
            if entry.kind == "committed" and (entry.epoch, entry.member) != (newest.epoch, newest.member):
                yield Violation("zombie-commit", f"{_shown(entry)} came after {_shown(newest)}")
            newest = max(newest, entry, key=lambda each: (each.epoch, each.seq))
    yield from _answers(history)


def _answers(history: GroupHistory) -> Iterator[Violation]:
    written = {
        (entry.partition, entry.epoch, entry.member, entry.next_offset)
        for entry in history.ledger
        if entry.kind == "committed"
    }
    wanted = Counter((each.partition, each.epoch, each.member, each.next_offset) for each in history.commits)
    for commit in history.commits:
        what = (commit.partition, commit.epoch, commit.member, commit.next_offset)
        if commit.answer == "acknowledged" and what not in written:
            yield Violation("zombie-commit", f"{commit} was acknowledged, and is not in the ledger")
        # Asked for twice, the other one may be what was written.
        is_alone = wanted[what] == 1 and not _came_again(history, commit)
        if commit.answer == "refused" and what in written and is_alone:
            yield Violation("zombie-commit", f"{commit} was refused, and is in the ledger")


def _came_again(history: GroupHistory, commit: Commit) -> bool:
    """Whether its records were handed to the same member, in the same epoch, once more: it may have committed them
    then, and died before it could write that down."""
    return any(
        (each.member, each.partition, each.epoch) == (commit.member, commit.partition, commit.epoch)
        and each.at > commit.ended
        and each.start < commit.next_offset <= each.end
        for each in history.handed
    )


def cursor_back(history: GroupHistory) -> Iterator[Violation]:
    """A cursor never goes back, unless somebody seeks."""
    for _, entries in history.entries():
        for before, entry in pairwise(entries):
            if entry.next_offset < before.next_offset and entry.kind != "sought":
                yield Violation("cursor-back", f"{_shown(entry)} came after {_shown(before)}")


def effect_count(history: GroupHistory) -> Iterator[Violation]:
    """With exactly-once effects, each record that a commit has passed has one effect, and no other record has any."""
    if history.delivery != "exactly_once":
        return
    effects = Counter(history.effects)
    expected: Counter[tuple[int, int]] = Counter()
    for before, entry in history.moves("committed"):
        expected.update((entry.partition, offset) for offset in range(before.next_offset, entry.next_offset))
    for place in sorted(effects.keys() | expected.keys()):
        if effects[place] != expected[place]:
            yield Violation("effect-count", f"{place} has {effects[place]} effects for {expected[place]} commits")


def handed_twice(history: GroupHistory) -> Iterator[Violation]:
    """At most once: no record is handed out twice."""
    if history.delivery != "at_most_once":
        return
    times = Counter((each.partition, offset) for each in history.handed for offset in range(each.start, each.end))
    for place, count in times.items():
        if count > 1:
            yield Violation("handed-twice", f"{place} was handed out {count} times")


def _shown(entry: Entry) -> str:
    return (
        f"{entry.kind} by member {entry.member} in epoch {entry.epoch} of partition {entry.partition} "
        f"(row {entry.seq}, offset {entry.next_offset})"
    )


GROUP_CHECKS: dict[str, GroupCheck] = {
    "unseen": unseen,
    "poll-skip": poll_skip,
    "non-monotonic-poll": non_monotonic_poll,
    "two-holders": two_holders,
    "stolen": stolen,
    "zombie-commit": zombie_commit,
    "cursor-back": cursor_back,
    "effect-count": effect_count,
    "handed-twice": handed_twice,
}
"""By the name that each violation carries."""
