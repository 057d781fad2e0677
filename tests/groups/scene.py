"""What the tests of faults share: a topic with five records, a group that reads it, and ways to look on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from tests.concurrency.sessions import wait_until
from trunkline import ClientSettings, Record
from trunkline.client.sync.client import Client
from trunkline.client.sync.consumer import Consumer
from trunkline.errors import Fenced

Admin = psycopg.Connection[Any]

QUICK = ClientSettings(heartbeat_s=0.1, session_timeout_s=0.5, poll_max_s=0.2, connect_timeout_s=2)
PATIENT = ClientSettings(heartbeat_s=0.1, session_timeout_s=20)
"""For tests that say themselves who is dead."""

LEDGER = (
    "select l.kind::text, l.epoch, l.next_offset from trunkline.group_ledger l join trunkline.group_cursor c"
    " using (cursor_id) join trunkline.reader_group g using (group_id) where g.name = 'g' order by l.seq"
)
DOORBELLS = (
    "select pid from pg_stat_activity where application_name = 'trunkline doorbell' and datname = current_database()"
)


def read(consumer: Consumer, count: int) -> list[int]:
    """Poll until so many records have come; their offsets."""
    records: list[Record] = []
    while len(records) < count:
        got = consumer.poll(wait_s=30)
        assert got, f"only {len(records)} of {count} records came"
        records += got
    return [record.offset for record in records]


def write(consumer: Consumer, meanwhile: Callable[[], object] = lambda: None) -> list[int]:
    """One transaction with an effect for every record that came; their offsets."""
    with consumer.transaction(wait_s=30) as tx:
        for record in tx.records:
            tx.conn.execute("insert into public.effect values (%s)", [record.offset])
        meanwhile()
    return [record.offset for record in tx.records]


def catch_up(tl: Client, consumer: Consumer) -> None:
    """Read and commit until the group has come to the end, however often that is refused on the way."""

    def step() -> bool:
        consumer.poll(wait_s=0.5)
        with suppress(Fenced):
            consumer.commit()
        return tl.describe_group("g").lag == 0

    wait_until(step, "the group has read everything", deadline_s=60)


def effects(admin: Admin) -> list[int]:
    """The offsets of all effects."""
    return [offset for (offset,) in admin.execute('select "offset" from public.effect order by 1').fetchall()]


def newest(admin: Admin) -> tuple[str, int, int]:
    """Kind, epoch and next offset of the ledger's last row."""
    kind, epoch, next_offset = admin.execute(LEDGER).fetchall()[-1]
    return kind, epoch, next_offset


def remove_members(admin: Admin) -> None:
    """As others do with those that they take for dead."""
    admin.execute("select trunkline.member_leave(array(select member_id from trunkline.group_member))")


def seek_to_start(admin: Admin) -> None:
    """Whoever holds the partition loses it."""
    admin.execute("select trunkline.group_seek('g', 't', null, 'start', execute => true)")
