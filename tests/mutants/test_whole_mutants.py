"""Readers that are to get transactions whole, and are known to be wrong: ours with one step left out. Each tears a
transaction in a scene that ours plays without a finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import trunkline
from tests.checker.whole_transactions import parts_of, torn_deliveries
from trunkline import ConsumerSettings, TopicSettings
from trunkline.client import protocol
from trunkline.client.sync import connection, fetching
from trunkline.engine.holdings import Holding, Piece, TransactionLimits

Scene = Callable[[str, bool], list[str]]
Patch = Callable[[pytest.MonkeyPatch], None]
AT_A_TIME = 100
"""Records that are read at once, instead of many more."""


def findings(url: str, *, whole: bool, sizes: list[int], batch: int, **options: Any) -> list[str]:
    """Transactions of these sizes in batches, read one record at a time; what was torn, or never came."""
    settings = TopicSettings(batch_records_max=batch)
    with trunkline.connect(url) as tl, psycopg.connect(url) as conn:
        tl.create_topic("t", settings=settings)
        sent: list[bytes] = []
        for number, size in enumerate(sizes):
            records = [part.payload for part in parts_of(f"t{number}", {0: size})[0]]
            # At once, so that each call is a batch.
            conn.execute("set constraints all immediate")
            for at in range(0, size, batch):
                tl.publish_many("t", records[at : at + batch], conn=conn)
            conn.commit()
            sent += records
        deliveries: list[list[bytes]] = []
        with tl.consumer(
            "t", group="g", create=True, whole_transactions=whole, settings=ConsumerSettings(fetch_bytes_max=1)
        ) as consumer:
            while sum(map(len, deliveries)) < len(sent):
                deliveries.append([record.payload for record in consumer.poll(1, wait_s=10, **options)])
    seen = [payload for delivery in deliveries for payload in delivery]
    return torn_deliveries(deliveries) + (["order"] if seen != sent else [])


def several_batches(url: str, whole: bool) -> list[str]:
    """Transactions of several batches, all of which are read at once."""
    return findings(url, whole=whole, sizes=[1, 12, 5, 13], batch=5)


def longer_than_a_read(url: str, whole: bool) -> list[str]:
    """A transaction of more records than are read at once."""
    return findings(url, whole=whole, sizes=[1, AT_A_TIME * 3, 2], batch=7)


def left_for_its_bytes(url: str, whole: bool) -> list[str]:
    """A batch does not fit into what is read at once, though little has been read, and is left for the next read."""
    return findings(url, whole=whole, sizes=[25], batch=5, bytes_max=200)


def many_small_batches(url: str, whole: bool) -> list[str]:
    """A transaction of more batches of one record than are read at once."""
    return findings(url, whole=whole, sizes=[1, AT_A_TIME + 50, 1], batch=1)


def _takes_what_it_has(patch: pytest.MonkeyPatch) -> None:
    sound = Holding.take_transactions

    def take(self: Holding, records_max: int, bytes_max: int, most: TransactionLimits) -> list[Piece]:
        known, self.may_have_more = self.may_have_more, False
        try:
            return sound(self, records_max, bytes_max, most)
        finally:
            self.may_have_more = known

    patch.setattr(Holding, "take_transactions", take)
    patch.setattr(Holding, "needs_more", lambda self, _: self.may_have_more and not self.has_pieces)


def _is_not_told_what_was_left(patch: pytest.MonkeyPatch) -> None:
    assert protocol.READ_PREPARED.endswith(b", true)")
    patch.setattr(protocol, "READ_PREPARED", protocol.READ_PREPARED.replace(b", true)", b", false)"))


def _merges_small_batches(patch: pytest.MonkeyPatch) -> None:
    sound = connection.ServerConnection.read
    patch.setattr(connection.ServerConnection, "read", lambda self, values: sound(self, [*values[:-1], True]))


def _takes_batches_for_transactions(patch: pytest.MonkeyPatch) -> None:
    """Each batch counts as a transaction."""
    patch.setattr("trunkline.records.Batch.continues", lambda self, before: False)


@dataclass(frozen=True)
class WholeMutant:
    """What is changed, and in which scene it shows."""

    name: str
    scene: Scene
    change: Patch | None = None


MUTANTS = [
    WholeMutant("a reader without the option", several_batches),
    WholeMutant("a batch is taken for a transaction", several_batches, _takes_batches_for_transactions),
    WholeMutant("what is in memory is taken for all", longer_than_a_read, _takes_what_it_has),
    WholeMutant("a short read is taken for the end of the log", left_for_its_bytes, _is_not_told_what_was_left),
    WholeMutant("batches of one record are merged", many_small_batches, _merges_small_batches),
]


SCENES = {mutant.scene.__name__: mutant.scene for mutant in MUTANTS}


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_RECORDS", AT_A_TIME)
    monkeypatch.setattr(fetching, "FETCH_BEHIND_RECORDS", AT_A_TIME)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_checker_sees_the_mutant(db_url: str, monkeypatch: pytest.MonkeyPatch, mutant: WholeMutant) -> None:
    if mutant.change is not None:
        mutant.change(monkeypatch)
    assert mutant.scene(db_url, mutant.change is not None) != []


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_our_reader_plays_the_same_scene_and_is_clean(db_url: str, scene: Scene) -> None:
    assert scene(db_url, True) == []
