"""Records of a batch by their key of two parts: those that are handled together, in one call and one savepoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from trunkline.records import Record

SectionName: TypeAlias = tuple[str, int, bytes | None, bytes | None, int | None]
"""Topic, partition, key, group key; and the offset where there is neither key, so that it stands alone."""


class Section(msgspec.Struct, frozen=True):
    """All records of one key and group key in one partition of a batch, in offset order; at least one."""

    records: list[Record]

    @property
    def name(self) -> SectionName:
        return section_name(self.records[0])

    @property
    def partition(self) -> tuple[str, int]:
        return self.records[0].topic, self.records[0].partition

    @property
    def key(self) -> bytes | None:
        return self.records[0].key

    @property
    def group_key(self) -> bytes | None:
        return self.records[0].group_key

    @property
    def is_keyed(self) -> bool:
        """Whether later records can belong to it: one without any key has no successor."""
        return self.key is not None or self.group_key is not None

    @property
    def first_offset(self) -> int:
        return self.records[0].offset

    @property
    def last_offset(self) -> int:
        return self.records[-1].offset


def section_name(record: Record) -> SectionName:
    group_key = record.group_key
    alone = record.offset if record.key is None and group_key is None else None
    return record.topic, record.partition, record.key, group_key, alone


def sections(records: Iterable[Record]) -> list[Section]:
    """The sections of a batch, by their first records; each has its records in the order given."""
    found: dict[SectionName, list[Record]] = {}
    for record in records:
        found.setdefault(section_name(record), []).append(record)
    return [Section(each) for each in found.values()]
