"""A driver of its own for a cluster: copies topic `orders` to topic `copy`, in one batch or as a stream.

    python cluster_driver.py MASTER batch|stream CHECKPOINT

The server is the one that TRUNKLINE_URL names: no secret is among the options.
"""

from __future__ import annotations

import sys

import trunkline.spark


def main(master: str, kind: str, checkpoint: str) -> None:
    spark = trunkline.spark.session(
        "copy",
        master=master,
        config={
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.task.maxFailures": 8,
        },
        quick_start=True,
    )
    if kind == "batch":
        read = spark.read.format("trunkline").option("subscribe", "orders").load()
        read.select("key", "value").write.format("trunkline").option("topic", "copy").mode("append").save()
        spark.stop()
        return
    stream = (
        spark.readStream.format("trunkline")
        .options(subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger=400)
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("trunkline")
        .options(topic="copy", checkpointLocation=checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
