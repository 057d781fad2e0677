"""Sending through the portable API: callers share batches, each gets its own answer, what may pass is tried again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.aio.scripted import ScriptedTopic
from tests.aio.shim import Gate, at_once, wait_until
from trunkline import Message, errors
from trunkline.client.aio.shim import give_way
from trunkline.portable.aio import calls
from trunkline.portable.aio.topic import AsyncTopic
from trunkline.portable.driver import Outgoing
from trunkline.testing.aio.shim import Running

PATIENCE_S = 30.0


def in_line(topic: AsyncTopic, wanted: int) -> bool:
    """Whether so many wait behind the batch that is under way."""
    return len(topic._lane._line) == wanted


async def test_S2_18_sends_at_the_same_time_share_batches() -> None:
    """Method: nine come while the first is under way; they are the second batch, in their order."""
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened()
    first = Running(lambda: topic.send(b"0"))
    await wait_until(lambda: driver.batches == [[b"0"]])
    others = []
    for number in range(1, 10):
        others.append(Running(partial(topic.send, b"%d" % number)))
        await wait_until(partial(in_line, topic, number))
    driver.gate.open()
    assert await first.result(PATIENCE_S) == "id-0"
    assert [await each.result(PATIENCE_S) for each in others] == [f"id-{number}" for number in range(1, 10)]
    assert driver.batches == [[b"0"], [b"%d" % number for number in range(1, 10)]]
    await topic.close()


async def gathered(topic_bodies: list[bytes], driver: ScriptedTopic, **options: Any) -> list[object]:
    """Send a first message that the gate holds, the others behind it, then open the gate: what each send came to."""
    driver.gate = gate = Gate()
    topic = driver.opened(**options)

    async def sent(body: bytes) -> object:
        try:
            return await topic.send(body)
        except errors.TrunklineError as error:
            return error

    first = Running(lambda: sent(b"first"))
    await wait_until(lambda: gate.count == 1)
    running = []
    for place, body in enumerate(topic_bodies, 1):
        running.append(Running(partial(sent, body)))
        await wait_until(partial(in_line, topic, place))
    gate.open()
    assert await first.result(PATIENCE_S) == "id-first"
    found = [await each.result(PATIENCE_S) for each in running]
    await topic.close()
    return found


async def test_S2_18_one_bad_message_fails_its_own_sender_and_no_other() -> None:
    driver = ScriptedTopic()
    driver.refused[b"bad"] = errors.TooLarge("too large")
    found = await gathered([b"1", b"bad", b"2"], driver)
    assert found == ["id-1", driver.refused[b"bad"], "id-2"]
    assert driver.batches[1:] == [[b"1", b"bad", b"2"], [b"1"], [b"bad"], [b"2"]]


async def test_S2_18_a_driver_may_answer_for_each_message() -> None:
    refused = errors.InvalidArgument("not this one")
    driver = ScriptedTopic([None, ["a", refused, "c"]])
    assert await gathered([b"1", b"2", b"3"], driver) == ["a", refused, "c"]


async def test_a_batch_is_bounded_by_count_and_by_bytes() -> None:
    driver = ScriptedTopic()
    await gathered([b"1", b"2", b"3", b"4", b"5"], driver, batch_messages_max=2)
    assert driver.batches[1:] == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
    driver = ScriptedTopic()
    await gathered([b"1" * 50, b"2" * 50, b"3" * 300, b"4"], driver, batch_bytes_max=200)
    assert driver.batches[1:] == [[b"1" * 50, b"2" * 50], [b"3" * 300], [b"4"]]


async def test_S2_25_what_may_pass_is_tried_again_and_the_rest_is_not() -> None:
    away = errors.Unavailable("away")
    driver = ScriptedTopic([away, errors.Conflict("in the way"), ["done"]])
    async with driver.opened() as topic:
        assert await topic.send(b"1") == "done"
        assert driver.batches == [[b"1"]] * 3
        for final in (errors.NotFound, errors.PermissionDenied, errors.OutcomeUnknown, errors.DeadlineExceeded):
            driver.script.append(final("no"))
            with pytest.raises(final):
                await topic.send(b"2")
    assert driver.batches[3:] == [[b"2"]] * 4


async def test_S2_25_of_a_batch_only_what_failed_is_sent_again() -> None:
    driver = ScriptedTopic([None, ["a", errors.Unavailable("busy"), errors.NotFound("gone")], ["b"]])
    found = await gathered([b"1", b"2", b"3"], driver)
    assert found[:2] == ["a", "b"]
    assert isinstance(found[2], errors.NotFound)
    assert driver.batches[1:] == [[b"1", b"2", b"3"], [b"2"]]


async def test_S2_25_what_does_not_pass_is_raised_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: a third of a second passes whenever somebody looks at the clock, and never else."""
    looks = count()
    monkeypatch.setattr(calls, "monotonic", lambda: next(looks) / 3)
    driver = ScriptedTopic([errors.Unavailable("away")] * 1_000)
    async with driver.opened(deadline_s=1) as topic:
        with pytest.raises(errors.Unavailable):
            await topic.send(b"1")
    assert 1 < len(driver.batches) < 1_000


async def test_send_wait_gathers_until_the_batch_is_full() -> None:
    """Method: the wait is a minute, and nobody waits a minute: the third message makes the batch full."""
    driver = ScriptedTopic()
    topic = driver.opened(send_wait_s=60, batch_messages_max=3)
    sends = [partial(topic.send, b"%d" % number) for number in range(3)]
    assert sorted(await at_once(*sends)) == ["id-0", "id-1", "id-2"]
    assert [len(batch) for batch in driver.batches] == [3]
    waiting = Running(lambda: topic.send(b"3"))
    await wait_until(lambda: topic._lane._full is not None)
    await topic.close()
    assert await waiting.result(PATIENCE_S) == "id-3"


async def test_send_wait_ends_by_itself() -> None:
    driver = ScriptedTopic()
    async with driver.opened(send_wait_s=0.001) as topic:
        assert await topic.send(b"1") == "id-1"


async def test_what_waits_in_line_is_bounded_and_late_ones_are_told() -> None:
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened(buffer_bytes_max=100)
    under_way = Running(lambda: topic.send(b"0"))
    await wait_until(lambda: len(driver.batches) == 1)
    in_line = Running(lambda: topic.send(b"1" * 100))
    await wait_until(lambda: len(topic._lane._line) == 1)
    topic._lane._deadline_s = 0.01
    with pytest.raises(errors.DeadlineExceeded, match="buffer_bytes_max"):
        await topic.send(b"2")
    topic._lane._deadline_s = PATIENCE_S
    for_room = Running(lambda: topic.send(b"3"))
    await wait_until(lambda: len(topic._lane._for_room) == 2)
    driver.gate.open()
    for each in (under_way, in_line, for_room):
        await each.result(PATIENCE_S)
    await topic.close()


if True:  # ASYNC

    class BusyTopic(ScriptedTopic):
        """Answers a little later."""

        async def send_batch(self, messages: Sequence[Outgoing]) -> Sequence[str | errors.TrunklineError]:
            await give_way()
            return await super().send_batch(messages)

    async def test_S2_09_who_is_cancelled_in_line_leaves_it_and_the_others_go_on() -> None:
        driver = ScriptedTopic(gate=Gate())
        assert driver.gate is not None
        topic = driver.opened()
        first = Running(lambda: topic.send(b"0"))
        await first.begin()
        gone, kept = Running(lambda: topic.send(b"1")), Running(lambda: topic.send(b"2"))
        await kept.begin()
        assert await gone.cancelled(PATIENCE_S) is None
        driver.gate.open()
        assert await kept.result(PATIENCE_S) == "id-2"
        assert driver.batches == [[b"0"], [b"2"]]
        await topic.close()

    async def test_S2_09_a_batch_goes_on_when_the_one_who_leads_it_is_cancelled() -> None:
        """Method: the second batch is under way, led by the first in line, when that one is cancelled."""
        driver = ScriptedTopic(gate=Gate())
        assert driver.gate is not None
        topic = driver.opened()
        first = Running(lambda: topic.send(b"0"))
        await first.begin()
        leader, follower = Running(lambda: topic.send(b"1")), Running(lambda: topic.send(b"2"))
        await follower.begin()
        second_gate = Gate()
        gate, driver.gate = driver.gate, second_gate
        gate.open()
        await wait_until(lambda: second_gate.count == 1)
        assert await leader.cancelled(PATIENCE_S) is None
        second_gate.open()
        assert await follower.result(PATIENCE_S) == "id-2"
        assert driver.batches == [[b"0"], [b"1", b"2"]]
        await topic.close()

    async def test_S2_09_a_send_that_is_cancelled_alone_lets_the_next_go() -> None:
        driver = ScriptedTopic(gate=Gate())
        topic = driver.opened()
        alone = Running(lambda: topic.send(b"0"))
        await alone.begin()
        following = Running(lambda: topic.send(b"1"))
        await following.begin()
        driver.gate = None
        assert await alone.cancelled(PATIENCE_S) is None
        assert await following.result(PATIENCE_S) == "id-1"
        await topic.close()

    async def test_S2_18_who_sends_again_at_once_goes_with_the_next_batch() -> None:
        """Goal: ten who send one message after the other take one call for all of them each time, not two in turn."""
        driver = BusyTopic()
        async with driver.opened() as topic:

            async def send_some() -> None:
                for _ in range(20):
                    await topic.send(b"1")

            running = [Running(send_some) for _ in range(10)]
            for each in running:
                await each.result(PATIENCE_S)
        assert [len(each) for each in driver.batches] == [1, *[10] * 19, 9]

    async def test_a_driver_that_hangs_is_an_outcome_unknown() -> None:
        driver = ScriptedTopic(gate=Gate())
        async with driver.opened(deadline_s=0.5) as topic:
            with pytest.raises(errors.OutcomeUnknown, match="has not answered within"):
                await topic.send(b"1")
            driver.gate = None
            assert await topic.send(b"2") == "id-2"
else:

    def test_who_waits_in_line_behind_a_driver_that_hangs_is_told() -> None:
        driver = ScriptedTopic(gate=Gate())
        assert driver.gate is not None
        topic = driver.opened(deadline_s=0.05)
        stuck = Running(lambda: topic.send(b"0"))
        wait_until(lambda: len(driver.batches) == 1)
        with pytest.raises(errors.DeadlineExceeded, match="waited in line"):
            topic.send(b"1")
        driver.gate.open()
        assert stuck.result(PATIENCE_S) == "id-0"
        topic.close()


async def test_S2_29_before_send_comes_once_and_after_send_only_on_success() -> None:
    before: list[Message] = []
    after: list[tuple[bytes, str]] = []
    driver = ScriptedTopic([errors.Unavailable("away"), None, errors.NotFound("gone")])

    def stamp(message: Message) -> Message:
        before.append(message)
        return Message(message.body + b"!", attributes={"stamped": "yes"})

    topic = driver.opened(before_send=stamp, after_send=lambda message, found: after.append((message.body, found)))
    assert await topic.send(b"1") == "id-1!"
    with pytest.raises(errors.NotFound):
        await topic.send(Message(b"2"))
    assert before == [Message(b"1"), Message(b"2")]
    assert after == [(b"1!", "id-1!")]
    assert driver.batches == [[b"1!"], [b"1!"], [b"2!"]]
    await topic.close()


async def test_S2_29_a_hook_that_raises_before_stops_the_send_and_after_does_not_undo_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = ScriptedTopic()

    def refuse(message: Message) -> None:
        raise ValueError(f"not {message.body!r}")

    async with driver.opened(before_send=refuse) as topic:
        with pytest.raises(ValueError, match="not b'1'"):
            await topic.send(b"1")
    assert driver.batches == []
    with caplog.at_level(logging.ERROR):
        async with driver.opened(after_send=lambda message, found: refuse(message)) as topic:
            assert await topic.send(b"1") == "id-1"
    assert "after_send failed" in caplog.text


async def test_S2_29_the_brokers_own_object_can_be_had() -> None:
    driver = ScriptedTopic()
    async with driver.opened() as topic:
        assert topic.as_(ScriptedTopic) is driver
        with pytest.raises(errors.InvalidArgument, match="has a ScriptedTopic, not a int"):
            topic.as_(int)
