"""Records as messages, and positions as their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trunkline.drivers.postgres.attributes import attributes_of, headers_of
from trunkline.portable.driver import Incoming, Outgoing
from trunkline.records import Message, Position, Record

_NONE: Mapping[str, str] = {}


def incoming(record: Record, ack_id: Any, attempt: int | None) -> Incoming:
    """The record as a message; nothing of it is copied."""
    return Incoming(
        record.payload,
        ack_id,
        record.key,
        attributes_of(record.headers) if record.headers else _NONE,
        f"{record.topic}/{record.partition}/{record.offset}",
        attempt,
        record,
    )


def messages_of(batch: Iterable[Outgoing]) -> list[Message | bytes]:
    """What is to be published."""
    return [
        each.body
        if each.key is None and not each.attributes
        else Message(each.body, each.key, headers_of(each.attributes) or None)
        for each in batch
    ]


def id_of(position: Position) -> str:
    """As its readers get it: topic, partition and offset."""
    return f"{position.topic}/{position.partition}/{position.offset}"
