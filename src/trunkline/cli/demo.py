"""`trunkline demo`: writers and readers on a server of their own, watched live, and checked at the end."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trunkline.cli.output import on_terminal

if TYPE_CHECKING:
    from trunkline.cli.demo_load import Load
    from trunkline.cli.demo_view import View
    from trunkline.server import Server

TICK_S = 0.25


@click.command()
@click.option("--seconds", type=click.IntRange(1, 3600), default=20, show_default=True, help="How long to write.")
@click.option("--keep", is_flag=True, help="Leave the server running, with its data.")
def demo(seconds: int, *, keep: bool) -> None:
    """Watch writers and readers share a topic.

    Three of each, on a PostgreSQL started for it. It ends by itself, with a summary that is checked by SQL, and
    removes its server and data.
    """
    run(seconds, keep=keep)


def run(seconds: int, *, keep: bool = False) -> None:
    """The whole demo. Whatever ends it, its threads are joined and, unless kept, its server and data are gone."""
    from trunkline.cli.demo_load import Load
    from trunkline.cli.demo_view import View, write_summary

    click.echo("Starting a PostgreSQL for the demo …")
    with _server(keep=keep) as server, Load(server.url) as load:
        with View(load, live=on_terminal()) as view:
            _watch(load, view, seconds)
        click.echo("Writers have stopped; readers catch up …")
        load.drain()
        write_summary(load, server.url)
        if keep:
            click.echo(f"\nThe server keeps running. To use it:  export TRUNKLINE_DEV_DIR={server.data_dir}")
            click.echo("To remove it:  trunkline dev reset")


def _watch(load: Load, view: View, seconds: int) -> None:
    ends_at = time.monotonic() + seconds
    while (left_s := ends_at - time.monotonic()) > 0:
        time.sleep(min(TICK_S, left_s))
        load.check()
        view.update(left_s)
    load.stop_writing()


@contextmanager
def _server(*, keep: bool) -> Iterator[Server]:
    from trunkline import server
    from trunkline.client.install import install

    place = Path(tempfile.gettempdir()) / f"trunkline-demo-{secrets.token_hex(4)}"
    done = False
    try:
        started = server.start(place)
        install(started.url)
        click.echo(f"PostgreSQL {started.version} in {place}")
        yield started
        done = True
    finally:
        if not (keep and done):
            server.reset(place)
            with suppress(FileNotFoundError):
                shutil.rmtree(place)
