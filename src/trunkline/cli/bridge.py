"""`trunkline bridge`: messages of one broker to another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from trunkline.cli.output import on_terminal, write_facts, write_json
from trunkline.cli.values import Seconds

if TYPE_CHECKING:
    from trunkline.portable.bridge import Bridge, BridgeReport

ENDS = {
    "max": "as many as were asked for",
    "empty": "nothing is left",
    "idle": "nothing came any more",
    "stopped": "it was told to end",
}


@click.command()
@click.option("--from", "from_url", metavar="URL", required=True, help="The subscription to receive from.")
@click.option("--to", "to_url", metavar="URL", required=True, help="The topic to send to.")
@click.option("--max", "messages_max", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--until-empty", is_flag=True, help="End when there are none. What other readers hold does not count.")
@click.option("--idle", "idle_s", type=Seconds(), metavar="DURATION", help="End when none has come for so long.")
@click.option(
    "--id-attribute",
    metavar="NAME",
    help="Add the source's id of each message as an attribute, unless it has one of this name.",
)
@click.option(
    "--refused-to",
    metavar="URL",
    help="A topic for what the target refuses, with the reason in the attribute trunkline-refused-reason.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def bridge(
    from_url: str,
    to_url: str,
    messages_max: int | None,
    idle_s: float | None,
    id_attribute: str | None,
    refused_to: str | None,
    *,
    until_empty: bool,
    as_json: bool,
) -> None:
    """Move messages from a subscription of any driver to a topic of any driver.

    At least once: a message is acknowledged at its source when the target has it. Killed and started again, it goes
    on, and loses nothing; what was sent and not acknowledged is sent twice. Body, key and attributes are kept.

    It runs until SIGTERM or Ctrl-C, or an end that is asked for: then it finishes what it has in hand, and ends with
    0. A second signal ends it at once. A message that the target refuses ends it with an error, and stays at its
    source; with --refused-to it is sent there, named on stderr, and acknowledged, and the bridge goes on.

    \b
    trunkline bridge --from 'trunkline:///orders?queue=copy' --to trunkline://host:5432/db/orders
    """
    import asyncio

    from trunkline.portable.bridge import Bridge, BridgeSettings

    settings = BridgeSettings(
        messages_max=messages_max,
        until_empty=until_empty,
        idle_s=idle_s,
        id_attribute=id_attribute,
        refused_to=refused_to,
    )

    async def run(show: Callable[[BridgeReport], None]) -> BridgeReport:
        return await _until_told(Bridge(from_url, to_url, settings, show))

    began_s = time.monotonic()
    with _showing(as_json=as_json) as show:
        report = asyncio.run(run(show))
    _write(report, time.monotonic() - began_s, as_json=as_json)


async def _until_told(bridge: Bridge) -> BridgeReport:
    from trunkline.client.aio.shim import ended_by_signals

    try:
        with ended_by_signals(bridge.stop):
            return await bridge.run()
    except BaseException:
        click.echo(f"{bridge.report.moved} messages were moved before it failed", err=True)
        raise


@contextmanager
def _showing(*, as_json: bool) -> Iterator[Callable[[BridgeReport], None]]:
    """How progress is shown: a line that is kept up to date on a terminal, nothing elsewhere."""
    if as_json or not on_terminal():
        yield lambda _: None
        return
    from rich.live import Live
    from rich.text import Text

    began_s = time.monotonic()
    with Live(Text("waiting for messages"), transient=True, auto_refresh=False) as live:

        def show(report: BridgeReport) -> None:
            rate = report.moved / max(time.monotonic() - began_s, 0.001)
            live.update(Text(f"moved {report.moved:,} messages, {rate:,.0f} a second"), refresh=True)

        yield show


def _write(report: BridgeReport, seconds: float, *, as_json: bool) -> None:
    if as_json:
        write_json(report)
        return
    if not on_terminal():
        counts = [("moved", report.moved), ("late", report.late), ("refused", report.refused)]
        write_facts([*counts, ("ended", report.ended)])
        return
    refused = f", {report.refused:,} of them were refused and put aside" if report.refused else ""
    late = f", {report.late:,} of them will be sent again" if report.late else ""
    why = ENDS.get(report.ended or "", "")
    click.echo(f"moved {report.moved:,} messages in {seconds:,.1f} s{late}{refused}: {why}")
