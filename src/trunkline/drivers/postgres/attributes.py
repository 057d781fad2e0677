"""Attributes as headers of the log, and back.

An attribute is a header of the same name, its value in UTF-8. Three kinds stand under another name, so that any text
comes back as it was, and nothing that an application calls its attribute changes how a record is delivered:

- a name with NUL, which a header cannot have, one that looks like these, and ``trunkline-deliver-after``, which would
  delay the record, stand as ``trunkline-escaped:`` and the name, with % and NUL as %25 and %00;
- a header that is no text (not UTF-8), which only ``publish`` can write, is received as ``trunkline-binary:`` and the
  name, its value in base64. Sent on like that it becomes the same header again.

Of headers with one name the last counts. All others are ``message.as_(trunkline.Record).headers``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping

from trunkline.records import DELIVER_AFTER_HEADER, HeaderPairs

ESCAPED = "trunkline-escaped:"
BINARY = "trunkline-binary:"
_OURS = (ESCAPED, BINARY, DELIVER_AFTER_HEADER)


def headers_of(attributes: Mapping[str, str]) -> HeaderPairs:
    """The headers that carry them."""
    return tuple([_header(name, value) for name, value in attributes.items()])


def _header(name: str, value: str) -> tuple[str, bytes]:
    if "\0" not in name and not name.startswith(_OURS):
        return name, value.encode()
    if name.startswith(BINARY):
        raw = _binary(value)
        if raw is not None and len(name) > len(BINARY) and "\0" not in name:
            return name.removeprefix(BINARY), raw
    return ESCAPED + name.replace("%", "%25").replace("\0", "%00"), value.encode()


def _binary(value: str) -> bytes | None:
    """The bytes, if a reader would show them as this very text."""
    try:
        raw = b64decode(value, validate=True)
    except (Error, ValueError):
        return None
    if b64encode(raw).decode() != value:
        return None
    try:
        raw.decode()
    except UnicodeDecodeError:
        return raw
    return None


def attributes_of(headers: HeaderPairs) -> dict[str, str]:
    """What was sent as attributes, and headers that were written by others, as text."""
    found: dict[str, str] = {}
    for name, value in headers:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            found[BINARY + name] = b64encode(value).decode()
            continue
        if name.startswith(ESCAPED):
            found[name.removeprefix(ESCAPED).replace("%00", "\0").replace("%25", "%")] = text
        else:
            found[name] = text
    return found
