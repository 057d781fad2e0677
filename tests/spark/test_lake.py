"""What a stream has written to Parquet, and what is only on its way there."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from trunkline import Client
from trunkline.spark.lake import row_count


def test_only_batches_that_are_done_count(spark: SparkSession, tl: Client, db_url: str, tmp_path: Path) -> None:
    tl.create_topic("orders")
    lake = tmp_path / "a lake"
    assert row_count(lake) == 0
    for total in (3, 8):
        tl.publish_many("orders", [b"x"] * (total - row_count(lake)))
        stream = spark.readStream.format("trunkline").options(
            url=db_url, subscribe="orders", startingOffsets="earliest"
        )
        writer = stream.load().writeStream.format("parquet").option("path", str(lake))
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        (lake / "part-00009-being-written.snappy.parquet").write_bytes(b"")
        assert row_count(lake) == total
