"""`trunkline pipeline`: a file with a source, SQL steps and sinks, run on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trunkline.cli.server import given_url, url_option
from trunkline.errors import NotConfigured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trunkline.spark.pipeline.file import Pipeline

NO_SERVER = "postgresql://localhost/nothing-is-read-by-a-check"
NEEDS = "pipelines run on Spark, which is not installed here: pip install 'trunkline[spark]'"

_FILE = click.argument("file", type=click.Path(path_type=Path), metavar="FILE.yml")
_MASTER = click.option("--master", metavar="URL", help="Where Spark runs: local[4], spark://host:7077. Default: here.")


@click.group()
def pipeline() -> None:
    """Run a file of SQL steps from topics to topics and files, on Spark."""


@pipeline.command("run")
@_FILE
@_MASTER
@click.option("--until-caught-up", is_flag=True, help="Read what is there now, then end.")
@click.option("--checkpoints", metavar="DIR", help="Where progress is kept. Default: as the file says.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@url_option
def run_pipeline(
    file: Path, master: str | None, checkpoints: str | None, *, until_caught_up: bool, as_json: bool
) -> None:
    """Run a pipeline.

    Every sink is written exactly once by a query of its own, which goes on where it was when it is started again. It
    runs until SIGTERM or Ctrl-C: then the batches under way are finished, and it ends with 0. A second signal ends it
    at once, and what was under way is done again next time. The format of the file: docs/pipelines.md.
    """
    from trunkline.cli.pipeline_view import view

    found = _load(file)
    with _needing_spark():
        from trunkline.spark.pipeline.run import RunSettings, check_topics, run
    url = _url(found)
    check_topics(found, url)
    with _session(found, master) as spark, view(as_json=as_json) as face:
        settings = RunSettings(url, until_caught_up=until_caught_up, checkpoints=checkpoints)
        signals = run(spark, found, settings, face)
    if signals.at_once:
        click.get_current_context().exit(128 + signals.number)


@pipeline.command()
@_FILE
@_MASTER
def check(file: Path, master: str | None) -> None:
    """Check a pipeline: the file and its SQL.

    Nothing is read or written, and no server is needed. Errors name the line and the step.
    """
    found = _load(file)
    with _needing_spark():
        from trunkline.spark.pipeline.run import compile_pipeline
    with _session(found, master) as spark:
        made = compile_pipeline(spark, found, NO_SERVER)
        columns = {name: ", ".join(f"{each} {kind}" for each, kind in rows.dtypes) for name, rows in made.items()}
    for sink in found.sinks:
        click.echo(f"{sink.place.what}: {columns[sink.name]}")
    click.echo(f"{file} is well-formed: {_count(len(found.steps), 'step')}, {_count(len(found.sinks), 'sink')}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _load(file: Path) -> Pipeline:
    with _needing_spark():
        from trunkline.spark.pipeline.file import load
    return load(file)


def _url(found: Pipeline) -> str:
    """--url, else what the file says, else as everywhere."""
    from trunkline.client.target import resolve

    return resolve(given_url() or found.url)


@contextmanager
def _needing_spark() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("pyspark", "py4j", "yaml", "pyarrow", "numpy", "pandas"):
            raise NotConfigured(f"{NEEDS} ({error})") from None
        raise


@contextmanager
def _session(found: Pipeline, master: str | None) -> Iterator[SparkSession]:
    """A session that ends with the command."""
    from trunkline.spark.pipeline import sessions

    sessions.quiet_errors()
    spark = sessions.open_session(f"trunkline {found.name}", master=master, config=found.config)
    try:
        yield spark
    finally:
        sessions.close_session(spark)
