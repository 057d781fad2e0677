"""docs/pipelines.md and examples/pipelines run: every YAML snippet is compiled, the whole ones are run by the command's
own way, and the defaults that the page promises hold."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from tests.docs.test_documents import ROOT
from trunkline import Client
from trunkline.cli.demo_load import OPENED, new_order
from trunkline.cli.main import cli
from trunkline.spark.pipeline import sessions
from trunkline.spark.pipeline.file import load
from trunkline.spark.pipeline.run import checkpoint_folder, compile_pipeline

PAGE = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
EXAMPLES = sorted((ROOT / "examples" / "pipelines").glob("*.yml"))
SNIPPETS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^trunkline (pipeline .*?)(?: {2,}#.*)?$", PAGE, re.MULTILINE)
BASE = """\
name: base
source:
  topic: orders
  format: json
  schema: {user: string, amount: double, time: timestamp}
sinks:
  - console:
"""
Command = Callable[..., Result]


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, db_url: str) -> Command:
    """The command in this process, with the tests' Spark, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sessions, "open_session", lambda *_, **__: spark)
    monkeypatch.setattr(sessions, "close_session", lambda _: None)
    monkeypatch.setattr(sessions, "quiet_errors", lambda: None)

    def invoke(*arguments: str) -> Result:
        return CliRunner(env={"TRUNKLINE_URL": db_url}).invoke(cli, arguments, prog_name="trunkline")

    return invoke


@pytest.fixture
def orders(tl: Client) -> Client:
    tl.create_topic("orders", partitions=4)
    tl.create_topic("revenue")
    chance = random.Random(4)
    tl.publish_many("orders", [new_order(chance, OPENED + timedelta(seconds=n)) for n in range(200)])
    return tl


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_every_snippet_of_the_page_compiles(number: int, spark: SparkSession, tmp_path: Path) -> None:
    """A part of a file is put into a file that has the other parts."""
    path = tmp_path / "snippet.yml"
    text = SNIPPETS[number]
    for key in yaml.safe_load(BASE):
        if not re.search(rf"^{key}:", text, re.MULTILINE):
            text += re.search(rf"^{key}:.*\n(?:  .*\n)*", BASE, re.MULTILINE)[0]  # type: ignore[index]
    path.write_text(text, "utf-8")
    assert compile_pipeline(spark, load(path), "postgresql://nobody@127.0.0.1:1/none")


def test_the_commands_of_the_page_run_and_fill_topic_and_lake(command: Command, orders: Client, tmp_path: Path) -> None:
    """All but the one that has no end; its file is the first snippet."""
    (tmp_path / "revenue.yml").write_text(SNIPPETS[0], "utf-8")
    assert len(COMMANDS) == 3
    for line in COMMANDS:
        if line.split() == ["pipeline", "run", "revenue.yml"]:
            continue
        done = command(*line.split())
        assert done.exit_code == 0, done.output
    checkpoint = tmp_path / "data" / "trunkline" / "checkpoints" / "revenue" / "topic-revenue"
    assert f"topic-revenue: group revenue/topic-revenue, checkpoint {checkpoint}\n" in done.stderr
    assert (checkpoint / "metadata").exists()
    assert (tmp_path / "lake" / "revenue" / "_spark_metadata").is_dir()
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines[0] == ["time", "sink", "batch", "rows", "rows/s", "lag", "state"]
    assert {(line[1], line[3], line[5], line[6]) for line in lines[1:] if line[6] == "done"} == {
        ("topic-revenue", "200", "0", "done"),
        ("parquet-lake-revenue", "200", "0", "done"),
    }
    found = [json.loads(record.payload) for record in orders.read("revenue")]
    newest = {each["minute"]: each["orders"] for each in found}
    assert sum(newest.values()) == 200


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_checked_and_runs(path: Path, command: Command, orders: Client) -> None:
    checked = command("pipeline", "check", str(path))
    assert (checked.exit_code, "is well-formed" in checked.output) == (0, True), checked.output
    done = command("pipeline", "run", str(path), "--until-caught-up", "--checkpoints", "cps", "--json")
    assert done.exit_code == 0, done.output
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(each["rows"] for each in said if each.get("sink") == "topic-revenue") == 200
    assert {each["state"] for each in said if "ended" in each} == {"done"}
    newest = {each["minute"]: each["orders"] for each in (json.loads(r.payload) for r in orders.read("revenue"))}
    assert sum(newest.values()) == 200


def test_a_wrong_file_is_told_by_the_command_with_its_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yml").write_text(SNIPPETS[0].replace("FROM input", "FROM inputs"), "utf-8")
    for verb in ("check", "run"):
        refused = command("pipeline", verb, "none.yml")
        assert (refused.exit_code, "there is no file none.yml" in refused.stderr) == (3, True), refused.output
    refused = command("pipeline", "check", "bad.yml")
    assert refused.exit_code == 2
    line = SNIPPETS[0].split("FROM input")[0].count("\n") + 1
    assert f"error [TL001]: bad.yml:{line}: step 1 (by_minute), sql: The table or view `inputs`" in refused.stderr
    missing = command("pipeline", "run", str(EXAMPLES[0]))
    assert (missing.exit_code, "source: topic orders does not exist" in missing.stderr) == (3, True), missing.output


def test_a_password_is_never_shown(command: Command, tmp_path: Path) -> None:
    (tmp_path / "url.yml").write_text("url: postgresql://ann:hunter2@127.0.0.1:1/db\n" + SNIPPETS[0], "utf-8")
    refused = command("pipeline", "run", "url.yml")
    assert (refused.exit_code, "hunter2" in refused.output) == (4, False)


def test_checkpoints_are_where_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plain, placed = tmp_path / "plain.yml", tmp_path / "placed.yml"
    plain.write_text(BASE, "utf-8")
    placed.write_text(BASE + "checkpoints: s3a://bucket/cp/\n", "utf-8")
    pipeline = load(plain)
    assert checkpoint_folder(pipeline, pipeline.sinks[0]) == f"{tmp_path}/trunkline/checkpoints/base/console"
    assert checkpoint_folder(pipeline, pipeline.sinks[0], "here") == f"{tmp_path}/here/console"
    pipeline = load(placed)
    assert checkpoint_folder(pipeline, pipeline.sinks[0]) == "s3a://bucket/cp/console"
