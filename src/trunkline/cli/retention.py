"""`trunkline retention`: the upkeep of the log, by hand, from cron, or in a loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from trunkline.cli.output import bytes_text, report_passing, write_json
from trunkline.cli.server import connect, url_option
from trunkline.cli.values import Seconds
from trunkline.errors import TrunklineError

if TYPE_CHECKING:
    from trunkline import Client, RetentionStep


@click.group()
def retention() -> None:
    """Roll, seal and drop segments."""


@retention.command()
@click.option("--topic", help="Only this topic. Default: all.")
@click.option("--watch", is_flag=True, help="Again and again, until Ctrl-C.")
@click.option("--interval", type=Seconds(), default="60s", show_default=True, help="How long --watch waits in between.")
@click.option("--json", "as_json", is_flag=True, help="Print each step as JSON, one object a line.")
@url_option
def run(topic: str | None, interval: float, *, watch: bool, as_json: bool) -> None:
    """Do what retention has to do now, and say what was done.

    Several may run at once. A step that somebody's lock holds up is reported as skip, and left for the next run.
    """
    with connect() as tl:
        steps = tl.retention_run(topic)
        _say(steps, as_json=as_json)
        if not steps and not watch and not as_json:
            click.echo("nothing was due")
        while watch:
            time.sleep(interval)
            _say(_try(tl, topic), as_json=as_json)


def _try(tl: Client, topic: str | None) -> list[RetentionStep]:
    """One run of many: what may pass is reported, and tried again at the next."""
    try:
        return tl.retention_run(topic)
    except TrunklineError as error:
        report_passing(error)
        return []


def _say(steps: list[RetentionStep], *, as_json: bool) -> None:
    for step in steps:
        if as_json:
            write_json(step)
            continue
        gone = f" ({step.record_count:,} records, {bytes_text(step.byte_count)})" if step.action == "release" else ""
        reason = f": {step.reason}" if step.reason else ""
        click.echo(f"{step.action} segment {step.segment_id}{reason}{gone}")
