"""Which server a command talks to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trunkline import Client

_URL = "trunkline.url"
Command = TypeVar("Command", bound=Callable[..., Any])


def url_option(command: Command) -> Command:
    """Adds --url. It may stand before or after the command's name; the last one counts."""
    return click.option(
        "--url",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        help="The PostgreSQL to use. Else TRUNKLINE_URL, else a running `trunkline dev`.",
    )(command)


def given_url() -> str | None:
    """What --url said."""
    url: str | None = click.get_current_context().meta.get(_URL)
    return url


def server_url() -> str:
    """The connection string to use, with its password: not to be shown."""
    from trunkline.client.target import resolve

    return resolve(given_url())


def connect() -> Client:
    """A client of the server that was named."""
    import trunkline

    return trunkline.connect(given_url())


def _remember(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta[_URL] = value
