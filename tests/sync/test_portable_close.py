# Generated from tests/aio/test_portable_close.py by tools/twins.py (make fix). Change the source, not this file.
"""The end of topics and subscriptions: what is under way is finished, nothing is begun, and nobody hangs."""

from __future__ import annotations

import logging
from math import inf
from threading import Lock

import pytest

from tests.sync.scripted import ScriptedSubscription, ScriptedTopic
from tests.sync.shim import Gate, wait_until
from trunkline import errors
from trunkline.portable.driver import Incoming
from trunkline.portable.sync.shim import Turn
from trunkline.portable.sync.subscription import Subscription
from trunkline.portable.sync.topic import Topic
from trunkline.testing.sync.shim import Running

PATIENCE_S = 30.0
FOR_EVER_S = 3_600.0
"""Longer than any test has patience."""


# -- receivers --


def test_S2_20_what_was_handed_out_can_be_acknowledged_while_it_is_closed_and_loops_end() -> None:
    """Method: one acknowledgement is held up, and so the close; another comes by then."""
    driver = ScriptedSubscription(10)
    gate = Gate()
    driver.on_settle = gate.wait
    subscription = driver.opened()
    subscription._intake._appetite.size = 10.0
    second = subscription.receive()

    def loop() -> int:
        count = 0
        for message in subscription:
            message.ack()
            count += 1
        return count

    looping = Running(loop)
    wait_until(lambda: gate.count == 1)
    closing = Running(subscription.close)
    wait_until(lambda: subscription._intake._closed)
    with pytest.raises(errors.Closed):
        subscription.receive()
    acknowledging = Running(second.ack)
    wait_until(lambda: len(subscription._settlements._lane._line) == 1)
    assert not driver.is_closed
    gate.open()
    acknowledging.result(PATIENCE_S)
    assert looping.result(PATIENCE_S) == 1
    closing.result(PATIENCE_S)
    assert sorted(each for batch in driver.acked for each in batch) == [0, 1]
    assert driver.released == list(range(2, 10))


def test_S2_20_a_message_that_was_given_to_one_who_waits_is_given_back_once_it_is_closed() -> None:
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
    intake.close()
    with pytest.raises(errors.Closed):
        intake._turn(woken, inf)
    unwanted = intake._leave(leaving)
    assert driver.released == [1]
    assert unwanted is not None
    assert unwanted.ack_id == 2
    subscription.close()


def test_S2_20_what_comes_in_the_moment_in_which_it_is_closed_is_given_back() -> None:
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

    def come() -> None:
        intake._mutex = Slow()  # type: ignore[assignment]

    driver.on_receive = come
    with pytest.raises(errors.Closed):
        subscription.receive()
    assert sorted([*driver.released, *(each.ack_id for each in driver.stock)]) == [0, 1, 2]
    assert intake.in_memory == 0
    subscription.close()


def test_S2_20_a_receiver_between_two_attempts_is_ended_and_the_driver_is_left_alone() -> None:
    driver = ScriptedSubscription()
    driver.failures.extend([errors.Unavailable("away")] * 1_000)
    late: list[bool] = []

    def look() -> None:
        late.append(driver.is_closed)

    driver.on_receive = look
    subscription = driver.opened(deadline_s=FOR_EVER_S)
    waiting = Running(subscription.receive)
    wait_until(lambda: len(driver.asked) == 7)
    subscription.close()
    with pytest.raises(errors.Closed):
        waiting.result(PATIENCE_S)
    assert not any(late)


def test_S2_20_what_is_fetched_ahead_while_it_is_closed_is_given_back_before_the_driver_is_closed() -> None:
    """The driver of a file can give nothing back once that is closed: others would get it after its deadline."""
    gate = Gate()
    driver = ScriptedSubscription(20)
    when_closed: list[int] = []
    subscription = hung_while_fetching_ahead(driver, gate, close_timeout_s=PATIENCE_S)
    close_driver = driver.close

    def close() -> None:
        when_closed.append(len(driver.released))
        close_driver()

    driver.close = close  # type: ignore[method-assign]
    closing = Running(subscription.close)
    wait_until(lambda: subscription._intake._closed)
    gate.open()
    closing.result(PATIENCE_S)
    assert driver.is_closed
    assert when_closed == [len(driver.released)]
    assert len(driver.released) + len(driver.stock) == 20 - 4


def test_S2_20_the_driver_is_closed_though_the_service_has_ended_with_an_error() -> None:
    driver = ScriptedSubscription(20)
    subscription = driver.opened()

    def fail() -> None:
        raise AssertionError("whatever")

    subscription._settlements.flush = fail  # type: ignore[method-assign]
    subscription._call_service()
    wait_until(lambda: subscription._served.given is True)
    with pytest.raises(AssertionError, match="whatever"):
        subscription.close()
    assert driver.is_closed


def test_S2_20_a_retry_of_the_service_ends_when_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """It sends what nobody waits for, and the broker is away for long: closing waits for that once, and not twice."""
    driver = ScriptedSubscription(1)
    away = [errors.Unavailable("away")]
    driver.answers.extend([away] * 1_000)
    subscription = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=0.2)
    subscription.receive().ack_soon()
    wait_until(lambda: len(driver.acked) > 1)
    with caplog.at_level(logging.WARNING), pytest.raises(errors.Unavailable, match="away"):
        Running(subscription.close).result(PATIENCE_S)
    assert "acknowledgements were still under way" in caplog.text
    assert "still at work" not in caplog.text
    assert driver.is_closed


def hung_while_fetching_ahead(driver: ScriptedSubscription, gate: Gate, close_timeout_s: float = 0.05) -> Subscription:
    """A subscription whose service does not come back before the gate is opened."""

    def hang() -> None:
        if driver.asked[-1][1] == 0.0:
            gate.wait()

    driver.on_receive = hang
    subscription = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=close_timeout_s)
    subscription._intake._appetite.size = 4.0
    for _ in range(4):
        subscription.receive()
    wait_until(lambda: gate.count == 1)
    return subscription


def test_S2_20_closing_is_bounded_though_a_fetch_ahead_hangs(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    driver = ScriptedSubscription(20)
    subscription = hung_while_fetching_ahead(driver, gate)
    with caplog.at_level(logging.WARNING):
        Running(subscription.close).result(PATIENCE_S)
    assert "still at work" in caplog.text
    assert driver.is_closed
    gate.open()


# -- senders --


def test_S2_20_who_waits_for_room_is_told_when_it_is_closed_and_nothing_is_sent_afterwards() -> None:
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened(buffer_bytes_max=100, close_timeout_s=0.05)
    under_way = Running(lambda: topic.send(b"0"))
    wait_until(lambda: len(driver.batches) == 1)
    in_line = Running(lambda: topic.send(b"1" * 100))
    wait_until(lambda: len(topic._lane._line) == 1)
    for_room = Running(lambda: topic.send(b"2"))
    wait_until(lambda: len(topic._lane._for_room) == 1)
    topic.close()
    for each in (in_line, for_room):
        with pytest.raises(errors.Cancelled):
            each.result(PATIENCE_S)
    driver.gate.open()
    assert under_way.result(PATIENCE_S) == "id-0"
    assert driver.batches == [[b"0"]]


def test_S2_20_what_waits_to_be_sent_again_is_not_sent_once_it_is_closed() -> None:
    driver = ScriptedTopic([errors.Unavailable("away")] * 1_000)
    topic = driver.opened(deadline_s=FOR_EVER_S, close_timeout_s=0.05)
    trying = Running(lambda: topic.send(b"0"))
    wait_until(lambda: len(driver.batches) == 7)
    topic.close()
    with pytest.raises(errors.Unavailable):
        trying.result(PATIENCE_S)


def test_S2_20_of_a_batch_that_failed_as_a_whole_nothing_is_sent_alone_once_it_is_closed() -> None:
    """Method: the batch is under way when it is closed, and fails for one message's reason afterwards."""
    driver = ScriptedTopic(gate=Gate())
    topic = driver.opened(close_timeout_s=0.05)
    assert driver.gate is not None
    first = Running(lambda: topic.send(b"0"))
    wait_until(lambda: len(driver.batches) == 1)
    others = [Running(lambda: topic.send(b"1")), Running(lambda: topic.send(b"2"))]
    wait_until(lambda: len(topic._lane._line) == 2)
    gate, driver.gate = driver.gate, Gate()
    gate.open()
    first.result(PATIENCE_S)
    wait_until(lambda: len(driver.batches) == 2)
    driver.script.append(errors.InvalidArgument("one of them"))
    topic.close()
    driver.gate.open()
    for each in others:
        with pytest.raises(errors.Closed):
            each.result(PATIENCE_S)
    assert len(driver.batches) == 2


# -- twice, and cancelled --


def held_up(kind: str) -> tuple[ScriptedTopic | ScriptedSubscription, Topic | Subscription, Gate]:
    """A topic or subscription whose driver takes its time to close."""
    gate = Gate()
    driver: ScriptedTopic | ScriptedSubscription = ScriptedTopic() if kind == "topic" else ScriptedSubscription()
    close = driver.close

    def slowly() -> None:
        gate.wait()
        close()

    driver.close = slowly  # type: ignore[method-assign]
    return driver, driver.opened(), gate


@pytest.mark.parametrize("kind", ["topic", "subscription"])
def test_S2_20_whoever_closes_second_waits_until_it_is_closed(kind: str) -> None:
    driver, opened, gate = held_up(kind)

    def close() -> bool:
        opened.close()
        return driver.is_closed

    first = Running(close)
    wait_until(lambda: gate.count == 1)
    second = Running(close)
    second.begin()
    gate.open()
    assert first.result(PATIENCE_S)
    assert second.result(PATIENCE_S)
    opened.close()
    assert gate.count == 1


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
