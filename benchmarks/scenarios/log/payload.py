"""How well the payloads compress, as the server stores them: a benchmark of compressible nonsense would flatter us."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines.rows import connect
from benchmarks.bench import Bench, Scenario
from benchmarks.lines import Finding
from benchmarks.payloads import Payloads

BATCHES, RECORDS = 8, 1_000
LENGTH_BYTES = 4
"""Before each element of an array."""


def measure(bench: Bench) -> Iterator[Finding]:
    if not bench.environment.lz4:
        yield Finding(name="payload.lz4", note="not measured: the server has no lz4")
        return
    batches = Payloads("json", 0).batches(BATCHES, RECORDS)
    length = sum(len(payload) for batch in batches for payload in batch) / BATCHES / RECORDS
    with connect(bench.url("fast")) as connection:
        connection.execute("create temporary table squeezed (batch bytea[] compression lz4)")
        raw = 0
        for batch in batches:
            raw += sum(len(payload) + LENGTH_BYTES for payload in batch)
            connection.execute("insert into squeezed values (%b)", [batch])
        row = connection.execute("select sum(pg_column_size(batch)) from squeezed").fetchone()
    assert row is not None
    yield Finding(name="payload.lz4", value=raw / int(row[0]), note=f"a payload has {length:.0f} bytes")


SCENARIO = Scenario("payload", ("payload.lz4",), measure)
