"""Groups that are known to be wrong: ours with one promise broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutants import group_scenes as scenes
from tests.mutants.group_scenes import GroupScene
from trunkline.settings import Delivery


@dataclass(frozen=True)
class GroupMutant:
    """What is changed, in which scene it shows, and as what. ``changes``: function, text in it, text instead."""

    name: str
    scene: GroupScene
    caught_as: set[str]
    changes: Sequence[tuple[str, str, str]] = ()
    statements: Sequence[str] = ()
    delivery: Delivery = "at_least_once"


NO_SHORT_WAY = ("group_commit", "if cardinality(cursor_ids) = 1 and from_offsets is null", "if false")
"""What a commit of one cursor does without asking group_advance."""
LOCK_INSIDE = (
    NO_SHORT_WAY,
    ("group_commit", "trunkline.lock_cursors(cursor_ids) <> cardinality(cursor_ids)", "false"),
    (
        "group_advance",
        "where n.epoch = c.epoch",
        "where (select trunkline.lock_cursors(cursor_ids)) = 1 and n.epoch = c.epoch",
    ),
)
"""As `insert … select … where epoch = …` would have it: the lock is waited for by the statement that looks."""
LOCK_OF_CLAIM = "if not pg_try_advisory_xact_lock(trunkline.lock_class() + 2, cursor_id) then"
RANGE_OF_CLAIM = 'select r."start", r."end" into log from trunkline.log_range(part.topic_id, part.partition) r;'
WINDOW = 'claimed_end := least(log."end", claimed_start + max_records);'

GROUP_MUTANTS = [
    GroupMutant(
        "a commit that looks in the statement that waits, and rows without a number of their own",
        scenes.late_commit,
        {"zombie-commit"},
        LOCK_INSIDE,
        [
            "alter table trunkline.group_ledger drop constraint group_ledger_pkey",
            "create index on trunkline.group_ledger (cursor_id, seq)",
        ],
    ),
    GroupMutant(
        "a partition is taken without a new epoch",
        scenes.takeover,
        {"two-holders"},
        [("group_take", "select n.cursor_id, n.seq + 1, n.epoch + 1,", "select n.cursor_id, n.seq + 1, n.epoch,")],
    ),
    GroupMutant(
        "everybody counts as dead",
        scenes.standby,
        {"stolen"},
        [("member_is_alive", "select coalesce((", "select false and coalesce((")],
    ),
    GroupMutant(
        "everybody counts as alive",
        scenes.takeover,
        {"unseen"},
        [("member_is_alive", "select coalesce((", "select true or coalesce((")],
    ),
    GroupMutant(
        "a transaction may be done twice",
        scenes.late_copy,
        {"effect-count"},
        [("group_advance", "and (c.from_offset is null or c.from_offset = n.next_offset)", "")],
        delivery="exactly_once",
    ),
    GroupMutant(
        "a commit of an older epoch is taken",
        scenes.old_epoch,
        {"zombie-commit"},
        [NO_SHORT_WAY, ("group_advance", "where n.epoch = c.epoch and", "where")],
    ),
    GroupMutant(
        "a commit may go back",
        scenes.late_step,
        {"cursor-back"},
        [NO_SHORT_WAY, ("group_advance", "and c.next_offset >= n.next_offset", "")],
    ),
    GroupMutant(
        "the older draft's window",
        scenes.one_batch_waits,
        {"poll-skip", "handed-twice"},
        [
            (
                "group_claim",
                WINDOW,
                (
                    f"{WINDOW} claimed_start := claimed_end"
                    ' - least(max_records, greatest(0, log."end" - 1 - claimed_end + max_records));'
                ),
            )
        ],
        delivery="at_most_once",
    ),
    GroupMutant(
        "a claim that reads the tip before it has the lock",
        scenes.claims_meet,
        {"error TL005"},
        [("group_claim", RANGE_OF_CLAIM, ""), ("group_claim", LOCK_OF_CLAIM, f"{RANGE_OF_CLAIM} {LOCK_OF_CLAIM}")],
        delivery="at_most_once",
    ),
]
