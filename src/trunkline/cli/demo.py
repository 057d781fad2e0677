"""`trunkline demo`: orders are published, billed by a group, summed up by Spark; watched live, checked at the end."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trunkline.cli.output import on_terminal

if TYPE_CHECKING:
    from trunkline.cli.demo_load import Load
    from trunkline.cli.demo_spark import Pipeline
    from trunkline.cli.demo_view import View
    from trunkline.server import Server

TICK_S = 0.25
PLOT = Path("trunkline-demo.png")


@click.command()
@click.option("--seconds", type=click.IntRange(1, 3600), default=60, show_default=True, help="How long to publish.")
@click.option("--keep", is_flag=True, help="Leave the server running, with its data.")
@click.option("--without-spark", is_flag=True, help="Leave the pipeline out.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PLOT,
    show_default=True,
    help="Where to write the picture of throughput and lag.",
)
def demo(seconds: int, plot: Path, *, keep: bool, without_spark: bool) -> None:
    """Watch orders being published, billed by a group, and summed up by Spark.

    On a PostgreSQL started for it. A second is a minute in the shop: Spark writes the revenue of each minute into
    another topic and into Parquet. It ends by itself, with a summary that is computed by SQL and checked, and with a
    picture, and removes its server and data.
    """
    with_spark = not without_spark and _has_spark()
    run(seconds, plot, keep=keep, with_spark=with_spark)


def run(seconds: int, plot: Path, *, keep: bool = False, with_spark: bool = True) -> None:
    """The whole demo. Whatever ends it, its threads and processes are ended and, unless kept, its data are gone."""
    from trunkline.cli.demo_load import Load
    from trunkline.cli.demo_plot import write_plot
    from trunkline.cli.demo_spark import Pipeline
    from trunkline.cli.demo_view import View, write_summary

    click.echo("Starting a PostgreSQL for the demo …")
    with _server(keep=keep) as (server, folder), ExitStack() as stack:
        pipeline = stack.enter_context(Pipeline(server.url, folder / "spark")) if with_spark else None
        load = stack.enter_context(Load(server.url))
        with View(load, live=on_terminal()) as view:
            _watch(load, view, pipeline, seconds)
            _finish(load, view, pipeline, server.url)
        write_summary(load, server.url, pipeline.lake if pipeline else None)
        if write_plot(view.samples, plot):
            click.echo(f"\nThroughput and lag: {plot.resolve()}")
        else:
            click.echo("\nWith matplotlib installed there is a picture, too: pip install matplotlib")
        if keep:
            click.echo(f"\nThe server keeps running. To use it:  export TRUNKLINE_DEV_DIR={server.data_dir}")
            click.echo("To remove it:  trunkline dev reset")
            if pipeline:
                click.echo(f"The pipeline:  trunkline pipeline run {pipeline.file}")


def _watch(load: Load, view: View, pipeline: Pipeline | None, seconds: int) -> None:
    ends_at = time.monotonic() + seconds
    while (left_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(TICK_S, left_s))
        load.check()
        if pipeline is not None:
            pipeline.check()
        view.update(f"{max(0.0, left_s):.0f} s to go")
    load.stop_writing()


def _finish(load: Load, view: View, pipeline: Pipeline | None, url: str) -> None:
    from trunkline.cli.demo_view import minutes_of

    load.drain()
    if pipeline is None:
        return
    load.close_the_day()
    pipeline.wait_for_minutes(minutes_of(url), lambda: view.update("writers have stopped, Spark closes the day"))
    pipeline.stop()
    view.update("done")


def _has_spark() -> bool:
    from trunkline.cli.demo_spark import is_possible

    if not is_possible():
        click.echo("Spark is not installed, so the demo goes without: pip install 'trunkline[spark,java]'")
    return is_possible()


@contextmanager
def _server(*, keep: bool) -> Iterator[tuple[Server, Path]]:
    """A server in a folder of the demo's own; both are gone afterwards, unless kept."""
    from trunkline import server
    from trunkline.client.install import install

    folder = Path(tempfile.gettempdir()) / f"trunkline-demo-{secrets.token_hex(4)}"
    place = folder / "server"
    done = False
    try:
        folder.mkdir(mode=0o755)
        started = server.start(place)
        install(started.url)
        click.echo(f"PostgreSQL {started.version} in {place}")
        yield started, folder
        done = True
    finally:
        if not (keep and done):
            server.reset(place)
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
