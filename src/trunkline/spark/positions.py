"""Positions of a stream: what Spark keeps in its checkpoint, and what proves them later.

As Spark sees it an offset is text: ``{"orders": {"0": 24, "1": 7}, "@": {…}}``. The topics look as with Kafka's source,
and each number is the next offset to read. ``@``, which is no topic's name, has what a position outside the database
must carry: the log epoch, each topic's incarnation, and the id of the batch that holds the record before.

Spark asks twice where a stream begins, and again after an early restart, and keeps no answer: "latest" would be
another place each time. So the first end that is given out carries, under ``from``, where its batch began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from trunkline.errors import InvalidArgument
from trunkline.spark.ranges import Place

VERSION = 1
PROOF = "@"


@dataclass(frozen=True)
class Proof:
    """What stands beside an offset: the topic's incarnation, and the batch that holds the record before."""

    incarnation: int
    batch_id: int | None


@dataclass(frozen=True)
class Positions:
    """Where a stream stands: the next offset of each partition, with its proof.

    ``group`` is the name under which it is reported. ``is_initial``: nothing was planned from here yet. ``begun``:
    where the batch that ends here began, if it was the first.
    """

    offsets: Mapping[Place, int]
    proofs: Mapping[Place, Proof]
    log_epoch: int
    group: str
    is_initial: bool = False
    begun: Positions | None = field(default=None)

    def as_spark(self) -> dict[str, Any]:
        """As Spark keeps it. Equal positions give equal text."""
        said: dict[str, Any] = {}
        topics: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            proof = self.proofs[topic, partition]
            said.setdefault(topic, {})[str(partition)] = offset
            known = topics.setdefault(topic, {"incarnation": proof.incarnation, "batches": {}})
            known["batches"][str(partition)] = proof.batch_id
        proof_of_all: dict[str, Any] = {"version": VERSION, "epoch": self.log_epoch, "group": self.group}
        proof_of_all["topics"] = topics
        if self.is_initial:
            proof_of_all["initial"] = True
        if self.begun is not None:
            proof_of_all["from"] = self.begun.as_spark()
        return {**said, PROOF: proof_of_all}

    @classmethod
    def of_spark(cls, said: object) -> Positions:
        """From what Spark kept; InvalidArgument where this is no checkpoint of ours."""
        try:
            kept = msgspec.convert(said, dict[str, dict[str, Any]])
            _check_version(kept[PROOF].get("version"))
            proof = msgspec.convert(kept[PROOF], _Proof)
            offsets = {
                (topic, int(partition)): int(offset)
                for topic, by_partition in kept.items()
                if topic != PROOF
                for partition, offset in by_partition.items()
            }
            proofs = {
                (topic, partition): Proof(proof.topics[topic].incarnation, proof.topics[topic].batches[str(partition)])
                for topic, partition in offsets
            }
        except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                "the checkpoint was not written by format('trunkline'), or was changed by hand: "
                f"{type(error).__name__} {error}; start with a new checkpoint, at startingOffsets of your choice"
            ) from None
        begun = None if proof.begun is None else cls.of_spark(proof.begun)
        return cls(offsets, proofs, proof.epoch, proof.group, proof.initial, begun)

    def settled(self) -> Positions:
        """The same place, as where the next batch begins."""
        return replace(self, begun=None, is_initial=False)


def _check_version(version: object) -> None:
    """First of all: of another version nothing else is known."""
    if version != VERSION:
        raise InvalidArgument(
            f"the checkpoint was written by another version of Trunkline (format {version}, "
            f"this one reads {VERSION}); go on with that version, or start with a new checkpoint"
        )


class _TopicProof(msgspec.Struct):
    incarnation: int
    batches: dict[str, int | None]


class _Proof(msgspec.Struct):
    version: int
    epoch: int
    group: str
    topics: dict[str, _TopicProof]
    initial: bool = False
    begun: dict[str, Any] | None = msgspec.field(default=None, name="from")
