"""`trunkline dev`: a PostgreSQL of your own for development, with Trunkline installed in it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trunkline.server import Server

EXIT_STOPPED = 3


@click.group(invoke_without_command=True)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    envvar="TRUNKLINE_DEV_DIR",
    help="Where the data is. Default: the user's data directory.",
)
@click.option("--detach", is_flag=True, help="Start the server, leave it running, and return.")
@click.pass_context
def dev(context: click.Context, data_dir: str | None, *, detach: bool) -> None:
    """Run a PostgreSQL for development, with Trunkline installed in it.

    Without a command it runs until Ctrl-C. Programs on this machine find it by themselves. The data
    is kept until `trunkline dev reset`.
    """
    context.obj = data_dir
    if context.invoked_subcommand is not None:
        if detach:
            raise click.UsageError("--detach starts a server; it does not go with a command")
        return
    if detach:
        _announce(_start(data_dir))
        click.echo("It keeps running. End it with: trunkline dev stop")
    else:
        _foreground(data_dir)


@dev.command()
@click.pass_obj
def stop(data_dir: str | None) -> None:
    """Stop the server. The data stays."""
    from trunkline import server

    click.echo("Stopped." if server.stop(data_dir) else "It was not running.")


@dev.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--url", "only_url", is_flag=True, help="Print the URL with its password, and nothing else.")
@click.pass_context
def status(context: click.Context, *, as_json: bool, only_url: bool) -> None:
    """Say whether the server runs: exit code 0 if it does, 3 if not."""
    from trunkline import server

    running = server.find(context.obj)
    if only_url and running is not None:
        click.echo(running.url)
    elif as_json and not only_url:
        click.echo(json.dumps(_facts(running)))
    elif running is not None:
        click.echo("\n".join(f"{name:9} {value}" for name, value in _facts(running).items()))
    else:
        click.echo("The server is not running. Start it with: trunkline dev", err=only_url)
    context.exit(0 if running is not None else EXIT_STOPPED)


@dev.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def reset(data_dir: str | None, *, yes: bool) -> None:
    """Stop the server and remove all its data."""
    from trunkline import server
    from trunkline.server.directory import resolve

    if not yes:
        click.confirm(f"Remove all data of the server in {resolve(data_dir).path}?", abort=True)
    click.echo("Removed." if server.reset(data_dir) else "There was nothing to remove.")


def _foreground(data_dir: str | None) -> None:
    with _sigterm_as_interrupt():
        running = _start(data_dir)
        try:
            _announce(running)
            click.echo("Ctrl-C stops it." if running.started else "It ran before; Ctrl-C leaves it running.")
            _wait(running)
        except KeyboardInterrupt:
            click.echo("\nStopping." if running.started else "\nIt keeps running.")
        finally:
            if running.started:
                running.stop()


def _wait(running: Server) -> None:
    from trunkline.errors import EmbeddedServerError

    if not running.wait():
        raise EmbeddedServerError(f"the server has crashed; look at {running.log}, and start it again")
    click.echo("The server was stopped.")


def _start(data_dir: str | None) -> Server:
    from trunkline import server
    from trunkline.client.install import install

    running = server.start(data_dir)
    try:
        install(running.url)
    except BaseException:
        if running.started:
            running.stop()
        raise
    return running


def _announce(running: Server) -> None:
    click.echo(f"PostgreSQL {running.version} with Trunkline, for development; data in {running.data_dir}")
    click.echo(f"\n  {running.url}\n")
    click.echo("The command `trunkline` and trunkline.connect() find it by themselves: try `trunkline --help`.")
    click.echo("Other programs and Spark take the URL above.")


def _facts(running: Server | None) -> dict[str, object]:
    if running is None:
        return {"running": False}
    return {
        "running": True,
        "version": running.version,
        "pid": running.pid,
        "port": running.port,
        "data_dir": str(running.data_dir),
        "log": str(running.log),
    }


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """A service manager's SIGTERM ends the command as Ctrl-C does: the server is stopped, not orphaned."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
