"""The entry point of the command `trunkline`. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import click

from trunkline import __version__
from trunkline.cli.bench import bench
from trunkline.cli.bridge import bridge
from trunkline.cli.command_line import CommandLine
from trunkline.cli.consume import consume, get, tail
from trunkline.cli.db import db
from trunkline.cli.demo import demo
from trunkline.cli.dev import dev
from trunkline.cli.dlq import dlq
from trunkline.cli.doctor import doctor
from trunkline.cli.driver import driver
from trunkline.cli.group import group
from trunkline.cli.outbox import outbox
from trunkline.cli.pipeline import pipeline
from trunkline.cli.produce import produce
from trunkline.cli.queue import queue
from trunkline.cli.retention import retention
from trunkline.cli.run import run
from trunkline.cli.server import url_option
from trunkline.cli.topic import topic

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=CommandLine, context_settings=CONTEXT)
@url_option
@click.version_option(__version__, prog_name="trunkline")
def cli() -> None:
    """Publish/subscribe on the PostgreSQL you already run.

    The server is --url, else TRUNKLINE_URL, else a running `trunkline dev`. Tables on a terminal; when piped,
    tab-separated text, or JSON lines for records. Times are in UTC.
    """


for command in (
    dev,
    db,
    topic,
    produce,
    consume,
    tail,
    get,
    group,
    queue,
    dlq,
    run,
    outbox,
    bridge,
    driver,
    pipeline,
    retention,
    doctor,
    bench,
    demo,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line; never returns."""
    cli(prog_name="trunkline")


if __name__ == "__main__":
    main()
