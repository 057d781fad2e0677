"""Which dead letters are chosen to go back, where each goes, and what it says then. Pure."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

import msgspec

from trunkline.engine.checks import check_key, check_time, check_topic_name
from trunkline.engine.dead_letters import PREFIX
from trunkline.errors import InvalidArgument
from trunkline.records import DELIVER_AFTER_HEADER, Message, Record

REDRIVEN_HEADER = "trunkline-redriven"
GROUP_PREFIX = "trunkline.redrive/"
_NAME_MAX = 200


class LetterFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Chooses dead letters: those that pass every condition that is given.

    ``reason``: a pattern as file names have it, for the whole reason (``ValueError*``). ``origin``: the topic in which
    it stood. ``since``: when it was put away, at the earliest. ``key``: its key, exactly.
    """

    reason: str | None = None
    origin: str | None = None
    since: datetime | None = None
    key: str | bytes | None = None

    def __post_init__(self) -> None:
        if self.reason is not None and (not isinstance(self.reason, str) or not self.reason):
            raise InvalidArgument(f"reason must be a pattern, for example 'ValueError*', not {self.reason!r}")
        if self.origin is not None:
            check_topic_name(self.origin)
        if self.since is not None:
            check_time("since", self.since)
        check_key(self.key)

    @property
    def is_everything(self) -> bool:
        return self == LetterFilter()

    def takes(self, letter: Record) -> bool:
        """Whether the letter passes."""
        return (
            (self.reason is None or fnmatchcase(reason_of(letter) or "", self.reason))
            and (self.origin is None or origin_of(letter) == self.origin)
            and (self.since is None or letter.append_time >= self.since)
            and (self.key is None or letter.key == check_key(self.key))
        )


class RedriveReport(msgspec.Struct, frozen=True):
    """What a redrive has done, or, as a dry run, would do.

    ``sent`` letters, by the topic they went to in ``topics``. ``sent_before``: an earlier redrive had sent them.
    ``passed_over``: the filter did not take them. ``unfit``: they cannot go back as they are, and stay; why, says
    ``first_unfit``.
    ``is_complete``: every letter that the log had at the beginning was looked at.
    """

    topic: str
    sent: int
    topics: dict[str, int]
    sent_before: int
    passed_over: int
    unfit: int
    first_unfit: str | None
    is_complete: bool
    is_dry_run: bool


def memory_name(topic: str) -> str:
    """Of the group, and of the inbox, that know which letters of a topic were dealt with."""
    name = GROUP_PREFIX + topic
    return name if len(name) <= _NAME_MAX else GROUP_PREFIX + sha256(topic.encode()).hexdigest()


def header_of(letter: Record, name: str) -> str | None:
    """What a letter says of its death, by the name without the prefix; the last one counts."""
    found = (value for header, value in reversed(letter.headers) if header == PREFIX + name)
    return next((value.decode(errors="backslashreplace") for value in found), None)


def origin_of(letter: Record) -> str | None:
    """The topic in which it stood; None for a record that is no dead letter."""
    return header_of(letter, "topic")


def reason_of(letter: Record) -> str | None:
    return header_of(letter, "reason")


def unfit_reason(letter: Record, to: str | None) -> str | None:
    """Why a letter cannot go back; None where it can."""
    at = f"{letter.topic} {letter.partition}:{letter.offset}"
    cut = header_of(letter, "cut")
    if cut is not None:
        place = f"{origin_of(letter)} {header_of(letter, 'partition')}:{header_of(letter, 'offset')}"
        return f"{at} is a stub, without {cut}; what it was: trunkline get {place}"
    if to is None and origin_of(letter) is None:
        return f"{at} does not say where it came from; name a topic to send it to"
    return None


def sent_back(letter: Record) -> Message:
    """The record as it was, and where it was a dead letter. A delay that it was published with is over."""
    gone = (REDRIVEN_HEADER, DELIVER_AFTER_HEADER)
    own = [pair for pair in letter.headers if not pair[0].startswith(PREFIX) and pair[0] not in gone]
    place = f"{letter.topic}/{letter.partition}/{letter.offset}".encode()
    return Message(letter.payload, key=letter.key, headers=[*own, (REDRIVEN_HEADER, place)])


def letter_facts(letter: Record) -> dict[str, Any]:
    """What a letter says of its death, for people and for JSON; None where it says nothing."""
    names = ("topic", "partition", "offset", "attempts", "reason", "time", "cut")
    return {name: header_of(letter, name) for name in names}
