"""Arrays in PostgreSQL's binary format, written without an adapter call an element.

An array is a header (dimensions, null flag, element type, length, lower bound) and then each element as a
four-byte length and its bytes; a length of -1 is null. All of it big-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = Struct("!iiIii").pack
_INT4 = Struct("!ii").pack
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)
# Most records are small: their length words are looked up, not packed.
_LENGTHS = [_LENGTH(n) for n in range(4096)]
_KNOWN = len(_LENGTHS)

_INT4_OID, _TEXT_OID, _BYTEA_OID = 23, 25, 17


class ByteaArray(bytes):
    """The bytes of a ``bytea[]``."""


class TextArray(bytes):
    """The bytes of a ``text[]``."""


class IntegerArray(bytes):
    """The bytes of an ``integer[]``."""


def bytea_array(values: Sequence[bytes | None]) -> ByteaArray:
    """Encode; None becomes null."""
    return ByteaArray(_encode(values, _BYTEA_OID))


def text_array(values: Sequence[str]) -> TextArray:
    """Encode text as UTF-8."""
    return TextArray(_encode([value.encode() for value in values], _TEXT_OID))


def integer_array(values: Sequence[int]) -> IntegerArray:
    """Encode four-byte integers."""
    parts = [_HEADER(1, 0, _INT4_OID, len(values), 1)]
    parts += [_INT4(4, value) for value in values]
    return IntegerArray(b"".join(parts))


def _encode(values: Sequence[bytes | None], oid: int) -> bytes:
    parts = [b""]
    nulls = 0
    for value in values:
        if value is None:
            nulls = 1
            parts.append(_NULL)
        else:
            length = len(value)
            parts += (_LENGTHS[length] if length < _KNOWN else _LENGTH(length), value)
    parts[0] = _HEADER(1, nulls, oid, len(values), 1)
    return b"".join(parts)


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: bytes) -> bytes:
        return obj


class _ByteaArrayDumper(_ArrayDumper):
    oid = 1001


class _TextArrayDumper(_ArrayDumper):
    oid = 1009


class _IntegerArrayDumper(_ArrayDumper):
    oid = 1007


def register(context: AdaptContext) -> None:
    """Let a connection send these arrays."""
    context.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    context.adapters.register_dumper(TextArray, _TextArrayDumper)
    context.adapters.register_dumper(IntegerArray, _IntegerArrayDumper)
