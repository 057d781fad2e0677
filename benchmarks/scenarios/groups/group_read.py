"""Reading as a group against reading by offset: four consumers with a partition each, or four plain readers.

Both read the same log from its start to its end, in turn; one read before that is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers
from benchmarks.jobs import Content, Place, Scan, rate
from benchmarks.lines import Finding, paired
from benchmarks.scans import WINDOW_RECORDS, GroupScan, check, filled
from benchmarks.sides import Ours

PARTITIONS = 4
BATCHES, BATCHES_MIN = 4_000, 500


def measure(bench: Bench) -> Iterator[Finding]:
    with bench.log(Consumers(), PARTITIONS) as log:
        contents = filled(bench, log, PARTITIONS, max(BATCHES_MIN, round(BATCHES * bench.scale.work)))
        bench.settle()
        _plain(bench, log, contents)
        groups: list[float] = []
        plain: list[float] = []
        for number in range(bench.scale.rounds):
            groups.append(_as_group(bench, log, contents, f"round-{number}"))
            plain.append(_plain(bench, log, contents))
            bench.say(f"group-read: {groups[-1]:,.0f} records/s, read_batches {plain[-1]:,.0f}")
    yield paired("group-read.batches", groups, plain)


def _as_group(bench: Bench, log: int, contents: list[Content], group: str) -> float:
    records = contents[0].whole.records
    scans = [GroupScan(bench.url("fast"), log, group, 1, records) for _ in range(PARTITIONS)]
    seen = bench.crew.run(scans)
    check(seen, contents)
    assert {partition for each in seen for partition in each.checksums} == set(range(PARTITIONS))
    return rate(seen)


def _plain(bench: Bench, log: int, contents: list[Content]) -> float:
    places = [Place(Ours(), bench.url("fast"), log, partition) for partition in range(PARTITIONS)]
    seen = bench.crew.run(
        [
            Scan(place, "columns", 1, 1 + content.whole.records, WINDOW_RECORDS)
            for place, content in zip(places, contents, strict=True)
        ]
    )
    assert [each.checksum for each in seen] == [content.whole for content in contents]
    return rate(seen)


SCENARIO = Scenario("group-read", ("group-read.batches",), measure)
