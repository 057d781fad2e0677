"""Arrays in PostgreSQL's binary format, written without an adapter call an element, and times read when asked for.

An array is a header (dimensions, null flag, element type, length, lower bound) and then each element as a
four-byte length and its bytes; a length of -1 is null. All of it big-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from struct import Struct
from typing import Any, overload

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader, Transformer
from psycopg.pq import Format

_HEADER = Struct("!iiIii").pack
_INT4 = Struct("!ii").pack
_INT8 = Struct("!iq").pack
_FLOAT8 = Struct("!id").pack
_LENGTH = Struct("!i").pack
_NULL = _LENGTH(-1)
_LENGTHS = [_LENGTH(n) for n in range(4096)]
_KNOWN = len(_LENGTHS)

_INT4_OID, _INT8_OID, _FLOAT8_OID, _TEXT_OID, _BYTEA_OID = 23, 20, 701, 25, 17
_ONE_BYTEA = _HEADER(1, 0, _BYTEA_OID, 1, 1)
_TIMES_OID = 1185
_HEADER_BYTES, _TIME_BYTES = 20, 12


class EncodedArray:
    """An array's bytes, ready to be sent; its class says of which type."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)


class ByteaArray(EncodedArray):
    __slots__ = ()


class TextArray(EncodedArray):
    __slots__ = ()


class IntegerArray(EncodedArray):
    __slots__ = ()


class OffsetArray(EncodedArray):
    __slots__ = ()


class FloatArray(EncodedArray):
    __slots__ = ()


def bytea_array(values: Sequence[bytes | None]) -> ByteaArray:
    """Encode; None becomes null."""
    return ByteaArray(_encode(values, _BYTEA_OID))


def payload_array(payloads: Sequence[bytes], lengths: list[int]) -> ByteaArray:
    """Encode what has no null, and whose lengths are known."""
    if len(payloads) == 1:
        return ByteaArray(b"%b%b%b" % (_ONE_BYTEA, _LENGTH(lengths[0]), payloads[0]))
    return ByteaArray(_joined(payloads, _words(lengths), _BYTEA_OID))


def text_array(values: Sequence[str | None]) -> TextArray:
    """Encode text as UTF-8; None becomes null."""
    return TextArray(_encode([None if value is None else value.encode() for value in values], _TEXT_OID))


def integer_array(values: Sequence[int]) -> IntegerArray:
    """Encode four-byte integers."""
    parts = [_HEADER(1, 0, _INT4_OID, len(values), 1)]
    parts += [_INT4(4, value) for value in values]
    return IntegerArray(b"".join(parts))


def offset_array(values: Sequence[int | None]) -> OffsetArray:
    """Encode eight-byte integers; None becomes null. The driver would choose their width by the values of the first
    call."""
    parts = [_HEADER(1, int(None in values), _INT8_OID, len(values), 1)]
    parts += [_NULL if value is None else _INT8(8, value) for value in values]
    return OffsetArray(b"".join(parts))


def float_array(values: Sequence[float]) -> FloatArray:
    """Encode eight-byte floating-point numbers."""
    parts = [_HEADER(1, 0, _FLOAT8_OID, len(values), 1)]
    parts += [_FLOAT8(8, value) for value in values]
    return FloatArray(b"".join(parts))


def _encode(values: Sequence[bytes | None], oid: int) -> bytes:
    if None not in values:
        bodies: Sequence[bytes] = values  # type: ignore[assignment]
        return _joined(bodies, _words(list(map(len, bodies))), oid)
    bodies = [value or b"" for value in values]
    words = [_NULL if value is None else _LENGTH(len(value)) for value in values]
    return _joined(bodies, words, oid, nulls=1)


def _words(lengths: list[int]) -> list[bytes]:
    # Most records are small: their length words are looked up, which needs no step of Python's a record.
    return list(map(_LENGTHS.__getitem__ if max(lengths, default=0) < _KNOWN else _LENGTH, lengths))


def _joined(bodies: Sequence[bytes], words: list[bytes], oid: int, nulls: int = 0) -> bytes:
    parts = [b""] * (2 * len(bodies) + 1)
    parts[0] = _HEADER(1, nulls, oid, len(bodies), 1)
    parts[1::2] = words
    parts[2::2] = bodies
    return b"".join(parts)


class Times(Sequence[datetime]):
    """Moments as the server sent them, in UTC. They are made when the first one is asked for: a reader of payloads
    need not pay for them."""

    __slots__ = ("_data", "_made")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._made: list[datetime] | None = None

    def _all(self) -> list[datetime]:
        if self._made is None:
            self._made = _load_times()(self._data)
        return self._made

    def __len__(self) -> int:
        return max(0, len(self._data) - _HEADER_BYTES) // _TIME_BYTES

    @overload
    def __getitem__(self, index: int) -> datetime: ...

    @overload
    def __getitem__(self, index: slice) -> list[datetime]: ...

    def __getitem__(self, index: int | slice) -> datetime | list[datetime]:
        return self._all()[index]

    def __iter__(self) -> Iterator[datetime]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Times) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())


@cache
def _load_times() -> Callable[[Buffer], list[datetime]]:
    # Of no connection: whatever the session's zone, they are in UTC.
    return Transformer().get_loader(_TIMES_OID, Format.BINARY).load


class _TimesLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        return Times(bytes(data))


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: EncodedArray) -> bytes:
        return obj.data


class _ByteaArrayDumper(_ArrayDumper):
    oid = 1001


class _TextArrayDumper(_ArrayDumper):
    oid = 1009


class _IntegerArrayDumper(_ArrayDumper):
    oid = 1007


class _OffsetArrayDumper(_ArrayDumper):
    oid = 1016


class _FloatArrayDumper(_ArrayDumper):
    oid = 1022


def register(context: AdaptContext) -> None:
    """Let a connection send these arrays."""
    context.adapters.register_dumper(ByteaArray, _ByteaArrayDumper)
    context.adapters.register_dumper(TextArray, _TextArrayDumper)
    context.adapters.register_dumper(IntegerArray, _IntegerArrayDumper)
    context.adapters.register_dumper(OffsetArray, _OffsetArrayDumper)
    context.adapters.register_dumper(FloatArray, _FloatArrayDumper)


def register_times(context: AdaptContext) -> None:
    """Let a cursor receive times of records; never null, and of one dimension."""
    context.adapters.register_loader(_TIMES_OID, _TimesLoader)
