"""A record that could not be handled, as it goes to the dead letter topic."""

from __future__ import annotations

from datetime import UTC, datetime

from trunkline.records import HeaderPairs, Message, Record, Topic

PREFIX = "trunkline-dl-"
REASON_CHARACTERS_MAX = 1_000


def reason_of(error: BaseException) -> str:
    """Why a record failed, in one bounded piece of text: the error's class and what it says."""
    said = str(error)
    return reason_text(f"{type(error).__qualname__}: {said}" if said else type(error).__qualname__)


def reason_text(text: str) -> str:
    """A reason as it can be published."""
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


def fitted(letter: Message, topic: Topic) -> Message:
    """A dead letter as its topic takes it: whole where it fits, otherwise a stub, which says in the header
    ``trunkline-dl-cut`` what is left out. A partition must not stand still because a letter is too large.

    Of the headers, the record's own go first, all of them; what says where it stood stays longest.
    """
    pairs: HeaderPairs = tuple(letter.headers or ())  # type: ignore[arg-type]
    key, payload = letter.key, letter.body
    most = topic.header_bytes_max
    ours = [pair for pair in pairs if pair[0].startswith(PREFIX)]
    cut: list[str] = []
    if len(payload) > min(topic.record_bytes_max, topic.batch_bytes_max):
        cut.append(f"a payload of {len(payload)} bytes")
        payload = b""
    if isinstance(key, bytes) and len(key) > topic.key_bytes_max:
        cut.append(f"a key of {len(key)} bytes")
        key = None
    own_fit = all(max(len(name.encode()), len(value)) <= most for name, value in pairs if not name.startswith(PREFIX))
    if own_fit and len(pairs) + bool(cut) <= topic.header_count_max:
        kept = list(pairs)
    else:
        kept = ours
        if len(ours) < len(pairs):
            cut.append(f"{len(pairs) - len(ours)} headers")
    if cut:
        kept.append((PREFIX + "cut", ", ".join(cut).encode()))
    bounded = [(name, value[:most]) for name, value in kept if len(name) <= most]
    return Message(payload, key=key, headers=bounded[: topic.header_count_max])
