r"""Escapes in texts that stand for bytes: \n \t \r \\ \0 \xNN, and the record formats of ``consume -f``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from trunkline.errors import InvalidArgument

if TYPE_CHECKING:
    from trunkline import Record

_SIMPLE = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_ESCAPE = r"\\x[0-9A-Fa-f]{2}|\\.|\\$"
_TEXT = re.compile(rf"{_ESCAPE}|[^\\]+", re.DOTALL)
_FORMAT = re.compile(rf"{_ESCAPE}|%.|%$|[^\\%]+", re.DOTALL)


def unescape(text: str) -> bytes:
    """The bytes that a text with backslash escapes stands for; a percent sign is nothing special."""
    return b"".join(_constant(piece) for piece in _TEXT.findall(text))


def compile_format(text: str) -> Callable[[Record], bytes]:
    """What turns a record into bytes as a format says; InvalidArgument for an escape that does not exist."""
    pieces = [_piece(piece) for piece in _FORMAT.findall(text)]
    return lambda record: b"".join(piece(record) for piece in pieces)


def _piece(piece: str) -> Callable[[Record], bytes]:
    if piece.startswith("%"):
        field = _FIELDS.get(piece[1:])
        if field is None:
            known = " ".join(f"%{name}" for name in _FIELDS)
            raise InvalidArgument(f"the format has no {piece!r}; it has {known}")
        return field
    constant = _constant(piece)
    return lambda _: constant


def _constant(piece: str) -> bytes:
    if not piece.startswith("\\"):
        # As the shell gave it: an argument that is not UTF-8 comes back as the same bytes.
        return piece.encode(errors="surrogateescape")
    if piece[1:2] == "x" and len(piece) == 4:
        return bytes([int(f"0{piece[1:]}", 0)])
    if piece[1:] not in _SIMPLE:
        raise InvalidArgument(rf"there is no escape {piece!r}; write \n \t \r \0 \\ or \xNN")
    return _SIMPLE[piece[1:]]


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + value for name, value in record.headers)


def _time(record: Record) -> bytes:
    return record.append_time.isoformat(timespec="microseconds").replace("+00:00", "Z").encode()


_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.payload,
    "h": _headers,
    "T": _time,
    "%": lambda _: b"%",
}
