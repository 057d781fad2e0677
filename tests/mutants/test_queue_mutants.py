"""Queues that are known to be wrong: ours with one promise broken. Each is caught, and ours plays the same scenes
and is clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.concurrency.sessions import opened
from tests.mutants import queue_scenes as scenes
from tests.mutants.mutants import install_changes
from tests.mutants.queue_scenes import QueueScene

Change = tuple[str, str, str]


@dataclass(frozen=True)
class QueueMutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: QueueScene
    caught_as: set[str]
    changes: Sequence[Change]


NO_CLAIM_LOCK: Change = ("queue_settle", "perform trunkline.lock_claim(part_ids[i], claim_nos[i]);", "null;")
LOCK_INSIDE: Change = (
    "queue_define",
    "and c.token = <claim>_settle.token;",
    (
        "and c.token = <claim>_settle.token"
        " and (select true from trunkline.lock_claim(<claim>_settle.part_id, <claim>_settle.claim_no));"
    ),
)
NO_CLOCK: Change = ("queue_define", "or held.deadline <= now or isempty(held.remains)", "or isempty(held.remains)")
"""A claim is lost only where another has it."""
NO_NUMBER: Change = ("queue_table_create", "primary key (part_id, claim_no, seq) )", "check (true) )")
"""What becomes of a claim has no number of its own, so that two may write it at a time."""
NO_CLAIM_NUMBER: Change = ("queue_table_create", "primary key (part_id, claim_no) )", "check (true) )")
NO_STEP_LOCK: Change = (
    "queue_define",
    "and pg_try_advisory_xact_lock(trunkline.lock_class() + 7, hashint8(claim_no) # hashint4(part_id))",
    "",
)
NO_STEP_CLOCK: Change = ("queue_define", "and coalesce(c.deadline, c.at) > trunkline.clock_now()", "")
NO_TRY: Change = ("queue_define", "if not trunkline.lock_claim_try(part_id, due.claim_no) then", "if false then")

MUTANTS = [
    QueueMutant(
        "an ack that looks in the statement that waits",
        scenes.late_ack,
        {"zombie-ack"},
        [NO_CLAIM_LOCK, LOCK_INSIDE, NO_CLOCK, NO_NUMBER],
    ),
    QueueMutant(
        "the same, and only a unique key stands against it",
        scenes.late_ack,
        {"error 23505"},
        [NO_CLAIM_LOCK, LOCK_INSIDE, NO_CLOCK],
    ),
    QueueMutant("an ack that takes no lock", scenes.slow_ack, {"done-twice"}, [NO_CLAIM_LOCK, NO_NUMBER]),
    QueueMutant(
        "an ack on the hot path that takes no lock",
        scenes.slow_ack_shortly,
        {"done-twice"},
        [NO_STEP_LOCK, NO_NUMBER],
    ),
    QueueMutant(
        "the same, and only a unique key stands against it",
        scenes.slow_ack_shortly,
        {"waits", "error 23505"},
        [NO_STEP_LOCK],
    ),
    QueueMutant(
        "an ack on the hot path that does not look at what became of its claim",
        scenes.late_ack_shortly,
        {"zombie-ack"},
        [NO_STEP_CLOCK, NO_NUMBER],
    ),
    QueueMutant(
        "the same, and only a unique key stands against it",
        scenes.slow_ack,
        {"waits", "error 23505"},
        [NO_CLAIM_LOCK],
    ),
    QueueMutant("a take-over that does not try the lock", scenes.slow_ack, {"done-twice"}, [NO_TRY, NO_NUMBER]),
    QueueMutant(
        "the same, and only a unique key stands against it", scenes.slow_ack, {"waits", "error 23505"}, [NO_TRY]
    ),
    QueueMutant(
        "a nack without the part's lock",
        scenes.nack_and_sweep,
        {"unsettled"},
        [("queue_settle", "where u.kind in ('n', 'r', 'e') order by 1", "where false order by 1"), NO_CLAIM_NUMBER],
    ),
    QueueMutant(
        "attempts that are counted by whoever settles",
        scenes.deadly_record,
        {"never ends", "uncounted"},
        [
            (
                "queue_define",
                "due.attempt + case when piece.is_exhausted then 0 else 1 end",
                "due.attempt + case when piece.is_exhausted or due.kind = 'c' then 0 else 1 end",
            )
        ],
    ),
    QueueMutant(
        "a sweep that passes what nobody has looked at",
        scenes.many_are_due,
        {"unsettled"},
        [("queue_define", "state.swept := due.row_deadline;", "state.swept := now;")],
    ),
]
SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


def _played(url: str, scene: QueueScene) -> set[str]:
    with opened(url) as sessions:
        return scene(sessions)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_caught(make_database: Callable[[], str], mutant: QueueMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes)
    assert mutant.caught_as <= _played(url, mutant.scene)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_queue_plays_the_same_scene_and_is_clean(make_database: Callable[[], str], scene: QueueScene) -> None:
    assert _played(make_database(), scene) == set()
