"""What tests of streaming sources have in common."""

from __future__ import annotations

from tests.spark.test_source_batch import roll
from trunkline import Client, Message


def publish(tl: Client, topic: str, *values: bytes, partition: int | None = None) -> None:
    tl.publish_many(topic, [Message(value, partition=partition) for value in values])


def drop_everything(tl: Client, url: str, topic: str = "orders") -> None:
    """Retention takes all that has been published; the topic keeps nothing (retention_bytes=0)."""
    roll(url, topic)
    tl.retention_run()
