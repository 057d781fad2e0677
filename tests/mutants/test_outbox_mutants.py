"""Outboxes that are known to be wrong: ours with one promise broken. The scenes around the commit show each of them,
and ours plays the same scenes and comes out clean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.concurrency.sessions import opened
from tests.mutants.mutants import install_changes
from tests.outbox import scenes
from tests.outbox.scenes import Stage

OutboxScene = Callable[[Stage], set[str]]


@dataclass(frozen=True)
class OutboxMutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: OutboxScene
    caught_as: set[str]
    changes: Sequence[tuple[str, str, str]]
    statements: Sequence[str] = ()


HAND_ON = (
    "delete from trunkline.outbox_stage s where s.transaction_id = new.transaction_id"
    " and s.partition_id = new.partition_id and s.ordinal = new.ordinal;"
)
ONE_TURN = [("outbox_begin", HAND_ON, f"{HAND_ON} set constraints trunkline.outbox_commit immediate;")]
NO_HEAD = "not exists (select from trunkline.outbox_stage s where s.transaction_id = id)"
BY_SETTING = (
    "coalesce(current_setting('trunkline_test.known', true), '') <> set_config('trunkline_test.known', id::text, true)"
)
LOCK_AT_PUBLISH = (
    "perform trunkline.lock_partition(p.partition_id) from trunkline.topic_partition p"
    " where p.topic_id = outbox_put_one.topic_id and p.partition = outbox_put_one.partition; "
)
PUT = "insert into trunkline.outbox_stage"
ALONE = "is_free := case when exists"
TRY_LOCK = "pg_try_advisory_xact_lock(trunkline.lock_class(), old.partition_id) end"
AFTER_THE_TIP = "where tip.record_count > 0;"
LOCK_WITH_IT = "where tip.record_count > 0 and (select trunkline.lock_partition(stage.partition_id) is not null);"

MUTANTS = [
    OutboxMutant(
        "locks in the first turn, with the application's checks",
        scenes.slow_check,
        {"a partition is held", "another publisher waits"},
        ONE_TURN,
    ),
    OutboxMutant("the same, where checks depend on each other", scenes.stuck_check, {"error 40P01"}, ONE_TURN),
    OutboxMutant(
        "locks at the publish",
        scenes.opposite_orders,
        {"error 40P01"},
        [
            (
                "outbox_put_one",
                PUT,
                LOCK_AT_PUBLISH + PUT,
            )
        ],
    ),
    OutboxMutant(
        "partitions in the order in which they were published to",
        scenes.opposite_orders,
        {"error 40P01"},
        [("outbox_commit", "order by s.partition_id, s.ordinal", "order by s.ordinal")],
    ),
    OutboxMutant(
        "the first partition before it is known whether it is the only one",
        scenes.opposite_orders,
        {"error 40P01"},
        [("outbox_commit", ALONE, f"perform trunkline.lock_partition(old.partition_id); {ALONE}")],
    ),
    OutboxMutant("no lock", scenes.one_after_the_other, {"error 23505"}, [("outbox_commit", TRY_LOCK, "true end")]),
    OutboxMutant(
        "a lock in the statement that reads the tip",
        scenes.one_after_the_other,
        {"error 23505"},
        [("outbox_commit", TRY_LOCK, "true end"), ("outbox_define", AFTER_THE_TIP, LOCK_WITH_IT)],
    ),
    OutboxMutant(
        "a setting that says that the commit knows already",
        scenes.made_immediate,
        {"lost"},
        [
            (
                "outbox_put_one",
                NO_HEAD,
                BY_SETTING,
            )
        ],
    ),
]
SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


def _played(url: str, scene: OutboxScene) -> set[str]:
    with opened(url) as sessions:
        return scene(Stage(sessions))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_mutant_is_caught(make_database: Callable[[], str], mutant: OutboxMutant) -> None:
    url = make_database()
    install_changes(url, mutant.changes, mutant.statements)
    assert mutant.caught_as <= _played(url, mutant.scene)


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_outbox_plays_the_same_scene_and_is_clean(make_database: Callable[[], str], scene: OutboxScene) -> None:
    assert _played(make_database(), scene) == set()
