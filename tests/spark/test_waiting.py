"""How an idle query waits: in one session, woken by a ring."""

from __future__ import annotations

import psycopg

from trunkline import Client
from trunkline.spark.database import database

SESSIONS = "select pid from pg_stat_activity where application_name = 'trunkline spark' order by pid"
LONG_S = 60.0


def test_a_wait_that_hears_nothing_keeps_its_session_for_the_next(db_url: str, tl: Client) -> None:
    topic = tl.create_topic("t")
    waiting = database(db_url)
    with psycopg.connect(db_url, autocommit=True) as connection:
        assert not waiting.wait([topic], 0.01)
        sessions = connection.execute(SESSIONS).fetchall()
        assert not waiting.wait([topic], 0.01)
        assert connection.execute(SESSIONS).fetchall() == sessions != []


def test_a_ring_ends_the_wait_also_one_that_came_before(db_url: str, tl: Client) -> None:
    topic = tl.create_topic("t")
    waiting = database(db_url)
    assert not waiting.wait([topic], 0.0)
    tl.publish("t", b"x")
    assert waiting.wait([topic], LONG_S)
    assert not waiting.wait([topic], 0.0)
