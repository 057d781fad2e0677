"""The payloads of the benchmarks: the same everywhere, and like what an application writes."""

from __future__ import annotations

import json
from statistics import mean

import pytest

from benchmarks.payloads import Checksum, Kind, Payloads, checksum, made


@pytest.mark.parametrize("kind", ["json", "order", "cart", "random"])
def test_the_same_seed_gives_the_same_bytes_and_another_writer_others(kind: Kind) -> None:
    payloads = Payloads(kind, writer=1, distinct=50)
    first = made(payloads)
    made.cache_clear()
    assert made(payloads) == first
    assert not set(first) & set(made(Payloads(kind, writer=2, distinct=50)))


def test_an_order_is_json_of_about_220_bytes() -> None:
    orders = made(Payloads("json", writer=0, distinct=2_000))
    assert 210 <= mean(map(len, orders)) <= 230
    assert sorted(json.loads(orders[0])) == ["amount", "id", "sku", "text", "time", "user"]


def test_a_sized_order_is_json_of_exactly_the_size_asked_for() -> None:
    for size in (170, 200, 400):
        orders = made(Payloads("order", writer=0, distinct=2_000, record_bytes=size))
        assert {len(order) for order in orders} == {size}
        assert sorted(json.loads(orders[0])) == ["amount", "id", "sku", "text", "time", "user"]


def test_a_cart_is_json_of_exactly_the_size_asked_for() -> None:
    for size in (400, 1_016, 1_024):
        carts = made(Payloads("cart", writer=0, distinct=100, record_bytes=size))
        assert {len(cart) for cart in carts} == {size}
        assert sorted(json.loads(carts[0])) == ["note", "orders"]


def test_batches_go_through_the_distinct_payloads_and_begin_again() -> None:
    payloads = Payloads("random", writer=0, distinct=5, record_bytes=8)
    pool = list(made(payloads))
    assert payloads.batches(2, 3) == [pool[:3], [pool[3], pool[4], pool[0]]]
    assert payloads.batches(1, 3, first=1) == payloads.batches(2, 3)[1:]


def test_a_checksum_knows_every_record_whatever_the_pieces_are() -> None:
    whole = Checksum().after([b"ab", b"c", b"", b"d"])
    assert whole == checksum([[b"ab"], [b"c", b""], [b"d"]])
    assert whole != Checksum().after([b"ab", b"c", b"d"])
    assert whole != Checksum().after([b"ab", b"d", b"", b"c"])
