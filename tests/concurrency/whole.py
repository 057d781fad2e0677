"""Writers whose transactions go to several partitions, and readers that are to get them whole."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

import trunkline
from tests.checker.whole_transactions import Part, parts_of
from trunkline import ClientSettings, ConsumerSettings, TopicSettings

TOPIC = "t"
PARTITIONS = 3
BATCH_RECORDS = 5
RECORDS_MAX = 14
"""Of a transaction in a partition: up to three batches."""
ROLL = "select trunkline.segment_roll(open_segment_id, true) from trunkline.topic"
WAIT_S = 1_800.0
READS = ConsumerSettings(fetch_bytes_max=100)
"""With what is asked for in bytes, so that reads end inside transactions."""
BYTES = (100, 1_000, 8_000_000)


@dataclass
class Play:
    """What was committed, and what went wrong; readers end when they have seen all of it."""

    url: str
    seed: int
    committed: set[bytes] = field(default_factory=set)
    faults: list[BaseException] = field(default_factory=list)
    written: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def client(self) -> Iterator[trunkline.Client]:
        with trunkline.connect(self.url, settings=ClientSettings(heartbeat_s=0.1, session_timeout_s=5.0)) as tl:
            yield tl

    def create(self) -> None:
        with self.client() as tl:
            tl.create_topic(TOPIC, partitions=PARTITIONS, settings=TopicSettings(batch_records_max=BATCH_RECORDS))

    def run(self, writers: Sequence[Callable[[], None]], readers: Sequence[Callable[[], None]]) -> None:
        """All at once; raises what any of them raised."""
        threads = {kind: [self._thread(call) for call in calls] for kind, calls in (("w", writers), ("r", readers))}
        for thread in (*threads["r"], *threads["w"]):
            thread.start()
        for thread in threads["w"]:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a writer has not ended"
        self.written.set()
        for thread in threads["r"]:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a reader has not seen everything"
        if self.faults:
            raise self.faults[0]

    def _thread(self, call: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised again by run
                self.faults.append(error)
                self.written.set()

        return threading.Thread(target=run, daemon=True)

    def is_over(self, seen: set[bytes]) -> bool:
        return bool(self.faults) or (self.written.is_set() and seen >= self.committed)


def write(play: Play, name: str, count: int) -> None:
    """Transactions over random partitions, published a few records at a time; some are rolled back. Some of those in
    one partition go to the log in several steps, and may find that the topic has rolled in between: with several
    partitions that would take locks in the application's order, not in ours."""
    chance = random.Random(f"{play.seed} {name}")
    with play.client() as tl, psycopg.connect(play.url) as conn, psycopg.connect(play.url, autocommit=True) as admin:
        for number in range(count):
            some = chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
            parts = parts_of(f"{name}.{number}", {p: chance.randint(1, RECORDS_MAX) for p in some})
            for step in _steps(parts, chance):
                tl.publish_many(TOPIC, [part.payload for part in step], partition=step[0].partition, conn=conn)
                if len(parts) == 1 and chance.random() < 0.5:
                    conn.execute("set constraints all immediate")
                    if chance.random() < 0.2:
                        admin.execute(ROLL)
                    conn.execute("set constraints all deferred")
            if chance.random() < 0.15:
                conn.rollback()
                continue
            conn.commit()
            play.committed.update(part.payload for each in parts.values() for part in each)


def _steps(parts: dict[int, list[Part]], chance: random.Random) -> Iterator[list[Part]]:
    """The records of a transaction in turns between its partitions, in order within each."""
    left = {partition: list(records) for partition, records in parts.items()}
    while left:
        partition = chance.choice(list(left))
        size = chance.randint(1, BATCH_RECORDS)
        yield left[partition][:size]
        del left[partition][:size]
        if not left[partition]:
            del left[partition]


def read(play: Play, name: str, deliveries: list[list[bytes]], *, whole_transactions: bool = True) -> None:
    """Polls a few at a time, commits now and then, and begins again from the last commit now and then."""
    chance = random.Random(f"{play.seed} {name}")
    seen: set[bytes] = set()
    with play.client() as tl:
        while not play.is_over(seen):
            with tl.consumer(
                TOPIC, group=name, create=True, whole_transactions=whole_transactions, settings=READS
            ) as consumer:
                for _ in range(chance.randint(1, 40)):
                    records = consumer.poll(chance.randint(1, 20), bytes_max=chance.choice(BYTES), wait_s=0.05)
                    delivery = [each.payload for each in records]
                    deliveries.append(delivery)
                    seen.update(delivery)
                    if chance.random() < 0.3:
                        consumer.commit()
                    if play.is_over(seen):
                        break


def copy(play: Play, name: str, deliveries: list[list[bytes]]) -> None:
    """Copies to a table in transactions, some of which fail; a row says in which delivery it came."""
    chance = random.Random(f"{play.seed} {name}")
    seen: set[bytes] = set()
    with (
        play.client() as tl,
        tl.consumer(
            TOPIC, group=name, create=True, delivery="exactly_once", whole_transactions=True, settings=READS
        ) as consumer,
    ):
        while not play.is_over(seen):
            limits = {"max_records": chance.randint(1, 20), "bytes_max": chance.choice(BYTES)}
            with suppress(KeyError):
                with consumer.transaction(**limits, wait_s=0.05) as tx:
                    delivery = [each.payload for each in tx.records]
                    deliveries.append(delivery)
                    assert [each for one in tx.transactions() for each in one] == tx.records
                    for payload in delivery:
                        tx.conn.execute("insert into copied values (%s, %s)", [payload, len(deliveries)])
                    if chance.random() < 0.2:
                        raise KeyError
                seen.update(delivery)
