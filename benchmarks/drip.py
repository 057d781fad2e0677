"""A publisher that publishes when it is due, whatever the server does: who is held up owes what he did not send."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic

import trunkline
from benchmarks.crew import Crew
from benchmarks.latency import Sample, percentile
from benchmarks.payloads import Payloads, made
from benchmarks.sides import ONE_CONNECTION, topic_name

LONGEST_S = 900.0
PAYLOADS = Payloads("cart", 0, distinct=1_000)
CHECKED_S = 0.1
"""How often the publisher looks whether it should end."""


@dataclass
class Dripped:
    """When each record was due, and when it was durable, on the clock that all processes share."""

    moments: list[tuple[float, float]] = field(default_factory=list)

    def p99_ms(self, start: float, end: float) -> float:
        """Of the records that were due in this time, from then to their acknowledgement."""
        return percentile([Sample(done - due) for due, done in self.moments if start <= due < end], 99)

    def count(self, start: float, end: float) -> int:
        return sum(start <= due < end for due, _ in self.moments)


@dataclass(frozen=True)
class Drip:
    """Publish one record at a time, the partitions in turn, ``per_s`` a second, until ``until`` is there."""

    url: str
    log: int
    partitions: int
    per_s: float
    until: Path

    @contextmanager
    def opened(self) -> Iterator[Callable[[], Dripped]]:
        pool = made(PAYLOADS)
        with trunkline.connect(self.url, settings=ONE_CONNECTION) as client:
            for partition in range(self.partitions):
                client.publish(topic_name(self.log), pool[0], partition=partition)
            yield lambda: self._drip(client, pool)

    def _drip(self, client: trunkline.Client, pool: tuple[bytes, ...]) -> Dripped:
        dripped = Dripped()
        started = looked = monotonic()
        end = started + LONGEST_S
        # What was due before the end is published, however late.
        while (due := started + len(dripped.moments) / self.per_s) < end:
            time.sleep(max(0.0, due - monotonic()))
            number = len(dripped.moments)
            client.publish(topic_name(self.log), pool[number % len(pool)], partition=number % self.partitions)
            now = monotonic()
            dripped.moments.append((due, now))
            if now > looked + CHECKED_S:
                looked = now
                if self.until.exists():
                    end = min(end, now)
        return dripped


@contextmanager
def dripping(url: str, log: int, partitions: int, per_s: float) -> Iterator[Dripped]:
    """A publisher in a process of its own while the block runs. What it did is there when the block has ended."""
    dripped = Dripped()
    started = Event()
    with (
        tempfile.TemporaryDirectory(prefix="trunkline-bench-") as folder,
        Crew(1) as crew,
        ThreadPoolExecutor(1) as one,
    ):
        job = Drip(url, log, partitions, per_s, Path(folder) / "enough")
        work = one.submit(crew.run, [job], before=started.set)
        work.add_done_callback(lambda _: started.set())
        started.wait()
        try:
            yield dripped
        finally:
            job.until.touch()
            (done,) = work.result()
            dripped.moments.extend(done.moments)
