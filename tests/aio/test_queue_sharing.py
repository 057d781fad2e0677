"""Many tasks, or several readers, on one queue; partitions and tables that change while it is read."""

from __future__ import annotations

from typing import Any

import pytest

import trunkline.aio
from tests.aio.queued import advance_clock, all_of, numbered, sql
from tests.aio.shim import Gate, at_once, wait_until
from trunkline import ClientSettings, Message, errors
from trunkline.client import protocol
from trunkline.client.aio.server import Server
from trunkline.testing.aio.shim import Running


async def test_many_tasks_share_one_queue(db_url: str) -> None:
    """Method: eight at once receive and settle in different ways; every record is acknowledged once, in the end."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=3)
        await tl.publish_many("orders", [Message(payload, key=payload) for payload in numbered(300)])
        acked: list[bytes] = []
        async with tl.queue("orders", "billing", prefetch=20) as queue:

            async def work(number: int) -> int:
                count = 0
                while len(acked) < 300:
                    got = await queue.receive(number + 1, wait_s=0.05)
                    if number == 3:
                        await queue.nack([each for each in got if each.attempt == 1])
                        got = [each for each in got if each.attempt > 1]
                    if number % 2:
                        await queue.ack(got)
                    else:
                        for each in got:
                            await each.ack()
                    acked.extend(each.payload for each in got)
                    count += len(got)
                return count

            counts = await at_once(*(lambda number=number: work(number) for number in range(8)))
        assert sum(counts) == len(acked) == 300
        assert sorted(map(int, acked)) == list(range(300))
        advance_clock(db_url, 100)
        assert await tl.queue("orders", "billing").receive(10) == []


async def test_calls_at_the_same_time_share_a_transaction(db_url: str) -> None:
    """Method: fifty records of one claim are acknowledged by fifty callers at once; the rows that say so are few."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(50))
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            got = await all_of(queue, 50)
            await at_once(*(each.ack for each in got))
            table = sql(db_url, "select table_no from trunkline.queue_part")
            rows = sql(db_url, f"select count(*) from trunkline.closure_{table}")
            assert isinstance(rows, int)
            assert rows < 40
            advance_clock(db_url, 100)
            assert await queue.receive(10) == []


async def test_while_one_holds_a_record_in_its_last_attempt_the_others_wait_until_it_is_settled(db_url: str) -> None:
    """Method: the wait would be over after a minute; it ends with the acknowledgement."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        await tl.publish_many("orders", numbered(2))
        async with tl.queue(
            "orders", "billing", max_attempts=1, dead_letter="orders.dead", ack_deadline_s=600
        ) as queue:
            (first,) = await queue.receive(2)
            gate = Gate()

            async def wait() -> list[int]:
                assert await queue.receive() == []
                gate.open()
                return [each.offset for each in await queue.receive(wait_s=60)]

            async def settle() -> list[int]:
                await gate.wait()
                await first.ack()
                return []

            assert await at_once(wait, settle) == [[2], []]


async def test_who_waits_for_a_last_attempt_goes_on_after_it_whatever_else_was_settled_meanwhile(db_url: str) -> None:
    """Method: looking again by itself would take an hour; the wait ends with the acknowledgement."""
    settings = ClientSettings(heartbeat_s=3600, session_timeout_s=7200)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        await tl.publish_many("orders", numbered(3))
        async with tl.queue(
            "orders", "billing", max_attempts=2, dead_letter="orders.dead", ack_deadline_s=600, prefetch=0
        ) as queue:
            (first,) = await queue.receive()
            (second,) = await queue.receive()
            await first.nack()
            (last,) = await queue.receive()
            assert (last.offset, last.attempt) == (1, 2)
            waiting = Running(lambda: queue.receive(wait_s=3000))
            await wait_until(lambda: any(seat.awaited for seat in queue._seats))
            await second.ack()
            await last.ack()
            assert [each.offset for each in await waiting.result(30)] == [3]


async def test_an_ordered_queue_gives_back_a_range_as_one(db_url: str) -> None:
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(20))
        async with (
            tl.queue("orders", "billing", ordered_by_key=True, prefetch=10) as queue,
            tl.queue("orders", "billing") as other,
        ):
            got = await queue.receive(5)
            assert [each.offset for each in got] == [1, 2, 3, 4, 5]
            assert await other.receive(5) == []
            await queue.ack(got[:1])
            await got[2].nack()
            for lost in (got[1], got[3]):
                with pytest.raises(errors.ClaimLost) as caught:
                    await lost.ack()
                assert caught.value.offsets == [lost.offset]
            with pytest.raises(errors.InvalidArgument):
                await got[0].ack()
            seen: list[int] = []
            while len(seen) < 19:
                (delivery,) = await queue.receive(1, wait_s=30)
                seen.append(delivery.offset)
                await delivery.ack()
            assert seen == list(range(2, 21))


async def test_large_records_are_fetched_and_a_batch_is_fetched_once(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: one by one out of a batch of 200 KiB; reads are counted."""
    reads = 0
    read = Server.read

    async def counted(self: Server, *arguments: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(self, *arguments, **options)

    monkeypatch.setattr(Server, "read", counted)
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        payloads = [b"%d" % number + b"x" * 2000 for number in range(100)]
        await tl.publish_many("orders", payloads)
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            got = [(await queue.receive(1))[0] for _ in range(50)]
            assert [each.payload for each in got] == payloads[:50]
            await queue.nack(got[10:20])
            rest = await all_of(queue, 60)
            assert reads == 1
            assert sorted(each.payload for each in rest) == sorted([*payloads[10:20], *payloads[50:]])
            await queue.ack([*got[:10], *got[20:], *rest])
        await tl.publish("orders", b"y" * 900_000)
        async with tl.queue("orders", "billing") as queue:
            (large,) = await queue.receive(5)
            assert large.payload == b"y" * 900_000


async def test_what_waited_in_memory_is_held_for_longer_before_it_is_handed_out(db_url: str) -> None:
    """Method: the reader's clock is moved on by moving the time back until which it thinks that it holds the claim."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish_many("orders", numbered(10))
        async with tl.queue("orders", "billing", ack_deadline_s=3600, prefetch=10) as queue:
            (first,) = await queue.receive(1)
            first.claim.expires_at -= 3000
            advance_clock(db_url, 3000)
            (second,) = await queue.receive(1)
            advance_clock(db_url, 6000)
            await queue.ack([first, second])
            first.claim.expires_at -= 3000
            advance_clock(db_url, 20_000)
            got = await queue.receive(10)
            assert [(each.offset, each.attempt) for each in got] == [(number, 2) for number in range(3, 11)]


async def test_partitions_that_are_added_are_read(db_url: str) -> None:
    settings = ClientSettings(heartbeat_s=0.05, session_timeout_s=60.0)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("orders")
        async with tl.queue("orders", "billing") as queue:
            assert await queue.receive() == []
            await tl.add_partitions("orders", 3)
            await tl.publish("orders", b"x", partition=2)
            (delivery,) = await queue.receive(wait_s=30)
            assert (delivery.partition, delivery.payload) == (2, b"x")


async def test_partitions_that_were_found_meanwhile_are_not_forgotten_by_who_looks_at_settings(
    db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: one who rejects a record looks for dead letters, and is held up until another has found a partition."""
    gate = Gate()
    repeat = Server.repeat
    held: list[str] = []

    async def late(server: Server, statement: str, *further: Any, **options: Any) -> Any:
        answer = await repeat(server, statement, *further, **options)
        if statement in held:
            held.clear()
            await gate.wait()
        return answer

    monkeypatch.setattr(Server, "repeat", late)
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.publish("orders", b"0")
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = await queue.receive()
            held.append(protocol.QUEUE_ENTER)
            rejecting = Running(lambda: delivery.reject("no order"))
            await wait_until(lambda: gate.count == 1)
            await tl.add_partitions("orders", 2)
            queue._look_due = 0.0
            assert await queue.receive() == []
            gate.open()
            await rejecting.result(30)
            assert queue._opened is not None
            assert queue._opened.topic.partitions == queue._opened.calls.topic.partitions == 2


async def test_partitions_that_are_added_are_read_though_the_dead_letter_topic_is_gone(db_url: str) -> None:
    """Only who buries needs it: the others must not stop."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders")
        await tl.create_topic("orders.dead")
        await tl.publish("orders", b"0")
        async with tl.queue("orders", "billing", dead_letter="orders.dead"):
            pass
        async with tl.queue("orders", "billing", prefetch=0) as queue:
            (delivery,) = await queue.receive()
            await tl.delete_topic("orders.dead")
            await tl.add_partitions("orders", 2)
            await tl.publish("orders", b"1", partition=1)
            queue._look_due = 0.0
            (added,) = await queue.receive()
            assert (added.partition, added.payload) == (1, b"1")
            with pytest.raises(errors.NotFound, match="create it"):
                await delivery.reject("no order")
            await queue.ack([delivery, added])


async def test_partitions_that_are_added_are_read_though_the_queue_was_altered_since(db_url: str) -> None:
    """What a reader asked for when it opened the queue is not asked for again: somebody has changed it since."""
    settings = ClientSettings(heartbeat_s=0.05, session_timeout_s=0.6)
    async with trunkline.aio.connect(db_url, settings=settings) as tl:
        await tl.create_topic("orders")
        async with tl.queue("orders", "billing", ack_deadline_s=30) as queue:
            assert await queue.receive() == []
            sql(db_url, """select trunkline.queue_alter('orders', 'billing', '{"ack_deadline_s": 60}')""")
            await tl.add_partitions("orders", 3)
            await tl.publish("orders", b"x", partition=2)
            (delivery,) = await queue.receive(wait_s=30)
            assert (delivery.partition, delivery.payload) == (2, b"x")
            assert queue.settings["ack_deadline_s"] == 60


async def test_tables_that_are_full_are_left_for_new_ones(db_url: str) -> None:
    """Method: the limit is lowered to almost nothing; claims go on until the old tables are gone."""
    async with trunkline.aio.connect(db_url) as tl:
        await tl.create_topic("orders", partitions=2)
        async with tl.queue("orders", "billing", ack_deadline_s=3600, prefetch=0) as queue:
            assert await queue.receive() == []
            old = sql(db_url, "select min(table_no) from trunkline.queue_part")
            await tl.publish("orders", b"held")
            (held,) = await queue.receive()
            sql(db_url, "update trunkline.queue set table_bytes = 65536")
            while sql(db_url, f"select to_regclass('trunkline.claim_{old}')"):
                await tl.publish_many("orders", numbered(20))
                for _ in range(20):
                    await queue.ack(await queue.receive())
            await held.ack()
            await queue.ack(await queue.receive(1000))
        advance_clock(db_url, 10_000)
        assert await tl.queue("orders", "billing").receive(10) == []
