"""A gigabyte through one producer process and one reader process that follows it: how large each of them gets.

Both are new processes with default settings, so that their peak is their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.crew import Crew, Job
from benchmarks.lines import Finding, Flush
from benchmarks.memory import peak_mb
from benchmarks.payloads import Payloads, made
from benchmarks.sides import Ours, topic_name

RECORD_BYTES = 1_024
BATCH_RECORDS = 1_000
POLL_S = 0.005
STILL_S = 30.0


@dataclass(frozen=True)
class Passed:
    """What went through a process, and its peak."""

    length: int
    peak_mb: float


@dataclass(frozen=True)
class Produce:
    """Publish a number of records with ``publish_many``, as an application with default settings would."""

    url: str
    log: int
    records: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Passed]]:
        payloads = made(Payloads("random", 0, distinct=4 * BATCH_RECORDS, record_bytes=RECORD_BYTES))
        with trunkline.connect(self.url) as client:
            yield lambda: self._produce(client, payloads)

    def _produce(self, client: trunkline.Client, payloads: tuple[bytes, ...]) -> Passed:
        done = 0
        while done < self.records:
            start = done % len(payloads)
            batch = payloads[start : start + min(BATCH_RECORDS, self.records - done)]
            client.publish_many(topic_name(self.log), batch)
            done += len(batch)
        return Passed(done * RECORD_BYTES, peak_mb())


@dataclass(frozen=True)
class Follow:
    """Read the same records while they are written, with ``read`` and default limits in bytes."""

    url: str
    log: int
    records: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Passed]]:
        with trunkline.connect(self.url) as client:
            yield lambda: self._follow(client)

    def _follow(self, client: trunkline.Client) -> Passed:
        offset, length = 1, 0
        last_s = time.monotonic()
        while offset <= self.records:
            records = client.read(topic_name(self.log), offset=offset, max_records=10_000)
            if records:
                length += sum(len(record.payload) for record in records)
                offset = records[-1].offset + 1
                last_s = time.monotonic()
            elif time.monotonic() > last_s + STILL_S:
                raise TimeoutError(f"no record came for {STILL_S:g} s after offset {offset - 1}")
            else:
                time.sleep(POLL_S)
        return Passed(length, peak_mb())


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        produced, followed = _through(bench, flush)
        assert produced.length == followed.length, "not everything that was written was read"
        note = f"{produced.length / 1e6:,.0f} MB in records of {RECORD_BYTES} bytes"
        bench.say(f"memory {flush} flush: producer {produced.peak_mb:.0f} MB, reader {followed.peak_mb:.0f} MB; {note}")
        yield Finding(name="memory.producer", flush=flush, value=produced.peak_mb, note=note)
        yield Finding(name="memory.reader", flush=flush, value=followed.peak_mb, note=note)


def _through(bench: Bench, flush: Flush) -> tuple[Passed, Passed]:
    records = bench.scale.memory_bytes // RECORD_BYTES
    with bench.log(Ours(), 1) as log, Crew(2) as crew:
        jobs: list[Job[Passed]] = [
            Produce(bench.url(flush), log, records),
            Follow(bench.url(flush), log, records),
        ]
        produced, followed = crew.run(jobs)
    return produced, followed


SCENARIO = Scenario("memory", ("memory.producer", "memory.reader"), measure)
