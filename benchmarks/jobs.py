"""What a process of the crew does: write a log, or read one, on either side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from benchmarks.payloads import Checksum, Payloads, checksum
from benchmarks.sides import Shape, Side

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
class Written:
    """``everything`` has the batches written before the start as well. Times are on the clock all processes share."""

    everything: Checksum
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
        everything = checksum(batches)
        place = self.place
        with place.side.writer(place.url, place.log, place.partition) as write:
            for batch in batches[:WARM_BATCHES]:
                write(batch)

            def fill() -> Written:
                started = monotonic()
                for batch in batches[WARM_BATCHES:]:
                    write(batch)
                return Written(everything, self.batches * self.batch_records, started, monotonic())

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
    """What one pass over a partition saw, and how long all passes took."""

    everything: Checksum
    records: int
    started: float
    ended: float


@dataclass(frozen=True)
class Scan:
    """Read a partition from the start to the end, several times, touching every record."""

    place: Place
    shape: Shape
    window_records: int
    passes: int

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Seen]]:
        place = self.place
        with place.side.reader(place.url, place.log, place.partition, self.shape) as fetch:

            def once() -> Checksum:
                seen = Checksum()
                while pieces := [piece for piece in fetch(seen.records + 1, self.window_records) if piece]:
                    for piece in pieces:
                        seen = seen.after(piece)
                return seen

            def scan() -> Seen:
                started = monotonic()
                seen = [once() for _ in range(self.passes)]
                assert len(set(seen)) == 1, "two passes over one partition saw different records"
                return Seen(seen[0], sum(each.records for each in seen), started, monotonic())

            once()
            yield scan


def rate(results: Sequence[Written] | Sequence[Seen]) -> float:
    """Records a second of all processes together, from the first start to the last end."""
    took = max(each.ended for each in results) - min(each.started for each in results)
    return sum(each.records for each in results) / took
