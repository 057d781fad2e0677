"""A stream whose log was restored, made again or cut by retention meanwhile, and checkpoints of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.sql.streaming.datasource import ReadMaxRows

import trunkline
from tests.database.test_failover import value_of
from tests.spark.reading import Stream, all_of, offsets_of
from tests.spark.streams import drop_everything, publish
from trunkline import Client, TopicSettings
from trunkline.errors import InvalidArgument, LogDiverged, NotFound, OffsetOutOfRange
from trunkline.server import Server

# -- SP-06: another log --


@pytest.fixture
def restored(server: Server, make_database: Callable[[], str]) -> Iterator[tuple[str, Callable[[], str]]]:
    """A database, and what makes a copy of it as it is: what a restore from a backup would give."""
    url = make_database()
    names: list[str] = []

    def copy() -> str:
        names.append(f"{value_of(url, 'select current_database()')}_restored")
        with psycopg.connect(server.url, autocommit=True) as connection:
            original = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [original]
            )
            made = sql.SQL("create database {} template {}")
            connection.execute(made.format(sql.Identifier(names[-1]), sql.Identifier(str(original))))
        return server.database_url(names[-1])

    yield url, copy
    with psycopg.connect(server.url, autocommit=True) as connection:
        for name in names:
            connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("after", "message"), [(1, "beyond the end"), (2, "another record"), (5, "another record"), (0, "beyond the end")]
)
@pytest.mark.parametrize("lossy", ["true", "false"])
def test_SP_06_a_log_that_was_restored_is_refused(
    restored: tuple[str, Callable[[], str]], after: int, message: str, lossy: str
) -> None:
    """Two records are read that the backup does not have; then others stand in their place, fewer, as many or more."""
    url, copy = restored
    with trunkline.connect(url) as tl:
        tl.create_topic("orders")
        publish(tl, "orders", b"a", b"b")
    backup = copy()
    with trunkline.connect(url) as tl:
        publish(tl, "orders", b"lost", b"lost too")
    first = Stream(url, startingOffsets="earliest")
    begun = first.initial()
    at = first.latest(begun)
    assert first.values(begun, at) == [b"a", b"b", b"lost", b"lost too"]
    with trunkline.connect(backup) as tl:
        for i in range(after):
            tl.publish("orders", b"other %d" % i)
    with pytest.raises(LogDiverged, match=f"{message}.*the database was restored"):
        Stream(backup, failOnDataLoss=lossy).latest(at)
    with pytest.raises(LogDiverged, match=message):
        # As after a crash: the batch was planned, and is read again.
        Stream(backup, failOnDataLoss=lossy).values(begun, at)


def test_SP_06_a_restored_log_is_refused_beside_a_partition_that_retention_has_passed(tl: Client, db_url: str) -> None:
    """With failOnDataLoss=false a lost partition is passed over, and the others are proven all the same."""
    tl.create_topic("lossy", settings=TopicSettings(retention_bytes=0))
    tl.create_topic("orders")
    publish(tl, "lossy", b"a", b"b")
    publish(tl, "orders", b"c", b"d")
    options = {"subscribe": "lossy,orders", "failOnDataLoss": "false"}
    first = Stream(db_url, startingOffsets="earliest", **options)
    at = first.latest(first.initial(), ReadMaxRows(2))
    assert offsets_of(at) == {"lossy": {"0": 2}, "orders": {"0": 2}}
    drop_everything(tl, db_url, "lossy")
    publish(tl, "lossy", b"e")
    with psycopg.connect(db_url, autocommit=True) as connection:
        segment = connection.execute("select open_segment_id from trunkline.topic where name = 'orders'").fetchone()
        assert segment is not None
        connection.execute(f"update trunkline.segment_{segment[0]} set batch_id = batch_id + 1")
    with pytest.raises(LogDiverged, match="topic orders"):
        Stream(db_url, **options).latest(at)


# -- SP-07: another topic --


@pytest.mark.parametrize("options", [{"subscribe": "orders"}, {"subscribePattern": "ord.*"}])
@pytest.mark.parametrize("lossy", ["true", "false"])
def test_SP_07_a_topic_deleted_and_created_again_is_refused(
    tl: Client, db_url: str, options: dict[str, str], lossy: str
) -> None:
    tl.create_topic("orders")
    publish(tl, "orders", b"a", b"b")
    running = Stream(db_url, startingOffsets="earliest", failOnDataLoss=lossy, **options)
    begun = running.initial()
    at = running.latest(begun)
    assert running.values(begun, at) == [b"a", b"b"]
    tl.delete_topic("orders")
    tl.create_topic("orders")
    publish(tl, "orders", b"x", b"y", b"z")
    for stream in (running, Stream(db_url, failOnDataLoss=lossy, **options)):
        with pytest.raises(NotFound, match=r"deleted and created again.*start the reader anew"):
            stream.latest(at)
        with pytest.raises(NotFound, match="deleted and created again"):
            stream.values(begun, at)


def test_a_topic_that_is_gone_is_an_error_or_passed_over_by_option(tl: Client, db_url: str) -> None:
    for name in ("orders-1", "orders-2"):
        tl.create_topic(name)
        publish(tl, name, name.encode())
    options = {"subscribePattern": "orders-.*"}
    first = Stream(db_url, startingOffsets="earliest", **options)
    begun = first.initial()
    at = first.latest(begun)
    tl.delete_topic("orders-1")
    publish(tl, "orders-2", b"more")
    for failing in (lambda: Stream(db_url, **options).latest(at), lambda: Stream(db_url, **options).read(begun, at)):
        with pytest.raises(NotFound, match=r"orders-1.*failOnDataLoss=false"):
            failing()
    going_on = Stream(db_url, failOnDataLoss="false", **options)
    assert going_on.values(begun, at) == [b"orders-2"]
    assert [*all_of(going_on, at)] == [[b"more"]]


# -- SP-09: retention --


@pytest.fixture
def passed(tl: Client, db_url: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A checkpoint that retention has passed: where a batch began, and where it ended. 13 records come later."""
    tl.create_topic("orders", settings=TopicSettings(retention_bytes=0))
    publish(tl, "orders", *(b"lost %d" % i for i in range(20)))
    first = Stream(db_url, startingOffsets="earliest")
    begun = first.initial()
    at = first.latest(begun, ReadMaxRows(5))
    drop_everything(tl, db_url)
    publish(tl, "orders", *(b"new %d" % i for i in range(13)))
    return db_url, begun, at


def test_SP_09_retention_that_passed_the_checkpoint_is_an_error(
    passed: tuple[str, dict[str, Any], dict[str, Any]],
) -> None:
    url, begun, at = passed
    for limit in (None, ReadMaxRows(3)):
        with pytest.raises(OffsetOutOfRange, match=r"\[21, 34\).*failOnDataLoss=false, or start with a new checkpoint"):
            Stream(url).latest(at, limit)
    with pytest.raises(OffsetOutOfRange, match="failOnDataLoss=false"):
        Stream(url).values(begun, at)


@pytest.mark.parametrize("most", [3, 100])
def test_SP_09_by_option_a_stream_goes_on_with_what_is_there(
    passed: tuple[str, dict[str, Any], dict[str, Any]], most: int
) -> None:
    url, begun, at = passed
    resumed = Stream(url, failOnDataLoss="false")
    # The batch that was planned before the crash is gone; the next ones are not.
    assert resumed.values(begun, at) == []
    found = [value for batch in all_of(resumed, at, ReadMaxRows(most)) for value in batch]
    assert found == [b"new %d" % i for i in range(13)]


# -- checkpoints of others --

FOREIGN = [
    5,
    "5",
    {},
    {"orders": {"0": 23, "1": 7}},
    {"logOffset": 3},
    {"@": 5},
    {"@": {}},
    {"@": {"version": 1}},
    {"orders": {"0": 5}, "@": {"version": 1, "epoch": 1, "group": "g", "topics": {}}},
    {"orders": {"x": 5}, "@": {"version": 1, "epoch": 1, "group": "g", "topics": {"orders": {"incarnation": 1}}}},
    None,
    [],
]


@pytest.mark.parametrize("said", FOREIGN)
def test_a_checkpoint_of_another_source_is_refused(tl: Client, db_url: str, said: Any) -> None:
    tl.create_topic("orders")
    with pytest.raises(InvalidArgument, match="start with a new checkpoint"):
        Stream(db_url).reader.latestOffset(said, ReadMaxRows(1))
    with pytest.raises(InvalidArgument, match="start with a new checkpoint"):
        Stream(db_url).reader.partitions(said, said)


def test_a_checkpoint_of_a_later_version_is_refused_whatever_it_holds(tl: Client, db_url: str) -> None:
    tl.create_topic("orders")
    at = Stream(db_url).initial()
    for later in ({**at, "@": {**at["@"], "version": 2}}, {**at, "@": {"version": 2, "shards": []}}):
        with pytest.raises(InvalidArgument, match=r"another version of Trunkline \(format 2, this one reads 1\)"):
            Stream(db_url).latest(later)
