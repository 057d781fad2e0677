# Generated from tests/aio/test_portable_settle.py by tools/twins.py (make fix). Change the source, not this file.
"""Settling through the portable API: acknowledgements share calls, errors are their own, and nothing is pretended."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import trunkline
from tests.sync.scripted import ScriptedSubscription
from tests.sync.shim import Gate, at_once, wait_until
from trunkline import errors
from trunkline.drivers.memory.sync.driver import MemoryOpener
from trunkline.portable.driver import Capabilities
from trunkline.testing import MemoryBroker
from trunkline.testing.sync.shim import Running

PATIENCE_S = 30.0


def test_S2_21_acks_at_the_same_time_share_one_call() -> None:
    driver = ScriptedSubscription(10)
    gate = Gate()
    driver.on_settle = gate.wait
    with driver.opened() as subscription:
        messages = [subscription.receive() for _ in range(10)]
        first = Running(messages[0].ack)
        wait_until(lambda: gate.count == 1)
        others = [Running(each.ack) for each in messages[1:]]
        wait_until(lambda: len(subscription._settlements._lane._line) == 9)
        gate.open()
        for each in (first, *others):
            each.result(PATIENCE_S)
    assert driver.acked[0] == [0]
    assert sorted(driver.acked[1]) == list(range(1, 10))
    assert len(driver.acked) == 2


def test_S2_21_an_ack_that_fails_raises_and_may_be_tried_again() -> None:
    driver = ScriptedSubscription(2)
    with driver.opened() as subscription:
        first, second = subscription.receive(), subscription.receive()
        driver.answers.append([errors.ClaimLost("late")])
        with pytest.raises(errors.ClaimLost):
            first.ack()
        first.ack()
        driver.answers.extend([errors.Unavailable("away"), None])
        second.ack()
        with pytest.raises(errors.FailedPrecondition, match="settled already"):
            second.ack()
    assert driver.acked == [[0], [0], [1], [1]]


def test_S2_21_the_error_of_ack_soon_is_raised_by_the_next_receive() -> None:
    driver = ScriptedSubscription(3)
    driver.answers.append([errors.ClaimLost("late")])
    with driver.opened() as subscription:
        subscription.receive().ack_soon()
        wait_until(lambda: bool(subscription._settlements.late))
        with pytest.raises(errors.ClaimLost):
            subscription.receive()
        subscription.receive()


def test_S2_21_ack_soon_is_sent_without_anybody_waiting_for_it() -> None:
    driver = ScriptedSubscription(100)
    with driver.opened() as subscription:
        for _ in range(100):
            subscription.receive().ack_soon()
        wait_until(lambda: sum(map(len, driver.acked)) == 100)


def test_failures_go_together_by_their_delay_and_acks_apart_from_them() -> None:
    driver = ScriptedSubscription(7)
    gate = Gate()
    driver.on_settle = gate.wait
    with driver.opened() as subscription:
        messages = [subscription.receive() for _ in range(7)]
        first = Running(messages[0].ack)
        wait_until(lambda: gate.count == 1)
        others = [
            Running(messages[1].nack),
            Running(lambda: messages[2].nack(delay_s=5)),
            Running(messages[3].ack),
            Running(lambda: messages[4].nack(delay_s=5)),
            Running(messages[5].ack),
            Running(lambda: messages[6].nack(delay_s=0)),
        ]
        wait_until(lambda: len(subscription._settlements._lane._line) == 6)
        gate.open()
        for each in (first, *others):
            each.result(PATIENCE_S)
    assert [sorted(each) for each in driver.acked] == [[0], [3, 5]]
    assert sorted((sorted(each), delay_s) for each, delay_s in driver.nacked) == [([1, 6], 0.0), ([2, 4], 5.0)]


@pytest.mark.parametrize("wrong", [ZeroDivisionError(), errors.NotFound("gone"), [], [5], "?"], ids=str)
def test_S2_21_a_nack_that_fails_says_nothing_about_acks_that_were_sent_with_it(wrong: Any) -> None:
    driver = ScriptedSubscription(4)
    gate = Gate()
    driver.on_settle = gate.wait
    with driver.opened() as subscription:
        messages = [subscription.receive() for _ in range(4)]
        first = Running(messages[0].ack)
        wait_until(lambda: gate.count == 1)
        acks = [Running(messages[1].ack)]
        wait_until(lambda: len(subscription._settlements._lane._line) == 1)
        nack = Running(messages[2].nack)
        wait_until(lambda: len(subscription._settlements._lane._line) == 2)
        acks.append(Running(messages[3].ack))
        wait_until(lambda: len(subscription._settlements._lane._line) == 3)
        driver.answers.extend([None, None, wrong])
        gate.open()
        for each in (first, *acks):
            each.result(PATIENCE_S)
        with pytest.raises(type(wrong) if isinstance(wrong, errors.TrunklineError) else errors.DriverError):
            nack.result(PATIENCE_S)
    assert driver.acked == [[0], [1, 3]]


def test_S2_23_errors_of_single_acknowledgements_have_no_secrets() -> None:
    driver = ScriptedSubscription(1)
    with driver.opened() as subscription:
        message = subscription.receive()
        driver.answers.extend([[errors.ClaimLost("at user:hunter2")], errors.NotFound("no hunter2 here")])
        with pytest.raises(errors.ClaimLost, match=r"at user:\*\*\*"):
            message.ack()
        with pytest.raises(errors.NotFound, match=r"no \*\*\* here"):
            message.nack()


def test_ack_wait_gathers_acks() -> None:
    driver = ScriptedSubscription(3)
    with driver.opened(ack_wait_s=60, ack_batch_max=3) as subscription:
        messages = [subscription.receive() for _ in range(3)]
        at_once(*(each.ack for each in messages))
    assert [len(each) for each in driver.acked] == [3]


@pytest.mark.parametrize("delay_s", [-1, "1", None, True, float("nan"), float("inf")])
def test_a_delay_that_cannot_be_is_refused(delay_s: object) -> None:
    driver = ScriptedSubscription(1)
    with driver.opened() as subscription:
        message = subscription.receive()
        with pytest.raises(errors.InvalidArgument):
            message.nack(delay_s=delay_s)  # type: ignore[arg-type]
        message.ack()


@pytest.mark.parametrize("answers", [[], [None, None]])
def test_a_driver_that_answers_too_little_or_too_much_is_a_driver_error(answers: list[None]) -> None:
    driver = ScriptedSubscription(2)
    with driver.opened() as subscription:
        for settle in (subscription.receive().ack, subscription.receive().nack):
            driver.answers.append(answers)
            with pytest.raises(errors.DriverError):
                settle()


def test_S2_22_without_acks_they_are_simulated() -> None:
    driver = ScriptedSubscription(10, Capabilities(acks=False, nack=False))
    subscription = driver.opened()
    message = subscription.receive()
    message.ack()
    with pytest.raises(errors.FailedPrecondition):
        message.ack()
    subscription.receive().ack_soon()
    another = subscription.receive()
    assert not another.nackable
    with pytest.raises(errors.AckNotSupported, match="the driver memory cannot give messages back") as caught:
        another.nack()
    assert (caught.value.driver, caught.value.capability) == ("memory", "nack")
    another.ack()
    subscription.close()
    assert (driver.acked, driver.nacked, driver.released) == ([], [], [])


def test_S2_22_without_delays_a_delay_is_refused_and_nothing_is_settled() -> None:
    driver = ScriptedSubscription(1, Capabilities(nack_delay=False))
    with driver.opened() as subscription:
        message = subscription.receive()
        with pytest.raises(errors.AckNotSupported):
            message.nack(delay_s=1)
        message.nack()
    assert driver.nacked == [([0], 0.0)]


def test_closing_is_bounded_though_acks_hang_and_settling_later_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = ScriptedSubscription(3)
    gate = Gate()
    driver.on_settle = gate.wait
    subscription = driver.opened(close_timeout_s=0.05)
    messages = [subscription.receive() for _ in range(3)]
    stuck = Running(messages[0].ack)
    wait_until(lambda: gate.count == 1)
    in_line = Running(messages[1].ack)
    wait_until(lambda: len(subscription._settlements._lane._line) == 1)
    with caplog.at_level(logging.WARNING):
        Running(subscription.close).result(PATIENCE_S)
    assert "still under way" in caplog.text
    with pytest.raises(errors.Cancelled):
        in_line.result(PATIENCE_S)
    with pytest.raises(errors.Closed):
        messages[2].ack()
    gate.open()
    stuck.result(PATIENCE_S)


@pytest.mark.parametrize("opened", [None, "topic", object()], ids=["None", "text", "object"])
def test_an_opener_that_opens_nothing_is_its_drivers_fault(opened: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_nothing(opener: object, target: object) -> object:
        return opened

    for name in ("open_topic", "open_subscription"):
        monkeypatch.setattr(MemoryOpener, name, open_nothing)
    said = f"driver memory gave {type(opened).__name__} where"
    with pytest.raises(errors.DriverError, match=said):
        trunkline.open_topic("memory://orders")
    with pytest.raises(errors.DriverError, match=said):
        trunkline.open_subscription("memory://orders?subscription=emails")


def test_what_a_driver_lacks_is_refused_when_it_is_asked_for() -> None:
    with MemoryBroker() as broker:
        broker.create_topic("orders")
        broker.create_subscription("orders", "emails")
        with pytest.raises(errors.NotSupported, match="the driver memory has no seek") as caught:
            trunkline.open_topic("memory://orders", require=["acks", "seek"])
        assert caught.value.capability == "seek"
        url = "memory://orders?subscription=emails"
        with pytest.raises(errors.NotSupported, match="no ordering"):
            trunkline.open_subscription(url, require=("ordering",))
        with trunkline.open_subscription(url, require=("acks", "nack_delay", "ack_deadline")):
            pass
