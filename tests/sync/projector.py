# Generated from tests/aio/projector.py by tools/twins.py (make fix). Change the source, not this file.
"""What tests of handlers by group key have in common: events, the effects of handling them, and letters."""

from __future__ import annotations

from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

import trunkline
from tests.sync.shim import pause
from trunkline import Client, ClientSettings, HandlerSettings, Message, Record, TopicSettings

QUICK: dict[str, Any] = {"retry_first_s": 0.001, "retry_max_s": 0.01, "max_attempts": 2}


WAITING = HandlerSettings(**QUICK, blocked_keys=True)


INSERT = 'insert into effect ("offset", payload, odd) values (%s, %s, %s)'


DEAD = "events.dead"


CURSOR = "select cursor::int from trunkline.group_describe('projector')"


EFFECTS = "select coalesce(array_agg(convert_from(payload, 'UTF8') order by seq), '{}') from effect"
"""What has been done, in the order in which it was."""


def app_of(db_url: str) -> trunkline.App:
    """An app that notices lost members within seconds."""
    return trunkline.App(db_url, settings=ClientSettings(heartbeat_s=0.2, session_timeout_s=5.0))


def event(text: str) -> Message:
    """``a/x1`` is an event of tenant a and user x; ``a/1`` of no user, ``-/1`` of no tenant either."""
    tenant, _, rest = text.partition("/")
    user = rest.rstrip("0123456789")
    return Message(text.encode(), key=None if tenant == "-" else tenant, group_key=user or None)


def publish(tl: Client, *texts: str) -> None:
    tl.publish_many("events", [event(text) for text in texts])


def prepared(db_url: str, *texts: str, settings: TopicSettings | None = None) -> None:
    with psycopg.connect(db_url) as connection:
        connection.execute(
            'create table effect (seq serial, "offset" bigint unique, payload bytea, '
            "odd boolean unique deferrable initially deferred)"
        )
    with trunkline.connect(db_url) as tl:
        tl.create_topic("events")
        tl.create_topic(DEAD, partitions=3, settings=settings)
        publish(tl, *texts)


def write(records: list[Record], conn: Connection[Any], *, odd: bool | None = None) -> None:
    for record in records:
        conn.execute(INSERT, [record.offset, record.payload, odd])


def ask(db_url: str, statement: str) -> Any:
    with psycopg.Connection.connect(db_url, autocommit=True) as conn:
        ((found,),) = conn.execute(statement).fetchall()
        return found


def until(db_url: str, statement: str, wanted: object) -> None:
    """Ask until the answer is the wanted one; the bound only guards against hanging."""
    deadline = monotonic() + 60
    # Not prepared: behind a pooler the next statement may reach another session.
    with psycopg.Connection.connect(db_url, autocommit=True) as conn:
        while (rows := conn.execute(statement).fetchall()) != [(wanted,)]:
            assert monotonic() < deadline, rows
            pause()


def letters(tl: Client) -> list[Record]:
    found = [tl.read(DEAD, partition=partition) for partition in range(3)]
    return [letter for each in found for letter in each]


def reason_of(letter: Record) -> str:
    return dict(letter.headers)["trunkline-dl-reason"].decode()


def texts_of(records: list[Record]) -> list[str]:
    return [record.payload.decode() for record in records]
