"""`trunkline run`: the handlers of an App, until SIGTERM."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

import click

from trunkline.cli import exits
from trunkline.cli.server import given_url, url_option
from trunkline.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    import trunkline
    import trunkline.aio


@click.command()
@click.argument("target", metavar="MODULE:APP")
@url_option
def run(target: str) -> None:
    """Run the handlers of an app.

    MODULE is imported, with the current directory on the path; APP is what the trunkline.App, or
    trunkline.aio.App, is called in it. It runs until SIGTERM or Ctrl-C: then the records that are being handled
    are finished and committed, and it ends with 0. A second signal ends it at once.

    \b
    @app.on("orders", group="billing", concurrency=8, dead_letter="orders.dead")
    def bill(record): ...
    """
    app = _load(target)
    run_app(app, given_url())


def run_app(app: trunkline.App | trunkline.aio.App, url: str | None) -> None:
    """Run it until it is told to end; what is being handled is shown first."""
    import asyncio

    import trunkline.aio

    # What the module has set up stays; without anything, failures should be seen.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for handler in app.handlers:
        click.echo(f"{handler} handles {', '.join(handler.topics)}, {handler.concurrency} at once", err=True)
    if isinstance(app, trunkline.aio.App):
        asyncio.run(app.run(url))
    else:
        app.run(url)


def _load(target: str) -> trunkline.App | trunkline.aio.App:
    import trunkline
    import trunkline.aio

    name, colon, attribute = target.partition(":")
    if not (name and colon and attribute.isidentifier()):
        raise InvalidArgument(f"not an app: {target!r}; write MODULE:APP, for example billing:app")
    module = imported(name)
    kinds = (trunkline.App, trunkline.aio.App)
    if not hasattr(module, attribute):
        apps = [each for each, value in vars(module).items() if isinstance(value, kinds)]
        raise NotFound(f"module {name} has no {attribute}; its apps: {', '.join(apps) or 'none'}")
    found = getattr(module, attribute)
    if not isinstance(found, kinds):
        raise InvalidArgument(f"{target} is not a trunkline.App, but a {type(found).__name__}")
    return found


def imported(name: str) -> ModuleType:
    """A module of the application's, with the current directory on the path."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            _refuse(name, error)
        raise NotFound(f"there is no module {error.name} here; start it in the folder that holds {name}") from None
    except Exception as error:  # noqa: BLE001 - whatever the module raises
        _refuse(name, error)


def _refuse(name: str, error: Exception) -> NoReturn:
    """Show where the module failed: its own lines, not ours or the importer's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
    click.echo("".join(lines), err=True, nl=False)
    click.echo(f"error: module {name} cannot be imported", err=True)
    click.get_current_context().exit(exits.FAILURE)
