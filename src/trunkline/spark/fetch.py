"""Reads a range of the log as Arrow, straight from the server.

Each statement is short and brings about ``bytes_each``, so no snapshot is held for long and memory does not grow with
the range. The next statement runs while Spark takes what the last one has brought: server, Python and Java work at the
same time. Runs in Spark's Python workers, which live on from task to task: connections are kept for the next one.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from time import monotonic

import adbc_driver_manager
import pyarrow as pa
from adbc_driver_manager import dbapi as manager_dbapi
from adbc_driver_postgresql import dbapi
from psycopg.conninfo import make_conninfo

from trunkline.client import protocol, target
from trunkline.client.failures import translate_state
from trunkline.engine.backoff import backoff_s
from trunkline.errors import (
    DeadlineExceeded,
    LogBroken,
    LogDiverged,
    NotFound,
    OffsetOutOfRange,
    TrunklineError,
    Unavailable,
)
from trunkline.spark.columns import Layout, fetched
from trunkline.spark.ranges import Range
from trunkline.spark.workers import spare_collections

logger = logging.getLogger("trunkline")

READ_DEADLINE_S = 60.0
"""How long a read is tried again without getting any further."""
_RECORDS_MAX = 2**31 - 1
_ROW_BYTES_HINT = "adbc.postgresql.batch_size_hint_bytes"

_kept: dict[str, list[manager_dbapi.Connection]] = {}

# The last of what a task imports, and by far the most.
spare_collections()


@dataclass
class RangeReader:
    """Reads one range; ``batches`` may be called once.

    What is read is proven: exactly the records from ``start`` to ``end``, or an error. A server that goes away is tried
    again; a standby that lags behind is waited for. One thread reads ahead, by one statement; a range that takes no
    more than one has none. It ends with the iterator, also where that is closed before its end.
    """

    url: str
    range: Range
    columns: Sequence[str]
    bytes_each: int
    may_lag: bool = False
    _here: int = field(init=False)
    _is_proven: bool = field(init=False)
    _is_over: Event = field(init=False, default_factory=Event)

    def __post_init__(self) -> None:
        self._here = self.range.start
        self._is_proven = not self.may_lag

    def batches(self) -> Generator[pa.RecordBatch]:
        """The records, as batches of columns."""
        with closing(self._answers()) as answers:
            first = next(answers, [])
            if self._here == self.range.end:
                yield from first
                return
            with ThreadPoolExecutor(1, thread_name_prefix="trunkline-ahead") as ahead:
                try:
                    answer = first
                    while answer:
                        coming: Future[list[pa.RecordBatch]] = ahead.submit(next, answers, [])
                        yield from answer
                        answer = coming.result()
                finally:
                    self._is_over.set()

    def _answers(self) -> Generator[list[pa.RecordBatch]]:
        """What each statement brings, fetched whole before any of it is handed on: Spark may take its time, and the
        statement should not."""
        layout = Layout(self.range.topic, self.range.partition, tuple(self.columns))
        attempt, deadline = 0, monotonic() + READ_DEADLINE_S
        while self._here < self.range.end:
            try:
                self._prove()
                answer = self._read(layout)
                if not answer:
                    self._check_lag()
            except TrunklineError as error:
                if not error.retryable:
                    raise
                self._pause(attempt, deadline, error)
                attempt += 1
            else:
                yield answer
                attempt, deadline = 0, monotonic() + READ_DEADLINE_S
        if self._here != self.range.end:
            raise LogBroken(f"read up to {self._here}, not to {self.range.end}, in {self.range}")

    def _read(self, layout: Layout) -> list[pa.RecordBatch]:
        answer = []
        for rows in self._fetch():
            for batch in layout.flatten(rows, self._here, self.range.end):
                self._here += batch.num_rows
                answer.append(batch)
        return answer

    def _prove(self) -> None:
        """That the server of readUrl has this topic, and not another one under its number."""
        if self._is_proven:
            return
        r = self.range
        (found,) = self._ask(f"select incarnation from trunkline.log_pin({r.topic_id:d}, {r.partition:d}, {r.start:d})")  # noqa: S608
        if found.column(0)[0].as_py() != r.incarnation:
            raise LogDiverged(
                f"the server of readUrl has another topic in the place of {r.topic}; "
                "readUrl must lead to a standby of url, or to the same database"
            )
        self._is_proven = True

    def _fetch(self) -> list[pa.RecordBatch]:
        return self._ask(self._statement(min(self.range.end - self._here, _RECORDS_MAX)))

    def _ask(self, statement: str) -> list[pa.RecordBatch]:
        try:
            with _connection(self.url) as connection, connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{_ROW_BYTES_HINT: str(self.bytes_each)})
                cursor.execute(statement)
                # Not fetch_record_batch, whose reader knows no SQLSTATE: an error would be an OSError like any other.
                batches: list[pa.RecordBatch] = cursor.fetch_arrow_table().to_batches()
                return batches
        except OffsetOutOfRange as error:
            if self.may_lag and error.end is not None and self._here > error.end:
                raise _behind(self.range, self._here) from error
            raise
        except NotFound as error:
            if self.may_lag:
                raise _behind(self.range, self._here) from error
            raise

    def _statement(self, wanted: int) -> str:
        # COPY takes no parameters: these are numbers, and column names of ours.
        columns = ", ".join(dict.fromkeys(fetched(self.columns)))
        r = self.range
        return (
            f"select {columns} from trunkline.log_read({r.topic_id:d}, {r.partition:d}, {self._here:d}, {wanted:d}, "  # noqa: S608
            f"{self.bytes_each:d}, true)"
        )

    def _pause(self, attempt: int, deadline: float, error: TrunklineError) -> None:
        delay = backoff_s(attempt, first_s=0.05, max_s=1.0, chance=random.random())
        if self._is_over.is_set() or monotonic() + delay >= deadline:
            raise DeadlineExceeded(f"no further within {READ_DEADLINE_S:g} s; the last failure: {error}") from error
        logger.info("a read is tried again in %.2f s: %s", delay, error)
        self._is_over.wait(delay)

    def _check_lag(self) -> None:
        if not self.may_lag:
            raise OffsetOutOfRange(
                f"topic {self.range.topic}, partition {self.range.partition}, ends at {self._here}, and records up to "
                f"{self.range.end} were there when the read was planned; was the database restored?"
            )
        raise _behind(self.range, self._here)


def _behind(range_: Range, here: int) -> Unavailable:
    return Unavailable(
        f"the standby of readUrl has topic {range_.topic}, partition {range_.partition}, up to {here}, and "
        f"{range_.end} is needed; it lags behind"
    )


class _connection:  # noqa: N801 - used like a function
    """A kept connection, or a new one; kept again unless something went wrong with it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> manager_dbapi.Connection:
        kept = _kept.setdefault(self._url, [])
        try:
            self._connection = kept.pop() if kept else _connect(self._url)
        except adbc_driver_manager.Error as error:
            raise _translated(error) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            _kept.setdefault(self._url, []).append(self._connection)
            return
        try:
            self._connection.close()
        except adbc_driver_manager.Error as failure:
            logger.debug("closing a connection that had failed: %s", failure)
        if isinstance(error, adbc_driver_manager.Error):
            raise _translated(error) from error


def _connect(url: str) -> manager_dbapi.Connection:
    parts = target.parse(url)
    parts.setdefault("application_name", "trunkline spark")
    parts.setdefault("connect_timeout", "10")
    parts.setdefault("tcp_user_timeout", "20000")
    parts.setdefault("keepalives_idle", "10")
    connection: manager_dbapi.Connection = dbapi.connect(make_conninfo("", **parts), autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute(f"select {protocol.KEEP_MEMORY}")
        cursor.fetchall()
    return connection


def _translated(error: adbc_driver_manager.Error) -> TrunklineError:
    details = {name: text.decode(errors="replace") for name, text in error.details}
    return translate_state(
        error.sqlstate,
        details.get("PG_DIAG_MESSAGE_PRIMARY") or " ".join(str(error).split()),
        hint=details.get("PG_DIAG_MESSAGE_HINT"),
        detail=details.get("PG_DIAG_MESSAGE_DETAIL"),
    )
