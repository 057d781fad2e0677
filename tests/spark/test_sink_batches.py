"""What tells batches of the sink apart: checkpoints that were copied or rewound, several writes in one batch, writes
that are run twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.concurrency.conftest import start_server as start_server
from tests.spark.driving import PARTITIONS, contents, copying
from tests.spark.stream_driver import copied
from tests.spark.topics import Topics, faulty, killed_at_the_gate

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
        killed_at_the_gate(work, "d", is_committed=False)
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
