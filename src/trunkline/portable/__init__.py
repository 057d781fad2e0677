"""The portable API: the same code for any broker, which is chosen by a URL.

    import trunkline

    with trunkline.open_topic("memory://orders") as topic:
        topic.send(trunkline.Message(b"...", key="42", attributes={"source": "web"}))
    with trunkline.open_subscription("memory://orders?subscription=emails") as subscription:
        for message in subscription:
            message.ack()

Here are its types, for annotations, and what a driver's author needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline.portable.aio.driver import AsyncDriverOpener, AsyncSubscriptionDriver, AsyncTopicDriver
    from trunkline.portable.aio.received import AsyncReceivedMessage
    from trunkline.portable.aio.subscription import AsyncSubscription
    from trunkline.portable.aio.topic import AsyncTopic
    from trunkline.portable.driver import Capabilities, Driver, Incoming, Outgoing, Target
    from trunkline.portable.registry import driver_names, find_driver
    from trunkline.portable.sync.driver import DriverOpener, SubscriptionDriver, TopicDriver
    from trunkline.portable.sync.received import ReceivedMessage
    from trunkline.portable.sync.subscription import Subscription
    from trunkline.portable.sync.topic import Topic

_HOMES = {
    "AsyncDriverOpener": "aio.driver",
    "AsyncReceivedMessage": "aio.received",
    "AsyncSubscription": "aio.subscription",
    "AsyncSubscriptionDriver": "aio.driver",
    "AsyncTopic": "aio.topic",
    "AsyncTopicDriver": "aio.driver",
    "Capabilities": "driver",
    "Driver": "driver",
    "DriverOpener": "sync.driver",
    "Incoming": "driver",
    "Outgoing": "driver",
    "ReceivedMessage": "sync.received",
    "Subscription": "sync.subscription",
    "SubscriptionDriver": "sync.driver",
    "Target": "driver",
    "Topic": "sync.topic",
    "TopicDriver": "sync.driver",
    "driver_names": "registry",
    "find_driver": "registry",
}

__all__ = [
    "AsyncDriverOpener",
    "AsyncReceivedMessage",
    "AsyncSubscription",
    "AsyncSubscriptionDriver",
    "AsyncTopic",
    "AsyncTopicDriver",
    "Capabilities",
    "Driver",
    "DriverOpener",
    "Incoming",
    "Outgoing",
    "ReceivedMessage",
    "Subscription",
    "SubscriptionDriver",
    "Target",
    "Topic",
    "TopicDriver",
    "driver_names",
    "find_driver",
]


# As in the package itself: a driver's author needs the values alone, and the worlds take their time to import.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'trunkline.portable' has no attribute {name!r}")
    value = getattr(import_module(f"trunkline.portable.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
