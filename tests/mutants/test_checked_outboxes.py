"""Outboxes that break one promise, before the checker: it sees every one of them, and nothing in ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.checker.outbox_invariants import outbox_violations
from tests.mutants import outbox_scenes as scenes
from tests.mutants.mutants import install_changes
from tests.mutants.outbox_scenes import Outbox, Scene, played


@dataclass(frozen=True)
class OutboxMutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: Scene
    caught_as: set[str]
    kind: type[Outbox] = Outbox
    changes: Sequence[tuple[str, str, str]] = ()


OF_THE_TRANSACTION = "where s.transaction_id = old.transaction_id order by"
NO_HEAD = "not exists (select from trunkline.outbox_stage s where s.transaction_id = id)"
BY_SETTING = (
    "coalesce(current_setting('trunkline_test.queued', true), '')"
    " <> set_config('trunkline_test.queued', id::text, true)"
)
TAKE_OVER = (
    "update trunkline.outbox_stage s set is_head = false where s.transaction_id = old.transaction_id and s.is_head;"
)

MUTANTS = [
    OutboxMutant(
        "events go out on a second connection before the commit",
        scenes.rolled_back,
        {"row-and-event", "aborted-read", "lost-commit"},
        scenes.SecondConnection,
    ),
    OutboxMutant(
        "events are kept in the client until the commit",
        scenes.savepoints,
        {"aborted-read"},
        scenes.ClientBuffer,
    ),
    OutboxMutant(
        "events go out after the commit", scenes.killed_after_the_commit, {"row-and-event"}, scenes.AfterCommit
    ),
    OutboxMutant("a lost answer is taken for a failure", scenes.answer_lost, {"duplicate"}, scenes.Again),
    OutboxMutant(
        "what a savepoint kept is lost",
        scenes.savepoints,
        {"row-and-event", "lost-commit"},
        changes=[
            (
                "outbox_commit",
                OF_THE_TRANSACTION,
                OF_THE_TRANSACTION.replace(" order by", " and s.xmin = pg_current_xact_id()::xid order by"),
            )
        ],
    ),
    OutboxMutant(
        "a setting tells that the commit is queued",
        scenes.fired_early,
        {"row-and-event", "lost-commit"},
        changes=[("outbox_put_one", NO_HEAD, BY_SETTING)],
    ),
    OutboxMutant(
        "a second head keeps its own turn",
        scenes.published_between_the_turns,
        {"duplicate"},
        changes=[("outbox_commit", TAKE_OVER, "")],
    ),
]
SCENES: dict[str, Scene] = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_checker_sees_the_mutant(make_database: Callable[[], str], mutant: OutboxMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes)
    found = outbox_violations(played(url, mutant.scene, mutant.kind))
    assert mutant.caught_as <= {violation.kind for violation in found}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_outbox_plays_the_same_scene_and_is_clean(make_database: Callable[[], str], scene: Scene) -> None:
    assert outbox_violations(played(make_database(), scene)) == []
