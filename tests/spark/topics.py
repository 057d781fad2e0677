"""Topics in and out, streams that copy one to the other, and faults that are put in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery

from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.sessions import wait_until
from tests.spark.driving import PARTITIONS, Copying, check_copied
from tests.spark.stream_driver import copied
from trunkline import Client

WAIT_S = 300.0
"""How long anything may take before a test fails. It only guards against hanging."""


class Topics:
    """Topics ``in`` and ``out``, and streams that copy one to the other in the tests' own session."""

    def __init__(self, spark: SparkSession, tl: Client, url: str, folder: Path) -> None:
        self.spark, self.tl, self.url = spark, tl, url
        self.checkpoint = folder / "checkpoint"
        self.published = 0
        for topic in ("in", "out"):
            tl.create_topic(topic, partitions=PARTITIONS)

    def feed(self, count: int) -> None:
        for n in range(self.published, self.published + count):
            self.tl.publish("in", b"%d" % n, key=b"k%d" % (n % 7), partition=n % PARTITIONS)
        self.published += count

    def rows(self, records_each: int = 1000) -> DataFrame:
        return copied(
            self.spark.readStream.format("trunkline")
            .option("url", self.url)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(records_each))
            .option("minPartitions", str(PARTITIONS))  # as many tasks: few records would share one
            .load()
        )

    def start(
        self,
        *,
        sink: str = "trunkline",
        rows: DataFrame | None = None,
        checkpoint: Path | None = None,
        **options: object,
    ) -> StreamingQuery:
        return (
            (self.rows() if rows is None else rows)
            .writeStream.format(sink)
            .option("url", self.url)
            .option("topic", "out")
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .options(**{name: str(value) for name, value in options.items()})
            .trigger(availableNow=True)
            .start()
        )

    def run(self, **how: Any) -> None:
        """Copy all that is there."""
        self.start(**how).awaitTermination()

    def fail(self, **how: Any) -> str:
        """Copy, and fail; what Spark says."""
        with pytest.raises(PySparkException) as caught:
            self.run(**how)
        return str(caught.value)

    def check(self) -> None:
        check_copied(self.tl, self.published)


def faulty(spark: SparkSession, fault: Callable[[str, Any], None]) -> str:
    """A format that is ours, and calls ``fault`` after a task has staged (``"staged"``, with the task's attempt), and
    after a commit has been done (``"committed"``, with the batch's number). Its name."""
    from trunkline.spark.provider import TrunklineSource
    from trunkline.spark.sink import TopicStreamWriter

    class FaultyWriter(TopicStreamWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            from pyspark import TaskContext

            staged = super().write(iterator)
            context = TaskContext.get()
            assert context is not None
            fault("staged", context.attemptNumber())
            return staged

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
            super().commit(messages, batchId)
            fault("committed", batchId)

    class FaultySource(TrunklineSource):
        @classmethod
        def name(cls) -> str:
            return "trunkline_faulty"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            from trunkline.spark.options import sink_options

            return FaultyWriter(sink_options(self.options), schema, overwrite=overwrite)

    made: type[DataSource] = FaultySource
    spark.dataSource.register(made)
    return "trunkline_faulty"


LEDGER_LOCK = 4711


HOLD = f"""
create function hold_ledger() returns trigger language plpgsql as $$
begin
    if new.kind::text = tg_argv[0] then
        perform pg_advisory_xact_lock({LEDGER_LOCK}, 1);
    end if;
    return new;
end $$;
create trigger hold before insert on trunkline.sink_ledger for each row execute function hold_ledger('%s');
"""


RELEASE = "drop trigger hold on trunkline.sink_ledger; drop function hold_ledger()"


OF_SPARK = "from pg_stat_activity where datname = current_database() and application_name = 'trunkline spark'"


HELD = "select pid from pg_locks where locktype = 'advisory' and classid = %s and not granted"


class Gate:
    """Lets no batch be begun, or none be done, until it is opened: the session that tries waits in its transaction."""

    def __init__(self, url: str) -> None:
        self._holder = psycopg.connect(url, autocommit=True)
        self._watcher = psycopg.connect(url, autocommit=True)

    def close(self, kind: str) -> None:
        self._watcher.execute((HOLD % kind).encode())
        self._holder.execute("select pg_advisory_lock(%s, 1)", [LEDGER_LOCK])

    def wait(self, is_over: Callable[[], object] = lambda: False) -> int:
        """Until somebody stands there: the server's process. ``is_over`` says that nobody will come."""

        def held() -> list[tuple[Any, ...]]:
            found = self._watcher.execute(HELD, [LEDGER_LOCK]).fetchall()
            assert found or not is_over(), "it ended without a commit"
            return found

        return int(wait_until(held, "it waits", deadline_s=WAIT_S)[0][0])

    def end(self) -> None:
        """Let the transaction that waits fail, and whatever else the application has left on the server."""
        ended = f"select pg_terminate_backend(pid) {OF_SPARK}"
        wait_until(lambda: not self._watcher.execute(ended.encode()).fetchall(), "it ends", deadline_s=WAIT_S)

    def open(self, *, pid: int | None = None) -> None:
        """Let it go on; return when that session has ended, if one is given."""
        self._holder.execute("select pg_advisory_unlock(%s, 1)", [LEDGER_LOCK])
        alive = "select from pg_stat_activity where pid = %s and state = 'active'"
        if pid is not None:
            wait_until(lambda: not self._watcher.execute(alive, [pid]).fetchone(), "it is done")
        # Waits for nobody then, and is waited for by nobody.
        self._watcher.execute(RELEASE)

    def hang_up(self) -> None:
        self._holder.close()
        self._watcher.close()


@contextmanager
def gate(url: str) -> Iterator[Gate]:
    made = Gate(url)
    try:
        yield made
    finally:
        made.hang_up()


def killed_at_the_gate(work: Copying, kind: str, *, is_committed: bool) -> None:
    """Start an application, and kill it while it waits in a commit, which then fails or is done all the same."""
    with gate(work.url) as held:
        held.close(kind)
        driver = work.start()
        pid = held.wait(lambda: not driver.is_running())
        driver.kill()
        if is_committed:
            held.open(pid=pid)
        else:
            held.end()
            held.open()
