"""Coming and going: what is closed, cancelled, or does not exist."""

from __future__ import annotations

import pytest

import trunkline.aio
from trunkline import errors
from trunkline.records import Message
from trunkline.testing.aio.scene import Scene, needs, scene
from trunkline.testing.aio.shim import Running, runs_by_itself
from trunkline.testing.harness import Harness


@runs_by_itself
class Closing:
    """Every driver, without exception."""

    async def test_S2_07_a_closed_topic_refuses_to_send(self, harness: Harness) -> None:
        async with scene(harness) as on:
            await on.topic.close()
            await on.topic.close()
            with pytest.raises(errors.Closed):
                await on.topic.send(b"late")

    async def test_S2_08_a_closed_subscription_refuses_to_receive(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.topic.send(b"one")
            message = await on.receive(subscription)
            await subscription.close()
            await subscription.close()
            with pytest.raises(errors.Closed):
                await subscription.receive()
            with pytest.raises(errors.Closed):
                await message.ack()

    async def test_S2_09_what_a_send_has_acknowledged_is_there_whatever_is_cancelled(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            acknowledged = set()
            for number in range(10):
                if await _sent_or_cancelled(on, b"%d" % number):
                    acknowledged.add(b"%d" % number)
            await on.topic.send(b"last")
            found: set[bytes] = set()
            while not acknowledged | {b"last"} <= found:
                message = await on.receive(subscription)
                found.add(message.body)
                await message.ack()

    async def test_S2_10_a_receive_that_is_given_up_loses_nothing(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            for number in range(3):
                await _give_up_receiving(on)
                if True:  # ASYNC
                    waiting = Running(subscription.receive)
                    await waiting.begin()
                    assert await waiting.cancelled(harness.patience_s) is None
                else:
                    on.stays_empty(subscription)
                await on.topic.send(b"%d" % number)
                message = await on.receive(subscription)
                assert message.body == b"%d" % number
                await message.ack()

    async def test_S2_11_a_topic_that_does_not_exist_is_not_found(self, harness: Harness) -> None:
        """When it is opened, or, where the driver says that it cannot know then, by the first send."""
        url = harness.missing_topic()
        try:
            topic = await trunkline.aio.open_topic(url)
        except errors.NotFound:
            return
        async with topic:
            assert not topic.capabilities.checks_at_open
            with pytest.raises(errors.NotFound):
                await topic.send(b"nowhere")

    async def test_S2_12_a_subscription_that_does_not_exist_is_not_found(self, harness: Harness) -> None:
        """When it is opened, or, where the driver says that it cannot know then, by the first receive."""
        url = harness.missing_subscription(harness.create_topic())
        try:
            subscription = await trunkline.aio.open_subscription(url)
        except errors.NotFound:
            return
        async with subscription:
            assert not subscription.capabilities.checks_at_open
            with pytest.raises(errors.NotFound):
                await subscription.receive(wait_s=harness.patience_s)

    async def test_S2_20_closing_ends_receivers_that_wait(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            waiting = [Running(subscription.receive) for _ in range(3)]
            for each in waiting:
                await each.begin()
            await Running(subscription.close).result(harness.patience_s)
            for each in waiting:
                with pytest.raises(errors.Closed):
                    await each.result(harness.patience_s)

    async def test_S2_20_closing_ends_a_loop(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            await on.send_many(5)
            found = []
            async for message in subscription:
                found.append(message.body)
                await message.ack()
                if len(found) == 5:
                    await subscription.close()
            assert len(set(found)) == 5

    async def test_S2_20_what_was_prefetched_goes_to_others_at_once(self, harness: Harness) -> None:
        """Method: the first takes one of many, handles them quickly so that more is prefetched, and goes; nobody lets
        time pass."""
        async with scene(harness) as on:
            first = await on.subscribe()
            needs(first, "acks")
            await on.send_many(100)
            found = []
            for _ in range(30):
                message = await on.receive(first)
                found.append(int(message.body))
                await message.ack()
            await first.close()
            second = await on.subscribe()
            for _ in range(70):
                message = await on.receive(second)
                assert message.attempt in (None, 1)
                found.append(int(message.body))
                await message.ack()
            assert sorted(found) == list(range(100))
            await on.stays_empty(second)

    async def test_S2_24_errors_have_the_codes_of_their_kinds(self, harness: Harness) -> None:
        async with scene(harness) as on:
            subscription = await on.subscribe()
            for bad in (None, "text", 5, Message("text"), Message(b"", attributes={"a": b"b"})):  # type: ignore[arg-type, dict-item]
                with pytest.raises(errors.InvalidArgument):
                    await on.topic.send(bad)  # type: ignore[arg-type]
            with pytest.raises(errors.DeadlineExceeded):
                await subscription.receive(wait_s=0)
            await subscription.close()
            with pytest.raises(errors.FailedPrecondition):
                await subscription.receive()
        denied = harness.denied_topic()
        if denied is not None:
            with pytest.raises(errors.PermissionDenied):
                async with trunkline.aio.open_topic(denied) as topic:
                    await topic.send(b"x")

    async def test_S2_23_an_unknown_parameter_is_refused(self, harness: Harness) -> None:
        topic_url = harness.create_topic()
        joint = "&" if "?" in topic_url else "?"
        with pytest.raises(errors.InvalidArgument):
            await trunkline.aio.open_topic(f"{topic_url}{joint}no_such_parameter=1")


async def _sent_or_cancelled(on: Scene, body: bytes) -> bool:
    """Whether the send was acknowledged; every other one is cancelled, where that can be done."""
    if True:  # ASYNC
        sending = Running(lambda: on.topic.send(body))
        if int(body) % 2:
            return await sending.cancelled(on.harness.patience_s) is not None
        return bool(await sending.result(on.harness.patience_s))
    else:
        return bool(on.topic.send(body))


async def _give_up_receiving(on: Scene) -> None:
    """Come and go without having received anything."""
    subscription = await on.subscribe()
    await on.stays_empty(subscription)
    await subscription.close()
