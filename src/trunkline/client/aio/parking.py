"""Records that wait for a redrive, and what is known of failures: in the transaction that moves the cursor.

Only whoever holds a partition parks something there, or hands it out again, so that nothing of a key is ever handled
twice at a time or out of turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import psycopg

from trunkline.client import protocol
from trunkline.client.aio.transaction import GroupTransaction
from trunkline.client.failures import translate
from trunkline.engine.sections import Section
from trunkline.records import Record


class Parking:
    """What is parked in the partitions of one transaction of a group's."""

    def __init__(self, tx: GroupTransaction) -> None:
        self._tx = tx
        self._places = {holding.cursor_id: holding.place for holding in tx.held}
        self._cursors = {place: cursor_id for cursor_id, place in self._places.items()}

    async def due(self, max_records: int) -> Section | None:
        """Parked records of one key that are to be redriven now. From then on the partitions cannot be taken until the
        transaction ends. Fenced where they have been."""
        if not self._tx.held:
            return None
        rows = await self._run(protocol.PARKED_DUE, [*self._held(), max_records])
        return Section([self._record(row) for row in rows]) if rows else None

    async def begin(self) -> None:
        """Before anything is given up or parked: lock the partitions, as the commit will. Fenced where one was lost."""
        await self._run(protocol.PARKED_BEGIN, self._held())

    def _held(self) -> list[Any]:
        held = self._tx.held
        return [self._tx.member_id, [each.cursor_id for each in held], [each.epoch for each in held]]

    def _record(self, row: tuple[Any, ...]) -> Record:
        cursor_id, key, _, _, offset, payload, names, values, append_time = row
        headers = tuple(zip(names, values, strict=True))
        return Record(*self._places[cursor_id], offset, key, payload, headers, append_time.astimezone(UTC))

    async def blocked(self, found: Sequence[Section]) -> list[int | None]:
        """For each section the first offset that waits, where its key is blocked."""
        keyed = [index for index, section in enumerate(found) if section.is_keyed]
        waits: list[int | None] = [None] * len(found)
        if keyed:
            cursor_ids = [self._cursors[found[index].partition] for index in keyed]
            keys, group_keys = [found[index].key for index in keyed], [found[index].group_key for index in keyed]
            for place, first_offset in await self._run(protocol.PARKED_FIND, [cursor_ids, keys, group_keys]):
                waits[keyed[place - 1]] = first_offset
        return waits

    async def add(self, section: Section, *, attempts: int, reason: str, behind: int | None) -> None:
        """Let records wait until their key is redriven."""
        records = section.records
        pairs = [pair for record in records for pair in record.headers]
        columns: list[list[Any]] = [
            [record.offset for record in records],
            [record.payload for record in records],
            [len(record.headers) for record in records],
            [name for name, _ in pairs],
            [value for _, value in pairs],
            [record.append_time for record in records],
        ]
        await self._run(protocol.PARKED_ADD, [*self._named(section), attempts, reason, behind, *columns])

    async def done(self, section: Section) -> None:
        """The records were redriven. The key is free again where they were the last."""
        await self._run(protocol.PARKED_DONE, [*self._named(section), section.last_offset])

    async def failed(self, section: Section, reason: str) -> None:
        """The redrive failed: the key stays blocked until it is asked for again."""
        await self._run(protocol.PARKED_FAIL, [*self._named(section), reason])

    async def note_failure(self, section: Section, *, attempts: int, reason: str) -> None:
        """Let people see that records were given up."""
        cursor_id, key, group_key = self._named(section)
        what = [cursor_id, section.first_offset, len(section.records), key, group_key, attempts, reason]
        await self._run(protocol.FAILURE_ADD, what)

    def _named(self, section: Section) -> list[Any]:
        return [self._cursors[section.partition], section.key, section.group_key]

    async def _run(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            async with self._tx.conn.cursor(binary=True) as cursor:
                await cursor.execute(statement, parameters)
                return await cursor.fetchall()
        except psycopg.Error as error:
            raise translate(error) from error
