"""The payloads of every benchmark, from one generator: the same seed gives the same bytes, on any machine.

``json`` is an order as an application would write it, about 220 bytes, of which lz4 saves about half in a batch
(the run prints the measured figure). ``order`` is one whose text is cut or drawn out until it has exactly a given size.
``cart`` is as many orders as a size has room for, and a note that fills it up.
``random`` cannot be compressed, and is used only where a line says so.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Literal

SEED = 20_251_116
"""Printed by every run."""

Kind = Literal["json", "order", "cart", "random"]

_TEXT = """
please leave the parcel with a neighbour or behind green gate ring twice blue box fragile glass handle care
call before delivery after six on weekdays only gift wrap message happy birthday from all of us invoice to
company address third floor left entrance second street door code is changed thank you very much see order
note urgent return label inside do not bend keep cold dry upright signature needed evening morning courier
waits garden shed porch office reception concierge lobby elevator broken use stairs dog friendly bell loud
sleeping child quiet
"""
_ORDER_END = b'"}'
_CART = b'{"orders":[],"note":""}'
_COLOURS = ("RED", "BLUE", "GREEN", "BLACK", "WHITE", "GREY")


@dataclass(frozen=True)
class Payloads:
    """What one writer publishes: ``distinct`` payloads of a kind, again and again."""

    kind: Kind
    writer: int
    distinct: int = 16_384
    record_bytes: int = 1_024
    """Of an order, a cart, and random bytes; ``json`` is as long as it is."""
    seed: int = SEED

    def batches(self, count: int, records: int, *, first: int = 0) -> list[list[bytes]]:
        """Batches ``first`` to ``first + count``, with ``records`` payloads each."""
        pool = made(self)
        return [
            [pool[at % len(pool)] for at in range(start, start + records)]
            for start in range(first * records, (first + count) * records, records)
        ]


@lru_cache(maxsize=4)
def made(payloads: Payloads) -> tuple[bytes, ...]:
    """The distinct payloads, generated once for each process."""
    chance = Random(f"{payloads.seed}/{payloads.kind}/{payloads.writer}")
    if payloads.kind == "random":
        return tuple(chance.randbytes(payloads.record_bytes) for _ in range(payloads.distinct))
    words = _TEXT.split()
    if payloads.kind == "cart":
        return tuple(_cart(chance, number, words, payloads.record_bytes) for number in range(payloads.distinct))
    if payloads.kind == "order":
        return tuple(
            _sized(_order(chance, number, words), payloads.record_bytes) for number in range(payloads.distinct)
        )
    return tuple(_order(chance, number, words) for number in range(payloads.distinct))


def _sized(order: bytes, size: int) -> bytes:
    """The same order with exactly ``size`` bytes; its text is its last field."""
    head, _, text = order.removesuffix(_ORDER_END).rpartition(b'"')
    room = size - len(head) - 1 - len(_ORDER_END)
    if room < 0:
        raise ValueError(f"an order without any text has more than {size} bytes")
    drawn_out = (text + b" ") * (room // (len(text) + 1) + 1)
    return head + b'"' + drawn_out[:room] + _ORDER_END


def _cart(chance: Random, number: int, words: Sequence[str], size: int) -> bytes:
    """Exactly ``size`` bytes of JSON."""
    orders = _order(chance, number, words)
    while len(orders) + 1 + len(order := _order(chance, number, words)) + len(_CART) <= size:
        orders += b"," + order
    note = " ".join(chance.choices(words, k=size // 4))[: size - len(orders) - len(_CART)]
    return _CART.replace(b"[]", b"[" + orders + b"]").replace(b'""', b'"' + note.encode() + b'"')


def _order(chance: Random, number: int, words: Sequence[str]) -> bytes:
    digits = f"{chance.getrandbits(128):032x}"
    time = datetime(2025, 11, 16, tzinfo=UTC) + timedelta(seconds=number, milliseconds=chance.randrange(1000))
    order = {
        "id": f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
        "user": f"user-{chance.randrange(1_000_000):06d}",
        "amount": chance.randrange(100, 100_000) / 100,
        "sku": f"{chance.choice(_COLOURS)}-{chance.randrange(100_000):05d}",
        "time": time.isoformat(timespec="milliseconds"),
        "text": " ".join(chance.choices(words, k=chance.randrange(8, 17))),
    }
    return json.dumps(order, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Checksum:
    """That every record was touched: two sides that read the same log have equal ones."""

    records: int = 0
    length: int = 0
    crc: int = 0

    def after(self, payloads: Sequence[bytes]) -> Checksum:
        """With some more payloads, in order. How they are cut into pieces makes no difference."""
        return Checksum(
            self.records + len(payloads),
            self.length + sum(map(len, payloads)),
            zlib.crc32(b"".join(payloads), self.crc),
        )


def checksum(batches: Sequence[Sequence[bytes]]) -> Checksum:
    total = Checksum()
    for batch in batches:
        total = total.after(batch)
    return total


@dataclass(frozen=True)
class Tally:
    """A checksum that does not know the order, for what several writers put into one partition.

    The first ``skip`` bytes of a payload are left out: they may say when it was written.
    """

    records: int = 0
    length: int = 0
    crcs: int = 0

    def after(self, payloads: Sequence[bytes], *, skip: int = 0) -> Tally:
        return self + Tally(
            len(payloads),
            sum(map(len, payloads)) - skip * len(payloads),
            sum(zlib.crc32(payload[skip:]) for payload in payloads),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.records + other.records, self.length + other.length, self.crcs + other.crcs)
