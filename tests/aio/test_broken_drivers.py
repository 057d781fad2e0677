"""The conformance suite catches drivers that are broken: a suite that cannot fail is a defect."""

from __future__ import annotations

import pytest

from tests.aio import broken_drivers
from tests.aio.broken_drivers import (
    AcksEarly,
    BlocksAcks,
    DropsBeyondTwoHundred,
    HidesWhatIsLost,
    IgnoresCancel,
    IgnoresTheDeadline,
    LosesOneInAHundred,
    ManglesAttributes,
    NeverRedelivers,
    NeverWaits,
    SendsBackwards,
    SettlesTheFirst,
    Sound,
)
from trunkline.portable import registry
from trunkline.testing import MemoryBroker, MemoryHarness
from trunkline.testing.aio.conformance import AsyncConformance

CAUGHT = {
    LosesOneInAHundred: {"test_S2_05_batching_keeps_every_message"},
    AcksEarly: {
        "test_S2_04_what_is_given_back_is_delivered_again",
        "test_S2_15_without_an_ack_it_is_delivered_again_after_the_deadline",
    },
    NeverRedelivers: {
        "test_S2_04_what_is_given_back_is_delivered_again",
        "test_S2_15_without_an_ack_it_is_delivered_again_after_the_deadline",
        "test_S2_15_of_a_receiver_that_is_gone_too",
    },
    ManglesAttributes: {
        "test_S2_13_attributes_with_unusual_characters_come_back",
        "test_S2_17_random_bodies_and_attributes_come_back",
    },
    IgnoresCancel: {"test_S2_20_a_receive_that_waits_ends_at_once_when_it_is_closed"},
    SendsBackwards: {"test_a_batch_keeps_its_order_where_that_is_claimed"},
    DropsBeyondTwoHundred: {"test_a_batch_is_sent_whole_and_every_message_has_its_id"},
    NeverWaits: {"test_a_receive_waits_as_long_as_it_is_told"},
    IgnoresTheDeadline: {"test_S2_15_a_deadline_that_its_receiver_chooses_is_kept"},
    BlocksAcks: {"test_an_ack_is_answered_while_a_receive_waits"},
    SettlesTheFirst: {
        "test_a_whole_batch_is_acknowledged",
        "test_a_whole_batch_is_given_back",
        "test_a_whole_batch_is_released",
    },
    HidesWhatIsLost: {"test_S2_15_giving_back_after_the_deadline_is_an_error"},
}


class BrokenHarness(MemoryHarness):
    """The memory broker, seen through the driver under test."""

    def create_topic(self) -> str:
        return super().create_topic().replace("memory://", "broken://")

    def create_subscription(self, topic_url: str, *, ordered: bool = False) -> str:
        return super().create_subscription(topic_url, ordered=ordered).replace("memory://", "broken://")


@pytest.fixture
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Sound]:
    kind: type[Sound] = request.param
    monkeypatch.setattr(broken_drivers, "UNDER_TEST", broken_drivers.registered(kind))
    monkeypatch.setitem(registry.BUILT_IN, "broken", f"{broken_drivers.__name__}:UNDER_TEST")
    return kind


def failing(patience_s: float, names: set[str]) -> set[str]:
    """Which of these tests of the suite fail."""
    failed = set()
    for name in sorted(names):
        with MemoryBroker("broken") as broker:
            harness = BrokenHarness(broker)
            harness.patience_s = patience_s
            try:
                getattr(AsyncConformance(), name)(harness)
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - any failure is one
                print(f"{name}: {type(error).__name__}: {error}")
                failed.add(name)
    return failed


ALL = {name for name in dir(AsyncConformance) if name.startswith("test_")}


@pytest.mark.parametrize("fault", [Sound], indirect=True)
def test_a_sound_driver_passes(fault: type[Sound]) -> None:
    assert failing(30.0, ALL) == set()


@pytest.mark.parametrize("fault", CAUGHT, indirect=True)
def test_the_suite_catches_a_driver_that_is_broken(fault: type[Sound]) -> None:
    """The patience is short: it is spent only where a test fails."""
    assert failing(0.3, CAUGHT[fault]) == CAUGHT[fault]


if True:  # ASYNC

    @pytest.mark.parametrize("fault", [IgnoresCancel], indirect=True)
    def test_the_suite_catches_a_driver_that_swallows_a_cancellation(fault: type[Sound]) -> None:
        name = "test_S2_19_a_receive_that_waits_ends_at_once_when_it_is_cancelled"
        assert failing(0.3, {name}) == {name}
