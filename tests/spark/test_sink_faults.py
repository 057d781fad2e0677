"""The exactly-once sink under faults at chosen points: tasks that fail or come late, answers that are lost, drivers
that are killed before, in and after a commit, checkpoints that are copied, rewound or shared."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
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

import trunkline
from tests.concurrency.conftest import StartServer
from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.sessions import wait_until
from tests.spark.driving import LOOK_S, PARTITIONS, Copying, check_copied, contents, copying
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


@pytest.fixture
def topics(spark: SparkSession, tl: Client, db_url: str, tmp_path: Path) -> Topics:
    return Topics(spark, tl, db_url, tmp_path)


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


# -- tasks --


def test_SP_03_a_task_that_fails_after_it_has_staged_is_tried_again_and_written_once(topics: Topics) -> None:
    def fault(when: str, attempt: int) -> None:
        if when == "staged" and attempt == 0:
            raise RuntimeError("the first attempt of every task dies")

    topics.feed(60)
    topics.run(sink=faulty(topics.spark, fault))
    topics.check()


def test_SP_03_a_task_whose_rows_end_in_an_error_halfway_is_written_once(topics: Topics) -> None:
    """The error comes from before the sink, when a part has been staged already."""

    def halfway(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for batch in batches:
            for row in range(batch.num_rows):
                yield batch.slice(row, 1)
            if context is not None and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt dies after its first batch")

    topics.feed(60)
    rows = topics.rows()
    topics.run(rows=rows.mapInArrow(halfway, rows.schema), batchRecords=2)
    topics.check()
    left = "select count(*) from trunkline.sink_stage s where s.segment_id > 0"
    with psycopg.connect(topics.url) as connection:
        assert connection.execute(left).fetchone() is not None


def test_SP_03_a_zombie_task_that_stages_when_its_batch_is_done_changes_nothing(topics: Topics, tmp_path: Path) -> None:
    """The first attempts of batch 0 hold their rows back, are taken for dead, and stage them when batch 1 is done."""
    go, gone = tmp_path / "go", tmp_path / "gone"

    def late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from pyspark import TaskContext

        from trunkline.spark.database import Database
        from trunkline.spark.options import sink_options
        from trunkline.spark.staging import Stager

        held = list(batches)
        context = TaskContext.get()
        assert context is not None
        if context.getLocalProperty("streaming.sql.batchId") == "0" and context.attemptNumber() == 0:
            task = context.partitionId()
            # A process of its own: Spark ends the one that has failed.
            if os.fork() == 0:
                try:
                    while not go.exists() and deadline > time.time():
                        time.sleep(0.05)
                    staged = Stager(sink_options({"url": url, "topic": "out"}), Database(url), task).stage(iter(held))
                    counted = gone.with_suffix(f".{task}.new")
                    counted.write_text(str(sum(each.record_count for each in staged)))
                    counted.rename(tmp_path / f"gone.{task}")
                finally:
                    os._exit(0)
            raise RuntimeError("taken for dead")
        yield from held

    deadline = time.time() + WAIT_S
    url = topics.url
    topics.feed(30)
    rows = topics.rows()
    rows = rows.mapInArrow(late, rows.schema)
    topics.run(rows=rows)
    topics.feed(30)
    topics.run(rows=rows)
    go.touch()
    wait_until(lambda: len(list(tmp_path.glob("gone.?"))) == PARTITIONS, "the zombies have staged", deadline_s=WAIT_S)
    assert sum(int(path.read_text()) for path in tmp_path.glob("gone.?")) == 30
    topics.feed(30)
    topics.run(rows=rows)
    topics.check()


# -- commits --


def test_SP_03_an_exception_after_the_commit_fails_the_query_and_the_next_run_skips_the_batch(topics: Topics) -> None:
    def fault(when: str, number: int) -> None:
        if when == "committed" and number == 0:
            raise RuntimeError("the answer is lost")

    topics.feed(60)
    assert "the answer is lost" in topics.fail(sink=faulty(topics.spark, fault))
    topics.check()
    topics.feed(30)
    topics.run()
    topics.check()


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


def _killed_at_the_gate(work: Copying, kind: str, *, is_committed: bool) -> None:
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


def test_SP_03_a_driver_that_is_killed_before_in_the_middle_of_and_after_a_commit_writes_once(
    topics: Topics, db_url: str, tmp_path: Path
) -> None:
    """A batch of more than 64 rows, which goes in steps. One driver dies before its commit; the next one after the
    first step; the next one after the last step, before Spark knows. Then the tests' own Spark goes on from there."""
    with copying(db_url, tmp_path, records_each=300, sink={"batchRecords": "2"}) as work:
        work.feed(600)
        _killed_at_the_gate(work, "b", is_committed=False)
        assert work.written() == 0
        _killed_at_the_gate(work, "b", is_committed=True)
        assert 0 < work.written() < 300
        _killed_at_the_gate(work, "d", is_committed=True)
        assert work.written() == 300
        topics.run(rows=topics.rows(300), batchRecords=2)
        work.check()


def test_SP_03_a_database_that_restarts_inside_a_commit_has_it_once(
    start_server: StartServer, spark: SparkSession, tmp_path: Path
) -> None:
    """Killed while the first transaction of the commit, and then while the last one, is open."""
    server = start_server()
    with trunkline.connect(server.url) as tl:
        topics = Topics(spark, tl, server.url, tmp_path)
        topics.feed(300)
    for kind in ("b", "d"):
        with gate(server.url) as held:
            held.close(kind)
            query = topics.start(batchRecords=2)
            held.wait(lambda query=query: not query.isActive)  # type: ignore[misc]
            server.kill()
            server.restart()
            # The lock went with the server: whoever comes now passes.
            wait_until(lambda query=query: not query.isActive, "it ends", deadline_s=WAIT_S)  # type: ignore[misc]
            # Rows that were staged just before may be gone: then nothing was published, and it says so.
            assert (failure := query.exception()) is None or "staged" in str(failure)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(RELEASE)
        with trunkline.connect(server.url) as tl:
            topics.tl = tl
            topics.run(batchRecords=2)
            topics.check()
            topics.feed(300)
    with trunkline.connect(server.url) as tl:
        topics.tl = tl
        topics.run()
        topics.check()


def test_SP_03_two_drivers_on_one_checkpoint_write_everything_once(db_url: str, tmp_path: Path) -> None:
    """Spark ends the one that meets the other's files. Whoever is left, or is started then, finishes."""
    with copying(db_url, tmp_path, records_each=30) as work:
        work.feed(600)
        first = work.start()
        work.wait_for(30)
        second = work.start()
        deadline = time.monotonic() + WAIT_S
        while first.is_running() and second.is_running():
            assert time.monotonic() < deadline, "they never met"
            if work.published - work.written() < 300:
                work.feed(300)
            time.sleep(LOOK_S)
        work.driver = first if first.is_running() else second
        work.feed(60)
        work.finish()


# -- checkpoints --


def test_SP_05_a_copied_and_a_rewound_checkpoint_are_refused(topics: Topics, tmp_path: Path) -> None:
    """A copy that was left behind by two batches or more, and one with which somebody else has gone on."""
    copy = tmp_path / "copy"
    topics.feed(30)
    topics.run()
    shutil.copytree(topics.checkpoint, copy)
    for _ in range(3):
        topics.feed(30)
        topics.run()
    said = topics.fail(checkpoint=copy)
    assert "the checkpoint was rewound, copied, or is used by two queries" in said
    topics.check()
    for folder in ("offsets", "commits"):
        for left_behind in (topics.checkpoint / folder).glob("*"):
            if left_behind.name.strip(".").removesuffix(".crc") in ("1", "2", "3"):
                left_behind.unlink()
    assert "the checkpoint was rewound, copied, or is used by two queries" in topics.fail()
    topics.check()


def test_SP_05_a_copy_that_comes_with_another_batch_of_the_same_number_is_refused(
    topics: Topics, tmp_path: Path
) -> None:
    """One batch behind, which a run may be that repeats its last batch; but this one has other records."""
    copy = tmp_path / "copy"
    topics.feed(30)
    topics.run()
    shutil.copytree(topics.checkpoint, copy)
    topics.feed(30)
    topics.run()
    topics.feed(30)
    said = topics.fail(checkpoint=copy)
    assert "the checkpoint was rewound, copied, or is used by two queries" in said
    topics.run()
    topics.check()


# -- foreachBatch and writeId --


def writing(
    topics: Topics,
    *sink_ids: str | None,
    after: Callable[[int], None] | None = None,
    options: Mapping[str, str] | None = None,
) -> Any:
    """A function for foreachBatch that writes the batch once for every name: to ``out``, ``out2`` and so on."""

    def write(rows: DataFrame, batch_id: int) -> None:
        for at, name in enumerate(sink_ids, start=1):
            named = {} if name is None else {"sinkId": name}
            (
                rows.write.format("trunkline")
                .mode("append")
                .option("url", topics.url)
                .option("topic", "out" if at == 1 else f"out{at}")
                .options(**named, **(options or {}))
                .save()
            )
        if after is not None:
            after(batch_id)

    return write


def run_each(topics: Topics, write: Any) -> None:
    query = (
        topics.rows(20)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(topics.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_SP_04_two_writes_inside_one_batch_with_their_names_both_arrive_and_a_repeated_batch_is_not_doubled(
    topics: Topics,
) -> None:
    """Batch 1 fails after both of its writes, and is repeated by the next run."""
    topics.tl.create_topic("out2", partitions=PARTITIONS)
    topics.feed(60)

    def after(batch_id: int) -> None:
        if batch_id == 1:
            raise RuntimeError("after the writes")

    with pytest.raises(PySparkException, match="after the writes"):
        run_each(topics, writing(topics, "one", "two", after=after))
    run_each(topics, writing(topics, "one", "two"))
    topics.check()
    assert contents(topics.tl, "out2") == contents(topics.tl, "out")


def test_SP_04_a_second_write_that_is_not_told_apart_is_refused_with_the_option_to_set(topics: Topics) -> None:
    """One record, and so one task: each is tried four times, in a Python that starts anew."""
    topics.tl.create_topic("out2", partitions=PARTITIONS)
    topics.feed(1)
    for names, options in (([None], {}), (["one", "one"], {}), (["one"], {"writeId": "w"}), ([None], {"writeId": "w"})):
        with pytest.raises(PySparkException, match="sinkId"):
            run_each(topics, writing(topics, *names, options=options))
    assert contents(topics.tl, "out2") == {}


def write_once(topics: Topics, write_id: str) -> None:
    rows = topics.spark.read.format("trunkline").option("url", topics.url).option("subscribe", "in").load()
    (
        copied(rows)
        .write.format("trunkline")
        .mode("append")
        .option("url", topics.url)
        .option("topic", "out")
        .option("writeId", write_id)
        .save()
    )


def test_a_batch_write_with_a_write_id_that_is_run_twice_is_there_once(topics: Topics) -> None:
    topics.feed(60)
    for _ in range(2):
        write_once(topics, "load-1")
    topics.check()
    write_once(topics, "load-2")
    with pytest.raises(AssertionError, match="twice"):
        topics.check()


def test_a_batch_write_with_a_write_id_that_is_killed_in_the_middle_and_run_again_is_there_once(
    topics: Topics, db_url: str, tmp_path: Path
) -> None:
    with copying(db_url, tmp_path, write_id="load-1", sink={"batchRecords": "2"}) as work:
        work.feed(300)
        _killed_at_the_gate(work, "d", is_committed=False)
        assert 0 < work.written() < 300
        write_once(topics, "load-1")
        work.check()


def test_the_sink_is_known_under_another_address_of_its_database(topics: Topics) -> None:
    """After a failover the same query finds its database elsewhere: what it has written there it has written."""

    def fault(when: str, number: int) -> None:
        if when == "committed":
            raise RuntimeError("the answer is lost")

    topics.feed(30)
    topics.fail(sink=faulty(topics.spark, fault))
    topics.run(url=topics.url.replace("127.0.0.1", "localhost"))
    topics.check()
