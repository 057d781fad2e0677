"""Publish/subscribe on the PostgreSQL you already run.

    import trunkline

    with trunkline.connect() as tl:
        tl.create_topic("orders", partitions=4)
        at = tl.publish("orders", b"...", key="42")
        tl.read("orders", partition=at.partition, offset=at.offset)

The same names are in ``trunkline.aio``, with await.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trunkline import errors
    from trunkline.client.sync.app import App
    from trunkline.client.sync.client import Client
    from trunkline.client.sync.consumer import Consumer
    from trunkline.client.sync.inbox import Inbox
    from trunkline.client.sync.queue import Queue
    from trunkline.client.sync.queue_delivery import Delivery
    from trunkline.client.sync.redrive import DeadLetter, dead_letters, purge_letters, redrive
    from trunkline.engine.redriving import LetterFilter, RedriveReport
    from trunkline.portable.sync.opening import open_subscription, open_topic
    from trunkline.records import (
        Batch,
        BlockedKey,
        CursorMove,
        GroupDescription,
        GroupFailures,
        GroupMember,
        GroupPartition,
        GroupRecord,
        GroupSummary,
        Message,
        OutboxSource,
        PartitionLag,
        PartitionRange,
        PendingPosition,
        PinnedPosition,
        Position,
        Record,
        RetentionStep,
        Segment,
        Topic,
        TopicDescription,
    )
    from trunkline.settings import ClientSettings, ConsumerSettings, HandlerSettings, OutboxColumns, TopicSettings

__version__ = "0.1.0"

__all__ = [
    "App",
    "Batch",
    "BlockedKey",
    "Client",
    "ClientSettings",
    "Consumer",
    "ConsumerSettings",
    "CursorMove",
    "DeadLetter",
    "Delivery",
    "GroupDescription",
    "GroupFailures",
    "GroupMember",
    "GroupPartition",
    "GroupRecord",
    "GroupSummary",
    "HandlerSettings",
    "Inbox",
    "LetterFilter",
    "Message",
    "OutboxColumns",
    "OutboxSource",
    "PartitionLag",
    "PartitionRange",
    "PendingPosition",
    "PinnedPosition",
    "Position",
    "Queue",
    "Record",
    "RedriveReport",
    "RetentionStep",
    "Segment",
    "Topic",
    "TopicDescription",
    "TopicSettings",
    "connect",
    "dead_letters",
    "errors",
    "open_subscription",
    "open_topic",
    "purge_letters",
    "redrive",
]


# Names are looked up when they are first used: `trunkline --help` needs none of them, and the driver takes 0.3 s.
_HOMES = {
    "App": "trunkline.client.sync.app",
    "Client": "trunkline.client.sync.client",
    "Consumer": "trunkline.client.sync.consumer",
    "Delivery": "trunkline.client.sync.queue_delivery",
    "Inbox": "trunkline.client.sync.inbox",
    "Queue": "trunkline.client.sync.queue",
    "DeadLetter": "trunkline.client.sync.redrive",
    "dead_letters": "trunkline.client.sync.redrive",
    "purge_letters": "trunkline.client.sync.redrive",
    "redrive": "trunkline.client.sync.redrive",
    "open_subscription": "trunkline.portable.sync.opening",
    "open_topic": "trunkline.portable.sync.opening",
    "LetterFilter": "trunkline.engine.redriving",
    "RedriveReport": "trunkline.engine.redriving",
} | dict.fromkeys(
    ("ClientSettings", "HandlerSettings", "ConsumerSettings", "OutboxColumns", "TopicSettings"), "trunkline.settings"
)


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("trunkline.errors")
    if name not in __all__:
        raise AttributeError(f"module 'trunkline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "trunkline.records")), name)
    globals()[name] = value
    return value


def connect(
    url: str | None = None,
    *,
    dev: bool = False,
    settings: ClientSettings | None = None,
    doorbell_url: str | None = None,
) -> Client:
    """Connect to the given server, else ``TRUNKLINE_URL``, else a running ``trunkline dev``.

    ``dev=True`` starts the embedded server, and installs the schema, if need be. Where the URL leads through a pooler,
    ``doorbell_url`` (else ``TRUNKLINE_DOORBELL_URL``) may lead past it, for the one session that listens.
    """
    from trunkline.client.sync.client import Client

    return Client.open(url, dev=dev, settings=settings, doorbell_url=doorbell_url)
