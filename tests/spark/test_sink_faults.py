"""The exactly-once sink under faults at chosen points: tasks that fail or come late, answers that are lost, drivers
that are killed before, in and after a commit, checkpoints that are copied, rewound or shared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession

import trunkline
from tests.concurrency.conftest import StartServer
from tests.concurrency.conftest import start_server as start_server
from tests.concurrency.sessions import wait_until
from tests.spark.driving import LOOK_S, PARTITIONS, copying
from tests.spark.topics import RELEASE, WAIT_S, Topics, faulty, gate, killed_at_the_gate

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


def test_SP_03_a_driver_that_is_killed_before_in_the_middle_of_and_after_a_commit_writes_once(
    topics: Topics, db_url: str, tmp_path: Path
) -> None:
    """A batch of more than 64 rows, which goes in steps. One driver dies before its commit; the next one after the
    first step; the next one after the last step, before Spark knows. Then the tests' own Spark goes on from there."""
    with copying(db_url, tmp_path, records_each=300, sink={"batchRecords": "2"}) as work:
        work.feed(600)
        killed_at_the_gate(work, "b", is_committed=False)
        assert work.written() == 0
        killed_at_the_gate(work, "b", is_committed=True)
        assert 0 < work.written() < 300
        killed_at_the_gate(work, "d", is_committed=True)
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
