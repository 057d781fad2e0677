"""Streams over topics: asked what Spark asks, in its order, with checkpoints as Spark keeps them.

What needs Spark itself is in test_streams.py. Here the reader is driven directly, so that a crash, a restart or a
restored database comes at the worst moment, and not by chance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import trunkline
from tests.database.test_failover import caught_up, folder, primary, standby, value_of, wait_until
from tests.spark.reading import Stream, a_reader, all_of, offsets_of, rows_read
from tests.spark.streams import drop_everything, publish
from trunkline import Client, TopicSettings
from trunkline.client.sync.connection import ServerConnection
from trunkline.errors import DeadlineExceeded, GroupActive, LogDiverged, OffsetOutOfRange
from trunkline.server import Server
from trunkline.spark import fetch, source
from trunkline.spark.database import database

__all__ = ["folder", "primary", "standby"]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle query looks again at once: nothing here depends on being woken."""
    monkeypatch.setattr(source, "IDLE_WAIT_S", 0.01)


# -- SP-02: checkpoints --


def test_SP_02_restarts_while_others_publish_miss_and_repeat_nothing(tl: Client, db_url: str) -> None:
    """A new reader for every micro-batch, which has nothing but the checkpoint; half of them do a batch again."""
    tl.create_topic("orders", partitions=3)
    published = [b"%d" % i for i in range(200)]
    done: list[bytes] = []
    at = Stream(db_url, startingOffsets="earliest").initial()
    for turn in range(40):
        publish(tl, "orders", *published[turn * 5 : turn * 5 + 5])
        end = Stream(db_url).latest(at, ReadMaxRows(7))
        found = Stream(db_url).values(at, end)
        if turn % 2:
            assert Stream(db_url).values(at, end) == found
        done += found
        at = end
    done += [value for batch in all_of(Stream(db_url), at) for value in batch]
    assert sorted(done) == sorted(published)


@pytest.mark.parametrize("waits", [True, False])
def test_SP_02_a_crash_before_the_first_batch_is_committed_loses_nothing(tl: Client, db_url: str, waits: bool) -> None:
    """Spark has written down where batch 0 ends, not where it began, and asks again: "latest" is elsewhere now."""
    tl.create_topic("orders", partitions=2)
    publish(tl, "orders", b"before")
    crashed = Stream(db_url, startingOffsets="latest")
    at = crashed.initial()
    if waits:
        # Spark runs a first batch, also where it has no records: its end is written down.
        assert crashed.latest(at) == at
        assert crashed.values(at, at) == []
    publish(tl, "orders", b"1", b"2", b"3")
    end = at if waits else crashed.latest(at)
    publish(tl, "orders", b"4", b"5")
    again = Stream(db_url, startingOffsets="latest")
    restarted = again.initial()
    assert offsets_of(restarted) != offsets_of(at)
    done = again.values(restarted, end) + [value for batch in all_of(again, end) for value in batch]
    assert sorted(done) == [b"1", b"2", b"3", b"4", b"5"]


def test_where_a_stream_begins_is_read_from_its_options(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    publish(tl, "orders", b"a", b"b", b"c", partition=0)
    publish(tl, "orders", b"d", partition=1)
    assert offsets_of(Stream(db_url).initial()) == {"orders": {"0": 4, "1": 2}}
    assert offsets_of(Stream(db_url, startingOffsets="earliest").initial()) == {"orders": {"0": 1, "1": 1}}
    given = Stream(db_url, startingOffsets='{"orders":{"0":2,"1":-1}}')
    assert offsets_of(given.initial()) == {"orders": {"0": 2, "1": 2}}
    assert [*all_of(given, given.initial())] == [[b"b", b"c"]]
    assigned = Stream(db_url, assign='{"orders":[1]}', startingOffsets="earliest")
    assert [*all_of(assigned, assigned.initial())] == [[b"d"]]


def test_headers_and_keys_come_with_a_stream(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"a", key="k", headers={"h": "v"})
    stream = Stream(db_url, startingOffsets="earliest", includeHeaders="true")
    at = stream.initial()
    (row,) = stream.read(at, stream.latest(at))
    assert (row["key"], row["headers"]) == (b"k", [{"key": "h", "value": b"v"}])


# -- SP-08: more partitions, more topics --


def test_SP_08_partitions_added_between_batches_are_read_from_their_start(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    publish(tl, "orders", b"a")
    running = Stream(db_url, startingOffsets="latest")
    at = running.initial()
    tl.add_partitions("orders", 3)
    publish(tl, "orders", b"b", partition=0)
    publish(tl, "orders", b"c", b"d", partition=1)
    end = running.latest(at)
    assert offsets_of(end) == {"orders": {"0": 3, "1": 3, "2": 1}}
    assert running.values(at, end) == [b"b", b"c", b"d"]
    # And after a restart.
    assert Stream(db_url).values(at, end) == [b"b", b"c", b"d"]


def test_SP_08_topics_that_match_later_are_read_from_their_start(tl: Client, db_url: str) -> None:
    running = Stream(db_url, subscribePattern="orders-.*")
    at = running.initial()
    assert offsets_of(at) == {}
    assert running.latest(at) == at
    tl.create_topic("orders-1", partitions=2)
    tl.create_topic("other-1")
    publish(tl, "orders-1", b"a", partition=1)
    end = running.latest(at)
    assert running.values(at, end) == [b"a"]
    tl.create_topic("orders-2")
    publish(tl, "orders-2", b"b")
    assert [*all_of(running, end)] == [[b"b"]]


def test_SP_09_a_topic_that_matches_later_and_has_lost_records_is_an_error(tl: Client, db_url: str) -> None:
    at = Stream(db_url, subscribePattern="orders-.*").initial()
    tl.create_topic("orders-1", settings=TopicSettings(retention_bytes=0))
    publish(tl, "orders-1", b"a")
    drop_everything(tl, db_url, "orders-1")
    publish(tl, "orders-1", b"b")
    with pytest.raises(OffsetOutOfRange, match=r"begins at 2.*failOnDataLoss=false"):
        Stream(db_url, subscribePattern="orders-.*").latest(at)
    assert [*all_of(Stream(db_url, subscribePattern="orders-.*", failOnDataLoss="false"), at)] == [[b"b"]]


# -- SP-10, limits --


def test_SP_10_available_now_ends_while_somebody_keeps_publishing(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    publish(tl, "orders", *(b"%d" % i for i in range(10)))
    stream = Stream(db_url, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    stream.reader.prepareForTriggerAvailableNow()
    at = stream.initial()
    sizes = []
    while (end := stream.latest(at)) != at:
        sizes.append(len(stream.values(at, end)))
        at = end
        publish(tl, "orders", *[b"late"] * 10)
        tl.add_partitions("orders", tl.topic("orders").partitions + 1)
        assert len(sizes) < 20, "it never ends"
    assert sum(sizes) == 10
    assert max(sizes) == 4
    # The next run has the rest.
    assert sum(len(batch) for batch in all_of(Stream(db_url), at)) == 10 * len(sizes)


def test_a_micro_batch_has_at_most_as_many_records_as_allowed(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=3)
    publish(tl, "orders", *(b"%d" % i for i in range(100)))
    stream = Stream(db_url, startingOffsets="earliest", maxOffsetsPerTrigger="30")
    batches = [len(batch) for batch in all_of(stream, stream.initial(), stream.reader.getDefaultReadLimit())]
    assert batches == [30, 30, 30, 10]


def test_a_micro_batch_waits_for_enough_records_but_not_for_ever(
    tl: Client, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(source, "monotonic", lambda: now)
    tl.create_topic("orders")
    stream = Stream(db_url, minOffsetsPerTrigger="3", maxTriggerDelay="10s")
    at = stream.initial()
    publish(tl, "orders", b"1", b"2")
    assert stream.latest(at) == at
    publish(tl, "orders", b"3")
    end = stream.latest(at)
    assert stream.values(at, end) == [b"1", b"2", b"3"]
    publish(tl, "orders", b"4")
    assert stream.latest(end) == end
    now = 9.9
    assert stream.latest(end) == end
    now = 10.0
    assert stream.values(end, stream.latest(end)) == [b"4"]


# -- progress --


def test_a_stream_is_seen_among_the_groups_with_its_lag(
    tl: Client, db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "REPORT_EVERY_S", 0.0)
    tl.create_topic("orders", partitions=2)
    publish(tl, "orders", *(b"%d" % i for i in range(10)))
    stream = Stream(db_url, startingOffsets="earliest", groupId="spark-orders")
    at = stream.initial()
    end = stream.latest(at, ReadMaxRows(4))
    (group,) = tl.groups()
    assert (group.name, group.topics, group.members, group.lag) == ("spark-orders", ["orders"], 0, 10)
    stream.values(at, end)
    stream.latest(end, ReadMaxRows(4))
    assert tl.groups()[0].lag == 6


def test_without_a_name_each_query_is_a_group_of_its_own_and_keeps_it(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    publish(tl, "orders", b"a")
    at = Stream(db_url, startingOffsets="earliest", groupIdPrefix="etl").initial()
    for _ in range(2):
        Stream(db_url, groupIdPrefix="etl").latest(at)
    other = Stream(db_url, groupIdPrefix="etl")
    other.latest(other.initial())
    assert len({group.name for group in tl.groups() if group.name.startswith("etl-")}) == 2


def test_retention_by_consumption_waits_for_a_stream(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", settings=TopicSettings(retention_consumed=True, retention_bytes=10**9))
    publish(tl, "orders", b"a", b"b")
    stream = Stream(db_url, startingOffsets="earliest", groupId="spark")
    at = stream.initial()
    end = stream.latest(at)
    drop_everything(tl, db_url)
    assert tl.offsets("orders")[0].start == 1
    assert stream.values(at, end) == [b"a", b"b"]
    stream.latest(end)
    drop_everything(tl, db_url)
    assert tl.offsets("orders")[0].start == 3


def test_a_group_that_consumers_move_is_not_taken_over(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    stream = Stream(db_url, groupId="billing")
    at = stream.initial()
    taken = pytest.raises(GroupActive, match="give the query another groupId")
    with tl.consumer("orders", group="billing", create=True), taken:
        stream.latest(at)


@pytest.mark.parametrize("options", [{"subscribe": "orders,clicks"}, {"subscribePattern": ".*"}])
def test_an_idle_query_asks_at_most_twice_a_second(
    tl: Client, db_url: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """Each round of an idle query waits a second for a ring: counted are the statements of a round."""
    tl.create_topic("orders", partitions=3)
    tl.create_topic("clicks")
    stream = Stream(db_url, **options)
    at = stream.initial()
    assert stream.latest(at) == at
    asked: list[str] = []
    call = ServerConnection.call

    def counted(self: ServerConnection, statement: str, parameters: Any = ()) -> Any:
        asked.append(statement)
        return call(self, statement, parameters)

    waits: list[float] = []
    wait = database(db_url).wait

    def shortened(topics: Any, wait_s: float) -> bool:
        waits.append(wait_s)
        return wait(topics, 0.01)

    monkeypatch.setattr(source, "IDLE_WAIT_S", 1.0)
    monkeypatch.setattr(ServerConnection, "call", counted)
    monkeypatch.setattr(ServerConnection, "listen", lambda self, *_: asked.append("listen"))
    monkeypatch.setattr(ServerConnection, "_hello", lambda self: asked.append("hello"))
    monkeypatch.setattr(database(db_url), "wait", shortened)
    for _ in range(10):
        assert stream.latest(at) == at
        assert stream.reader.reportLatestOffset() == {"clicks": {"0": 1}, "orders": {"0": 1, "1": 1, "2": 1}}
    assert waits == [1.0] * 10
    assert len(asked) <= 20, asked


# -- servers that go away, lag, or are behind a pooler --


def test_a_ring_ends_the_wait(tl: Client, db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is far longer than the test may take: only the ring can end it."""
    monkeypatch.setattr(source, "IDLE_WAIT_S", 50.0)
    tl.create_topic("orders")
    stream = Stream(db_url)
    at = stream.initial()

    def publish_when_it_listens() -> None:
        listening = (
            "select count(*) = 1 from pg_stat_activity where application_name = 'trunkline spark' "
            "and query ilike 'listen%' and datname = current_database()"
        )
        wait_until(lambda: value_of(db_url, listening) is True, "the query listens")
        publish(tl, "orders", b"a")

    other = threading.Thread(target=publish_when_it_listens)
    other.start()
    end = stream.latest(at)
    other.join()
    assert stream.values(at, end) == [b"a"]


def terminate(url: str) -> int:
    """End every session of Spark's in this database."""
    with psycopg.connect(url, autocommit=True) as connection:
        ended = connection.execute(
            "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity "
            "where application_name = 'trunkline spark' and datname = current_database()"
        ).fetchone()
    assert ended is not None
    return int(ended[0])


def test_a_query_outlives_its_sessions(tl: Client, db_url: str) -> None:
    """Idle and asking: the listening session and those that ask are ended by the server."""
    tl.create_topic("orders")
    stream = Stream(db_url)
    at = stream.initial()
    assert stream.latest(at) == at
    assert terminate(db_url) >= 2
    assert stream.latest(at) == at
    assert terminate(db_url) >= 1
    publish(tl, "orders", b"a")
    assert [*all_of(stream, at)] == [[b"a"]]


def test_a_read_goes_on_where_it_was_when_the_session_is_lost(tl: Client, db_url: str) -> None:
    """Sessions are ended after every batch. A read is one statement ahead at most, so the third statement at the
    latest needs a session that the first round has ended; whether later rounds meet one is a matter of time."""
    tl.create_topic("orders")
    for i in range(6):
        tl.publish("orders", b"%d" % i)
    reader = a_reader(db_url, subscribe="orders", readBytes="1")
    (partition,) = reader.partitions()
    found, ended = [], []
    for batch in reader.read(partition):
        found += [row["value"] for row in batch.to_pylist()]  # type: ignore[union-attr]
        ended.append(terminate(db_url))
    assert found == [b"%d" % i for i in range(6)]
    assert ended[0] >= 2, "the one that planned, and the one that reads"


@pytest.mark.direct("this one has a pooler of its own")
def test_streams_and_reads_work_through_a_pooler(tl: Client, pooled_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    stream = Stream(pooled_url)
    at = stream.initial()
    assert stream.latest(at) == at
    publish(tl, "orders", b"a", b"b", partition=0)
    publish(tl, "orders", b"c", partition=1)
    assert [*all_of(stream, at)] == [[b"a", b"b", b"c"]]
    assert len(rows_read(a_reader(pooled_url, subscribe="orders", minPartitions="3"))) == 3


@pytest.mark.direct("servers of its own")
def test_reads_from_a_standby_wait_until_it_has_the_records(
    primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made on the primary. The standby does not replay, and goes on once a read has met that."""
    with trunkline.connect(primary.url) as tl:
        tl.create_topic("orders")
        publish(tl, "orders", b"a")
        wait_until(lambda: caught_up(primary, standby), "the standby has the first record")
        value_of(standby.url, "select pg_wal_replay_pause()")
        paused = "select pg_get_wal_replay_pause_state() = 'paused'"
        wait_until(lambda: value_of(standby.url, paused) is True, "replay is paused")
        publish(tl, "orders", b"b", b"c")
        tl.create_topic("later")
        publish(tl, "later", b"d")
    met: list[str] = []

    def resume(_: fetch.RangeReader, attempt: int, deadline: float, error: Exception) -> None:
        met.append(str(error))
        value_of(standby.url, "select pg_wal_replay_resume()")

    monkeypatch.setattr(fetch.RangeReader, "_pause", resume)
    reader = a_reader(primary.url, subscribe="later,orders", readUrl=standby.url)
    assert sorted(row["value"] for row in rows_read(reader)) == [b"a", b"b", b"c", b"d"]
    assert met
    assert all("lags behind" in text for text in met)


def test_a_standby_that_stays_behind_is_an_error(
    tl: Client, db_url: str, make_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "READ_DEADLINE_S", 0.2)
    tl.create_topic("orders")
    publish(tl, "orders", b"a")
    reader = a_reader(db_url, subscribe="orders", readUrl=make_database())
    with pytest.raises(DeadlineExceeded, match=r"readUrl.*lags behind"):
        rows_read(reader)


def test_a_read_url_of_another_database_is_refused(tl: Client, db_url: str, make_database: Callable[[], str]) -> None:
    """Topics there may have the same numbers: the records would be other ones."""
    tl.create_topic("orders")
    publish(tl, "orders", b"a")
    other = make_database()
    with trunkline.connect(other) as there:
        there.create_topic("orders")
        publish(there, "orders", b"another")
    with pytest.raises(LogDiverged, match="readUrl must lead to a standby of url"):
        rows_read(a_reader(db_url, subscribe="orders", readUrl=other))
