"""Whatever is sent comes back: bodies, keys and attributes of any kind."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import trunkline.aio
from trunkline import Message
from trunkline.testing import MemoryBroker

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=100),
    key=st.one_of(st.none(), st.binary(max_size=20), TEXT),
    attributes=st.one_of(st.none(), st.dictionaries(TEXT.filter(bool), TEXT, max_size=5)),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(MESSAGES, max_size=10))
async def test_S2_17_random_bodies_and_attributes_come_back(messages: list[Message]) -> None:
    with MemoryBroker("property") as broker:
        broker.create_topic("orders")
        broker.create_subscription("orders", "emails")
        async with (
            trunkline.aio.open_topic(broker.topic_url("orders")) as topic,
            trunkline.aio.open_subscription(broker.subscription_url("orders", "emails")) as subscription,
        ):
            ids = [await topic.send(message) for message in messages]
            for message_id, message in zip(ids, messages, strict=True):
                found = await subscription.receive()
                key = message.key.encode() if isinstance(message.key, str) else message.key
                assert (found.id, found.body, found.key) == (message_id, message.body, key)
                assert dict(found.attributes) == dict(message.attributes or {})
                await found.ack()
