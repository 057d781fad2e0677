"""What topics, queues and groups can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trunkline.portable.driver import Capabilities

MOST = Capabilities(
    acks=True,
    nack=True,
    nack_delay=True,
    ack_deadline=True,
    attempts=True,
    ordering="key",
    dead_letter=True,
    dedupe=True,
    transactions=True,
    seek=True,
    checks_at_open=True,
    prefetches=True,
)
"""All of them together, as a topic shows them; no subscription has both dead letters and a cursor that can be moved."""

GROUP = Capabilities(
    acks=True,
    nack=True,
    nack_delay=False,
    ack_deadline=False,
    attempts=False,
    ordering="key",
    dead_letter=False,
    dedupe=True,
    transactions=True,
    seek=True,
    checks_at_open=True,
    prefetches=True,
)
"""Of ``?group=``: what its reader holds, it holds until it is acknowledged, given back, or its partition goes to
another reader."""


def queue_capabilities(settings: Mapping[str, Any]) -> Capabilities:
    """Of ``?queue=``, by how the queue is set."""
    return Capabilities(
        acks=True,
        nack=True,
        nack_delay=True,
        ack_deadline=True,
        attempts=True,
        ordering="key" if settings["is_ordered"] else "none",
        dead_letter=settings["dead_letter"] is not None,
        dedupe=True,
        transactions=True,
        seek=False,
        checks_at_open=True,
        prefetches=bool(settings["is_ordered"]),
    )
