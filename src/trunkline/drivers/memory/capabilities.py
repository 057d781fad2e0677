"""What a memory broker can do, and which topic a URL means."""

from __future__ import annotations

import msgspec

from trunkline.drivers.memory.holding import Holding
from trunkline.errors import InvalidArgument
from trunkline.portable.driver import Capabilities, Target

MEMORY = Capabilities(
    acks=True,
    nack=True,
    nack_delay=True,
    ack_deadline=True,
    attempts=True,
    ordering="key",
    dead_letter=True,
    checks_at_open=True,
)


def capabilities_of(holding: Holding | None) -> Capabilities:
    """Those of one subscription: it keeps order, or puts failures away, where it was created so."""
    if holding is None:
        return MEMORY
    settings = holding.settings
    return msgspec.structs.replace(
        MEMORY,
        ordering="key" if settings.is_ordered else "none",
        dead_letter=settings.dead_letter is not None,
    )


def topic_of(target: Target) -> str:
    """``memory://orders``, and ``memory://shop/orders`` for the topic ``shop/orders``."""
    if target.port is not None or target.username or target.password:
        raise InvalidArgument("a memory URL has no port, user or password: memory://orders?subscription=emails")
    return target.host + target.path.rstrip("/")
