"""One record at a time on an idle system: from the call of publish to the record in a consumer's hands.

Beside it the least that it can take: a bare commit and a bare NOTIFY, each on its own. The three alternate in small
slices, so that whatever the machine does it does to all. Publisher, consumer and listener are processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import monotonic

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers, group_name, settle
from benchmarks.crew import Job
from benchmarks.direct.insert import inserter
from benchmarks.direct.notify import listener, notifier
from benchmarks.latency import Sample, percentile
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads
from benchmarks.sides import ONE_CONNECTION, topic_name
from benchmarks.stamps import moments, stamped

SLICE_CALLS = 25
SLICES, QUICK_SLICES = 40, 6
WARM_SLICES = 1
PAUSE_S = 0.015
"""Between two records: long enough for everybody to be asleep."""
STILL_S = 30.0
CHANNEL = "bench_wake"
GROUP = "wake"

Times = list[float]
"""Seconds, in the order in which things happened."""


@dataclass(frozen=True)
class Speak:
    """Publish, insert and notify in turn; how long each insert took."""

    url: str
    log: int
    slices: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Times]]:
        payloads = Payloads("json", 0).batches(1, SLICE_CALLS)[0]
        with (
            trunkline.connect(self.url, settings=ONE_CONNECTION) as client,
            inserter(self.url) as insert,
            notifier(self.url, CHANNEL) as notify,
        ):

            def publish(payload: bytes) -> None:
                client.publish(topic_name(self.log), stamped([payload], monotonic())[0])

            def speak() -> Times:
                inserts: Times = []
                for _ in range(self.slices):
                    _each(publish, payloads)
                    inserts += _each(insert, payloads)
                    _each(lambda _: notify(repr(monotonic())), payloads)
                return inserts

            yield speak


def _each(call: Callable[[bytes], object], payloads: list[bytes]) -> Times:
    took: Times = []
    for payload in payloads:
        time.sleep(PAUSE_S)
        began = monotonic()
        call(payload)
        took.append(monotonic() - began)
    return took


@dataclass(frozen=True)
class Receive:
    """Consume so many records; how long each was under way."""

    url: str
    log: int
    records: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Times]]:
        with (
            trunkline.connect(self.url, settings=ONE_CONNECTION) as client,
            client.consumer(topic_name(self.log), group=group_name(self.log, GROUP)) as consumer,
        ):
            settle(consumer, 1)

            def receive() -> Times:
                ways: Times = []
                while len(ways) < self.records:
                    found = consumer.poll(wait_s=STILL_S)
                    now = monotonic()
                    assert found, f"no record came for {STILL_S:g} s"
                    ways += [now - published for record in found for published, _ in moments([record.payload])]
                    consumer.commit()
                return ways

            yield receive


@dataclass(frozen=True)
class Listen:
    """Hear so many notifications; how long each was under way."""

    url: str
    count: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Times]]:
        with listener(self.url, CHANNEL) as hear:

            def listen() -> Times:
                ways: Times = []
                for _ in range(self.count):
                    payload = hear(STILL_S)
                    assert payload is not None, f"no notification came for {STILL_S:g} s"
                    ways.append(monotonic() - float(payload))
                return ways

            yield listen


def measure(bench: Bench) -> Iterator[Finding]:
    slices = WARM_SLICES + (SLICES if bench.scale.name == "full" else QUICK_SLICES)
    for flush in bench.flushes:
        url = bench.url(flush)
        with bench.log(Consumers(), 1) as log:
            Consumers().create_groups(url, log, [GROUP])
            bench.settle()
            jobs: list[Job[Times]] = [
                Speak(url, log, slices),
                Receive(url, log, slices * SLICE_CALLS),
                Listen(url, slices * SLICE_CALLS),
            ]
            commits, ways, rings = (found[WARM_SLICES * SLICE_CALLS :] for found in bench.crew.run(jobs))
        yield _finding(flush, ways, commits, rings)


def _finding(flush: Flush, ways: Times, commits: Times, rings: Times) -> Finding:
    bare = [commit + ring for commit, ring in zip(medians(commits), medians(rings), strict=True)]
    p99 = percentile([Sample(way) for way in ways], 99)
    note = (
        f"p99 {p99:.2f} ms; bare commit {median(commits) * 1e3:.2f}, bare NOTIFY {median(rings) * 1e3:.2f} ms; "
        f"slices of {SLICE_CALLS} in turn"
    )
    return paired(
        "wake.delivery", [way * 1e3 for way in medians(ways)], [each * 1e3 for each in bare], flush=flush, note=note
    )


def medians(times: Times) -> list[float]:
    """Of each slice."""
    return [median(times[start : start + SLICE_CALLS]) for start in range(0, len(times), SLICE_CALLS)]


SCENARIO = Scenario("wake", ("wake.delivery",), measure)
