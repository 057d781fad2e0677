"""Rows of Spark's as batches of the log: columns become arrays in the server's binary format, no object a record.

An array is a header and then, for each element, four bytes of length and its bytes; a length of -1 is null. Joining
the column of length words with the column of values gives exactly that, in one buffer.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trunkline.client.arrays import ByteaArray, IntegerArray, TextArray

_HEADER = Struct("!iiIii").pack
_BYTEA, _TEXT, _INT4 = 17, 25, 23
_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
Numbers = np.ndarray[Any, np.dtype[Any]]


def bytea_array(values: pa.Array) -> ByteaArray:
    """A binary column; null stays null."""
    return ByteaArray(_packed(values, _BYTEA))


def text_array(values: pa.Array) -> TextArray:
    """A column of text without nulls."""
    return TextArray(_packed(values.cast(pa.binary()), _TEXT))


def integer_array(values: Numbers) -> IntegerArray:
    """Four-byte integers."""
    words = np.empty((len(values), 2), ">i4")
    words[:, 0] = 4
    words[:, 1] = values
    return IntegerArray(_HEADER(1, 0, _INT4, len(values), 1) + words.tobytes())


def _packed(values: pa.Array, oid: int) -> bytes:
    lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False).astype(">i4")
    count = len(values)
    words = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(np.arange(0, 4 * count + 1, 4, dtype=np.int32)), pa.py_buffer(lengths)]
    )
    nulls = values.null_count
    joined = pc.binary_join_element_wise(words, values.fill_null(b"") if nulls else values, b"")
    body = joined.buffers()[2]
    header = _HEADER(1, 1 if nulls else 0, oid, count, 1)
    return header if body is None else header + body.to_pybytes()[: int(lengths.clip(0).sum()) + 4 * count]


def sizes(values: pa.Array) -> Numbers:
    """The length of each value in bytes; 0 for null."""
    lengths: Numbers = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def partitions_of_keys(keys: pa.Array, partitions: int) -> Numbers:
    """The partition of each key, as ``engine.routing.partition_of_key`` gives it; for a null, any."""
    return ((_murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)


def _murmur2(keys: pa.Array) -> Numbers:
    """Kafka's murmur2 of each value, a word at a time over all of them that still have one."""
    count = len(keys)
    if not count:
        return np.empty(0, np.uint32)
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    # Padded, so that the last word of the last key can be read whole.
    data = np.concatenate([np.frombuffer(data_buffer or b"", np.uint8), np.zeros(4, np.uint8)])
    hashed = _SEED ^ lengths.astype(np.uint32)
    words = lengths // 4
    for n in range(int(words.max())):
        which = np.flatnonzero(words > n)
        word = _word(data, starts[which] + 4 * n) * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        hashed[which] = (hashed[which] * _M) ^ word
    left = (lengths % 4).astype(np.uint32)
    which = np.flatnonzero(left)
    if which.size:
        tail = _word(data, starts[which] + 4 * words[which])
        tail &= (np.uint32(1) << (np.uint32(8) * left[which])) - np.uint32(1)
        hashed[which] = (hashed[which] ^ tail) * _M
    hashed = (hashed ^ (hashed >> np.uint32(13))) * _M
    result: Numbers = hashed ^ (hashed >> np.uint32(15))
    return result


def _word(data: Numbers, at: Numbers) -> Numbers:
    """Four bytes, the lowest first."""
    parts = [data[at + i].astype(np.uint32) << np.uint32(8 * i) for i in range(4)]
    result: Numbers = parts[0] | parts[1] | parts[2] | parts[3]
    return result
