"""Groups that are known to be wrong: the older draft's claim, and fences that prove nothing. Each is caught in a scene
that our own functions play without a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from tests.concurrency.claims import Play, Step, handed_out
from tests.concurrency.groups import Group, commit
from tests.concurrency.sessions import WAIT_S, Sessions, opened, wait_until
from tests.mutants.mutants import install_changes

GroupScene = Callable[[Sessions, int], set[str]]


def claims_in_line(sessions: Sessions, topic_id: int) -> set[str]:
    """Ten records. One reader claims five and commits while a second waits; the rest is then claimed to the end."""
    play = Play(sessions, topic_id, Group(sessions, topic_id), tip=0, cursor=1)
    play.run([Step(0, 5, True, 10), Step(1, 10, True, 0), Step(0, 0, True, 0)])
    play.drain(10)
    offsets = handed_out(play.committed)
    found = {fault for fault in play.faults if fault.startswith("error")}
    found |= {"overlap"} if len(offsets) != len(set(offsets)) else set()
    return found | ({"skip"} if set(range(1, 11)) - set(offsets) else set())


def late_commit(sessions: Sessions, topic_id: int) -> set[str]:
    """A member's commit waits for the cursor while another takes it: it must be refused as fenced."""
    group = Group(sessions, topic_id)
    old, new = group.join("old"), group.join("new")
    (epoch,) = group.take(old, 0)
    sessions.end(old.process)
    taker, zombie = sessions.open("taker"), sessions.open("zombie")
    taker.run("select trunkline.group_take(%s, %s)", [new.member_id, group.ids([0])])
    late = commit(zombie, old, {group.cursor_ids[0]: (epoch, 5)})
    sessions.watcher.wait_blocked(zombie, taker)
    taker.commit()
    try:
        late.result(WAIT_S)
    except psycopg.Error as error:
        return set() if error.sqlstate == "TL013" else {f"error {error.sqlstate}"}
    zombie.commit()
    return {"late commit accepted"}


def opposite_orders(sessions: Sessions, topic_id: int) -> set[str]:
    """Two commits name the same two cursors in opposite orders, while a third one holds the second cursor."""
    group = Group(sessions, topic_id)
    member, (first, second) = group.join("m"), group.cursor_ids
    group.take(member)
    holder, *others = (sessions.open(name) for name in ("holder", "a", "b"))
    commit(holder, member, {second: (1, 2)}).result(WAIT_S)
    waiting = []
    for session, order in zip(others, ((second, first), (first, second)), strict=True):
        waiting.append(commit(session, member, dict.fromkeys(order, (1, 3))))
        wait_until(lambda session=session: sessions.watcher.is_waiting(session), "it waits")  # type: ignore[misc]
    holder.commit()
    found: set[str] = set()
    for session, commits in zip(others, waiting, strict=True):
        try:
            commits.result(WAIT_S)
        except psycopg.Error as error:
            found.add(f"error {error.sqlstate}")
        session.commit()
    return found


@dataclass(frozen=True)
class GroupMutant:
    """What is changed, in which scene it shows, and as what."""

    name: str
    scene: GroupScene
    caught_as: set[str]
    changes: Sequence[tuple[str, str, str]]
    statements: Sequence[str] = ()


CLAIM_LOCK = (
    "if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_id) then"
    " perform trunkline.lock_wait(trunkline.lock_class() + 2, cursor_id); end if;"
)
CLAIM_READ = (
    "select l.seq, l.next_offset, l.epoch, l.member_id into newest from trunkline.group_ledger l"
    " where l.cursor_id = group_claim.cursor_id order by l.seq desc limit 1;"
)
FENCE_IN_THE_INSERT = (
    # A commit of one cursor would not come to what is changed.
    ("group_commit", "if cardinality(cursor_ids) = 1 and from_offsets is null", "if false"),
    ("group_commit", "trunkline.lock_cursors(cursor_ids) <> cardinality(cursor_ids)", "false"),
    (
        "group_advance",
        "where n.epoch = c.epoch",
        (
            "where (select true from pg_advisory_xact_lock(trunkline.lock_class() + 2, cursor_ids[1]))"
            " and n.epoch = c.epoch"
        ),
    ),
)
NO_KEY = ("alter table trunkline.group_ledger drop constraint group_ledger_pkey",)
NO_CHECK = (("group_advance", "n.epoch = c.epoch and n.member_id = group_advance.member_id and", ""),)

MUTANTS = [
    GroupMutant(
        "the older draft's claim",
        claims_in_line,
        {"overlap"},
        [
            (
                "group_claim",
                'claimed_end := least(log."end", claimed_start + max_records);',
                (
                    'claimed_end := claimed_start + least(max_records, greatest(0, log."end" - claimed_start));'
                    " claimed_start := claimed_end"
                    ' - least(max_records, greatest(0, log."end" - 1 - claimed_end + max_records));'
                ),
            )
        ],
    ),
    GroupMutant(
        "a claim that reads the cursor before its lock",
        claims_in_line,
        {"error 40001"},
        [("group_claim", CLAIM_READ, ""), ("group_claim", CLAIM_LOCK, f"{CLAIM_READ} {CLAIM_LOCK}")],
    ),
    GroupMutant("a claim without a lock", claims_in_line, {"error 40001"}, [("group_claim", CLAIM_LOCK, "")]),
    GroupMutant(
        "a fence inside the inserting statement",
        late_commit,
        {"error 23505"},
        FENCE_IN_THE_INSERT,
    ),
    GroupMutant(
        "the same, and nothing that tells two rows apart",
        late_commit,
        {"late commit accepted"},
        FENCE_IN_THE_INSERT,
        NO_KEY,
    ),
    GroupMutant("a commit that nobody checks", late_commit, {"late commit accepted"}, NO_CHECK),
    GroupMutant(
        "cursors locked in the order in which they are named",
        opposite_orders,
        {"error 40P01"},
        [("lock_cursors", "select distinct c from unnest(cursor_ids) c order by c", "select unnest(cursor_ids)")],
    ),
]
SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


def _played(url: str, scene: GroupScene) -> set[str]:
    with opened(url) as sessions:
        topic_id = sessions.open("admin", autocommit=True).run("select trunkline.topic_create('t', 2)")[0][0]
        return scene(sessions, topic_id)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_caught(make_database: Callable[[], str], mutant: GroupMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes, mutant.statements)
    assert mutant.caught_as <= _played(url, mutant.scene)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_groups_play_the_same_scene_and_are_clean(make_database: Callable[[], str], scene: GroupScene) -> None:
    assert _played(make_database(), scene) == set()
