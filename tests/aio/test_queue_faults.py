"""Answers that are lost under a queue: what was settled stays settled, once; a claim nobody heard of expires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import trunkline.aio
from tests.aio.shim import Gate, at_once, wait_until
from tests.concurrency.proxy import Fault, Proxy, as_if_direct
from trunkline import ClientSettings, errors
from trunkline.client.aio.connection import ServerConnection
from trunkline.client.aio.queue_letters import QueueLetters

FAULTS = [Fault.REQUEST_LOST, Fault.REQUEST_TORN, Fault.REPLY_LOST, Fault.REPLY_TORN]


@pytest.fixture
def proxied(direct_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database and the URL through it; clients do not notice it."""
    port = urlsplit(direct_url).port
    assert port is not None
    with Proxy(port) as proxy:
        as_if_direct(proxy, monkeypatch)
        yield proxy, proxy.url(direct_url)


def advance_clock(db_url: str, seconds: float) -> None:
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute(
            "create or replace function trunkline.clock_now() returns timestamptz language sql volatile as "
            f"$$ select clock_timestamp() + interval '{seconds} seconds' $$".encode()
        )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("kind", ["ack", "nack", "extend", "reject"])
async def test_a_settlement_whose_answer_is_lost_is_done_once(
    direct_url: str, proxied: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch, fault: Fault, kind: str
) -> None:
    """Method: the commit fails in a known way; what the server has in the end tells how often it was done."""
    proxy, url = proxied
    bury = QueueLetters._commit

    async def armed(self: QueueLetters, *arguments: Any) -> Any:
        if not proxy.hits:
            proxy.arm(fault)
        return await bury(self, *arguments)

    monkeypatch.setattr(QueueLetters, "_commit", armed)
    async with trunkline.aio.connect(url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        await tl.publish_many("orders", [b"0", b"1"])
        queue = tl.queue("orders", "billing", dead_letter="orders.dead", max_attempts=5, prefetch=0)
        first, second = await queue.receive(2)
        if kind != "reject":
            proxy.arm(fault)
        if kind == "ack":
            await first.ack()
        elif kind == "nack":
            await first.nack(delay_s=100)
        elif kind == "extend":
            await first.extend(100)
        else:
            await first.reject("x")
        assert proxy.hits == [fault]
        await second.ack()
        assert await queue.receive(2) == []
        assert [letter.payload for letter in await tl.read("orders.dead")] == ([b"0"] if kind == "reject" else [])
        advance_clock(direct_url, 60)
        assert await queue.receive(2) == []
        advance_clock(direct_url, 101)
        again = [(each.offset, each.attempt) for each in await queue.receive(2)]
        assert again == ([(1, 2)] if kind in ("nack", "extend") else [])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_a_claim_whose_answer_is_lost_expires(direct_url: str, proxied: tuple[Proxy, str], fault: Fault) -> None:
    proxy, url = proxied
    async with trunkline.aio.connect(url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", [b"0", b"1", b"2"])
        queue = tl.queue("orders", "billing", prefetch=0)
        (first,) = await queue.receive()
        proxy.arm(fault)
        got = await queue.receive()
        assert proxy.hits == [fault]
        is_claimed = fault in (Fault.REPLY_LOST, Fault.REPLY_TORN)
        assert [each.offset for each in got] == ([3] if is_claimed else [2])
        await queue.ack([first, *got])
        await queue.ack(await queue.receive() if not is_claimed else [])
        advance_clock(direct_url, 31)
        assert [(each.offset, each.attempt) for each in await queue.receive(5)] == ([(2, 2)] if is_claimed else [])


async def test_where_no_answer_comes_at_all_the_outcome_is_unknown(direct_url: str, proxied: tuple[Proxy, str]) -> None:
    proxy, url = proxied
    settings = ClientSettings(deadline_s=4, statement_timeout_s=2, retry_max_s=0.1, connect_timeout_s=2)
    async with trunkline.aio.connect(url, settings=settings) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", [b"0", b"1"])
        queue = tl.queue("orders", "billing", prefetch=0)
        first, second = await queue.receive(2)
        proxy.darken()
        with pytest.raises(errors.OutcomeUnknown):
            await first.ack()
        proxy.darken(dark=False)
        # Whether it was settled is not known here: the claim is not touched any more.
        for delivery in (first, second):
            with pytest.raises(errors.ClaimLost):
                await delivery.ack()
        advance_clock(direct_url, 31)
        assert 2 in [each.offset for each in await queue.receive(5)]


@pytest.mark.parametrize("kind", ["ack", "reject"])
async def test_what_stands_in_line_for_a_claim_in_doubt_is_refused(
    db_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Method: the server has done the first settlement, and its answer is lost once the second one stands in line.
    Under the number of the first, the second would be answered as done."""
    gate = Gate()
    found: list[tuple[type[BaseException], list[int]]] = []

    def lossy(place: type, name: str) -> None:
        call = getattr(place, name)

        async def lose(*values: Any) -> Any:
            answer = await call(*values)
            if gate.count == 0:
                await gate.wait()
                raise errors.OutcomeUnknown("the answer was lost")
            return answer

        monkeypatch.setattr(place, name, lose)

    async def settle(delivery: trunkline.aio.AsyncDelivery) -> None:
        try:
            await (delivery.ack() if kind == "ack" else delivery.reject("x"))
        except (errors.OutcomeUnknown, errors.ClaimLost) as error:
            found.append((type(error), getattr(error, "offsets", [])))

    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        await tl.publish_many("orders", [b"0", b"1"])
        queue = tl.queue("orders", "billing", prefetch=0, dead_letter="orders.dead")
        first, second = await queue.receive(2)
        if kind == "ack":
            lossy(ServerConnection, "queue_step")
            lossy(ServerConnection, "queue_next")
        else:
            lossy(QueueLetters, "_commit")

        async def settle_second() -> None:
            await wait_until(lambda: gate.count == 1)
            await settle(second)

        async def open_gate() -> None:
            opened = queue._opened
            assert opened is not None
            await wait_until(lambda: gate.count == 1 and len(opened.lane._pending) == 1)
            gate.open()

        await at_once(lambda: settle(first), settle_second, open_gate)
        assert found == [(errors.OutcomeUnknown, []), (errors.ClaimLost, [2])]
        with pytest.raises(errors.ClaimLost):
            await first.ack()
        assert [letter.payload for letter in await tl.read("orders.dead")] == ([b"0"] if kind == "reject" else [])
        advance_clock(db_url, 31)
        assert [(each.offset, each.attempt) for each in await queue.receive(5)] == [(2, 2)]
