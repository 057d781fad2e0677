"""What tests of handlers by group key have in common: events, the effects of handling them, and letters."""

from __future__ import annotations

from time import monotonic
from typing import Any

import psycopg
from psycopg import AsyncConnection

import trunkline.aio
from tests.aio.shim import pause
from trunkline import ClientSettings, HandlerSettings, Message, Record, TopicSettings
from trunkline.aio import AsyncClient

QUICK: dict[str, Any] = {"retry_first_s": 0.001, "retry_max_s": 0.01, "max_attempts": 2}


WAITING = HandlerSettings(**QUICK, blocked_keys=True)


INSERT = 'insert into effect ("offset", payload, odd) values (%s, %s, %s)'


DEAD = "events.dead"


CURSOR = "select cursor::int from trunkline.group_describe('projector')"


EFFECTS = "select coalesce(array_agg(convert_from(payload, 'UTF8') order by seq), '{}') from effect"
"""What has been done, in the order in which it was."""


def app_of(db_url: str) -> trunkline.aio.App:
    """An app that notices lost members within seconds."""
    return trunkline.aio.App(db_url, settings=ClientSettings(heartbeat_s=0.2, session_timeout_s=5.0))


def event(text: str) -> Message:
    """``a/x1`` is an event of tenant a and user x; ``a/1`` of no user, ``-/1`` of no tenant either."""
    tenant, _, rest = text.partition("/")
    user = rest.rstrip("0123456789")
    return Message(text.encode(), key=None if tenant == "-" else tenant, group_key=user or None)


async def publish(tl: AsyncClient, *texts: str) -> None:
    await tl.publish_many("events", [event(text) for text in texts])


async def prepared(db_url: str, *texts: str, settings: TopicSettings | None = None) -> None:
    with psycopg.connect(db_url) as connection:
        connection.execute(
            'create table effect (seq serial, "offset" bigint unique, payload bytea, '
            "odd boolean unique deferrable initially deferred)"
        )
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("events")
        await tl.create_topic(DEAD, partitions=3, settings=settings)
        await publish(tl, *texts)


async def write(records: list[Record], conn: AsyncConnection[Any], *, odd: bool | None = None) -> None:
    for record in records:
        await conn.execute(INSERT, [record.offset, record.payload, odd])


async def ask(db_url: str, statement: str) -> Any:
    async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as conn:
        ((found,),) = await (await conn.execute(statement)).fetchall()
        return found


async def until(db_url: str, statement: str, wanted: object) -> None:
    """Ask until the answer is the wanted one; the bound only guards against hanging."""
    deadline = monotonic() + 60
    # Not prepared: behind a pooler the next statement may reach another session.
    async with await psycopg.AsyncConnection.connect(db_url, autocommit=True) as conn:
        while (rows := await (await conn.execute(statement)).fetchall()) != [(wanted,)]:
            assert monotonic() < deadline, rows
            await pause()


async def letters(tl: AsyncClient) -> list[Record]:
    found = [await tl.read(DEAD, partition=partition) for partition in range(3)]
    return [letter for each in found for letter in each]


def reason_of(letter: Record) -> str:
    return dict(letter.headers)["trunkline-dl-reason"].decode()


def texts_of(records: list[Record]) -> list[str]:
    return [record.payload.decode() for record in records]
