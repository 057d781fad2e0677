"""Whether what the caller gave can be published at all, before anything is sent.

Bad input becomes an error here, in the caller's own call, so that it never meets other callers' records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf
from typing import NamedTuple

from trunkline.errors import InvalidArgument, TooLarge
from trunkline.records import HeaderPairs, Headers, Key, Topic

INT4_MAX = 2**31 - 1
INT8_MAX = 2**63 - 1
DELAY_S_MAX = 365 * 86_400
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}", re.ASCII)


def check_topic_name(name: object) -> str:
    """A topic's name, or an error that says what names may be."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise InvalidArgument(
            f"not a topic name: {_shown(name)}; a name is 1 to 200 of A-Z a-z 0-9 . _ - /, "
            "without a leading dash, dot or slash and without two dots in a row"
        )
    return name


def check_group_name(name: object) -> str:
    """A group's name: the rules are those of a topic's."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise InvalidArgument(
            f"not a group name: {_shown(name)}; a name is 1 to 200 of A-Z a-z 0-9 . _ - /, "
            "without a leading dash, dot or slash and without two dots in a row"
        )
    return name


def check_queue_name(name: object) -> str:
    """A queue's name: the rules are those of a topic's."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise InvalidArgument(
            f"not a queue name: {_shown(name)}; a name is 1 to 200 of A-Z a-z 0-9 . _ - /, "
            "without a leading dash, dot or slash and without two dots in a row"
        )
    return name


def check_topic_names(names: object) -> list[str]:
    """One name, or several, each once."""
    if isinstance(names, str):
        return [check_topic_name(names)]
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise InvalidArgument(f"a topic's name, or several, are needed, not {_shown(names)}")
    checked = list(dict.fromkeys(check_topic_name(name) for name in names))
    if not checked:
        raise InvalidArgument("at least one topic is needed")
    return checked


class GroupStart(NamedTuple):
    """Where a new group begins, as the server takes it."""

    place: str
    offset: int | None = None
    time: datetime | None = None


def check_start(start: object) -> GroupStart:
    """Where a new group begins: ``earliest``, ``latest``, an offset or a time."""
    if start in ("earliest", "latest"):
        return GroupStart(str(start))
    if isinstance(start, datetime):
        return GroupStart("time", time=check_time("start", start))
    if isinstance(start, int) and not isinstance(start, bool):
        return GroupStart("offset", offset=check_whole("start", start, least=1))
    raise InvalidArgument(f"start must be 'earliest', 'latest', an offset or a datetime, not {_shown(start)}")


def check_seconds(name: str, value: object) -> float:
    """A time to wait: any number from 0 on, but not for ever."""
    if type(value) is float and 0.0 <= value < inf:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
        raise InvalidArgument(f"{name} must be a number of seconds, 0 or more, not {_shown(value)}")
    return float(value)


def check_delay(name: str, value: object, topic: Topic) -> float:
    """After how many seconds a record is to be delivered: not so late that retention would have taken it."""
    delay_s = check_seconds(name, value)
    if delay_s > DELAY_S_MAX:
        raise InvalidArgument(f"{name} must be at most {DELAY_S_MAX} seconds, a year, not {value!r}")
    if topic.retention_age_s is not None and delay_s > topic.retention_age_s:
        raise InvalidArgument(
            f"{name} of {value!r} is over retention_age_s = {topic.retention_age_s} of the topic, after which the "
            "record may be gone; deliver it earlier, or alter the topic"
        )
    return delay_s


def check_whole(name: str, value: object, *, least: int = 0, most: int = INT8_MAX) -> int:
    """A whole number in a range."""
    if type(value) is int and least <= value <= most:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"{name} must be a whole number, not {_shown(value)}")
    if not least <= value <= most:
        raise InvalidArgument(f"{name} must be {least} to {most}, not {value}")
    return value


def check_switch(name: str, value: object) -> None:
    """True or False, and nothing that counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be True or False, not {value!r}")


def check_between(name: str, value: object, least: float, most: float) -> None:
    """A number in a range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:  # type: ignore[operator]
        raise InvalidArgument(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")


def check_time(name: str, value: object) -> datetime:
    """A point in time that says its zone."""
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{name} must be a datetime, not {_shown(value)}")
    if value.utcoffset() is None:
        raise InvalidArgument(f"{name} has no time zone; write for example datetime.now(timezone.utc)")
    return value


def check_payload(payload: object) -> bytes:
    """A payload as bytes; text is refused, since only the caller knows its encoding."""
    if type(payload) is bytes:
        return payload
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    hint = "; encode it, for example text.encode()" if isinstance(payload, str) else ""
    raise InvalidArgument(f"a payload must be bytes, not {_shown(payload)}{hint}")


def check_key(key: object) -> bytes | None:
    """A key as bytes; text is encoded as UTF-8."""
    if key is None or type(key) is bytes:
        return key
    if isinstance(key, str):
        return _utf8("a key", key)
    if isinstance(key, bytes | bytearray | memoryview):
        return bytes(key)
    raise InvalidArgument(f"a key must be str, bytes or None, not {_shown(key)}")


def check_headers(headers: object) -> HeaderPairs:
    """Headers as pairs of a text name and a binary value, in their order."""
    if headers is None:
        return ()
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise InvalidArgument(f"headers must be a mapping or pairs, not {_shown(headers)}")
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple(_header(pair) for pair in pairs)


def _header(pair: object) -> tuple[str, bytes]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgument(f"a header must be a pair of name and value, not {_shown(pair)}")
    name, value = pair
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgument(f"a header's name must be text without NUL, not {_shown(name)}")
    _utf8("a header's name", name)
    if isinstance(value, str):
        return name, _utf8("a header's value", value)
    if isinstance(value, bytes | bytearray | memoryview):
        return name, bytes(value)
    raise InvalidArgument(f"the value of header {name!r} must be str or bytes, not {_shown(value)}")


def check_attributes(attributes: object) -> dict[str, str]:
    """Attributes as a mapping of text to text, each valid Unicode, no name empty."""
    if not attributes and (attributes is None or isinstance(attributes, Mapping)):
        return {}
    if not isinstance(attributes, Mapping):
        raise InvalidArgument(f"attributes must be a mapping of text to text, not {_shown(attributes)}")
    for name, value in attributes.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"an attribute's name must be text, and not empty, not {_shown(name)}")
        if not isinstance(value, str):
            raise InvalidArgument(f"the value of attribute {_shown(name)} must be text, not {_shown(value)}")
        # What is plain ASCII needs no second look, which would cost a copy.
        if not name.isascii():
            _utf8("an attribute's name", name)
        if not value.isascii():
            _utf8("an attribute's value", value)
    return dict(attributes)


def check_limits(topic: Topic, key: bytes | None, payload: bytes, headers: HeaderPairs) -> None:
    """Refuse a record that is over a limit of its topic."""
    if len(payload) > topic.record_bytes_max:
        raise TooLarge(_over("a record", len(payload), "record_bytes_max", topic.record_bytes_max))
    if key is not None and len(key) > topic.key_bytes_max:
        raise TooLarge(_over("a key", len(key), "key_bytes_max", topic.key_bytes_max))
    if not headers:
        return
    if len(headers) > topic.header_count_max:
        raise TooLarge(f"{len(headers)} headers are over header_count_max = {topic.header_count_max} of the topic")
    for name, value in headers:
        size = max(len(name.encode()), len(value))
        if size > topic.header_bytes_max:
            raise TooLarge(_over(f"header {name[:40]!r}", size, "header_bytes_max", topic.header_bytes_max))


def _over(what: str, size: int, limit: str, most: int) -> str:
    return f"{what} of {size} bytes is over {limit} = {most} of the topic; split it, or alter the topic"


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} is not valid Unicode text: {error.reason}") from error


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


__all__ = [
    "GroupStart",
    "Headers",
    "Key",
    "check_attributes",
    "check_between",
    "check_delay",
    "check_group_name",
    "check_headers",
    "check_key",
    "check_limits",
    "check_payload",
    "check_queue_name",
    "check_seconds",
    "check_start",
    "check_switch",
    "check_time",
    "check_topic_name",
    "check_topic_names",
    "check_whole",
]
