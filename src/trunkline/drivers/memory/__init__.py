"""The memory driver: a broker in this process, for tests. ``memory://orders``,
``memory://orders?subscription=emails``."""

from __future__ import annotations

from trunkline.drivers.memory.aio.driver import AsyncMemoryOpener
from trunkline.drivers.memory.broker import MemoryBroker as MemoryBroker
from trunkline.drivers.memory.capabilities import MEMORY
from trunkline.drivers.memory.sync.driver import MemoryOpener
from trunkline.portable.driver import Driver

DRIVER = Driver(
    name="memory",
    capabilities=MEMORY,
    aio=AsyncMemoryOpener(),
    sync=MemoryOpener(),
    topic_parameters={"broker": str},
    subscription_parameters={"broker": str, "subscription": str},
)
