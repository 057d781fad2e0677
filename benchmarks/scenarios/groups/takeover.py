"""A member that is killed, and one that is stopped: how long until another one reads its partition.

Each time a process joins the group of a consumer that was alone, and gets half of the partitions. Then it gets its
signal, and a record is published to one of its partitions. The time runs from the signal to that record in the hands of
the consumer that is left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import Queue
from threading import Event, Thread
from time import monotonic

import trunkline
from benchmarks.bench import Bench, Scenario
from benchmarks.consumers import Consumers, group_name
from benchmarks.latency import Sample, percentile
from benchmarks.lines import Finding
from benchmarks.sides import topic_name
from benchmarks.stamps import moments, stamped
from trunkline import ClientSettings
from trunkline.errors import Fenced

PARTITIONS = 4
TIMES, QUICK_TIMES = 50, 6
SETTINGS = ClientSettings(heartbeat_s=0.1, session_timeout_s=0.4)
SIGNALS = {"takeover.killed": signal.SIGKILL, "takeover.stopped": signal.SIGSTOP}
GROUP = "takeover"
WAIT_S = 0.05
DEADLINE_S = 60.0

Arrival = tuple[float, float]
"""When a record was published, and when it was in hand."""


def victim(pipe: Connection, url: str, topic: str, group: str) -> None:
    """The life of a member: it says which partitions it has as soon as they are half of all, and reads on."""
    with trunkline.connect(url, settings=SETTINGS) as client, client.consumer(topic, group=group) as consumer:
        told = False
        while True:
            consumer.poll(wait_s=WAIT_S)
            consumer.commit()
            if not told and len(consumer.assignment) == PARTITIONS // 2:
                pipe.send([partition for _, partition in consumer.assignment])
                told = True


@contextmanager
def joined(url: str, topic: str, group: str) -> Iterator[tuple[int, list[int]]]:
    """A member in a process of its own, and its partitions. It is gone when the block ends."""
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=victim, args=(theirs, url, topic, group), daemon=True)
    process.start()
    theirs.close()
    try:
        if not mine.poll(DEADLINE_S):
            raise TimeoutError(f"a member has not got its partitions in {DEADLINE_S:g} s")
        assert process.pid is not None
        yield process.pid, mine.recv()
    finally:
        process.kill()
        process.join()
        mine.close()


@contextmanager
def survivor(url: str, topic: str, group: str) -> Iterator[Queue[Arrival]]:
    """A consumer that stays, and tells what arrives."""
    arrivals: Queue[Arrival] = Queue()
    ended = Event()

    def live() -> None:
        with trunkline.connect(url, settings=SETTINGS) as client, client.consumer(topic, group=group) as consumer:
            while not ended.is_set():
                for record in consumer.poll(wait_s=WAIT_S):
                    ((published, _),) = moments([record.payload])
                    arrivals.put((published, monotonic()))
                try:
                    consumer.commit()
                except Fenced:
                    continue

    thread = Thread(target=live, name="bench-survivor")
    thread.start()
    try:
        yield arrivals
    finally:
        ended.set()
        thread.join()


def measure(bench: Bench) -> Iterator[Finding]:
    url = bench.url("fast")
    with bench.log(Consumers(), PARTITIONS) as log:
        Consumers().create_groups(url, log, [GROUP])
        topic, group = topic_name(log), group_name(log, GROUP)
        with survivor(url, topic, group) as arrivals, trunkline.connect(url) as publisher:
            for name, number in SIGNALS.items():
                took: list[float] = []
                for _ in range(TIMES if bench.scale.name == "full" else QUICK_TIMES):
                    with joined(url, topic, group) as (pid, partitions):
                        began = monotonic()
                        os.kill(pid, number)
                        publisher.publish(topic, stamped([b""], began)[0], partition=partitions[0])
                        took.append(_arrival(arrivals, began) - began)
                yield from _findings(name, took)


def _arrival(arrivals: Queue[Arrival], published: float) -> float:
    """When that record was in hand. It may come more than once, and others late."""
    while True:
        which, when = arrivals.get(timeout=DEADLINE_S)
        if which == published:
            return when


def _findings(name: str, took: list[float]) -> Iterator[Finding]:
    samples = [Sample(each) for each in took]
    note = f"{len(took)} times, session_timeout_s {SETTINGS.session_timeout_s:g}"
    series = {"ms": [round(each * 1e3, 1) for each in sorted(took)]}
    yield Finding(name=f"{name}_p50", value=percentile(samples, 50), note=note, series=series)
    yield Finding(name=f"{name}_p99", value=percentile(samples, 99), note=note)
    yield Finding(name=f"{name}_max", value=percentile(samples, 100), note=note)


LINES = tuple(f"{name}_{figure}" for name in SIGNALS for figure in ("p50", "p99", "max"))
SCENARIO = Scenario("takeover", LINES, measure)
