"""The bridge between brokers in memory: what is moved, and how it ends. Processes that are killed: test_bridge_kill."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from trunkline import Message, errors, open_subscription, open_topic
from trunkline.drivers.memory import MemoryBroker
from trunkline.drivers.memory.holding import Holding
from trunkline.drivers.memory.sync.driver import MemoryOpener
from trunkline.portable import registry
from trunkline.portable.bridge import Bridge, BridgeReport, BridgeSettings
from trunkline.portable.driver import Capabilities, Driver, Outgoing

FROM, TO, COPIED = "memory://orders?subscription=copy", "memory://copies", "memory://copies?subscription=all"


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as made:
        for topic, subscription in (("orders", "copy"), ("copies", "all")):
            made.create_topic(topic)
            made.create_subscription(topic, subscription)
        yield made


def send(*messages: Message | bytes, to: str = "memory://orders") -> list[str]:
    with open_topic(to) as topic:
        return [topic.send(message) for message in messages]


def received(count: int, url: str = COPIED) -> list[Message]:
    with open_subscription(url) as subscription:
        found = [subscription.receive(wait_s=0) for _ in range(count)]
        for each in found:
            each.ack()
        with pytest.raises(errors.DeadlineExceeded):
            subscription.receive(wait_s=0)
    return [Message(each.body, key=each.key, attributes=dict(each.attributes)) for each in found]


def run(**settings: Any) -> BridgeReport:
    return asyncio.run(_run(**settings))


async def _run(from_url: str = FROM, to_url: str = TO, **settings: Any) -> BridgeReport:
    return await Bridge(from_url, to_url, BridgeSettings(**settings)).run()


def test_body_key_and_attributes_are_kept(broker: MemoryBroker) -> None:
    sent = [Message(bytes([n]), key=b"k\0\xff", attributes={"n": str(n), "\0": "é\n"}) for n in range(256)]
    send(*sent)
    assert run(until_empty=True, batch_max=100) == BridgeReport(moved=256, ended="empty")
    assert received(256) == sent
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (0, 0)


def test_the_source_s_id_is_an_attribute_where_that_is_asked_for(broker: MemoryBroker) -> None:
    (first, _) = send(b"1", Message(b"2", attributes={"origin": "kept"}))
    run(until_empty=True, id_attribute="origin")
    assert [each.attributes for each in received(2)] == [{"origin": first}, {"origin": "kept"}]


def test_it_ends_after_as_many_as_were_asked_for_and_leaves_the_rest(broker: MemoryBroker) -> None:
    send(*[b"x"] * 10)
    assert run(messages_max=7, batch_max=3) == BridgeReport(moved=7, ended="max")
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (3, 0)


def test_it_ends_when_nothing_has_come_for_a_while(broker: MemoryBroker) -> None:
    send(b"x")
    assert run(idle_s=0.01) == BridgeReport(moved=1, ended="idle")


async def test_told_to_end_it_finishes_what_it_has_in_hand(broker: MemoryBroker) -> None:
    """Told while it waits, and told by its own first batch while it works."""
    bridge = Bridge(FROM, TO, BridgeSettings(batch_max=4), lambda _: bridge.stop())
    await asyncio.to_thread(send, *[b"x"] * 10)
    assert await bridge.run() == BridgeReport(moved=4, ended="stopped")
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (6, 0)
    has_moved = asyncio.Event()
    waiting = Bridge(COPIED, "memory://orders", BridgeSettings(messages_max=5), lambda _: has_moved.set())
    running = asyncio.ensure_future(waiting.run())
    await has_moved.wait()
    waiting.stop()
    assert await running == BridgeReport(moved=4, ended="stopped")


def refuse_bad(monkeypatch: pytest.MonkeyPatch, error: errors.TrunklineError | None = None) -> None:
    """The topic of copies refuses messages whose body is ``bad``."""
    send_batch = MemoryBroker.send

    def refuse(self: MemoryBroker, topic: str, messages: list[Outgoing]) -> Sequence[Any]:
        is_bad = [topic == "copies" and each.body == b"bad" for each in messages]
        found = iter(send_batch(self, topic, [each for each, bad in zip(messages, is_bad, strict=True) if not bad]))
        return [error or errors.TooLarge("too large") if bad else next(found) for bad in is_bad]

    monkeypatch.setattr(MemoryBroker, "send", refuse)


async def test_what_is_refused_stays_at_its_source_and_ends_it(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_bad(monkeypatch)
    await asyncio.to_thread(send, b"1", b"bad", b"2")
    with pytest.raises(
        errors.TooLarge, match=r"message 2 of memory://orders.* was not sent, and stays there: too large"
    ):
        await _run()
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (1, 0)
    assert broker.waiting("copies", "all") == 2


async def test_what_is_acknowledged_too_late_is_sent_again(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline passes between the send and the acknowledgement, once."""
    send_batch = MemoryBroker.send
    passed: list[int] = []

    def slow(self: MemoryBroker, topic: str, messages: list[Outgoing]) -> Sequence[Any]:
        answers = send_batch(self, topic, messages)
        if not passed:
            passed.append(1)
            broker.advance(31)
        return answers

    await asyncio.to_thread(send, b"1", b"2")
    monkeypatch.setattr(MemoryBroker, "send", slow)
    assert await _run(until_empty=True) == BridgeReport(moved=2, late=2, ended="empty")
    assert broker.waiting("copies", "all") == 4
    assert broker.held("orders", "copy") == 0


async def test_batches_keep_within_the_limits_of_both_urls(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, and by bytes; what is larger than a batch may be goes alone. Acknowledgements by number."""
    send_batch, ack = MemoryBroker.send, Holding.ack
    sends: list[list[Outgoing]] = []
    acks: list[int] = []

    def noted_send(self: MemoryBroker, topic: str, messages: list[Outgoing]) -> Sequence[Any]:
        sends.append(messages)
        return send_batch(self, topic, messages)

    def noted_ack(self: Holding, ack_ids: Sequence[int]) -> Sequence[Any] | None:
        acks.append(len(ack_ids))
        return ack(self, ack_ids)

    bodies = [b"x" * 10] * 25 + [b"x" * 400] * 5 + [b"x" * 2_000, b"last"]
    await asyncio.to_thread(send, *bodies)
    monkeypatch.setattr(MemoryBroker, "send", noted_send)
    monkeypatch.setattr(Holding, "ack", noted_ack)
    urls = (f"{FROM}&ack_batch_max=7", f"{TO}?batch_messages_max=10&batch_bytes_max=1000")
    assert await _run(*urls, until_empty=True) == BridgeReport(moved=32, ended="empty")
    assert [each.body for batch in sends for each in batch] == bodies
    assert [len(batch) for batch in sends] == [10, 10, 6, 2, 2, 1, 1]
    assert all(len(batch) == 1 or sum(each.size for each in batch) <= 1_000 for batch in sends)
    assert max(acks) == 7
    assert sum(acks) == 32


async def test_after_an_acknowledgement_that_fails_no_more_are_tried_or_counted(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ack, calls = Holding.ack, 0

    def ack_once(self: Holding, ack_ids: Sequence[int]) -> Sequence[Any] | None:
        nonlocal calls
        calls += 1
        return ack(self, ack_ids) if calls == 1 else [errors.PermissionDenied("no")] * len(ack_ids)

    await asyncio.to_thread(send, *[b"x"] * 6)
    monkeypatch.setattr(Holding, "ack", ack_once)
    bridge = Bridge(f"{FROM}&ack_batch_max=2", TO, BridgeSettings(until_empty=True))
    with pytest.raises(errors.PermissionDenied):
        await bridge.run()
    assert (calls, bridge.report) == (2, BridgeReport(moved=2))
    assert broker.held("orders", "copy") == 4


async def test_what_is_refused_keeps_later_batches_from_nothing(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_bad(monkeypatch)
    await asyncio.to_thread(send, b"1", b"2", b"bad", b"3", b"4", b"5")
    with pytest.raises(errors.TooLarge, match="message 3 of"):
        await _run(to_url=f"{TO}?batch_messages_max=2")
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (1, 0)
    assert broker.waiting("copies", "all") == 5


async def test_what_is_refused_is_put_aside_with_its_reason_where_there_is_a_place(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("aside")
    broker.create_subscription("aside", "all")
    bad = Message(b"bad", key=b"k", attributes={"a": "b"})
    await asyncio.to_thread(send, b"1", bad, b"2", bad)
    refuse_bad(monkeypatch)
    report = await _run(until_empty=True, refused_to="memory://aside")
    assert report == BridgeReport(moved=4, refused=2, ended="empty")
    assert [each.body for each in await asyncio.to_thread(received, 2)] == [b"1", b"2"]
    aside = Message(b"bad", key=b"k", attributes={"a": "b", "trunkline-refused-reason": "TL004: too large"})
    assert await asyncio.to_thread(received, 2, "memory://aside?subscription=all") == [aside, aside]
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (0, 0)
    assert caplog.messages == [f"message {number} was refused, and put aside: too large" for number in (2, 4)]


async def test_what_is_refused_there_too_stays_at_its_source_and_ends_it(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(send, b"1", b"bad", b"2")
    refuse_bad(monkeypatch)
    with pytest.raises(errors.TooLarge, match="message 2 of"):
        await _run(refused_to=TO)
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (1, 0)


async def test_what_comes_after_a_batch_that_failed_stays_too(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As much as the target's URL says goes in a batch; a failure that is not one message's ends it."""
    refuse_bad(monkeypatch, errors.PermissionDenied("not allowed"))
    await asyncio.to_thread(send, b"1", b"2", b"bad", b"3", b"4", b"5")
    with pytest.raises(errors.PermissionDenied, match="message 3 of"):
        await _run(to_url=f"{TO}?batch_messages_max=2", refused_to="memory://orders")
    assert (broker.waiting("orders", "copy"), broker.held("orders", "copy")) == (3, 0)
    assert [each.body for each in received(3)] == [b"1", b"2", b"3"]


def test_a_driver_without_an_asyncio_form_is_called_in_threads(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(*[b"x"] * 10)
    capabilities = Capabilities(ack_deadline=True, nack_delay=True, attempts=True)
    blocking = Driver(
        name="memory", capabilities=capabilities, sync=MemoryOpener(), subscription_parameters={"subscription": str}
    )
    monkeypatch.setattr(registry, "import_module", lambda _: SimpleNamespace(DRIVER=blocking))
    assert run(until_empty=True) == BridgeReport(moved=10, ended="empty")
    assert broker.waiting("copies", "all") == 10


def test_a_source_without_acknowledgements_is_refused(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    careless = Driver(name="memory", capabilities=Capabilities(acks=False), sync=MemoryOpener())
    monkeypatch.setattr(registry, "import_module", lambda _: SimpleNamespace(DRIVER=careless))
    with pytest.raises(errors.AckNotSupported):
        run(from_url="memory://orders")


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages_max": 0},
        {"messages_max": 1.5},
        {"batch_max": 0},
        {"idle_s": -1},
        {"idle_s": float("nan")},
        {"idle_s": 1, "until_empty": True},
        {"id_attribute": ""},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgument):
        BridgeSettings(**wrong)
