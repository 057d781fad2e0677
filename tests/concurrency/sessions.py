"""Sessions that can be left waiting, and ways to know that they wait: the server says so, nobody sleeps and hopes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

WAIT_S = 60.0
"""How long a condition may take to come true before the test fails. It only guards against hanging."""

APPEND = (
    "select first_offsets from trunkline.log_append"
    "(%(topic_id)s::int4, %(expected)s::int4, %(partitions)s::int4[], %(counts)s::int4[], %(keys)s::bytea[],"
    " %(payloads)s::bytea[], null, null, null, %(producer)s::uuid, %(epoch)s::int4, %(sequences)s::int4[])"
)
READ = (
    "select first_offset, record_count, append_time, payloads, keys, transaction_id, transaction_ordinal,"
    " transaction_count from trunkline.log_read(%s::int4, %s::int4, %s::int8, %s::int4, 67108864)"
)
RANGE = 'select partition, start, "end" from trunkline.log_range(%s::int4) order by partition'
ROLL = "select trunkline.segment_roll(t.open_segment_id, true) from trunkline.topic t where t.topic_id = %s"
SEAL = "select trunkline.segment_seal(%s)"
OPEN = "select open_segment_id from trunkline.topic where topic_id = %s"


def wait_until(condition: Callable[[], T], what: str, *, deadline_s: float = WAIT_S) -> T:
    """The first true answer of the condition; the test fails when there is none in time."""
    deadline = time.monotonic() + deadline_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {deadline_s:g} s in vain: {what}"
        time.sleep(0.002)
    return answer


TICK_S = 0.01


@contextmanager
def own_time() -> Iterator[Callable[[], float]]:
    """A clock that counts the seconds in which this process was let run: while a busy machine has none for it, hardly
    any pass. For promises like "within a second", which are ours to keep, and not the machine's."""
    ended = threading.Event()
    passed = 0.0

    def tick() -> None:
        nonlocal passed
        before = time.monotonic()
        while not ended.wait(TICK_S):
            now = time.monotonic()
            passed += min(now - before, 3 * TICK_S)
            before = now

    thread = threading.Thread(target=tick, name="own time")
    thread.start()
    try:
        yield lambda: passed
    finally:
        ended.set()
        thread.join()


class Session:
    """One connection with a thread of its own, so that a statement may wait while the test goes on."""

    def __init__(self, url: str, name: str, **connect: Any) -> None:
        self.name = name
        self.connection = psycopg.connect(url, application_name=name, **connect)
        self.pid = self.connection.info.backend_pid
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def run(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run a statement that must not wait for long; its rows."""
        return self.start(statement, parameters).result(WAIT_S)

    def start(self, statement: str, parameters: Any = None) -> Future[list[tuple[Any, ...]]]:
        """Begin a statement that may wait."""
        return self.do(lambda: self._execute(statement, parameters))

    def do(self, work: Callable[[], T]) -> Future[T]:
        """Begin anything on this session's thread."""
        return self._thread.submit(work)

    def append(
        self, topic_id: int, records: Mapping[int, Sequence[bytes]], **others: Any
    ) -> Future[list[tuple[Any, ...]]]:
        """Begin log_append of the payloads, by partition, in this session's transaction."""
        return self.start(APPEND, append_parameters(topic_id, records, **others))

    def read(
        self, topic_id: int, *, partition: int = 0, start: int = 1, max_records: int = 10_000
    ) -> list[tuple[int, bytes]]:
        """Offsets and payloads from an offset on, in this session's transaction."""
        batches = self.run(READ, [topic_id, partition, start, max_records])
        return [
            (batch[0] + index, payload)
            for batch in batches
            for index, payload in enumerate(batch[3])
            if batch[0] + index >= start
        ]

    def commit(self) -> None:
        self.do(self.connection.commit).result(WAIT_S)

    def rollback(self) -> None:
        self.do(self.connection.rollback).result(WAIT_S)

    def close(self) -> None:
        self.connection.close()
        self._thread.shutdown()

    def _execute(self, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def append_parameters(topic_id: int, records: Mapping[int, Sequence[bytes]], **others: Any) -> dict[str, Any]:
    """The arguments of ``APPEND``: payloads by partition, in the order given."""
    return {
        "topic_id": topic_id,
        "expected": None,
        "partitions": list(records),
        "counts": [len(payloads) for payloads in records.values()],
        "payloads": [payload for payloads in records.values() for payload in payloads],
        "keys": None,
        "producer": None,
        "epoch": None,
        "sequences": None,
        **others,
    }


class Watcher:
    """A session that only looks at the others."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name="watcher")
        self._mutex = threading.Lock()

    def ask(self, statement: str, parameters: Any = None) -> Any:
        """The single value that a statement answers."""
        with self._mutex:
            row = self._connection.execute(statement, parameters).fetchone()
        return row[0] if row else None

    def blocked_by(self, waiting: Session, holder: Session) -> bool:
        return bool(self.ask("select %s = any (pg_blocking_pids(%s))", [holder.pid, waiting.pid]))

    def wait_blocked(self, waiting: Session, holder: Session) -> None:
        """Return once the server says that one session waits for the other."""
        wait_until(lambda: self.blocked_by(waiting, holder), f"{waiting.name} waits for {holder.name}")

    def is_waiting(self, session: Session) -> bool:
        return bool(self.ask("select cardinality(pg_blocking_pids(%s)) > 0", [session.pid]))

    def close(self) -> None:
        self._connection.close()


class Sessions:
    """Opens sessions on one database, and closes them all."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.watcher = Watcher(url)
        self._open: list[Session] = []

    def open(self, name: str, **connect: Any) -> Session:
        session = Session(self.url, name, **connect)
        self._open.append(session)
        return session

    def end(self, session: Session) -> None:
        """Close a session, and return once the server has ended it."""
        session.close()
        left = "select count(*) from pg_stat_activity where pid = %s"
        wait_until(lambda: self.watcher.ask(left, [session.pid]) == 0, f"{session.name} ends")

    def close(self) -> None:
        for session in self._open:
            session.close()
        self.watcher.close()


@contextmanager
def opened(url: str) -> Iterator[Sessions]:
    sessions = Sessions(url)
    try:
        yield sessions
    finally:
        sessions.close()


def ends(sessions: Sessions, topic_id: int) -> dict[int, int]:
    reader = sessions.open("end", autocommit=True)
    return {partition: end for partition, _, end in reader.run(RANGE, [topic_id])}
