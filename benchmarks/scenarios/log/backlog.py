"""One reader follows four writers that run flat out: how far behind it is when they end, and how soon it is not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.crew import Job
from benchmarks.jobs import Flow, Place, Stream
from benchmarks.lines import Finding, Flush
from benchmarks.payloads import Payloads
from benchmarks.sides import ONE_CONNECTION, Ours, topic_name

PARTITIONS = 4
BATCH_RECORDS = 100
WINDOW_RECORDS = 5_000
GRACE_S = 1.0
POLL_S = 0.002


@dataclass(frozen=True)
class Progress:
    """How many records a reader had seen, and when: only moments at which it had seen more."""

    moments: list[float]
    records: list[int]

    def at(self, moment: float) -> int:
        place = bisect_right(self.moments, moment)
        return self.records[place - 1] if place else 0


@dataclass(frozen=True)
class Follow:
    """Read all partitions in turn until, some time after the writers' end, nothing more comes."""

    url: str
    log: int
    at_least_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Progress]]:
        with trunkline.connect(self.url, settings=ONE_CONNECTION) as client:
            yield lambda: self._follow(client)

    def _follow(self, client: trunkline.Client) -> Progress:
        end = monotonic() + self.at_least_s
        offsets = [1] * PARTITIONS
        progress = Progress([], [])
        while True:
            before = sum(offsets)
            for partition in range(PARTITIONS):
                offsets[partition] = self._advance(client, partition, offsets[partition])
            if sum(offsets) > before:
                progress.moments.append(monotonic())
                progress.records.append(sum(offsets) - PARTITIONS)
            elif monotonic() > end:
                return progress
            else:
                sleep(POLL_S)

    def _advance(self, client: trunkline.Client, partition: int, offset: int) -> int:
        batches = client.read_batches(
            topic_name(self.log), partition=partition, offset=offset, max_records=WINDOW_RECORDS
        )
        return batches[-1].end if batches else offset


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        with bench.log(Ours(), PARTITIONS) as log:
            bench.settle()
            *flows, progress = bench.crew.run(_jobs(bench, log, flush))
        yield from _findings(bench, flush, [flow for flow in flows if isinstance(flow, Flow)], progress)


def _jobs(bench: Bench, log: int, flush: Flush) -> list[Job[Flow | Progress]]:
    duration_s = 2 * bench.scale.stream_s
    writers: list[Job[Flow | Progress]] = [
        Stream(
            Place(Ours(), bench.url(flush), log, partition),
            Payloads("json", partition),
            BATCH_RECORDS,
            duration_s,
            warm_s=0.0,
        )
        for partition in range(PARTITIONS)
    ]
    return [*writers, Follow(bench.url(flush), log, duration_s + GRACE_S)]


def _findings(bench: Bench, flush: Flush, flows: list[Flow], progress: Flow | Progress) -> Iterator[Finding]:
    assert isinstance(progress, Progress)
    written = sum(flow.records for flow in flows)
    assert written == progress.records[-1], "the reader did not see everything that was written"
    ended = max(flow.commits[-1] for flow in flows)
    ran_s = ended - min(flow.started for flow in flows)
    behind = written - progress.at(ended)
    drained_s = max(0.0, progress.moments[-1] - ended)
    note = f"written {written / ran_s:,.0f} records/s while read {progress.at(ended) / ran_s:,.0f}"
    bench.say(f"backlog {flush} flush: {behind:,} of {written:,} records behind, drained in {drained_s:.2f} s")
    yield Finding(name="backlog.at_end", flush=flush, value=behind, baseline=written, ratio=behind / written, note=note)
    yield Finding(
        name="backlog.drain", flush=flush, value=drained_s, baseline=ran_s, ratio=drained_s / ran_s, note=note
    )


SCENARIO = Scenario("backlog", ("backlog.at_end", "backlog.drain"), measure)
