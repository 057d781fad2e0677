# Generated from src/trunkline/testing/aio/settling.py by tools/twins.py (make fix). Change the source, not this file.
"""What becomes of a message: acknowledged, given back, or left to its deadline."""

from __future__ import annotations

from functools import partial

import pytest

from trunkline import errors
from trunkline.testing.harness import Harness
from trunkline.testing.sync.scene import needs, scene
from trunkline.testing.sync.shim import at_once, runs_by_itself


@runs_by_itself
class Settling:
    """Drivers that claim acknowledgements; what they do not claim is refused, and not forgotten."""

    def test_S2_04_what_is_given_back_is_delivered_again(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            needs(subscription, "acks", "nack")
            message_id = on.topic.send(b"again")
            for attempt in (1, 2, 3):
                message = on.receive(subscription)
                assert (message.body, message.id) == (b"again", message_id)
                assert message.attempt == (None if subscription.capabilities.lacks("attempts") else attempt)
                message.nack()
            on.receive(subscription).ack()
            on.stays_empty(subscription)

    def test_S2_04_what_is_given_back_with_a_delay_comes_after_it(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.topic.send(b"later")
            message = on.receive(subscription)
            if not subscription.capabilities.nack_delay:
                with pytest.raises(errors.AckNotSupported):
                    message.nack(delay_s=5)
                return
            message.nack(delay_s=harness.ack_deadline_s * 0.5)
            on.stays_empty(subscription)
            harness.pass_time(harness.ack_deadline_s * 0.51)
            on.receive(subscription).ack()

    def test_S2_06_a_second_ack_is_an_error_and_does_nothing(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.topic.send(b"once")
            message = on.receive(subscription)
            message.ack()
            for settle in (message.ack, message.nack) if subscription.nackable else (message.ack,):
                with pytest.raises(errors.FailedPrecondition):
                    settle()
            with pytest.raises(errors.FailedPrecondition):
                message.ack_soon()
            on.stays_empty(subscription)

    def test_S2_15_without_an_ack_it_is_delivered_again_after_the_deadline(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            needs(subscription, "acks", "ack_deadline")
            on.topic.send(b"again")
            late = on.receive(subscription)
            on.stays_empty(subscription)
            on.pass_deadline()
            again = on.receive(subscription)
            assert (again.body, again.id) == (late.body, late.id)
            with pytest.raises(errors.ClaimLost):
                late.ack()
            again.ack()
            on.pass_deadline(2)
            on.stays_empty(subscription)

    def test_S2_15_giving_back_after_the_deadline_is_an_error(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            needs(subscription, "acks", "nack", "ack_deadline")
            on.topic.send(b"again")
            late = on.receive(subscription)
            on.pass_deadline()
            again = on.receive(subscription)
            with pytest.raises(errors.ClaimLost):
                late.nack()
            on.stays_empty(subscription)
            again.ack()

    def test_S2_15_a_deadline_that_its_receiver_chooses_is_kept(self, harness: Harness) -> None:
        """Shorter, and longer, than the subscription's own; or it is refused when it is opened."""
        for times in (0.5, 3.0):
            with scene(harness) as on:
                try:
                    subscription = on.subscribe(ack_deadline_s=harness.ack_deadline_s * times)
                except (errors.InvalidArgument, errors.FailedPrecondition):
                    continue
                on.topic.send(b"again")
                on.receive(subscription)
                if times > 1:
                    on.pass_deadline()
                on.stays_empty(subscription)
                on.pass_deadline(times)
                on.receive(subscription).ack()

    def test_S2_15_of_a_receiver_that_is_gone_too(self, harness: Harness) -> None:
        with scene(harness) as on:
            gone = on.subscribe()
            needs(gone, "acks", "ack_deadline")
            on.topic.send(b"again")
            on.receive(gone)
            gone.close()
            other = on.subscribe()
            on.pass_deadline()
            on.receive(other).ack()

    def test_S2_16_what_was_acked_does_not_come_again_after_twice_the_deadline(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.send_many(20)
            found = [on.receive(subscription) for _ in range(20)]
            at_once(harness.patience_s, *(each.ack for each in found))
            on.pass_deadline(2)
            on.stays_empty(subscription)
            subscription.close()
            on.stays_empty(on.subscribe())

    def test_S2_21_an_ack_has_happened_when_it_returns(self, harness: Harness) -> None:
        """Method: the receiver goes at once, without a word; another one sees what is left."""
        with scene(harness) as on:
            gone = on.subscribe(prefetch_max=0)
            needs(gone, "acks")
            on.topic.send(b"done")
            on.receive(gone).ack()
            other = on.subscribe()
            on.pass_deadline(2)
            on.stays_empty(other)

    def test_S2_21_acks_at_the_same_time_are_each_answered(self, harness: Harness) -> None:
        """Twenty acks at once, of which five are late: those raise, and only those."""
        with scene(harness) as on:
            subscription = on.subscribe(prefetch_max=0)
            needs(subscription, "acks", "ack_deadline")
            on.send_many(5)
            late = [on.receive(subscription) for _ in range(5)]
            on.pass_deadline()
            on.send_many(15, first=5)
            held = [on.receive(subscription) for _ in range(20)]

            def acked(number: int) -> bool:
                try:
                    (late[number // 4] if number % 4 == 0 else held[number]).ack()
                except errors.ClaimLost:
                    return False
                return True

            answers = at_once(harness.patience_s, *(partial(acked, number) for number in range(20)))
            assert answers == [number % 4 != 0 for number in range(20)]

    def test_S2_21_ack_soon_is_done_by_the_time_of_the_close(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.send_many(20)
            for _ in range(20):
                on.receive(subscription).ack_soon()
            subscription.close()
            on.pass_deadline(2)
            on.stays_empty(on.subscribe())

    def test_S2_21_the_error_of_ack_soon_is_raised_later(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            needs(subscription, "acks", "ack_deadline")
            on.topic.send(b"late")
            late = on.receive(subscription)
            on.pass_deadline()
            on.receive(subscription).ack()
            late.ack_soon()
            with pytest.raises(errors.ClaimLost):
                subscription.close()

    def test_S2_22_what_a_driver_cannot_take_back_says_so(self, harness: Harness) -> None:
        with scene(harness) as on:
            subscription = on.subscribe()
            on.topic.send(b"one")
            message = on.receive(subscription)
            can = subscription.capabilities.acks and subscription.capabilities.nack
            assert message.nackable == subscription.nackable == can
            if can:
                message.nack()
                message = on.receive(subscription)
            else:
                with pytest.raises(errors.AckNotSupported) as caught:
                    message.nack()
                assert caught.value.driver
            message.ack()
            on.pass_deadline(2)
            on.stays_empty(subscription)
