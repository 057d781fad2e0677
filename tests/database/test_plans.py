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


@pytest.mark.direct("the plans that count are those of a session that has just begun")
@pytest.mark.parametrize("known", ["nothing", "one row"])
def test_what_is_published_in_a_transaction_is_found_by_indexes(db_url: str, known: str) -> None:
    """By the publish, and by both turns of the commit."""
    publish = "select trunkline.outbox_put_one(%s, %s, 1, 0, 'k', 'x')"
    with psycopg.connect(db_url, autocommit=True) as connection:
        connection.execute("select trunkline.topic_create('t')")
        topic = connection.execute("select topic_id, incarnation from trunkline.topic").fetchone()
        connection.execute(publish, topic)
        if known == "one row":
            connection.execute("analyze")
    with psycopg.connect(db_url) as connection:
        for _ in range(20):
            connection.execute(publish, topic)
            connection.execute("set constraints all immediate")
            connection.execute("set constraints all deferred")
        for table in ("outbox_stage", "segment_1", "topic", "topic_partition"):
            seq_scans, index_scans = connection.execute(SCANS, [table]).fetchone() or (None, 0)
            assert (table, seq_scans, index_scans >= 20) == (table, 0, True)


HOT = {
    "group_view": "select * from trunkline.group_view(1)",
    "group_cursors": "select * from trunkline.group_cursors(1)",
    "log_more": "select * from trunkline.log_more('{1,2}', '{1,1}')",
    "group_take": "select * from trunkline.group_take(1, '{1,2}')",
    "group_move": ("select trunkline.group_move(1, v.cursor_ids, v.epochs, '{1,1}') from trunkline.group_view(1) v"),
    "group_commit": (
        "select trunkline.group_commit(1, v.cursor_ids, v.epochs, '{1,1}') from trunkline.group_view(1) v"
    ),
    "group_release": "select trunkline.group_release(1, '{1,2}')",
    "group_claim": "select * from trunkline.group_claim(3, 1)",
    "member_leave": "select trunkline.member_leave('{1}', only_dead => true)",
    "group_describe": "select * from trunkline.group_describe('g')",
}
LOOKED = (
    "select sum(seq_scan)::int8, pg_stat_get_xact_tuples_returned('trunkline.group_ledger_pkey'::regclass)"
    " + pg_stat_get_xact_tuples_returned('trunkline.session_beat_newest'::regclass)"
    " from pg_stat_xact_user_tables where schemaname = 'trunkline' and relname in"
    " ('group_ledger', 'group_cursor', 'group_member', 'session_beat', 'topic_partition', 'segment_1')"
)
GROWN = (
    "insert into trunkline.group_ledger (cursor_id, seq, epoch, next_offset, member_id, kind, at)"
    " select n.cursor_id, n.seq + i, n.epoch, n.next_offset, n.member_id, 'c', now()"
    " from (select distinct on (cursor_id) * from trunkline.group_ledger order by cursor_id, seq desc) n,"
    " generate_series(1, 5000) i"
)


@pytest.mark.direct("the plans that count are those of a session that has just begun")
@pytest.mark.parametrize("known", ["nothing", "one page"])
def test_plans_that_were_made_for_a_small_ledger_are_good_for_a_large_one(db_url: str, known: str) -> None:
    """A session has called everything often while the ledger had one page, and keeps its plans. With 20,000 rows, and
    5,000 beats, each call still reads a handful of index entries, and no table from end to end."""
    with psycopg.connect(db_url, autocommit=True) as other, psycopg.connect(db_url) as connection:
        for statement in (
            "select trunkline.topic_create('t', 2)",
            "select trunkline.log_publish('t', 'x', partition => 0) from generate_series(1, 3)",
            "select trunkline.group_create('g', '{t}')",
            "select trunkline.group_create('shared', '{t}')",
            "select trunkline.member_beat()",
            "select trunkline.member_join(1, 1, 3600, '{1}', 'm', 1)",
            "select * from trunkline.group_take(1, '{1,2}')",
        ):
            other.execute(statement)
        if known == "one page":
            other.execute("analyze")
        for _ in range(10):
            for statement in HOT.values():
                connection.execute(statement)
            connection.commit()
        other.execute(GROWN)
        other.execute("insert into trunkline.session_beat select 1, clock_timestamp() from generate_series(1, 5000)")
        for name, statement in HOT.items():
            before = connection.execute(LOOKED).fetchone() or (0, 0)
            connection.execute(statement)
            after = connection.execute(LOOKED).fetchone() or (0, 0)
            assert after[0] == before[0], f"{name} reads a table from end to end"
            assert after[1] - before[1] < 50, name
            connection.commit()
