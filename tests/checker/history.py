"""What a load or chaos test writes down: every operation with its outcome, and the log as it was at the end.

Moments are ticks of one counter of the recorder, so that "before" means before for every thread. A payload names its
record: no two records of a history carry the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Literal, TypeAlias

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""

Outcome: TypeAlias = Literal["acknowledged", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as its producer gave it; ``partition`` where the producer chose one."""

    payload: bytes
    key: bytes | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Publish:
    """One transaction of one session. ``places`` are those of its records, in order, where it was acknowledged.

    failed: the session was told that nothing was written, or rolled back. unknown: nobody told it anything.
    """

    session: str
    records: tuple[Sent, ...]
    invoked: int
    ended: int
    outcome: Outcome
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as a reader got it."""

    offset: int
    payload: bytes
    append_time: datetime
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One call of one reader, from ``start`` on.

    ``cut``: it may have ended at a limit, and more may have been there. ``cursor``: where the reader goes on, if the
    log tells it that; else after the last record it got.
    """

    reader: str
    partition: int
    start: int
    invoked: int
    ended: int
    seen: tuple[Seen, ...]
    cut: bool = False
    cursor: int | None = None

    @property
    def end(self) -> int:
        """The next offset that this reader will ask for."""
        if self.cursor is not None:
            return self.cursor
        return self.seen[-1].offset + 1 if self.seen else self.start


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A read that was answered with the range of the log, ``[valid_start, valid_end)``."""

    reader: str
    partition: int
    start: int
    invoked: int
    ended: int
    valid_start: int
    valid_end: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The server, or a client, was killed."""

    what: str
    at: int


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's log at the end of the history: all of ``[start, end)``."""

    start: int
    end: int
    records: tuple[Seen, ...]


Event: TypeAlias = Publish | Read | OutOfRange | Crash


@dataclass
class History:
    """Events in the order in which they ended, and the log that was found at the end."""

    events: list[Event] = field(default_factory=list)
    final: dict[int, Partition] = field(default_factory=dict)

    def publishes(self) -> Iterator[Publish]:
        return (event for event in self.events if isinstance(event, Publish))

    def reads(self) -> Iterator[Read]:
        return (event for event in self.events if isinstance(event, Read))

    def out_of_ranges(self) -> Iterator[OutOfRange]:
        return (event for event in self.events if isinstance(event, OutOfRange))

    def crashes(self) -> Iterator[Crash]:
        return (event for event in self.events if isinstance(event, Crash))

    def summary(self) -> str:
        """One line for the report of a run."""
        outcomes = [publish.outcome for publish in self.publishes()]
        kept = sum(len(partition.records) for partition in self.final.values())
        return (
            f"{len(outcomes)} publishes ({outcomes.count('acknowledged')} acknowledged, "
            f"{outcomes.count('failed')} failed, {outcomes.count('unknown')} unknown), "
            f"{sum(1 for _ in self.reads())} reads, {sum(1 for _ in self.out_of_ranges())} out of range, "
            f"{sum(1 for _ in self.crashes())} crashes, {kept} records in the log"
        )


class Recorder:
    """Collects a history from many threads. Appending to a list and counting are atomic in CPython."""

    def __init__(self) -> None:
        self.history = History()
        self._ticks = count(1)

    def tick(self) -> int:
        """This moment. Take one before an operation begins; its end is taken when it is recorded."""
        return next(self._ticks)

    def published(self, session: str, records: Iterable[Sent], invoked: int, places: Sequence[Place]) -> Publish:
        return self._publish(session, records, invoked, "acknowledged", places)

    def failed(self, session: str, records: Iterable[Sent], invoked: int) -> Publish:
        return self._publish(session, records, invoked, "failed", ())

    def unknown(self, session: str, records: Iterable[Sent], invoked: int) -> Publish:
        return self._publish(session, records, invoked, "unknown", ())

    def _publish(
        self, session: str, records: Iterable[Sent], invoked: int, outcome: Outcome, places: Sequence[Place]
    ) -> Publish:
        event = Publish(session, tuple(records), invoked, self.tick(), outcome, tuple(places))
        self.history.events.append(event)
        return event

    def read(
        self,
        reader: str,
        partition: int,
        start: int,
        invoked: int,
        seen: Iterable[Seen],
        *,
        cut: bool = False,
        cursor: int | None = None,
    ) -> Read:
        event = Read(reader, partition, start, invoked, self.tick(), tuple(seen), cut, cursor)
        self.history.events.append(event)
        return event

    def out_of_range(self, reader: str, partition: int, start: int, invoked: int, valid: tuple[int, int]) -> OutOfRange:
        event = OutOfRange(reader, partition, start, invoked, self.tick(), *valid)
        self.history.events.append(event)
        return event

    def crashed(self, what: str) -> None:
        self.history.events.append(Crash(what, self.tick()))

    def finish(self, final: dict[int, Partition]) -> History:
        """Add what the log holds now that everything has ended."""
        self.history.final = dict(final)
        return self.history
