"""What tests of apps have in common."""

from __future__ import annotations

from typing import Any

import psycopg

import trunkline.aio
from trunkline import ClientSettings, HandlerSettings, Message

QUICK = HandlerSettings(retry_first_s=0.001, retry_max_s=0.01, commit_interval_s=0.05)


def settings(**changes: Any) -> HandlerSettings:
    given = {name: getattr(QUICK, name) for name in QUICK.__struct_fields__}
    return HandlerSettings(**{**given, **changes})


def app_of(db_url: str) -> trunkline.aio.App:
    """An app that soon notices who comes and goes; one that is merely slow is not taken for dead."""
    return trunkline.aio.App(db_url, settings=ClientSettings(heartbeat_s=0.2, session_timeout_s=60.0))


def cursors(db_url: str, group: str = "billing") -> dict[int, int]:
    with psycopg.connect(db_url) as connection:
        rows = connection.execute("select partition, cursor from trunkline.group_describe(%s)", [group]).fetchall()
    return dict(rows)


async def publish(db_url: str, *messages: Message | bytes, topic: str = "orders", partitions: int = 1) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        if topic not in {known.name for known in await tl.topics()}:
            await tl.create_topic(topic, partitions=partitions)
        await tl.publish_many(topic, messages)
