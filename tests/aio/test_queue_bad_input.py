"""Bad input to queues: a typed error at once, nothing written, and the queue usable afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

import trunkline.aio
from tests.aio.shim import at_once
from trunkline import TopicSettings, errors

BAD_NAMES: list[Any] = [
    "",
    " ",
    None,
    7,
    b"orders",
    "a\0b",
    "\ud800",
    "x" * 201,
    "a'b",
    "a..b",
    "-a",
    "/a",
    "a\nb",
    "ü",
]
BAD_SECONDS: list[Any] = [-1, -0.001, float("inf"), float("-inf"), float("nan"), "10", None, True]


def sql(db_url: str, statement: str) -> object:
    with psycopg.connect(db_url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    return row[0] if row else None


async def test_queues_that_cannot_be(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        for name in BAD_NAMES:
            with pytest.raises(errors.InvalidArgument):
                tl.queue(name, "billing")
            with pytest.raises(errors.InvalidArgument):
                tl.queue("orders", name)
            if name is not None:
                with pytest.raises(errors.InvalidArgument):
                    tl.queue("orders", "billing", dead_letter=name)
        wrong: list[dict[str, Any]] = [
            *({"ack_deadline_s": seconds} for seconds in BAD_SECONDS if seconds is not None),
            {"ack_deadline_s": 0},
            {"ack_deadline_s": 86_401},
            *({"max_attempts": number, "dead_letter": "orders.dead"} for number in (0, -1, 1.5, True, "5", 2**31)),
            {"max_attempts": 5},
            {"dead_letter": "orders"},
            *({"pause_above": part} for part in (0, -1, 1.1, float("nan"), "0.5", True)),
            *({name: "yes"} for name in ("ordered_by_key", "bury_expired", "create")),
            *({"prefetch": number} for number in (-1, 1.5, True, "10", 10_001, None, float("nan"))),
            *({"prefetch_bytes": number} for number in (0, -1, 1.5, True, "10", None)),
            *({"start": place} for place in ("middle", 1, None)),
        ]
        for options in wrong:
            with pytest.raises(errors.InvalidArgument):
                tl.queue("orders", "billing", **options)
        with pytest.raises(errors.InvalidArgument, match="dead_letter"):
            tl.queue("orders", "billing", max_attempts=5)
        assert sql(db_url, "select count(*) from trunkline.queue") == 0


async def test_receives_that_cannot_be(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"x")
        queue = tl.queue("orders", "billing")
        numbers: list[Any] = [0, -1, True, 1.5, float("nan"), "10", None, 2**31]
        for number in numbers:
            with pytest.raises(errors.InvalidArgument):
                await queue.receive(number)
        for seconds in BAD_SECONDS:
            with pytest.raises(errors.InvalidArgument):
                await queue.receive(1, wait_s=seconds)
        assert sql(db_url, "select count(*) from trunkline.queue") == 0
        assert len(await queue.receive(2**31 - 1)) == 1


async def test_settlements_that_cannot_be(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", settings=TopicSettings(retention_age_s=3600))
        await tl.publish_many("orders", [b"0", b"1", b"2"])
        async with (
            tl.queue("orders", "billing", prefetch=0) as queue,
            tl.queue("orders", "shipping", prefetch=0) as other,
        ):
            got = await queue.receive(3)
            foreign = await other.receive(3)
            for seconds in BAD_SECONDS:
                with pytest.raises(errors.InvalidArgument):
                    await got[0].nack(delay_s=seconds)
                with pytest.raises(errors.InvalidArgument):
                    await got[0].extend(seconds)
            calls: list[Callable[[], Awaitable[None]]] = [
                lambda: got[0].nack(delay_s=3601),
                lambda: got[0].extend(86_401),
                lambda: got[0].reject(None),  # type: ignore[arg-type]
                lambda: got[0].reject(b"why"),  # type: ignore[arg-type]
                lambda: queue.ack(foreign),
                lambda: queue.ack([*got, foreign[0]]),
                lambda: other.nack(got),
                lambda: queue.ack(got[0]),  # type: ignore[arg-type]
                lambda: queue.ack([b"x"]),  # type: ignore[list-item]
                lambda: queue.ack(None),  # type: ignore[arg-type]
                lambda: queue.ack("text"),  # type: ignore[arg-type]
                lambda: queue.ack([got[0], got[0]]),
                lambda: tl.queue("orders", "billing").ack(got),
            ]
            for call in calls:
                with pytest.raises(errors.InvalidArgument):
                    await call()
            table = sql(db_url, "select min(table_no) from trunkline.queue_part")
            assert sql(db_url, f"select count(*) from trunkline.closure_{table}") == 0
            await queue.ack([])
            await got[0].ack()
            await got[1].nack()
            for delivery in got[:2]:
                with pytest.raises(errors.InvalidArgument, match="settled already"):
                    await delivery.ack()
                with pytest.raises(errors.InvalidArgument, match="settled already"):
                    await delivery.nack()
                with pytest.raises(errors.InvalidArgument, match="settled already"):
                    await delivery.extend(5)
            with pytest.raises(errors.InvalidArgument):
                await queue.ack(got)
            await got[2].ack()
            assert [(each.offset, each.attempt) for each in await queue.receive(3)] == [(2, 2)]


async def test_of_two_that_settle_one_delivery_at_once_one_is_refused(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"0")
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = await queue.receive()

            async def settle() -> str:
                try:
                    await delivery.ack()
                except errors.InvalidArgument:
                    return "refused"
                return "done"

            assert sorted(await at_once(settle, settle)) == ["done", "refused"]


async def test_a_queue_of_a_client_that_is_closed(db_url: str) -> None:
    tl = await trunkline.aio.connect(db_url)
    await tl.create_topic("orders")
    await tl.publish_many("orders", [b"0", b"1"])
    queue = tl.queue("orders", "billing")
    (delivery,) = await queue.receive()
    await tl.close()
    for call in (queue.receive, delivery.ack, tl.queue("orders", "other").receive):
        with pytest.raises(errors.Closed):
            await call()
    await queue.close()


async def test_a_queue_that_was_deleted(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"0")
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = await queue.receive()
            sql(db_url, "select trunkline.queue_delete('orders', 'billing')")
            for call in (queue.receive, delivery.ack, delivery.ack):
                with pytest.raises(errors.NotFound, match="deleted"):
                    await call()


FORK = """
import os, sys, trunkline
from trunkline.errors import Closed

tl = trunkline.connect(sys.argv[1])
tl.create_topic("t")
tl.publish_many("t", [b"1", b"2", b"3"])
queue = tl.queue("t", "q")
first, second = queue.receive(2)
child = os.fork()
if child == 0:
    refused = 0
    for call in (queue.receive, first.ack, lambda: queue.nack([first]), lambda: next(iter(queue)), queue.close):
        try:
            call()
        except Closed:
            refused += 1
    tl.close()
    os._exit(refused)
_, status = os.waitpid(child, 0)
first.ack()
assert len(queue.receive()) == 1
queue.close()
tl.close()
print(os.waitstatus_to_exitcode(status))
"""


async def test_a_queue_is_refused_in_a_forked_child_which_leaves_the_parents_alone(db_url: str) -> None:
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs meanwhile
        [sys.executable, "-W", "ignore", "-c", FORK, db_url], capture_output=True, text=True, check=False
    )
    assert done.stdout == "5\n", done.stderr
