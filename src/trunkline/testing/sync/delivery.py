# Generated from src/trunkline/testing/aio/delivery.py by tools/twins.py (make fix). Change the source, not this file.
"""What is sent is received: all of it, once each, as it was."""

from __future__ import annotations

import json
import random
from functools import partial

from trunkline.errors import Closed
from trunkline.records import Message
from trunkline.testing.harness import Harness
from trunkline.testing.sync.scene import Scene, needs, scene
from trunkline.testing.sync.shim import Running, at_once, runs_by_itself

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

    def test_S2_01_what_is_sent_is_received(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            message_id = on.topic.send(Message(b"hello", key="k", attributes={"a": "b"}))
            assert isinstance(message_id, str)
            message = on.receive(subscription)
            assert (message.body, message.key, dict(message.attributes)) == (b"hello", b"k", {"a": "b"})
            message.ack()
            on.stays_empty(subscription)

    def test_S2_01_a_receiver_that_waits_gets_what_is_sent(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            waiting = Running(lambda: on.receive(subscription))
            waiting.begin()
            on.topic.send(b"hello")
            message = waiting.result(harness.patience_s)
            assert (message.body, message.key, dict(message.attributes)) == (b"hello", None, {})
            message.ack()

    def test_S2_02_two_subscriptions_each_get_everything(self, harness: Harness) -> None:
        with scene(harness, subscriptions=2) as on:
            first, second = on.subscribe(0), on.subscribe(1)
            on.send_many(20)
            for subscription in (first, second):
                assert sorted(int(each.body) for each in on.drain(subscription, 20)) == list(range(20))

    def test_S2_03_json_bodies_come_back(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            value = {"order": 12, "lines": [{"sku": "ü-1", "amount": 1.5}], "note": None}
            on.topic.send(Message(json.dumps(value).encode(), attributes={"content-type": "application/json"}))
            message = on.receive(subscription)
            assert json.loads(message.body) == value
            message.ack()

    def test_S2_05_batching_keeps_every_message(self, harness: Harness) -> None:
        """Many senders and many receivers at the same time: each message is there, once."""
        with scene(harness) as on:
            subscription = on.subscribe()
            bodies = [b"%d" % number for number in range(MANY)]
            ids = at_once(harness.patience_s, *(partial(_send, on, part) for part in _parts(bodies)))
            assert len({each for part in ids for each in part}) == MANY
            subscription.close()
            assert sorted(_received_by_ten(on, MANY)) == sorted(bodies)

    def test_S2_13_attributes_with_unusual_characters_come_back(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.topic.send(Message(b"x", attributes=UNUSUAL))
            for name, value in UNUSUAL.items():
                on.topic.send(Message(name.encode(), attributes={name: value}))
            found = {each.body: dict(each.attributes) for each in on.drain(subscription, len(UNUSUAL) + 1)}
            assert found.pop(b"x") == UNUSUAL
            assert found == {name.encode(): {name: value} for name, value in UNUSUAL.items()}

    def test_S2_14_bodies_that_are_no_text_come_back(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            bodies = [b"", b"\0", b"\xff\xfe\xc3", bytes(range(256)), b"\0" * 10_000, b"'; drop table x; --"]
            for body in bodies:
                on.topic.send(Message(body, key=body[:100]))
            found = on.drain(subscription, len(bodies))
            assert sorted(each.body for each in found) == sorted(bodies)
            assert all(each.key == each.body[:100] for each in found)

    def test_S2_17_random_bodies_and_attributes_come_back(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            seed = random.randrange(2**32)
            print(f"seed {seed}")
            chance = random.Random(seed)
            sent = {
                b"%d " % number + chance.randbytes(chance.randrange(200)): _attributes(chance) for number in range(50)
            }
            for body, attributes in sent.items():
                on.topic.send(Message(body, attributes=attributes))
            found = on.drain(subscription, len(sent))
            assert {each.body: dict(each.attributes) for each in found} == sent

    def test_S2_19_each_message_goes_to_one_of_many_receivers(self, harness: Harness) -> None:
        """Ten receivers of two subscribers; all begin to wait before anything is there. Nothing is prefetched: what one
        subscriber has in memory, the other's receivers would wait for."""
        with scene(harness) as on:
            subscribers = [on.subscribe(prefetch_max=0), on.subscribe(prefetch_max=0)]
            waiting = [Running(partial(on.receive, each)) for each in subscribers * 5]
            for each in waiting:
                each.begin()
            on.send_many(10)
            found = [each.result(harness.patience_s) for each in waiting]
            assert sorted(int(message.body) for message in found) == list(range(10))
            for message in found:
                message.ack()
            for subscription in subscribers:
                on.stays_empty(subscription)

    def test_messages_of_a_key_keep_their_order_where_that_is_claimed(self, harness: Harness) -> None:
        """One that is given back comes before its successors."""
        with scene(harness, ordered=True) as on:
            subscription = on.subscribe()
            needs(subscription, "ordering", "nack")
            for number in range(30):
                on.topic.send(Message(b"%d" % number, key=b"k%d" % (number % 3)))
            found: dict[bytes | None, list[int]] = {}
            for turn in range(31):
                message = on.receive(subscription)
                if turn == 4:
                    message.nack()
                    continue
                found.setdefault(message.key, []).append(int(message.body))
                message.ack()
            assert found == {b"k%d" % key: list(range(key, 30, 3)) for key in range(3)}

    def test_what_was_not_settled_in_time_comes_before_its_successors_too(self, harness: Harness) -> None:
        with scene(harness, ordered=True) as on:
            subscription = on.subscribe(prefetch_max=0)
            needs(subscription, "ordering", "ack_deadline")
            for number in range(5):
                on.topic.send(Message(b"%d" % number, key=b"k"))
            on.receive(subscription)
            on.pass_deadline()
            assert [int(each.body) for each in on.drain(subscription, 5)] == list(range(5))


def _parts(bodies: list[bytes]) -> list[list[bytes]]:
    return [bodies[start::10] for start in range(10)]


def _send(on: Scene, bodies: list[bytes]) -> list[str]:
    return [on.topic.send(body) for body in bodies]


def _received_by_ten(on: Scene, count: int) -> list[bytes]:
    """What ten receivers of one subscriber get, until all is there; each message acknowledged.

    They wait as for any message that must come, and whoever has the last one ends the others by closing. Who found
    nothing at once would prove nothing: what is missing may be on its way into the subscriber's memory.
    """
    subscription = on.subscribe()
    found: list[bytes] = []

    def receiver() -> None:
        while len(found) < count:
            try:
                message = on.receive(subscription)
            except Closed:
                return
            message.ack()
            found.append(message.body)
        subscription.close()

    at_once(on.harness.patience_s, *([receiver] * 10))
    on.stays_empty(on.subscribe())
    return found


def _attributes(chance: random.Random) -> dict[str, str]:
    return {_text(chance, 1): _text(chance, 0) for _ in range(chance.randrange(6))}


def _text(chance: random.Random, least: int) -> str:
    """Any Unicode text; surrogates alone are none."""
    codes = (chance.choice((chance.randrange(0xD800), chance.randrange(0xE000, 0x110000))) for _ in range(20))
    return "".join(map(chr, codes))[: chance.randrange(least, 20)]
