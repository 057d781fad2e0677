"""What the scenarios of Spark are made of does what it says, in small and without a session."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

import trunkline
from benchmarks import filled
from benchmarks.baselines import ceiling, jdbc
from benchmarks.drip import Dripped, dripping
from benchmarks.payloads import Payloads, Tally
from benchmarks.scenarios.spark import commit
from benchmarks.scenarios.spark.memory import workers
from benchmarks.sides import Ours, topic_name
from trunkline.spark.columns import names


def test_a_jdbc_url_carries_user_password_and_settings() -> None:
    url = jdbc.jdbc_url("postgresql://ann:a%26b@localhost:5433/lake?options=-c%20commit_delay%3D3000")
    assert url.startswith("jdbc:postgresql://localhost:5433/lake?")
    assert "user=ann&password=a%26b&options=-c%20commit_delay%3D3000" in url


def test_the_driver_is_found_by_path_and_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "driver.jar"
    monkeypatch.setenv(jdbc.JAR_VARIABLE, str(jar))
    assert jdbc.find_jar() is None
    jar.touch()
    assert jdbc.find_jar() == jar


def test_the_ceiling_yields_exactly_the_records_asked_for_in_our_columns() -> None:
    reader = ceiling.CeilingReader(records=1_003, tasks=4, batch_records=100, record_bytes=200)
    parts = reader.partitions()
    batches = [batch for part in parts for batch in reader.read(part)]
    assert len(parts) == 4
    assert sum(batch.num_rows for batch in batches) == 1_003
    assert {tuple(batch.schema.names) for batch in batches} == {tuple(names(include_headers=False))}
    assert {len(value.as_py()) for value in batches[0].column("value")} == {200}


@pytest.mark.parametrize("batches", [1, 3, 7])
def test_the_sum_of_what_was_poured_is_that_of_every_record(batches: int) -> None:
    some = Payloads("order", 0, distinct=30, record_bytes=200).batches(3, 10)
    expected = Tally()
    for number in range(batches):
        expected = expected.after(some[number % 3])
    assert filled.poured(some, batches) == expected


def test_a_percentile_is_of_what_was_due_in_the_time_however_late_it_came() -> None:
    dripped = Dripped([(1.0, 1.001), (2.0, 2.5), (3.0, 3.001)])
    assert dripped.count(2.0, 3.0) == 1
    assert dripped.p99_ms(2.0, 3.0) == pytest.approx(500)


def test_a_publisher_drips_while_the_block_runs_and_leaves_out_nothing_that_was_due(db_url: str) -> None:
    Ours().create(db_url, 1, 2)
    with dripping(db_url, 1, 2, per_s=500) as dripped, trunkline.connect(db_url) as client:
        end = monotonic() + 30.0
        while client.offsets(topic_name(1))[0].end < 20 and monotonic() < end:
            pass
        middle = monotonic()
    assert dripped.moments[-1][0] >= middle - 1 / 500
    assert all(due <= done for due, done in dripped.moments)


def test_what_is_staged_for_the_commit_is_published_whole(db_url: str) -> None:
    Ours().create(db_url, 1, commit.PARTITIONS)
    stages = commit.stage(db_url, 1, 12_345)
    with trunkline.connect(db_url) as client:
        assert {part.end for part in client.offsets(topic_name(1))} == {1}
        commit.publish(db_url, stages)
        assert sum(part.end - part.start for part in client.offsets(topic_name(1))) == 12_345


def test_workers_are_the_python_children_of_this_process_alone(tmp_path: Path) -> None:
    me = str(os.getpid())
    (tmp_path / "self").symlink_to(tmp_path / me)
    for number, parent, command in (
        (me, "1", "python"),
        ("900001", me, "java"),
        ("900002", "900001", "python\0-m\0pyspark.daemon"),
        ("900003", "1", "python\0-m\0pyspark.daemon"),
    ):
        (tmp_path / number).mkdir()
        (tmp_path / number / "stat").write_text(f"{number} (a (b) c) S {parent} 0 0")
        (tmp_path / number / "cmdline").write_text(command)
    assert [worker.name for worker in workers(tmp_path)] == ["900002"]
