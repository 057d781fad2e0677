# Generated from tests/aio/test_portable_receive.py by tools/twins.py (make fix). Change the source, not this file.
"""Receiving through the portable API: one fetch for all who wait, prefetch that follows receivers, and good ends."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count, pairwise
from typing import Any

import pytest

from tests.sync.scripted import ALL, ScriptedSubscription
from tests.sync.shim import Gate, in_the_background, wait_until
from trunkline import errors
from trunkline.engine.appetite import GROWTH_MAX
from trunkline.portable.driver import Capabilities, Incoming
from trunkline.portable.sync import calls, intake
from trunkline.testing.sync.shim import Running

PATIENCE_S = 30.0


def test_S2_19_all_who_wait_are_asked_for_at_once() -> None:
    """Method: the first asks for itself and gets one; nine come meanwhile, and the next fetch is for all of them."""
    driver = ScriptedSubscription()
    gate = Gate()
    driver.on_receive = gate.wait
    subscription = driver.opened()
    first = Running(subscription.receive)
    wait_until(lambda: gate.count == 1)
    others = [Running(subscription.receive) for _ in range(9)]
    wait_until(lambda: len(subscription._intake._waiters) == 9)
    driver.stock.extend(ScriptedSubscription(10).stock)
    gate.open()
    found = [each.result(PATIENCE_S) for each in (first, *others)]
    assert sorted(int(each.body) for each in found) == list(range(10))
    assert [asked for asked, _ in driver.asked[:2]] == [1, 9]
    subscription.close()


def test_S2_26_the_batch_grows_with_quick_receivers_by_twice_at_most() -> None:
    driver = ScriptedSubscription(3_000)
    with driver.opened() as subscription:
        for _ in range(2_000):
            subscription.receive()
        asked = [count for count, _ in driver.asked]
        assert asked[0] == 1
        assert max(asked) > 100
        sizes = [count for count, wait_s in driver.asked if wait_s]
        assert all(after <= GROWTH_MAX * before + 1 for before, after in pairwise(sizes))


def test_S2_26_prefetch_does_not_wait_and_takes_half_a_queue_ahead() -> None:
    driver = ScriptedSubscription(1_000)
    with driver.opened(prefetch_max=100) as subscription:
        subscription._intake._appetite.size = 100.0
        subscription.receive()
        assert len(driver.asked) == 1
        for _ in range(50):
            subscription.receive()
        wait_until(lambda: len(driver.asked) == 2 and not subscription._intake._fetching)
        assert driver.asked[1][1] == 0.0
        assert 50 <= subscription._intake.in_memory <= 100
        assert len(in_the_background()) == 1
    assert in_the_background() == []


def test_S2_26_memory_is_filled_again_each_time_it_is_half_empty() -> None:
    driver = ScriptedSubscription(1_000)
    with driver.opened(prefetch_max=100) as subscription:
        subscription._intake._appetite.size = 100.0
        subscription.receive()
        for turn in range(1, 5):
            subscription._intake._appetite.size = 100.0
            while subscription._intake.in_memory >= subscription._intake._appetite.low:
                subscription.receive()
            wait_until(partial(lambda turn: len(driver.asked) > turn and not subscription._intake._fetching, turn))
        assert {wait_s for _, wait_s in driver.asked[1:]} == {0.0}


def test_nothing_is_fetched_ahead_where_that_is_not_wanted() -> None:
    for driver, prefetch_max in (
        (ScriptedSubscription(50), 0),
        (ScriptedSubscription(50, Capabilities(prefetches=True)), 1_000),
    ):
        with driver.opened(prefetch_max=prefetch_max) as subscription:
            for _ in range(50):
                subscription.receive()
        assert {asked for asked, _ in driver.asked} == {1}
        assert driver.released == []
        assert in_the_background() == []


def test_what_has_lain_too_long_is_given_back_and_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: whoever gets a message has half of its time left. Method: the clock jumps while messages lie in memory."""
    now = [1_000.0]
    monkeypatch.setattr(intake, "monotonic", lambda: now[0])
    driver = ScriptedSubscription(10, ack_deadline_s=30)
    with driver.opened() as subscription:
        subscription._intake._appetite.size = 4.0
        assert subscription.receive().body == b"0"
        now[0] += 15.1
        assert subscription.receive().body == b"4"
        wait_until(lambda: driver.released == [1, 2, 3])


def test_S2_20_closing_gives_back_what_was_prefetched() -> None:
    driver = ScriptedSubscription(10)
    subscription = driver.opened()
    subscription._intake._appetite.size = 5.0
    subscription.receive()
    subscription.close()
    assert driver.released == [1, 2, 3, 4]
    assert driver.is_closed


def test_S2_20_what_comes_while_it_is_closed_is_given_back() -> None:
    driver = ScriptedSubscription(1)
    gate = Gate()
    driver.on_receive = gate.wait
    subscription = driver.opened()
    waiting = Running(subscription.receive)
    wait_until(lambda: gate.count == 1)
    closing = Running(subscription.close)
    wait_until(lambda: subscription._intake._closed)
    gate.open()
    closing.result(PATIENCE_S)
    with pytest.raises(errors.Closed):
        waiting.result(PATIENCE_S)
    assert driver.released == [0]


def test_receive_waits_as_long_as_it_is_told() -> None:
    driver = ScriptedSubscription()
    with driver.opened() as subscription:
        with pytest.raises(errors.DeadlineExceeded, match="within 0 s"):
            subscription.receive(wait_s=0)
        assert driver.asked == [(1, 0.0)]
        for bad in (-1, "1", True, float("nan"), float("inf")):
            with pytest.raises(errors.InvalidArgument):
                subscription.receive(wait_s=bad)  # type: ignore[arg-type]


def test_S2_25_a_fetch_that_may_succeed_later_is_tried_again() -> None:
    driver = ScriptedSubscription(1)
    driver.failures.extend([errors.Unavailable("away"), errors.Conflict("in the way")])
    with driver.opened() as subscription:
        assert subscription.receive().body == b"0"
        driver.failures.append(errors.NotFound("gone"))
        with pytest.raises(errors.NotFound):
            subscription.receive()


def test_S2_25_a_broker_that_stays_away_is_raised_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: two seconds pass whenever somebody looks at the clock, and never else."""
    looks = count()
    monkeypatch.setattr(calls, "monotonic", lambda: next(looks) * 2.0)
    driver = ScriptedSubscription(1)
    driver.failures.extend([errors.Unavailable("away")] * 1_000)
    with driver.opened(deadline_s=1) as subscription:
        with pytest.raises(errors.Unavailable):
            subscription.receive()
        assert 1 < len(driver.asked) < 1_000
        driver.failures.clear()
        assert subscription.receive().body == b"0"


def test_a_fetch_ahead_that_fails_is_nobodys_error() -> None:
    driver = ScriptedSubscription(20)
    with driver.opened(deadline_s=0.01) as subscription:
        subscription._intake._appetite.size = 4.0
        subscription.receive()
        driver.failures.append(ZeroDivisionError())
        for _ in range(3):
            subscription.receive()
        wait_until(lambda: not driver.failures and not subscription._intake._fetching)
        assert subscription.receive().body == b"4"


def test_a_driver_that_never_waits_is_asked_less_and_less_often_and_keeps_nobody_from_working(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = ScriptedSubscription()
    with caplog.at_level(logging.WARNING):
        with driver.opened() as subscription:
            waiting = Running(lambda: subscription.receive(wait_s=PATIENCE_S))
            wait_until(lambda: "it is asked less often" in caplog.text)
            driver.stock.append(Incoming(b"1", 1))
            assert waiting.result(PATIENCE_S).body == b"1"
    assert caplog.text.count("it is asked less often") == 1


def test_a_driver_that_gives_too_much_is_a_driver_error_and_keeps_nothing() -> None:
    driver = ScriptedSubscription(5)
    driver.surplus = 2
    with driver.opened() as subscription:
        with pytest.raises(errors.DriverError, match="gave 3 messages where 1 were asked for"):
            subscription.receive()
        assert driver.released == [0, 1, 2]


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (lambda: None, "NoneType where a list of messages was due"),
        (lambda: (Incoming(b"", each) for each in range(1)), "generator where a list of messages was due"),
        (lambda: [None], "NoneType where a message was due"),
        (lambda: "text", "str where a message was due"),
        (lambda: (b"1",), "bytes where a message was due"),
    ],
)
def test_a_driver_that_gives_no_messages_is_a_driver_error_and_the_service_goes_on(
    batch: Callable[[], Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Method: the receiver gets it first, then the service, which fetches ahead again afterwards."""
    driver = ScriptedSubscription(20)
    wrong: list[float] = []

    def receive_batch(max_messages: int, wait_s: float) -> Any:
        if len(wrong) < 2 and (wait_s == 0.0 or not wrong):
            wrong.append(wait_s)
            return batch()
        return [driver.stock.popleft() for _ in range(min(max_messages, len(driver.stock)))]

    monkeypatch.setattr(driver, "receive_batch", receive_batch)
    with driver.opened() as subscription:
        with pytest.raises(errors.DriverError, match=said):
            subscription.receive()
        subscription._intake._appetite.size = 8.0
        for _ in range(5):
            subscription.receive()
        wait_until(lambda: wrong[1:] == [0.0] and not subscription._intake._fetching)
        for _ in range(15):
            subscription.receive()
        assert len(in_the_background()) == 1


def test_a_driver_may_give_any_sequence_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Special(Incoming, frozen=True):
        pass

    driver = ScriptedSubscription()
    batches = iter([(Incoming(b"1", 1),), deque([Incoming(b"2", 2)]), [Special(b"3", 3)]])

    def receive_batch(max_messages: int, wait_s: float) -> Any:
        return next(batches)

    monkeypatch.setattr(driver, "receive_batch", receive_batch)
    with driver.opened(prefetch_max=0) as subscription:
        assert [subscription.receive().body for _ in range(3)] == [b"1", b"2", b"3"]


def test_a_driver_that_raises_what_it_likes_is_a_driver_error_without_secrets() -> None:
    driver = ScriptedSubscription()
    driver.failures.append(RuntimeError("user:hunter2"))
    with driver.opened() as subscription:
        with pytest.raises(errors.DriverError, match=r"RuntimeError: user:\*\*\*"):
            subscription.receive()
        assert "hunter2" not in repr(subscription)


def test_iterating_ends_when_it_is_closed() -> None:
    driver = ScriptedSubscription(3)
    subscription = driver.opened()
    found = []
    for message in subscription:
        found.append(message.body)
        if len(found) == 3:
            subscription.close()
    assert found == [b"0", b"1", b"2"]


def test_S2_29_the_brokers_own_objects_can_be_had() -> None:
    driver = ScriptedSubscription(1)
    with driver.opened() as subscription:
        assert subscription.as_(ScriptedSubscription) is driver
        message = subscription.receive()
        with pytest.raises(errors.InvalidArgument, match="nothing of its broker's own"):
            message.as_(dict)


def test_capabilities_can_be_looked_at() -> None:
    with ScriptedSubscription().opened() as subscription:
        assert subscription.capabilities == ALL
        assert subscription.nackable
