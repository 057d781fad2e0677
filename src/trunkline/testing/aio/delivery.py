"""What is sent is received: all of it, once each, as it was."""

from __future__ import annotations

import json
import random
from functools import partial

from trunkline.errors import Closed
from trunkline.records import Message
from trunkline.testing.aio.scene import Scene, needs, scene
from trunkline.testing.aio.shim import Running, at_once, runs_by_itself
from trunkline.testing.harness import Harness

MANY = 500

UNUSUAL = {
    "nul": "a\0b",
    "nul\0in its name": "",
    "quotes": "'\"`\\",
    "quotes \"in\" its 'name'": "x",
    "new\nline": "a\r\nb\tc",
    "long " + "k" * 500: "v" * 2_000,
    "ключ": "значение 値 🐘",
    " blanks ": "  x  ",
    "Case": "1",
    "case": "2",
    "%percent;semi=equals&and": "%00;=&",
    "empty": "",
    "__proto__": "\u2028\x7f\x01",
}


@runs_by_itself
class Delivery:
    """Every driver, without exception."""

    async def test_S2_01_what_is_sent_is_received(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            message_id = await on.topic.send(Message(b"hello", key="k", attributes={"a": "b"}))
            assert isinstance(message_id, str)
            message = await on.receive(subscription)
            assert (message.body, message.key, dict(message.attributes)) == (b"hello", b"k", {"a": "b"})
            await message.ack()
            await on.stays_empty(subscription)

    async def test_S2_01_a_receiver_that_waits_gets_what_is_sent(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            waiting = Running(lambda: on.receive(subscription))
            await waiting.begin()
            await on.topic.send(b"hello")
            message = await waiting.result(harness.patience_s)
            assert (message.body, message.key, dict(message.attributes)) == (b"hello", None, {})
            await message.ack()

    async def test_S2_02_two_subscriptions_each_get_everything(self, harness: Harness) -> None:
        async with scene(harness, subscriptions=2) as on:
            first, second = await on.subscribe(0), await on.subscribe(1)
            await on.send_many(20)
            for subscription in (first, second):
                assert sorted(int(each.body) for each in await on.drain(subscription, 20)) == list(range(20))

    async def test_S2_03_json_bodies_come_back(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            value = {"order": 12, "lines": [{"sku": "ü-1", "amount": 1.5}], "note": None}
            await on.topic.send(Message(json.dumps(value).encode(), attributes={"content-type": "application/json"}))
            message = await on.receive(subscription)
            assert json.loads(message.body) == value
            await message.ack()

    async def test_S2_05_batching_keeps_every_message(self, harness: Harness) -> None:
        """Many senders and many receivers at the same time: each message is there, once."""
        async with scene(harness) as on:
            subscription = await on.subscribe()
            bodies = [b"%d" % number for number in range(MANY)]
            ids = await at_once(harness.patience_s, *(partial(_send, on, part) for part in _parts(bodies)))
            assert len({each for part in ids for each in part}) == MANY
            await subscription.close()
            assert sorted(await _received_by_ten(on, MANY)) == sorted(bodies)

    async def test_S2_13_attributes_with_unusual_characters_come_back(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.topic.send(Message(b"x", attributes=UNUSUAL))
            for name, value in UNUSUAL.items():
                await on.topic.send(Message(name.encode(), attributes={name: value}))
            found = {each.body: dict(each.attributes) for each in await on.drain(subscription, len(UNUSUAL) + 1)}
            assert found.pop(b"x") == UNUSUAL
            assert found == {name.encode(): {name: value} for name, value in UNUSUAL.items()}

    async def test_S2_14_bodies_that_are_no_text_come_back(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            bodies = [b"", b"\0", b"\xff\xfe\xc3", bytes(range(256)), b"\0" * 10_000, b"'; drop table x; --"]
            for body in bodies:
                await on.topic.send(Message(body, key=body[:100]))
            found = await on.drain(subscription, len(bodies))
            assert sorted(each.body for each in found) == sorted(bodies)
            assert all(each.key == each.body[:100] for each in found)

    async def test_S2_17_random_bodies_and_attributes_come_back(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            seed = random.randrange(2**32)
            print(f"seed {seed}")
            chance = random.Random(seed)
            sent = {
                b"%d " % number + chance.randbytes(chance.randrange(200)): _attributes(chance) for number in range(50)
            }
            for body, attributes in sent.items():
                await on.topic.send(Message(body, attributes=attributes))
            found = await on.drain(subscription, len(sent))
            assert {each.body: dict(each.attributes) for each in found} == sent

    async def test_S2_19_each_message_goes_to_one_of_many_receivers(self, harness: Harness) -> None:
        """Ten receivers of two subscribers; all begin to wait before anything is there. Nothing is prefetched: what one
        subscriber has in memory, the other's receivers would wait for."""
        async with scene(harness) as on:
            subscribers = [await on.subscribe(prefetch_max=0), await on.subscribe(prefetch_max=0)]
            waiting = [Running(partial(on.receive, each)) for each in subscribers * 5]
            for each in waiting:
                await each.begin()
            await on.send_many(10)
            found = [await each.result(harness.patience_s) for each in waiting]
            assert sorted(int(message.body) for message in found) == list(range(10))
            for message in found:
                await message.ack()
            for subscription in subscribers:
                await on.stays_empty(subscription)

    async def test_messages_of_a_key_keep_their_order_where_that_is_claimed(self, harness: Harness) -> None:
        """One that is given back comes before its successors."""
        async with scene(harness, ordered=True) as on:
            subscription = await on.subscribe()
            needs(subscription, "ordering", "nack")
            for number in range(30):
                await on.topic.send(Message(b"%d" % number, key=b"k%d" % (number % 3)))
            found: dict[bytes | None, list[int]] = {}
            for turn in range(31):
                message = await on.receive(subscription)
                if turn == 4:
                    await message.nack()
                    continue
                found.setdefault(message.key, []).append(int(message.body))
                await message.ack()
            assert found == {b"k%d" % key: list(range(key, 30, 3)) for key in range(3)}

    async def test_what_was_not_settled_in_time_comes_before_its_successors_too(self, harness: Harness) -> None:
        async with scene(harness, ordered=True) as on:
            subscription = await on.subscribe(prefetch_max=0)
            needs(subscription, "ordering", "ack_deadline")
            for number in range(5):
                await on.topic.send(Message(b"%d" % number, key=b"k"))
            await on.receive(subscription)
            await on.pass_deadline()
            assert [int(each.body) for each in await on.drain(subscription, 5)] == list(range(5))


def _parts(bodies: list[bytes]) -> list[list[bytes]]:
    return [bodies[start::10] for start in range(10)]


async def _send(on: Scene, bodies: list[bytes]) -> list[str]:
    return [await on.topic.send(body) for body in bodies]


async def _received_by_ten(on: Scene, count: int) -> list[bytes]:
    """What ten receivers of one subscriber get, until all is there; each message acknowledged.

    They wait as for any message that must come, and whoever has the last one ends the others by closing. Who found
    nothing at once would prove nothing: what is missing may be on its way into the subscriber's memory.
    """
    subscription = await on.subscribe()
    found: list[bytes] = []

    async def receiver() -> None:
        while len(found) < count:
            try:
                message = await on.receive(subscription)
            except Closed:
                return
            await message.ack()
            found.append(message.body)
        await subscription.close()

    await at_once(on.harness.patience_s, *([receiver] * 10))
    await on.stays_empty(await on.subscribe())
    return found


def _attributes(chance: random.Random) -> dict[str, str]:
    return {_text(chance, 1): _text(chance, 0) for _ in range(chance.randrange(6))}


def _text(chance: random.Random, least: int) -> str:
    """Any Unicode text; surrogates alone are none."""
    codes = (chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))) for _ in range(20))
    return "".join(map(chr, codes))[: chance.randrange(least, 20)]
