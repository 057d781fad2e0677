"""Dead letters in the transaction of a group's: there if and only if the cursor moves past their records."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import psycopg

from trunkline.client.aio.attempts import Handler
from trunkline.client.aio.client import AsyncClient
from trunkline.client.failures import translate
from trunkline.engine.dead_letters import dead_letter, fitted
from trunkline.engine.routing import partition_of_key
from trunkline.engine.sections import Section
from trunkline.records import Message, Topic

logger = logging.getLogger("trunkline")


class Letters:
    """Writes what a handler has given up to its dead letter topic."""

    def __init__(self, handler: Handler, client: AsyncClient) -> None:
        self._handler = handler
        self._client = client

    async def write(self, section: Section, conn: psycopg.AsyncConnection[Any], *, attempts: int, reason: str) -> bool:
        """Publish all records of a section, in order and to one partition, in the transaction; False where there is no
        dead letter topic. One that is too large for it becomes a stub. Where it raises nothing of it stays."""
        name = self._handler.dead_letter
        if name is None:
            return False
        # As it is now: a limit that was altered since must not fail the commit.
        topic = await self._client.topic(name)
        try:
            async with conn.transaction():
                for record in section.records:
                    letter = dead_letter(record, attempts=attempts, reason=reason, time=datetime.now(UTC))
                    await self._publish(fitted(letter, topic), topic, section, conn)
        except psycopg.Error as error:
            raise translate(error) from error
        where = self._handler.at(section.records[0])
        logger.error("%s: %d records are put into %s: %s", where, len(section.records), name, reason)
        return True

    async def _publish(
        self, letter: Message, topic: Topic, section: Section, conn: psycopg.AsyncConnection[Any]
    ) -> None:
        # Those of one section stand in one partition, in order, though they have no key or it was too long.
        name = section.key if section.key is not None else section.group_key
        partition = partition_of_key(name, topic.partitions) if letter.key is None and name is not None else None
        await self._client.publish(
            topic.name, letter.body, key=letter.key, headers=letter.headers, partition=partition, conn=conn
        )
