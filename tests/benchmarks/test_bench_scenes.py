"""What the scenarios of groups are made of does what it says, in small: crowds, scans, cursors, takeovers, rings."""

from __future__ import annotations

import os
import signal
from time import monotonic

import psycopg
import pytest

import trunkline
from benchmarks.baselines.claims import Claims
from benchmarks.consumers import Consumers, group_name
from benchmarks.crew import Crew
from benchmarks.crowds import ConsumerCrowd, Crowd, PollingCrowd, names
from benchmarks.direct.notify import listener, notifier
from benchmarks.jobs import Fill, Place
from benchmarks.payloads import Payloads
from benchmarks.pooler import NoPooler, pooled
from benchmarks.scans import GroupScan, check
from benchmarks.scenarios.groups import cursor, takeover
from benchmarks.scenarios.groups.idle import PARTITIONS, Idle
from benchmarks.sides import topic_name
from benchmarks.stamps import stamped

PAYLOADS = Payloads("json", 0, distinct=64)
WAIT_S = 60.0


@pytest.mark.parametrize(
    "crowd", [ConsumerCrowd(names(2), PARTITIONS), PollingCrowd(names(2), PARTITIONS, connections=3, poll_s=0.01)]
)
def test_a_crowd_waits_and_the_server_is_looked_at_meanwhile(db_url: str, crowd: Crowd) -> None:
    crowd.side.create(db_url, 1, PARTITIONS)
    crowd.side.create_groups(db_url, 1, crowd.groups)
    with Idle(crowd, db_url, 1, duration_s=0.1, quiet_max_s=0.0).opened() as idle:
        idled = idle()
    assert idled.connections >= 2
    assert idled.wal_bytes >= 0
    assert idled.ways == []


def test_a_record_of_which_no_ring_tells_reaches_every_group_of_a_crowd(db_url: str) -> None:
    crowd = ConsumerCrowd(names(2), PARTITIONS)
    crowd.side.create(db_url, 1, PARTITIONS)
    crowd.side.create_groups(db_url, 1, crowd.groups)
    with Idle(crowd, db_url, 1, duration_s=0.1, silent_records=2, quiet_max_s=0.0).opened() as idle:
        ways = idle().ways
    assert len(ways) == 2 * len(crowd.groups)
    assert min(ways) > 0


def test_a_pooler_stands_between_or_says_why_not(db_url: str) -> None:
    try:
        with pooled(db_url) as url, psycopg.connect(url) as connection, psycopg.connect(db_url) as direct:
            database = "select current_database()"
            assert connection.execute(database).fetchone() == direct.execute(database).fetchone()
            assert connection.info.port != direct.info.port
    except NoPooler as reason:
        pytest.skip(str(reason))


def test_a_group_scans_what_was_written_with_its_partitions_shared(db_url: str) -> None:
    Consumers().create(db_url, 1, 2)
    contents = []
    for partition in range(2):
        with Fill(Place(Consumers(), db_url, 1, partition), PAYLOADS, 5, batches=3).opened() as fill:
            contents.append(fill().content)
    records = contents[0].whole.records
    with Crew(2) as crew:
        seen = crew.run([GroupScan(db_url, 1, "g", 1, records) for _ in range(2)])
    check(seen, contents)
    assert sorted(partition for each in seen for partition in each.checksums) == [0, 1]
    with trunkline.connect(db_url) as client:
        assert client.describe_group(group_name(1, "g")).lag == 0


def test_both_sides_move_a_cursor_by_what_they_are_told(db_url: str) -> None:
    Consumers().create(db_url, 1, 1)
    with trunkline.connect(db_url) as client:
        client.publish_many(topic_name(1), [b""] * 5)
        with cursor.our_cursor(db_url, 1, 0) as move:
            move(3)
        (place,) = client.describe_group(group_name(1, cursor.GROUP)).partitions
        assert place.cursor == 3
    Claims().create(db_url, 2, 1)
    Claims().create_groups(db_url, 2, [cursor.GROUP])
    with cursor.their_cursor(db_url, 2, 0) as move, psycopg.connect(db_url, autocommit=True) as connection:
        move(3)
        assert connection.execute("select next_offset from rows_2.consumer_offsets").fetchone() == (3,)


def test_a_survivor_gets_the_record_of_a_member_that_was_killed(db_url: str) -> None:
    Consumers().create(db_url, 1, takeover.PARTITIONS)
    Consumers().create_groups(db_url, 1, [takeover.GROUP])
    topic, group = topic_name(1), group_name(1, takeover.GROUP)
    with (
        takeover.survivor(db_url, topic, group) as arrivals,
        trunkline.connect(db_url) as publisher,
        takeover.joined(db_url, topic, group) as (pid, partitions),
    ):
        assert len(partitions) == takeover.PARTITIONS // 2
        began = monotonic()
        os.kill(pid, signal.SIGKILL)
        publisher.publish(topic, stamped([b""], began)[0], partition=partitions[0])
        published, handed = arrivals.get(timeout=takeover.DEADLINE_S)
        assert published == began < handed


def test_a_bare_notification_is_heard_and_silence_is_none(db_url: str) -> None:
    with listener(db_url, "bench_test") as hear, notifier(db_url, "bench_test") as notify:
        assert hear(0.01) is None
        notify("1")
        notify("2")
        assert [hear(WAIT_S), hear(WAIT_S)] == ["1", "2"]
