"""What a process does in a benchmark of groups: publish at a pace, or read as a member of a group, on either side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

import psycopg

from benchmarks.jobs import Place
from benchmarks.members import GroupSide, Handed, Member, Seat
from benchmarks.payloads import Payloads, Tally
from benchmarks.processor import Busy
from benchmarks.sides import Write
from benchmarks.stamps import STAMP_BYTES, moments, stamped
from trunkline.errors import TrunklineError

FAILURES = (TrunklineError, psycopg.Error)
FAILURES_MAX = 100
"""So many in one process, and the run ends: it would measure nothing but failures."""
WAIT_S = 0.5
"""How long one read waits for records."""


class Call(NamedTuple):
    """One batch: when it was due, when the writer began to publish it, when it was acknowledged."""

    due: float
    called: float
    acknowledged: float


@dataclass
class Published:
    """What one writer did. ``tally`` counts what was acknowledged."""

    batch_records: int
    started: float
    calls: list[Call] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    failures: int = 0


@dataclass(frozen=True)
class Pace:
    """A batch every ``interval_s``, the first after ``phase_s``. A writer that is late catches up without a pause."""

    interval_s: float
    phase_s: float


@dataclass(frozen=True)
class Publish:
    """Publish stamped batches for some time, each a commit of its own: at a pace, or, without one, as fast as it goes.

    It begins ``lead_s`` after the start, when the readers already read.
    """

    place: Place
    payloads: Payloads
    batch_records: int
    pace: Pace | None
    lead_s: float
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Published]]:
        bodies = self.payloads.batches(max(1, self.payloads.distinct // self.batch_records), self.batch_records)
        tallies = [Tally().after(each) for each in bodies]
        place = self.place
        with place.side.writer(place.url, place.log, place.partition) as write:
            yield lambda: self._publish(write, bodies, tallies)

    def _publish(self, write: Write, bodies: Sequence[list[bytes]], tallies: Sequence[Tally]) -> Published:
        found = Published(self.batch_records, monotonic() + self.lead_s)
        for number, due in enumerate(self._due(found.started)):
            _sleep_until(due)
            called = monotonic()
            try:
                write(stamped(bodies[number % len(bodies)], called))
            except FAILURES:
                found.failures += 1
                if found.failures == FAILURES_MAX:
                    raise
            else:
                found.calls.append(Call(due, called, monotonic()))
                found.tally += tallies[number % len(tallies)]
        return found

    def _due(self, start: float) -> Iterator[float]:
        if self.pace is not None:
            for number in range(round(self.duration_s / self.pace.interval_s)):
                yield start + self.pace.phase_s + number * self.pace.interval_s
            return
        yield start
        while (now := monotonic()) < start + self.duration_s:
            yield now


def _sleep_until(moment: float) -> None:
    left = moment - monotonic()
    if left > 0:
        time.sleep(left)


class Read(NamedTuple):
    """One read: when it was asked for, when its records were in hand, when the group's progress was durable."""

    asked: float
    handed: float
    committed: float
    records: int


class Delivery(NamedTuple):
    """Records that were published by one call, in hand."""

    published: float
    handed: float
    records: int


class Age(NamedTuple):
    """How old records were in hand, by the time that the server gave them."""

    handed: float
    age_s: float
    records: int


@dataclass
class Consumed:
    """What one reader saw."""

    group: str
    reads: list[Read] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    ages: list[Age] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    failures: int = 0

    def take_in(self, handed: Handed, moment: float, wall_time: float) -> int:
        """Touch every record; how many there are."""
        self.ages += [Age(moment, wall_time - created, count) for created, count in handed.created]
        for payloads in handed.payloads:
            self.deliveries += [Delivery(published, moment, count) for published, count in moments(payloads)]
            self.tally = self.tally.after(payloads, skip=STAMP_BYTES)
        return sum(map(len, handed.payloads))


@dataclass(frozen=True)
class Consume:
    """Read as a member of a group for some time, and then on until nothing more comes."""

    side: GroupSide
    url: str
    log: int
    seat: Seat
    at_least_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Consumed]]:
        with self.side.member(self.url, self.log, self.seat) as member:
            yield lambda: self._consume(member)

    def _consume(self, member: Member) -> Consumed:
        end = monotonic() + self.at_least_s
        found = Consumed(self.seat.group)
        while True:
            try:
                came = self._read(member, found)
            except FAILURES:
                found.failures += 1
                if found.failures == FAILURES_MAX:
                    raise
            else:
                if not came and monotonic() > end:
                    return found

    def _read(self, member: Member, found: Consumed) -> bool:
        handed = member.take(WAIT_S)
        if handed is None:
            return False
        moment = monotonic()
        records = found.take_in(handed, moment, time.time())
        member.commit()
        found.reads.append(Read(handed.asked, moment, monotonic(), records))
        return True


@dataclass(frozen=True)
class Share:
    """How much of the machine was busy, 1.0 being all of it; None where that cannot be told."""

    busy: float | None


@dataclass(frozen=True)
class Observe:
    """How busy the machine is while the writers write."""

    lead_s: float
    duration_s: float

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Share]]:
        yield self._observe

    def _observe(self) -> Share:
        time.sleep(self.lead_s)
        before = Busy.now()
        time.sleep(self.duration_s)
        after = Busy.now()
        return Share(None if before is None or after is None else before.share(after))
