"""Which partition a record goes to.

A key decides by Kafka's murmur2 hash, its sign bit cleared, modulo the partition count; the function
``partition_of_key`` in SQL gives the same answer. Without a key, records stick to one partition for a batch and
then take the next in turn.
"""

from __future__ import annotations

from functools import lru_cache

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


def murmur2(key: bytes) -> int:
    """Kafka's murmur2 of the bytes, as an unsigned 32-bit number."""
    length = len(key)
    h = _SEED ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if tail := key[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=65_536)
def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, 0 to ``partitions - 1``."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
