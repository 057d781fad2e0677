"""Orders become revenue by minute: a stream with a watermark, from one topic into another.

trunkline dev --detach
python revenue_by_minute.py            # publishes some orders, and handles everything that is there
python revenue_by_minute.py --follow   # goes on until Ctrl-C
"""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC, datetime, timedelta

import trunkline
import trunkline.spark

OPENED = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def publish_orders(minutes: int = 60) -> None:
    """Three orders a minute, and one on the next day, with which all minutes before are over."""
    with trunkline.connect() as tl:
        for topic in ("orders", "revenue"):
            if topic not in {known.name for known in tl.topics()}:
                tl.create_topic(topic, partitions=4)
        times = [OPENED + timedelta(seconds=20 * n) for n in range(3 * minutes)] + [OPENED + timedelta(days=1)]
        orders = [{"time": at.isoformat(), "amount": random.randrange(1, 100)} for at in times]
        tl.publish_many("orders", [json.dumps(order).encode() for order in orders])


def main() -> None:
    publish_orders()
    spark = trunkline.spark.session("revenue by minute")
    orders = (
        spark.readStream.format("trunkline")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("groupId", "revenue-by-minute")
        .load()
        .selectExpr("from_json(CAST(value AS STRING), 'time TIMESTAMP, amount DOUBLE') AS o")
        .select("o.*")
        .withWatermark("time", "1 minute")
    )
    orders.createOrReplaceTempView("orders")
    by_minute = spark.sql("""
        SELECT CAST(window.start AS STRING) AS key,
            to_json(named_struct('minute', window.start, 'revenue', sum(amount), 'orders', count(*))) AS value
        FROM orders GROUP BY window(time, '1 minute')
    """)
    writing = (
        by_minute.writeStream.format("trunkline")
        .option("topic", "revenue")
        .option("checkpointLocation", "revenue-by-minute.checkpoint")
    )
    every = {"processingTime": "1 second"} if "--follow" in sys.argv else {"availableNow": True}
    writing.trigger(**every).start().awaitTermination()
    with trunkline.connect() as tl:
        found = [record for n in range(4) for record in tl.read("revenue", partition=n)]
    print(f"{len(found)} minutes; the first: {min(record.payload for record in found).decode()}")
    spark.stop()


if __name__ == "__main__":
    main()
