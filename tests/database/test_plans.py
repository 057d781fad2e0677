"""The hot path finds its way by indexes, whatever the planner was told when it looked."""

from __future__ import annotations

import psycopg
import pytest

SCANS = "select seq_scan, idx_scan from pg_stat_xact_user_tables where relname = %s"


@pytest.mark.direct("the plans that count are those of a session that has just begun")
@pytest.mark.parametrize("known", ["nothing", "one row"])
def test_a_plan_that_was_made_for_a_small_segment_is_good_for_a_large_one(db_url: str, known: str) -> None:
    """A plan is kept; one that was made when the table had a page would read all of it by and by."""
    with psycopg.connect(db_url) as connection:
        connection.execute("select trunkline.topic_create('t')")
        topic_id, segment_id, partition_id = connection.execute(
            "select t.topic_id, t.open_segment_id, p.partition_id from trunkline.topic t"
            " join trunkline.topic_partition p on p.topic_id = t.topic_id"
        ).fetchone() or (0, 0, 0)
        append = (
            f"select trunkline.segment_{segment_id}_append({partition_id}, null, 1, null, array['x'::bytea],"
            " null, null, null, null, null, null)"
        )
        connection.execute(append)
        connection.commit()
        if known == "one row":
            connection.execute(f"analyze trunkline.segment_{segment_id}")
            connection.commit()
    # A session of its own: what it plans, it plans now; and the counts are its own.
    with psycopg.connect(db_url) as connection:
        for _ in range(20):
            connection.execute(append)
        read = connection.execute("select * from trunkline.log_read(%s, 0, 1, 100, 100000)", [topic_id]).fetchall()
        assert len(read) == 21
        assert connection.execute("select * from trunkline.log_range(%s)", [topic_id]).fetchall() == [(0, 1, 22)]
        seq_scans, index_scans = connection.execute(SCANS, [f"segment_{segment_id}"]).fetchone() or (None, 0)
    assert (seq_scans, index_scans >= 20) == (0, True)
