"""How well the payloads compress, as the server stores them: a benchmark of compressible nonsense would flatter us."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines.rows import connect
from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding
from benchmarks.payloads import Kind, Payloads

BATCHES = 8
RECORDS = {"json": 1_000, "order": 1_000, "cart": 100}
ORDER_BYTES = 200
LENGTH_BYTES = 4
"""Before each element of an array."""


def measure(bench: Bench) -> Iterator[Finding]:
    yield _finding(bench, "payload.lz4", "json")


def measure_carts(bench: Bench) -> Iterator[Finding]:
    yield _finding(bench, "payload.cart_lz4", "cart")


def measure_orders(bench: Bench) -> Iterator[Finding]:
    yield _finding(bench, "payload.order_lz4", "order")


def _finding(bench: Bench, name: str, kind: Kind) -> Finding:
    if not bench.environment.lz4:
        return Finding(name=name, note="not measured: the server has no lz4")
    record_bytes = ORDER_BYTES if kind == "order" else Payloads.record_bytes
    batches = Payloads(kind, 0, record_bytes=record_bytes).batches(BATCHES, RECORDS[kind])
    payloads = [payload for batch in batches for payload in batch]
    with connect(bench.url("fast")) as connection:
        connection.execute("create temporary table squeezed (batch bytea[] compression lz4)")
        for batch in batches:
            connection.execute("insert into squeezed values (%b)", [batch])
        row = connection.execute("select sum(pg_column_size(batch)) from squeezed").fetchone()
    assert row is not None
    length = sum(map(len, payloads))
    raw = length + LENGTH_BYTES * len(payloads)
    return Finding(name=name, value=raw / int(row[0]), note=f"a payload has {length / len(payloads):.0f} bytes")


SCENARIO = Scenario("payload", ("payload.lz4",), measure)
CARTS = Scenario("payload", ("payload.cart_lz4",), measure_carts)
ORDERS = Scenario("payload", ("payload.order_lz4",), measure_orders)
