"""A record that could not be handled, as it goes to the dead letter topic."""

from __future__ import annotations

from datetime import UTC, datetime

from trunkline.records import Message, Record

PREFIX = "trunkline-dl-"
REASON_CHARACTERS_MAX = 1_000


def reason_of(error: BaseException) -> str:
    """Why a record failed, in one bounded piece of text: the error's class and what it says."""
    said = str(error)
    text = f"{type(error).__qualname__}: {said}" if said else type(error).__qualname__
    # A lone surrogate, as in names of files that are not UTF-8, cannot be published.
    clean = text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
    return clean if len(clean) <= REASON_CHARACTERS_MAX else f"{clean[: REASON_CHARACTERS_MAX - 1]}…"


def dead_letter(record: Record, *, attempts: int, reason: str, time: datetime) -> Message:
    """The record with its key, payload and headers, and where it stood, how often it was tried, why and when it failed.

    Headers from an earlier death are replaced: what was sent back and fails again does not grow.
    """
    own = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    added = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "attempts": str(attempts),
        "reason": reason,
        "time": time.astimezone(UTC).isoformat(),
    }
    headers = [*own, *((PREFIX + name, value.encode()) for name, value in added.items())]
    return Message(record.payload, key=record.key, headers=headers)
