"""Which server a client talks to, and how its address is shown to people."""

from __future__ import annotations

import os
from collections.abc import Mapping

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from trunkline.errors import InvalidArgument, NotConfigured


def resolve(url: str | None = None, *, dev: bool = False, environment: Mapping[str, str] = os.environ) -> str:
    """The connection string: the argument, else ``TRUNKLINE_URL``, else a running ``trunkline dev``.

    With ``dev`` the embedded server is started, and the schema installed, if need be; a URL beside it is an error.
    """
    if dev:
        return _development_server(url)
    found = url if url is not None else environment.get("TRUNKLINE_URL") or _running_server()
    if not found:
        raise NotConfigured(
            "no server named: pass a URL, set TRUNKLINE_URL, or start one for development with `trunkline dev --detach`"
        )
    parse(found)
    return found


def resolve_doorbell(url: str | None = None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Where to listen, if that is not where everything else goes: the argument, else ``TRUNKLINE_DOORBELL_URL``."""
    found = url if url is not None else environment.get("TRUNKLINE_DOORBELL_URL") or None
    if found is not None:
        parse(found)
    return found


def parse(url: str) -> dict[str, str]:
    """The parts of a connection string; what is malformed is never repeated, as it may hold a password."""
    if not isinstance(url, str):
        raise InvalidArgument(f"a URL must be text, not {type(url).__name__}")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InvalidArgument(
            "this is not a PostgreSQL URL; it looks like postgresql://user:password@host:5432/database"
        ) from None
    return {name: str(value) for name, value in parts.items() if value is not None}


def shown(url: str) -> str:
    """The connection string without its password."""
    parts = parse(url)
    parts.pop("password", None)
    parts.pop("sslpassword", None)
    return make_conninfo("", **parts)


def _running_server() -> str | None:
    from trunkline import server

    running = server.find()
    return running.url if running else None


def _development_server(url: str | None) -> str:
    from trunkline import server
    from trunkline.client.install import install

    if url is not None:
        raise InvalidArgument("give a URL or dev=True, not both")
    started = server.start()
    install(started.url)
    return started.url
