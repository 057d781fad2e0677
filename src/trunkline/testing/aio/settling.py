"""What becomes of a message: acknowledged, given back, or left to its deadline."""

from __future__ import annotations

from functools import partial

import pytest

from trunkline import errors
from trunkline.testing.aio.scene import needs, scene
from trunkline.testing.aio.shim import at_once, runs_by_itself
from trunkline.testing.harness import Harness


@runs_by_itself
class Settling:
    """Drivers that claim acknowledgements; what they do not claim is refused, and not forgotten."""

    async def test_S2_04_what_is_given_back_is_delivered_again(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            needs(subscription, "acks", "nack")
            message_id = await on.topic.send(b"again")
            for attempt in (1, 2, 3):
                message = await on.receive(subscription)
                assert (message.body, message.id) == (b"again", message_id)
                assert message.attempt == (None if subscription.capabilities.lacks("attempts") else attempt)
                await message.nack()
            await (await on.receive(subscription)).ack()
            await on.stays_empty(subscription)

    async def test_S2_04_what_is_given_back_with_a_delay_comes_after_it(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.topic.send(b"later")
            message = await on.receive(subscription)
            if not subscription.capabilities.nack_delay:
                with pytest.raises(errors.AckNotSupported):
                    await message.nack(delay_s=5)
                return
            await message.nack(delay_s=harness.ack_deadline_s * 0.5)
            await on.stays_empty(subscription)
            harness.pass_time(harness.ack_deadline_s * 0.51)
            await (await on.receive(subscription)).ack()

    async def test_S2_06_a_second_ack_is_an_error_and_does_nothing(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.topic.send(b"once")
            message = await on.receive(subscription)
            await message.ack()
            for settle in (message.ack, message.nack) if subscription.nackable else (message.ack,):
                with pytest.raises(errors.FailedPrecondition):
                    await settle()
            with pytest.raises(errors.FailedPrecondition):
                message.ack_soon()
            await on.stays_empty(subscription)

    async def test_S2_15_without_an_ack_it_is_delivered_again_after_the_deadline(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            needs(subscription, "acks", "ack_deadline")
            await on.topic.send(b"again")
            late = await on.receive(subscription)
            await on.stays_empty(subscription)
            await on.pass_deadline()
            again = await on.receive(subscription)
            assert (again.body, again.id) == (late.body, late.id)
            with pytest.raises(errors.ClaimLost):
                await late.ack()
            await again.ack()
            await on.pass_deadline(2)
            await on.stays_empty(subscription)

    async def test_S2_15_giving_back_after_the_deadline_is_an_error(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            needs(subscription, "acks", "nack", "ack_deadline")
            await on.topic.send(b"again")
            late = await on.receive(subscription)
            await on.pass_deadline()
            again = await on.receive(subscription)
            with pytest.raises(errors.ClaimLost):
                await late.nack()
            await on.stays_empty(subscription)
            await again.ack()

    async def test_S2_15_a_deadline_that_its_receiver_chooses_is_kept(self, harness: Harness) -> None:
        """Shorter, and longer, than the subscription's own; or it is refused when it is opened."""
        for times in (0.5, 3.0):
            async with scene(harness) as on:
                try:
                    subscription = await on.subscribe(ack_deadline_s=harness.ack_deadline_s * times)
                except (errors.InvalidArgument, errors.FailedPrecondition):
                    continue
                await on.topic.send(b"again")
                await on.receive(subscription)
                if times > 1:
                    await on.pass_deadline()
                await on.stays_empty(subscription)
                await on.pass_deadline(times)
                await (await on.receive(subscription)).ack()

    async def test_S2_15_of_a_receiver_that_is_gone_too(self, harness: Harness) -> None:
        async with scene(harness) as on:
            gone = await on.subscribe()
            needs(gone, "acks", "ack_deadline")
            await on.topic.send(b"again")
            await on.receive(gone)
            await gone.close()
            other = await on.subscribe()
            await on.pass_deadline()
            await (await on.receive(other)).ack()

    async def test_S2_16_what_was_acked_does_not_come_again_after_twice_the_deadline(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.send_many(20)
            found = [await on.receive(subscription) for _ in range(20)]
            await at_once(harness.patience_s, *(each.ack for each in found))
            await on.pass_deadline(2)
            await on.stays_empty(subscription)
            await subscription.close()
            await on.stays_empty(await on.subscribe())

    async def test_S2_21_an_ack_has_happened_when_it_returns(self, harness: Harness) -> None:
        """Method: the receiver goes at once, without a word; another one sees what is left."""
        async with scene(harness) as on:
            gone = await on.subscribe(prefetch_max=0)
            needs(gone, "acks")
            await on.topic.send(b"done")
            await (await on.receive(gone)).ack()
            other = await on.subscribe()
            await on.pass_deadline(2)
            await on.stays_empty(other)

    async def test_S2_21_acks_at_the_same_time_are_each_answered(self, harness: Harness) -> None:
        """Twenty acks at once, of which five are late: those raise, and only those."""
        async with scene(harness) as on:
            subscription = await on.subscribe(prefetch_max=0)
            needs(subscription, "acks", "ack_deadline")
            await on.send_many(5)
            late = [await on.receive(subscription) for _ in range(5)]
            await on.pass_deadline()
            await on.send_many(15, first=5)
            held = [await on.receive(subscription) for _ in range(20)]

            async def acked(number: int) -> bool:
                try:
                    await (late[number // 4] if number % 4 == 0 else held[number]).ack()
                except errors.ClaimLost:
                    return False
                return True

            answers = await at_once(harness.patience_s, *(partial(acked, number) for number in range(20)))
            assert answers == [number % 4 != 0 for number in range(20)]

    async def test_S2_21_ack_soon_is_done_by_the_time_of_the_close(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.send_many(20)
            for _ in range(20):
                (await on.receive(subscription)).ack_soon()
            await subscription.close()
            await on.pass_deadline(2)
            await on.stays_empty(await on.subscribe())

    async def test_S2_21_the_error_of_ack_soon_is_raised_later(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            needs(subscription, "acks", "ack_deadline")
            await on.topic.send(b"late")
            late = await on.receive(subscription)
            await on.pass_deadline()
            await (await on.receive(subscription)).ack()
            late.ack_soon()
            with pytest.raises(errors.ClaimLost):
                await subscription.close()

    async def test_S2_22_what_a_driver_cannot_take_back_says_so(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.topic.send(b"one")
            message = await on.receive(subscription)
            can = subscription.capabilities.acks and subscription.capabilities.nack
            assert message.nackable == subscription.nackable == can
            if can:
                await message.nack()
                message = await on.receive(subscription)
            else:
                with pytest.raises(errors.AckNotSupported) as caught:
                    await message.nack()
                assert caught.value.driver
            await message.ack()
            await on.pass_deadline(2)
            await on.stays_empty(subscription)
