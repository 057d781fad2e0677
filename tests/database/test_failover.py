"""Positions kept outside the database, over a switchover and over a failover that lost records.

A real streaming standby: made by pg_basebackup, promoted after the primary was stopped or killed.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import trunkline
from trunkline import errors
from trunkline.client.install import install
from trunkline.server import Server, start
from trunkline.status.check import check_groups
from trunkline.status.doctor import examine
from trunkline.status.group_findings import Limits


def wait_until(condition: Callable[[], bool], what: str, bound_s: float = 60) -> None:
    """Poll a condition of another process; the bound only guards against hanging."""
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"


def value_of(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failover")


@pytest.fixture
def primary(folder: Path) -> Iterator[Server]:
    running = start(folder / "primary")
    try:
        if not (running.binaries / "pg_basebackup").exists():
            pytest.skip("no pg_basebackup beside the server's binaries")
        install(running.url)
        yield running
    finally:
        running.stop()


@pytest.fixture
def standby(folder: Path, primary: Server) -> Iterator[Server]:
    """A standby of the primary that streams its log."""
    home = folder / "standby"
    shutil.copytree(folder / "primary", home, ignore=shutil.ignore_patterns("pgdata"))
    copy = [str(primary.binaries / "pg_basebackup"), "-D", str(home / "pgdata"), "-R", "-c", "fast", "-d", primary.url]
    subprocess.run(copy, check=True)
    for path in [home, *home.rglob("*")]:
        model = folder / "primary" / ("pgdata" if "pgdata" in path.parts else path.relative_to(home))
        shutil.chown(path, model.stat().st_uid, model.stat().st_gid)
    running = start(home)
    try:
        assert value_of(running.url, "select pg_is_in_recovery()") is True
        yield running
    finally:
        running.stop()


def caught_up(primary: Server, standby: Server) -> bool:
    target = value_of(primary.url, "select pg_current_wal_flush_lsn()")
    return value_of(standby.url, f"select pg_last_wal_replay_lsn() >= '{target}'::pg_lsn") is True


def promote(standby: Server) -> None:
    value_of(standby.url, "select pg_promote()")
    wait_until(lambda: value_of(standby.url, "select pg_is_in_recovery()") is False, "promotion")


def test_a_clean_switchover_passes(primary: Server, standby: Server) -> None:
    with trunkline.connect(primary.url) as tl:
        tl.create_topic("orders")
        tl.publish_many("orders", [b"a", b"b"])
        tl.publish("orders", b"c")
        pinned = [tl.pin("orders", 0, offset) for offset in (1, 2, 3, 4)]
    wait_until(lambda: caught_up(primary, standby), "the standby has everything")
    with trunkline.connect(standby.url) as reader:
        assert [record.payload for record in reader.read("orders")] == [b"a", b"b", b"c"]
        with pytest.raises(errors.ReadOnly) as caught:
            reader.publish("orders", b"x")
        assert caught.value.code == "TL037"
    primary.stop()
    promote(standby)
    with trunkline.connect(standby.url) as tl:
        for position in pinned:
            tl.check(position)
        assert tl.publish("orders", b"d").offset == 4
        for position in pinned:
            tl.check(position)


def test_a_standby_is_not_asked_who_is_alive(primary: Server, standby: Server) -> None:
    """The locks by which members are known are the primary's: seen from a standby everybody would be dead."""
    with trunkline.connect(primary.url) as tl:
        tl.create_topic("orders")
        with tl.consumer("orders", group="billing", create=True):
            wait_until(lambda: caught_up(primary, standby), "the standby has everything")
            assert check_groups(primary.url, ["billing"], Limits(members_min=1)).has_problem is False
            with pytest.raises(errors.ReadOnly, match="on the primary"):
                check_groups(standby.url, ["billing"], Limits(members_min=1))
            report = examine(standby.url)
    assert [found.text for found in report.findings if found.subject == "groups"] == [
        "not looked at: a standby does not know who is alive"
    ]
    assert report.facts.groups is None


def test_a_failover_that_lost_records_is_noticed(primary: Server, standby: Server) -> None:
    """The standby stops receiving, two more records are read elsewhere, the primary dies: their offsets are given
    out again for other records, and the reader that saw the first ones is told."""
    with trunkline.connect(primary.url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        before = tl.pin("orders", 0, 2)
        wait_until(lambda: caught_up(primary, standby), "the standby has the first record")
        with psycopg.connect(standby.url, autocommit=True) as connection:
            connection.execute("alter system set primary_conninfo = ''")
            connection.execute("select pg_reload_conf()")
        gone = "select count(*) = 0 from pg_stat_wal_receiver"
        wait_until(lambda: value_of(standby.url, gone) is True, "the standby no longer receives")
        tl.publish_many("orders", [b"lost", b"lost too"])
        after = tl.pin("orders", 0, 4)
        tl.check(after)
        primary.kill()
    promote(standby)
    with trunkline.connect(standby.url) as tl:
        tl.check(before)
        with pytest.raises(errors.LogDiverged, match="beyond the end"):
            tl.check(after)
        tl.publish_many("orders", [b"x", b"y", b"z"])
        with pytest.raises(errors.LogDiverged, match="another record"):
            tl.check(after)
        tl.check(before)


def test_where_retention_dropped_the_proof_the_log_epoch_decides(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=trunkline.TopicSettings(retention_bytes=0))
        tl.publish_many("orders", [b"a", b"b", b"c"])
        pinned = tl.pin("orders", 0, 4)
        inside = tl.pin("orders", 0, 2)
        with psycopg.connect(db_url, autocommit=True) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
            tl.retention_run()
            tl.check(pinned)
            with pytest.raises(errors.OffsetOutOfRange):
                tl.check(inside)
            connection.execute("select trunkline.schema_after_restore()")
        with pytest.raises(errors.LogDiverged, match="epoch"):
            tl.check(pinned)


def test_a_topic_made_again_is_another_topic(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        pinned = tl.pin("orders", 0, 2)
        tl.delete_topic("orders")
        with pytest.raises(errors.NotFound):
            tl.check(pinned)
        tl.create_topic("orders")
        tl.publish("orders", b"a")
        with pytest.raises(errors.NotFound, match="created again"):
            tl.check(pinned)


@pytest.mark.parametrize("wrong", [None, 5, "orders:0:1", {}])
def test_only_a_pinned_position_can_be_checked(db_url: str, wrong: object) -> None:
    with trunkline.connect(db_url) as tl, pytest.raises(errors.InvalidArgument):
        tl.check(wrong)  # type: ignore[arg-type]
