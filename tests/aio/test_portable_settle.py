"""Settling through the portable API: acknowledgements share calls, errors are their own, and nothing is pretended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import trunkline.aio
from tests.aio.scripted import ScriptedSubscription, ScriptedTopic
from tests.aio.shim import Gate, at_once, wait_until
from trunkline import errors
from trunkline.drivers.memory.aio.driver import AsyncMemoryOpener
from trunkline.portable.driver import Capabilities
from trunkline.testing import MemoryBroker
from trunkline.testing.aio.shim import Running

PATIENCE_S = 30.0


async def test_S2_21_acks_at_the_same_time_share_one_call() -> None:
    driver = ScriptedSubscription(10)
    gate = Gate()
    driver.on_settle = gate.wait
    async with driver.opened() as subscription:
        messages = [await subscription.receive() for _ in range(10)]
        first = Running(messages[0].ack)
        await wait_until(lambda: gate.count == 1)
        others = [Running(each.ack) for each in messages[1:]]
        await wait_until(lambda: len(subscription._settlements._lane._line) == 9)
        gate.open()
        for each in (first, *others):
            await each.result(PATIENCE_S)
    assert driver.acked[0] == [0]
    assert sorted(driver.acked[1]) == list(range(1, 10))
    assert len(driver.acked) == 2


async def test_S2_21_an_ack_that_fails_raises_and_may_be_tried_again() -> None:
    driver = ScriptedSubscription(2)
    async with driver.opened() as subscription:
        first, second = await subscription.receive(), await subscription.receive()
        driver.answers.append([errors.ClaimLost("late")])
        with pytest.raises(errors.ClaimLost):
            await first.ack()
        await first.ack()
        driver.answers.extend([errors.Unavailable("away"), None])
        await second.ack()
        with pytest.raises(errors.FailedPrecondition, match="settled already"):
            await second.ack()
    assert driver.acked == [[0], [0], [1], [1]]


async def test_S2_21_the_error_of_ack_soon_is_raised_by_the_next_receive() -> None:
    driver = ScriptedSubscription(3)
    driver.answers.append([errors.ClaimLost("late")])
    async with driver.opened() as subscription:
        (await subscription.receive()).ack_soon()
        await wait_until(lambda: bool(subscription._settlements.late))
        with pytest.raises(errors.ClaimLost):
            await subscription.receive()
        await subscription.receive()


async def test_S2_21_ack_soon_is_sent_without_anybody_waiting_for_it() -> None:
    driver = ScriptedSubscription(100)
    async with driver.opened() as subscription:
        for _ in range(100):
            (await subscription.receive()).ack_soon()
        await wait_until(lambda: sum(map(len, driver.acked)) == 100)


async def test_failures_go_together_by_their_delay_and_acks_apart_from_them() -> None:
    driver = ScriptedSubscription(7)
    gate = Gate()
    driver.on_settle = gate.wait
    async with driver.opened() as subscription:
        messages = [await subscription.receive() for _ in range(7)]
        first = Running(messages[0].ack)
        await wait_until(lambda: gate.count == 1)
        others = [
            Running(messages[1].nack),
            Running(lambda: messages[2].nack(delay_s=5)),
            Running(messages[3].ack),
            Running(lambda: messages[4].nack(delay_s=5)),
            Running(messages[5].ack),
            Running(lambda: messages[6].nack(delay_s=0)),
        ]
        await wait_until(lambda: len(subscription._settlements._lane._line) == 6)
        gate.open()
        for each in (first, *others):
            await each.result(PATIENCE_S)
    assert [sorted(each) for each in driver.acked] == [[0], [3, 5]]
    assert sorted((sorted(each), delay_s) for each, delay_s in driver.nacked) == [([1, 6], 0.0), ([2, 4], 5.0)]


@pytest.mark.parametrize("wrong", [ZeroDivisionError(), errors.NotFound("gone"), [], [5], "?"], ids=str)
async def test_S2_21_a_nack_that_fails_says_nothing_about_acks_that_were_sent_with_it(wrong: Any) -> None:
    driver = ScriptedSubscription(4)
    gate = Gate()
    driver.on_settle = gate.wait
    async with driver.opened() as subscription:
        messages = [await subscription.receive() for _ in range(4)]
        first = Running(messages[0].ack)
        await wait_until(lambda: gate.count == 1)
        acks = [Running(messages[1].ack)]
        await wait_until(lambda: len(subscription._settlements._lane._line) == 1)
        nack = Running(messages[2].nack)
        await wait_until(lambda: len(subscription._settlements._lane._line) == 2)
        acks.append(Running(messages[3].ack))
        await wait_until(lambda: len(subscription._settlements._lane._line) == 3)
        driver.answers.extend([None, None, wrong])
        gate.open()
        for each in (first, *acks):
            await each.result(PATIENCE_S)
        with pytest.raises(type(wrong) if isinstance(wrong, errors.TrunklineError) else errors.DriverError):
            await nack.result(PATIENCE_S)
    assert driver.acked == [[0], [1, 3]]


if True:  # ASYNC

    async def test_S2_21_a_nack_that_hangs_says_nothing_about_acks_that_were_sent_with_it() -> None:
        """Method: acks and a nack gather behind a call that is held; then acks are answered, and the nack never is."""
        driver = ScriptedSubscription(4)
        gate = Gate()
        driver.on_settle = gate.wait
        async with driver.opened(deadline_s=0.2) as subscription:
            messages = [await subscription.receive() for _ in range(4)]
            first = Running(messages[0].ack)
            await wait_until(lambda: gate.count == 1)
            acks = [Running(messages[number].ack) for number in (1, 2)]
            nack = Running(messages[3].nack)
            await wait_until(lambda: len(subscription._settlements._lane._line) == 3)

            async def hang_if_nacked() -> None:
                if driver.nacked:
                    await Gate().wait()

            driver.on_settle = hang_if_nacked
            gate.open()
            for each in (first, *acks):
                await each.result(PATIENCE_S)
            with pytest.raises(errors.OutcomeUnknown, match="has not answered within"):
                await nack.result(PATIENCE_S)
        assert driver.acked == [[0], [1, 2]]


if True:  # ASYNC

    @pytest.mark.parametrize("call", ["ack", "nack", "receive", "send"])
    async def test_S2_21_a_call_in_a_task_that_was_cancelled_ends_by_its_deadline_as_any_other(call: str) -> None:
        """Goal: whoever gives back in ``finally`` what he cannot handle learns that the driver does not answer, and is
        not told that he was cancelled once more."""
        import asyncio

        driver, topic = ScriptedSubscription(1), ScriptedTopic(gate=Gate())
        failures: list[BaseException] = []
        async with driver.opened(deadline_s=0.1) as subscription, topic.opened(deadline_s=0.1) as sender:
            message = await subscription.receive()
            driver.on_settle = driver.on_receive = Gate().wait
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "ack": message.ack,
                "nack": message.nack,
                "receive": subscription.receive,
                "send": lambda: sender.send(b"x"),
            }

            async def work() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    try:
                        await calls[call]()
                    except BaseException as error:  # noqa: BLE001 - it is looked at below
                        failures.append(error)

            working = asyncio.ensure_future(work())
            await asyncio.sleep(0)
            working.cancel()
            await asyncio.wait([working], timeout=PATIENCE_S)
            (failure,) = failures
            assert isinstance(failure, errors.OutcomeUnknown)
            assert working.cancelled()


async def test_S2_23_errors_of_single_acknowledgements_have_no_secrets() -> None:
    driver = ScriptedSubscription(1)
    async with driver.opened() as subscription:
        message = await subscription.receive()
        driver.answers.extend([[errors.ClaimLost("at user:hunter2")], errors.NotFound("no hunter2 here")])
        with pytest.raises(errors.ClaimLost, match=r"at user:\*\*\*"):
            await message.ack()
        with pytest.raises(errors.NotFound, match=r"no \*\*\* here"):
            await message.nack()


if True:  # ASYNC

    async def test_ack_soon_in_a_thread_without_an_event_loop_says_what_to_do() -> None:
        import asyncio

        async with ScriptedSubscription(1).opened() as subscription:
            message = await subscription.receive()
            with pytest.raises(errors.FailedPrecondition, match="call_soon_threadsafe"):
                await asyncio.to_thread(message.ack_soon)
            await message.ack()


async def test_ack_wait_gathers_acks() -> None:
    driver = ScriptedSubscription(3)
    async with driver.opened(ack_wait_s=60, ack_batch_max=3) as subscription:
        messages = [await subscription.receive() for _ in range(3)]
        await at_once(*(each.ack for each in messages))
    assert [len(each) for each in driver.acked] == [3]


@pytest.mark.parametrize("delay_s", [-1, "1", None, True, float("nan"), float("inf")])
async def test_a_delay_that_cannot_be_is_refused(delay_s: object) -> None:
    driver = ScriptedSubscription(1)
    async with driver.opened() as subscription:
        message = await subscription.receive()
        with pytest.raises(errors.InvalidArgument):
            await message.nack(delay_s=delay_s)  # type: ignore[arg-type]
        await message.ack()


@pytest.mark.parametrize("answers", [[], [None, None]])
async def test_a_driver_that_answers_too_little_or_too_much_is_a_driver_error(answers: list[None]) -> None:
    driver = ScriptedSubscription(2)
    async with driver.opened() as subscription:
        for settle in ((await subscription.receive()).ack, (await subscription.receive()).nack):
            driver.answers.append(answers)
            with pytest.raises(errors.DriverError):
                await settle()


async def test_S2_22_without_acks_they_are_simulated() -> None:
    driver = ScriptedSubscription(10, Capabilities(acks=False, nack=False))
    subscription = driver.opened()
    message = await subscription.receive()
    await message.ack()
    with pytest.raises(errors.FailedPrecondition):
        await message.ack()
    (await subscription.receive()).ack_soon()
    another = await subscription.receive()
    assert not another.nackable
    with pytest.raises(errors.AckNotSupported, match="the driver memory cannot give messages back") as caught:
        await another.nack()
    assert (caught.value.driver, caught.value.capability) == ("memory", "nack")
    await another.ack()
    await subscription.close()
    assert (driver.acked, driver.nacked, driver.released) == ([], [], [])


async def test_S2_22_without_delays_a_delay_is_refused_and_nothing_is_settled() -> None:
    driver = ScriptedSubscription(1, Capabilities(nack_delay=False))
    async with driver.opened() as subscription:
        message = await subscription.receive()
        with pytest.raises(errors.AckNotSupported):
            await message.nack(delay_s=1)
        await message.nack()
    assert driver.nacked == [([0], 0.0)]


async def test_closing_is_bounded_though_acks_hang_and_settling_later_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = ScriptedSubscription(3)
    gate = Gate()
    driver.on_settle = gate.wait
    subscription = driver.opened(close_timeout_s=0.05)
    messages = [await subscription.receive() for _ in range(3)]
    stuck = Running(messages[0].ack)
    await wait_until(lambda: gate.count == 1)
    in_line = Running(messages[1].ack)
    await wait_until(lambda: len(subscription._settlements._lane._line) == 1)
    with caplog.at_level(logging.WARNING):
        await Running(subscription.close).result(PATIENCE_S)
    assert "still under way" in caplog.text
    with pytest.raises(errors.Cancelled):
        await in_line.result(PATIENCE_S)
    with pytest.raises(errors.Closed):
        await messages[2].ack()
    gate.open()
    await stuck.result(PATIENCE_S)


@pytest.mark.parametrize("opened", [None, "topic", object()], ids=["None", "text", "object"])
async def test_an_opener_that_opens_nothing_is_its_drivers_fault(
    opened: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_nothing(opener: object, target: object) -> object:
        return opened

    for name in ("open_topic", "open_subscription"):
        monkeypatch.setattr(AsyncMemoryOpener, name, open_nothing)
    said = f"driver memory gave {type(opened).__name__} where"
    with pytest.raises(errors.DriverError, match=said):
        await trunkline.aio.open_topic("memory://orders")
    with pytest.raises(errors.DriverError, match=said):
        await trunkline.aio.open_subscription("memory://orders?subscription=emails")


async def test_what_a_driver_lacks_is_refused_when_it_is_asked_for() -> None:
    with MemoryBroker() as broker:
        broker.create_topic("orders")
        broker.create_subscription("orders", "emails")
        with pytest.raises(errors.NotSupported, match="the driver memory has no seek") as caught:
            await trunkline.aio.open_topic("memory://orders", require=["acks", "seek"])
        assert caught.value.capability == "seek"
        url = "memory://orders?subscription=emails"
        with pytest.raises(errors.NotSupported, match="no ordering"):
            await trunkline.aio.open_subscription(url, require=("ordering",))
        async with trunkline.aio.open_subscription(url, require=("acks", "nack_delay", "ack_deadline")):
            pass
