"""Clicks become sessions: whatever a user does with less than half an hour between is one visit.

trunkline dev --detach
python clickstream_sessions.py
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import trunkline
import trunkline.spark

MORNING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
USERS = 20


def publish_clicks() -> None:
    """Each user comes twice, three hours apart, and clicks five times; a click on the next day ends all visits."""
    visits = [(f"user-{n}", MORNING + timedelta(minutes=n, hours=3 * visit)) for n in range(USERS) for visit in (0, 1)]
    clicks = [(user, came + timedelta(minutes=5 * n)) for user, came in visits for n in range(5)]
    clicks.append(("user-0", MORNING + timedelta(days=1)))
    messages = [
        trunkline.Message(json.dumps({"user": user, "time": at.isoformat(), "page": "/"}).encode(), key=user)
        for user, at in clicks
    ]
    with trunkline.connect() as tl:
        for topic in ("clicks", "sessions"):
            tl.create_topic(topic, partitions=2)
        tl.publish_many("clicks", messages)


def main() -> None:
    publish_clicks()
    spark = trunkline.spark.session("clickstream sessions")
    clicks = (
        spark.readStream.format("trunkline")
        .option("subscribe", "clicks")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("from_json(CAST(value AS STRING), 'user STRING, time TIMESTAMP, page STRING') AS c")
        .select("c.*")
        .withWatermark("time", "10 minutes")
    )
    clicks.createOrReplaceTempView("clicks")
    sessions = spark.sql("""
        SELECT user AS key, to_json(named_struct('user', user, 'from', session_window.start, 'to', session_window.end,
            'clicks', count(*))) AS value
        FROM clicks GROUP BY user, session_window(time, '30 minutes')
    """)
    query = (
        sessions.writeStream.format("trunkline")
        .option("topic", "sessions")
        .option("checkpointLocation", "clickstream-sessions.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with trunkline.connect() as tl:
        found = [json.loads(record.payload) for n in range(2) for record in tl.read("sessions", partition=n)]
    users = {session["user"] for session in found}
    print(f"{len(found)} sessions of {len(users)} users, {found[0]['clicks']} clicks each")
    spark.stop()


if __name__ == "__main__":
    main()
