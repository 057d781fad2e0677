"""What a process of the crew does: write a log, or read one, on either side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from benchmarks.payloads import Checksum, Payloads, checksum
from benchmarks.sides import Fetch, Shape, Side

WARM_BATCHES = 8
"""Written before the start: a prepared statement is planned anew five times before its plan is kept."""


@dataclass(frozen=True)
class Place:
    """One partition of one log, on one side."""

    side: Side
    url: str
    log: int
    partition: int


@dataclass(frozen=True)
class Content:
    """What one partition holds: the whole of it, and its two halves."""

    whole: Checksum
    halves: tuple[Checksum, Checksum]

    @classmethod
    def of(cls, batches: Sequence[Sequence[bytes]]) -> Content:
        middle = len(batches) // 2
        return cls(checksum(batches), (checksum(batches[:middle]), checksum(batches[middle:])))


@dataclass(frozen=True)
class Written:
    """``content`` has the batches written before the start as well. Times are on the clock all processes share."""

    content: Content
    records: int
    started: float
    ended: float


@dataclass(frozen=True)
class Fill:
    """Write a number of batches as fast as it goes, each a commit of its own."""

    place: Place
    payloads: Payloads
    batch_records: int
    batches: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Written]]:
        batches = self.payloads.batches(self.batches + WARM_BATCHES, self.batch_records)
        content = Content.of(batches)
        place = self.place
        with place.side.writer(place.url, place.log, place.partition) as write:
            for batch in batches[:WARM_BATCHES]:
                write(batch)

            def fill() -> Written:
                started = monotonic()
                for batch in batches[WARM_BATCHES:]:
                    write(batch)
                return Written(content, self.batches * self.batch_records, started, monotonic())

            yield fill


@dataclass(frozen=True)
class Pour:
    """Write many batches, the same few in turn, so that the process stays small; how many records."""

    place: Place
    payloads: Payloads
    batch_records: int
    batches: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], int]]:
        some = self.payloads.batches(max(1, self.payloads.distinct // self.batch_records), self.batch_records)
        place = self.place
        with place.side.writer(place.url, place.log, place.partition) as write:

            def pour() -> int:
                for number in range(self.batches):
                    write(some[number % len(some)])
                return self.batches * self.batch_records

            yield pour


@dataclass(frozen=True)
class Flow:
    """When each batch of a writer was durable, on the clock all processes share."""

    batch_records: int
    started: float
    commits: list[float]

    @property
    def records(self) -> int:
        return len(self.commits) * self.batch_records


@dataclass(frozen=True)
class Stream:
    """Write batches as fast as it goes for some time, after ``warm_s`` of the same before the start."""

    place: Place
    payloads: Payloads
    batch_records: int
    duration_s: float
    warm_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Flow]]:
        batches = self.payloads.batches(self.payloads.distinct // self.batch_records, self.batch_records)
        place = self.place
        with place.side.writer(place.url, place.log, place.partition) as write:
            _write_for(write, batches, self.warm_s)

            def stream() -> Flow:
                started = monotonic()
                return Flow(self.batch_records, started, _write_for(write, batches, self.duration_s))

            yield stream


def _write_for(
    write: Callable[[list[bytes]], object], batches: Sequence[list[bytes]], duration_s: float
) -> list[float]:
    commits: list[float] = []
    now = monotonic()
    end = now + duration_s
    while now < end:
        write(batches[len(commits) % len(batches)])
        now = monotonic()
        commits.append(now)
    return commits


@dataclass(frozen=True)
class Seen:
    """What a pass over the records saw, and how long all passes took."""

    checksum: Checksum
    records: int
    started: float
    ended: float


@dataclass(frozen=True)
class Scan:
    """Read the records of ``[start, end)``, once or several times, touching every one of them."""

    place: Place
    shape: Shape
    start: int
    end: int
    window_records: int
    passes: int = 1

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Seen]]:
        place = self.place
        with place.side.reader(place.url, place.log, place.partition, self.shape) as fetch:
            # Only the first records, for the statement's plan: the others are to be read for the first time.
            for _ in range(WARM_BATCHES):
                fetch(self.start, 1)

            def scan() -> Seen:
                started = monotonic()
                seen = [self._pass(fetch) for _ in range(self.passes)]
                ended = monotonic()
                assert len(set(seen)) == 1, "two passes over one partition saw different records"
                return Seen(seen[0], sum(each.records for each in seen), started, ended)

            yield scan

    def _pass(self, fetch: Fetch) -> Checksum:
        seen = Checksum()
        while (left := self.end - self.start - seen.records) > 0:
            pieces = fetch(self.start + seen.records, min(left, self.window_records))
            before = seen
            for piece in pieces:
                seen = seen.after(piece)
            assert seen != before, f"{self.place.side.name} ended before offset {self.end}"
        return seen


class Timed(Protocol):
    """How many records went through a process, and when."""

    @property
    def records(self) -> int: ...

    @property
    def started(self) -> float: ...

    @property
    def ended(self) -> float: ...


def rate(results: Sequence[Timed]) -> float:
    """Records a second of all processes together, from the first start to the last end."""
    took = max(each.ended for each in results) - min(each.started for each in results)
    return sum(each.records for each in results) / took


def records_per_s(flows: Sequence[Flow]) -> float:
    """Of all writers together, from the first start to the last commit."""
    took = max(flow.commits[-1] for flow in flows) - min(flow.started for flow in flows)
    return sum(flow.records for flow in flows) / took
