"""What waking readers costs a publisher: 8 clients, one record a commit, on 8 partitions.

``in_commit``: the topic's ``notify_in_commit``, which puts NOTIFY into every commit, against rings that go out after
the commit. ``after_commit``: those rings against none at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.jobs import Place, Stream, records_per_s
from benchmarks.lines import Finding, Flush, paired
from benchmarks.payloads import Payloads
from benchmarks.sides import ONE_CONNECTION, Ours, Write, topic_name
from trunkline import TopicSettings

CLIENTS = 8
WARM_S = 0.3


@dataclass(frozen=True)
class Ringing(Ours):
    """Trunkline, with or without rings after the commit and in it."""

    rings: bool = True
    in_commit: bool = False

    def create(self, url: str, log: int, partitions: int) -> None:
        with trunkline.connect(url) as client:
            settings = TopicSettings(notify_in_commit=self.in_commit)
            client.create_topic(topic_name(log), partitions=partitions, settings=settings)

    @contextmanager
    def writer(self, url: str, log: int, partition: int) -> Iterator[Write]:
        settings = msgspec.structs.replace(ONE_CONNECTION, ring=self.rings)
        with trunkline.connect(url, settings=settings) as client:
            yield lambda batch: client.publish(topic_name(log), batch[0], partition=partition)


WAYS = {
    "silent": Ringing(rings=False),
    "after_commit": Ringing(),
    "in_commit": Ringing(rings=False, in_commit=True),
}


def measure(bench: Bench) -> Iterator[Finding]:
    for flush in bench.flushes:
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(bench.rounds(flush)):
            for name, side in WAYS.items():
                rates[name].append(_rate(bench, side, flush))
                bench.say(f"ring {flush} flush, {name}: {rates[name][-1]:,.0f} records/s")
        yield paired("ring.in_commit", rates["in_commit"], rates["after_commit"], flush=flush)
        yield paired("ring.after_commit", rates["after_commit"], rates["silent"], flush=flush)


def _rate(bench: Bench, side: Ringing, flush: Flush) -> float:
    with bench.log(side, CLIENTS) as log:
        bench.settle()
        places = [Place(side, bench.url(flush), log, partition) for partition in range(CLIENTS)]
        flows = bench.crew.run(
            [Stream(place, Payloads("json", place.partition), 1, bench.scale.stream_s, WARM_S) for place in places]
        )
    return records_per_s(flows)


SCENARIO = Scenario("ring", ("ring.in_commit", "ring.after_commit"), measure)
