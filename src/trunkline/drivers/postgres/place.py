"""What a URL of the Postgres driver means: a server, a topic, and a queue or group.

    trunkline://user:password@host:5432/db/orders?queue=emails
    trunkline:///orders?group=billing

With a host, in its place or as a parameter, the first part of the path is the database and all that follows is the
topic, slashes included. Without one the path is the topic, and the server is that of ``TRUNKLINE_URL``, else a running
``trunkline dev``. A database whose name has a slash is given as ``dbname``, and then the path is the topic.
"""

from __future__ import annotations

from typing import Any

import msgspec
from psycopg.conninfo import make_conninfo

from trunkline.client import target as server
from trunkline.engine.checks import check_group_name, check_queue_name, check_topic_name
from trunkline.errors import InvalidArgument
from trunkline.portable.driver import Target

LIBPQ = (
    "application_name",
    "channel_binding",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "port",
    "require_auth",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
)
"""The parameters of libpq that a URL may have, under their own names."""
SECRETS = frozenset({"sslpassword"})

# libpq would say so only when it connects, in words like those for a server that is away.
_CHOICES = {
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
    "load_balance_hosts": ("disable", "random"),
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
}
_NUMBERS = ("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "tcp_user_timeout")
_LOOKS_LIKE = "it looks like trunkline://host:5432/database/orders?queue=emails, or trunkline:///orders?queue=emails"


class Place(msgspec.Struct, frozen=True):
    """A topic in a database. ``conninfo`` has the password: it is not to be shown."""

    conninfo: str
    is_named: bool
    """Whether the URL itself says which server."""
    topic: str
    queue: str | None = None
    group: str | None = None


def topic_place(target: Target) -> Place:
    """Where to send."""
    conninfo, is_named, topic = _server_and_topic(target)
    return Place(conninfo, is_named, topic)


def subscription_place(target: Target) -> Place:
    """Where to receive: from a queue, or with a group."""
    queue, group = target.parameters.get("queue"), target.parameters.get("group")
    if (queue is None) == (group is None):
        wrong = (
            "has both a queue and a group: choose one" if queue is not None else "says neither which queue nor group"
        )
        raise InvalidArgument(f"{target.shown} {wrong}; {_LOOKS_LIKE}, or with ?group=billing")
    if queue is not None:
        check_queue_name(queue)
    else:
        check_group_name(group)
    conninfo, is_named, topic = _server_and_topic(target)
    return Place(conninfo, is_named, topic, queue, group)


def _server_and_topic(target: Target) -> tuple[str, bool, str]:
    given = {name: value for name, value in target.parameters.items() if name in LIBPQ}
    path = target.path.removeprefix("/")
    if not (target.host or "host" in given or "hostaddr" in given):
        _refuse_without_host(target, given)
        topic = check_topic_name(path)
        return server.resolve(), False, topic
    database, topic = given.get("dbname"), path
    if database is None:
        database, slash, topic = path.partition("/")
        if not (database and slash):
            raise InvalidArgument(
                f"{target.shown} has a host, and so its path must be a database and a topic; {_LOOKS_LIKE}"
            )
    check_topic_name(topic)
    parts = {**given, **_authority(target, given), "dbname": database}
    _check_values(parts)
    conninfo = make_conninfo(**{name: value for name, value in parts.items() if value is not None})
    server.parse(conninfo)
    return conninfo, True, topic


def _refuse_without_host(target: Target, given: dict[str, Any]) -> None:
    parts = [*given, *(("port",) if target.port else ()), *(("user",) if target.username or target.password else ())]
    if parts:
        raise InvalidArgument(
            f"{target.shown} has a {parts[0]}, but no host; name the host, or put the {parts[0]} into TRUNKLINE_URL"
        )


def _authority(target: Target, given: dict[str, Any]) -> dict[str, Any]:
    """What stands before the path."""
    found = {"host": target.host or None, "port": target.port, "user": target.username, "password": target.password}
    for name in ("host", "port"):
        if found[name] is not None and name in given:
            raise InvalidArgument(f"{target.shown} has its {name} twice: before the path, and as a parameter")
    return {name: value for name, value in found.items() if value is not None}


def _check_values(parts: dict[str, Any]) -> None:
    for name, choices in _CHOICES.items():
        if name in parts and parts[name] not in choices:
            raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, not {ascii(parts[name])[:40]}")
    for name in _NUMBERS:
        if name in parts and not parts[name].isdecimal():
            raise InvalidArgument(f"{name} must be a whole number, not {ascii(parts[name])[:40]}")
    ports = str(parts.get("port", 5432)).split(",")
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in ports):
        raise InvalidArgument(f"port must be 1 to 65535, or one for each host, not {ascii(parts['port'])[:40]}")
    nul = next((name for name, value in parts.items() if "\0" in str(value)), None)
    if nul is not None:
        raise InvalidArgument(f"the {nul} of the URL has a NUL in it")
