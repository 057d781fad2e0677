"""SP-14: on a standalone cluster, one master and two workers. Executors are killed; the output equals the input."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import sleep

import psycopg
import pytest

from tests.spark.cluster import Cluster, running_cluster
from tests.spark.programs import started, wait_for
from trunkline import Client, Message
from trunkline.cli.demo_load import OPENED, new_order
from trunkline.cli.demo_spark import Pipeline
from trunkline.cli.demo_view import BY_MINUTE
from trunkline.spark.lake import row_count

DRIVER = Path(__file__).with_name("cluster_driver.py")
PARTITIONS = 4
DEFAULTS = """\
spark.sql.shuffle.partitions 4
spark.executor.memory 512m
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def topics(tl: Client) -> Client:
    for name in ("orders", "copy"):
        tl.create_topic(name, partitions=PARTITIONS)
    return tl


def publish(tl: Client, count: int) -> None:
    tl.publish_many("orders", [Message(b"%d" % number, key=f"user-{number % 97}") for number in range(count)])


def values(tl: Client, topic: str) -> list[list[bytes]]:
    """All records of a topic, in their order within each partition."""
    found: list[list[bytes]] = []
    for each in tl.offsets(topic):
        read = tl.read(topic, partition=each.partition, max_records=each.end - each.start + 1, bytes_max=2**30)
        assert [record.offset for record in read] == list(range(each.start, each.end))
        found.append([record.payload for record in read])
    return found


def length(tl: Client, topic: str) -> int:
    return sum(each.end - each.start for each in tl.offsets(topic))


def test_SP_14_a_batch_is_read_and_written_on_a_cluster(
    cluster: Cluster, topics: Client, db_url: str, tmp_path: Path
) -> None:
    publish(topics, 5_000)
    command = [sys.executable, str(DRIVER), cluster.master, "batch", ""]
    with started(command, tmp_path / "driver.log", TRUNKLINE_URL=db_url) as driver:
        assert driver.wait() == 0, (tmp_path / "driver.log").read_text()[-4000:]
    assert values(topics, "copy") == values(topics, "orders")


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.chaos)])
def test_SP_14_a_stream_is_exactly_once_while_executors_are_killed(
    cluster: Cluster, topics: Client, db_url: str, tmp_path: Path, kills: int
) -> None:
    """Each kill comes a random moment after the output has passed a random length, so in any phase of a batch."""
    seed = int(os.environ.get("TRUNKLINE_SEED", random.randrange(2**32)))
    print(f"TRUNKLINE_SEED={seed}")
    chosen = random.Random(seed)
    records = 2_000 * kills
    publish(topics, records)
    command = [sys.executable, str(DRIVER), cluster.master, "stream", str(tmp_path / "checkpoint")]
    log = tmp_path / "driver.log"
    with started(command, log, TRUNKLINE_URL=db_url) as driver:
        for passed in sorted(chosen.sample(range(records - 400), kills)):
            wait_for(lambda passed=passed: length(topics, "copy") > passed, driver)  # type: ignore[misc]
            wait_for(cluster.executor_pids, driver)
            sleep(chosen.random())
            for pid in chosen.sample(cluster.executor_pids(), 1):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: length(topics, "copy") >= records, driver)
        assert driver.poll() is None, log.read_text()[-4000:]
    assert values(topics, "copy") == values(topics, "orders")


def test_SP_14_the_demos_pipeline_runs_on_a_cluster_unchanged(
    cluster: Cluster, tl: Client, db_url: str, tmp_path: Path
) -> None:
    """Minutes in the topic and in Parquet are those that SQL makes of the orders. The cluster is set to what suits it,
    as clusters are: two hundred partitions of every state are many for two processors."""
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS, "utf-8")
    tl.create_topic("orders", partitions=PARTITIONS)
    pipeline = Pipeline(db_url, tmp_path / "spark")
    chance = random.Random(14)
    tl.publish_many("orders", [new_order(chance, OPENED + timedelta(seconds=number)) for number in range(1_200)])
    tl.publish("orders", json.dumps({"time": (OPENED + timedelta(days=1)).isoformat()}).encode())
    program = [sys.executable, "-m", "trunkline.cli.main", "pipeline", "run", str(pipeline.file), "--json"]
    log = tmp_path / "pipeline.log"
    environment = {"TRUNKLINE_URL": db_url, "SPARK_CONF_DIR": str(tmp_path)}
    with started([*program, "--master", cluster.master, "--until-caught-up"], log, **environment) as running:
        assert running.wait() == 0, log.read_text()[-4000:]
    with psycopg.connect(db_url) as connection:
        ((minutes, orders, _, differ),) = connection.execute(BY_MINUTE.encode()).fetchall()
    assert (minutes, orders, differ) == (20, 1_200, 0)
    assert row_count(pipeline.lake) == 20
