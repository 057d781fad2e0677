"""The end of topics and subscriptions: what is under way is finished, nothing is begun, and nobody hangs."""

from __future__ import annotations

import logging
from math import inf
from threading import Lock

import pytest

from tests.aio.scripted import ScriptedSubscription, ScriptedTopic
from tests.aio.shim import Gate, wait_until
from trunkline import errors
from trunkline.portable.aio.shim import Turn
from trunkline.portable.aio.subscription import AsyncSubscription
from trunkline.portable.aio.topic import AsyncTopic
from trunkline.portable.driver import Incoming
from trunkline.testing.aio.shim import Running

PATIENCE_S = 30.0
FOR_EVER_S = 3_600.0
"""Longer than any test has patience."""


# -- receivers --


async def test_S2_20_what_was_handed_out_can_be_acknowledged_while_it_is_closed_and_loops_end() -> None:
    """Method: one acknowledgement is held up, and so the close; another comes by then."""
    driver = ScriptedSubscription(10)
    gate = Gate()
    driver.on_settle = gate.wait
    subscription = driver.opened()
    subscription._intake._appetite.size = 10.0
    second = await subscription.receive()

    async def loop() -> int:
        count = 0
        async for message in subscription:
            await message.ack()
            count += 1
        return count

    looping = Running(loop)
    await wait_until(lambda: gate.count == 1)
    closing = Running(subscription.close)
    await wait_until(lambda: subscription._intake._closed)
    with pytest.raises(errors.Closed):
        await subscription.receive()
    acknowledging = Running(second.ack)
    await wait_until(lambda: len(subscription._settlements._lane._line) == 1)
    assert not driver.is_closed
    gate.open()
    await acknowledging.result(PATIENCE_S)
    assert await looping.result(PATIENCE_S) == 1
    await closing.result(PATIENCE_S)
    assert sorted(each for batch in driver.acked for each in batch) == [0, 1]
    assert driver.released == list(range(2, 10))


async def test_S2_20_a_message_that_was_given_to_one_who_waits_is_given_back_once_it_is_closed() -> None:
    """Method: the subscription is closed between the giving and the waking."""
    driver = ScriptedSubscription()
    subscription = driver.opened()
    intake = subscription._intake
    assert intake._join() is None
    woken, leaving = intake._join(), intake._join()
    assert woken is not None
    assert leaving is not None
    woken.give(Incoming(b"", 1))
    intake._waiters.clear()
    leaving.give(Incoming(b"", 2))
    await intake.close()
    with pytest.raises(errors.Closed):
        await intake._turn(woken, inf)
    unwanted = intake._leave(leaving)
    assert driver.released == [1]
    assert unwanted is not None
    assert unwanted.ack_id == 2
    await subscription.close()


async def test_S2_20_what_comes_in_the_moment_in_which_it_is_closed_is_given_back() -> None:
    """Method: whoever wants the intake's mutex after the fetch gets it just after one who closes."""
    driver = ScriptedSubscription(3)
    subscription = driver.opened()
    intake = subscription._intake
    intake._appetite.size = 3.0

    class Slow:
        """A mutex that is always somebody else's first."""

        lock = Lock()

        def __enter__(self) -> None:
            self.lock.acquire()
            intake._closed = True

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    async def come() -> None:
        intake._mutex = Slow()  # type: ignore[assignment]

    driver.on_receive = come
    with pytest.raises(errors.Closed):
        await subscription.receive()
    assert sorted([*driver.released, *(each.ack_id for each in driver.stock)]) == [0, 1, 2]
    assert intake.in_memory == 0
    await subscription.close()


async def test_S2_20_a_receiver_between_two_attempts_is_ended_and_the_driver_is_left_alone() -> None:
    driver = ScriptedSubscription()
    driver.failures.extend([errors.Unavailable("away")] * 1_000)
    late: list[bool] = []

    async def look() -> None:
        late.append(driver.is_closed)

    driver.on_receive = look
    subscription = driver.opened(deadline_s=FOR_EVER_S)
    waiting = Running(subscription.receive)
    await wait_until(lambda: len(driver.asked) == 7)
    await subscription.close()
    with pytest.raises(errors.Closed):
        await waiting.result(PATIENCE_S)
    assert not any(late)


async def test_S2_20_what_is_fetched_ahead_while_it_is_closed_is_given_back_before_the_driver_is_closed() -> None:
    """The driver of a file can give nothing back once that is closed: others would get it after its deadline."""
    gate = Gate()
    driver = ScriptedSubscription(20)
    when_closed: list[int] = []
    subscription = await hung_while_fetching_ahead(driver, gate, close_timeout_s=PATIENCE_S)
    close_driver = driver.close

    async def close() -> None:
        when_closed.append(len(driver.released))
        await close_driver()

    driver.close = close  # type: ignore[method-assign]
    closing = Running(subscription.close)
    await wait_until(lambda: subscription._intake._closed)
    gate.open()
    await closing.result(PATIENCE_S)
    assert driver.is_closed
    assert when_closed == [len(driver.released)]
    assert len(driver.released) + len(driver.stock) == 20 - 4


async def test_S2_20_the_driver_is_closed_though_the_service_has_ended_with_an_error() -> None:
    driver = ScriptedSubscription(20)
    subscription = driver.opened()

    async def fail() -> None:
        raise AssertionError("whatever")

    subscription._settlements.flush = fail  # type: ignore[method-assign]
    subscription._call_service()
    await wait_until(lambda: subscription._served.given is True)
    with pytest.raises(AssertionError, match="whatever"):
        await subscription.close()
    assert driver.is_closed


async def test_S2_20_a_retry_of_the_service_ends_when_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """It sends what nobody waits for, and the broker is away for long: closing waits for that once, and not twice."""
    driver = ScriptedSubscription(1)
    away = [errors.Unavailable("away")]
    driver.answers.extend([away] * 1_000)
    subscription = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=0.2)
    (await subscription.receive()).ack_soon()
    await wait_until(lambda: len(driver.acked) > 1)
    with caplog.at_level(logging.WARNING), pytest.raises(errors.Unavailable, match="away"):
        await Running(subscription.close).result(PATIENCE_S)
    assert "acknowledgements were still under way" in caplog.text
    assert "still at work" not in caplog.text
    assert driver.is_closed


async def hung_while_fetching_ahead(
    driver: ScriptedSubscription, gate: Gate, close_timeout_s: float = 0.05
) -> AsyncSubscription:
    """A subscription whose service does not come back before the gate is opened."""

    async def hang() -> None:
        if driver.asked[-1][1] == 0.0:
            await gate.wait()

    driver.on_receive = hang
    subscription = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=close_timeout_s)
    subscription._intake._appetite.size = 4.0
    for _ in range(4):
        await subscription.receive()
    await wait_until(lambda: gate.count == 1)
    return subscription


async def test_S2_20_closing_is_bounded_though_a_fetch_ahead_hangs(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    driver = ScriptedSubscription(20)
    subscription = await hung_while_fetching_ahead(driver, gate)
    with caplog.at_level(logging.WARNING):
        await Running(subscription.close).result(PATIENCE_S)
    assert "still at work" in caplog.text
    assert driver.is_closed
    gate.open()


if True:  # ASYNC

    async def test_S2_20_closing_is_bounded_though_it_sends_acknowledgements_itself_and_they_hang() -> None:
        """Method: the service hangs, so nobody else sends what nobody waits for."""
        driver = ScriptedSubscription(20)
        subscription = await hung_while_fetching_ahead(driver, Gate())
        driver.on_receive, driver.on_settle = None, Gate().wait
        subscription._intake._ahead.append(Incoming(b"", 99))
        (await subscription.receive()).ack_soon()
        await Running(subscription.close).result(PATIENCE_S)
        assert driver.acked == [[99]]
        assert driver.is_closed

    async def test_a_call_that_hangs_is_given_up_after_its_deadline_though_it_was_closed_meanwhile() -> None:
        driver = ScriptedTopic(gate=Gate())
        topic = driver.opened(deadline_s=0.2, close_timeout_s=0.01)
        stuck = Running(lambda: topic.send(b"0"))
        await stuck.begin()
        await topic.close()
        with pytest.raises(errors.OutcomeUnknown):
            await stuck.result(PATIENCE_S)


# -- senders --


async def test_S2_20_who_waits_for_room_is_told_when_it_is_closed_and_nothing_is_sent_afterwards() -> None:
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened(buffer_bytes_max=100, close_timeout_s=0.05)
    under_way = Running(lambda: topic.send(b"0"))
    await wait_until(lambda: len(driver.batches) == 1)
    in_line = Running(lambda: topic.send(b"1" * 100))
    await wait_until(lambda: len(topic._lane._line) == 1)
    for_room = Running(lambda: topic.send(b"2"))
    await wait_until(lambda: len(topic._lane._for_room) == 1)
    await topic.close()
    for each in (in_line, for_room):
        with pytest.raises(errors.Cancelled):
            await each.result(PATIENCE_S)
    driver.gate.open()
    assert await under_way.result(PATIENCE_S) == "id-0"
    assert driver.batches == [[b"0"]]


async def test_S2_20_what_waits_to_be_sent_again_is_not_sent_once_it_is_closed() -> None:
    driver = ScriptedTopic([errors.Unavailable("away")] * 1_000)
    topic = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=0.05)
    trying = Running(lambda: topic.send(b"0"))
    await wait_until(lambda: len(driver.batches) == 7)
    await topic.close()
    with pytest.raises(errors.Unavailable):
        await trying.result(PATIENCE_S)


async def test_S2_20_of_a_batch_that_failed_as_a_whole_nothing_is_sent_alone_once_it_is_closed() -> None:
    """Method: the batch is under way when it is closed, and fails for one message's reason afterwards."""
    driver = ScriptedTopic(gate=Gate())
    topic = driver.opened(close_timeout_s=0.05)
    assert driver.gate is not None
    first = Running(lambda: topic.send(b"0"))
    await wait_until(lambda: len(driver.batches) == 1)
    others = [Running(lambda: topic.send(b"1")), Running(lambda: topic.send(b"2"))]
    await wait_until(lambda: len(topic._lane._line) == 2)
    gate, driver.gate = driver.gate, Gate()
    gate.open()
    await first.result(PATIENCE_S)
    await wait_until(lambda: len(driver.batches) == 2)
    driver.script.append(errors.InvalidArgument("one of them"))
    await topic.close()
    driver.gate.open()
    for each in others:
        with pytest.raises(errors.Closed):
            await each.result(PATIENCE_S)
    assert len(driver.batches) == 2


# -- twice, and cancelled --


def held_up(kind: str) -> tuple[ScriptedTopic | ScriptedSubscription, AsyncTopic | AsyncSubscription, Gate]:
    """A topic or subscription whose driver takes its time to close."""
    gate = Gate()
    driver: ScriptedTopic | ScriptedSubscription = ScriptedTopic() if kind == "topic" else ScriptedSubscription()
    close = driver.close

    async def slowly() -> None:
        await gate.wait()
        await close()

    driver.close = slowly  # type: ignore[method-assign]
    return driver, driver.opened(), gate


@pytest.mark.parametrize("kind", ["topic", "subscription"])
async def test_S2_20_whoever_closes_second_waits_until_it_is_closed(kind: str) -> None:
    driver, opened, gate = held_up(kind)

    async def close() -> bool:
        await opened.close()
        return driver.is_closed

    first = Running(close)
    await wait_until(lambda: gate.count == 1)
    second = Running(close)
    await second.begin()
    gate.open()
    assert await first.result(PATIENCE_S)
    assert await second.result(PATIENCE_S)
    await opened.close()
    assert gate.count == 1


if True:  # ASYNC

    @pytest.mark.parametrize("kind", ["topic", "subscription"])
    async def test_S2_20_a_close_that_is_cancelled_goes_on_and_the_next_waits_for_it(kind: str) -> None:
        driver, opened, gate = held_up(kind)
        first = Running(opened.close)
        await wait_until(lambda: gate.count == 1)
        await first.cancelled(PATIENCE_S)
        second = Running(opened.close)
        await second.begin()
        gate.open()
        await second.result(PATIENCE_S)
        assert driver.is_closed
        assert gate.count == 1
else:

    @pytest.mark.parametrize("kind", ["topic", "subscription"])
    def test_S2_20_a_close_that_is_interrupted_can_be_done_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        driver, opened, gate = held_up(kind)

        def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(driver, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            opened.close()
        monkeypatch.undo()
        gate.open()
        opened.close()
        assert driver.is_closed

    def test_S2_20_who_was_told_to_send_for_others_when_everybody_was_let_go_ends() -> None:
        """Method: the thread that is to lead wakes up only after the topic was closed."""
        driver = ScriptedTopic(gate=Gate())
        assert driver.gate is not None
        awake = Gate()
        topic = driver.opened(close_timeout_s=0.05)
        first = Running(lambda: topic.send(b"0"))
        wait_until(lambda: len(driver.batches) == 1)

        class LateTurn(Turn[str]):
            def wait(self, timeout_s: float) -> str:
                found = super().wait(timeout_s)
                awake.wait()
                return found

        topic._lane._new_turn = LateTurn
        second = Running(lambda: topic.send(b"1"))
        wait_until(lambda: len(topic._lane._line) == 1)
        driver.gate.open()
        assert first.result(PATIENCE_S) == "id-0"
        wait_until(lambda: awake.count == 1)
        topic.close()
        awake.open()
        with pytest.raises(errors.Cancelled):
            second.result(PATIENCE_S)
        assert driver.batches == [[b"0"]]
