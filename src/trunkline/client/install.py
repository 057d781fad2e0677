"""Installs the schema, brings it up to date, verifies it, removes it. For administrators, so it is sync only.

Everything happens in one transaction under one lock: two installers at once are safe, and a failure leaves nothing
half done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from trunkline.client import protocol, target
from trunkline.client.failures import translate
from trunkline.errors import (
    InvalidArgument,
    PermissionDenied,
    SchemaDamaged,
    SchemaForeign,
    SchemaMissing,
    SchemaOutdated,
    TrunklineError,
)
from trunkline.nearest import nearest_name
from trunkline.sql import script

CREATED_ROLES = {kind: f"trunkline_{kind}" for kind in script.ROLES}


class Installed(msgspec.Struct, frozen=True):
    """What an installation did: the schema's version before (0: there was none) and after."""

    before: int
    after: int
    roles: dict[str, str]


def parse_roles(text: str) -> dict[str, str] | None:
    """``create``: None; ``none``: no roles; else ``producer=…,consumer=…,admin=…`` as a mapping."""
    if text in ("create", "none"):
        return None if text == "create" else {}
    roles: dict[str, str] = {}
    for part in text.split(","):
        kind, equals, name = part.partition("=")
        if kind not in script.ROLES or not equals or not name:
            raise InvalidArgument(
                f"--roles {text!r}: write create, none, or producer=NAME,consumer=NAME,admin=NAME "
                f"(any of them); {kind!r} is none of these: {nearest_name(kind, script.ROLES)}"
            )
        roles[kind] = name
    return roles


def install(url: str, *, roles: Mapping[str, str] | None = None) -> Installed:
    """Install the schema, or bring it up to date. ``roles``: kind to role; None creates ours, {} grants to nobody."""
    return _bring_up_to_date(url, roles, must_exist=False)


def upgrade(url: str) -> Installed:
    """Bring an installed schema up to date, with the roles it has."""
    return _bring_up_to_date(url, {}, must_exist=True)


def _bring_up_to_date(url: str, roles: Mapping[str, str] | None, *, must_exist: bool) -> Installed:
    with _connect(url) as connection, connection.transaction():
        connection.execute(protocol.INSTALL_LOCK)
        before = installed_version(connection)
        if before == 0 and must_exist:
            raise SchemaMissing("Trunkline is not installed in this database; run: trunkline db install")
        newest = script.schema_version()
        if before > newest:
            raise SchemaOutdated(
                f"the schema has version {before}, newer than this package's {newest}; "
                "update the package instead: pip install --upgrade trunkline"
            )
        connection.execute(script.install_script(before).encode())
        granted = _grant(connection, roles, keep=before > 0)
        connection.execute(protocol.SCHEMA_FINISH, [newest, protocol.OLDEST_CLIENT])
        return Installed(before, newest, granted)


def installed_version(connection: psycopg.Connection[Any]) -> int:
    """The version of the installed schema, 0 where there is none; SchemaForeign where it is somebody else's."""
    row = connection.execute(protocol.META_EXISTS).fetchone()
    if not row or not row[0]:
        return 0
    try:
        with connection.transaction():
            row = connection.execute(protocol.META_VERSION).fetchone()
    except (psycopg.errors.UndefinedColumn, psycopg.errors.InsufficientPrivilege) as error:
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise translate(error) from error
        row = None
    if row is None:
        raise SchemaForeign(
            'this database has a schema "trunkline" that was not made by Trunkline; '
            "rename or drop that schema, or use another database"
        )
    return int(row[0])


def _grant(connection: psycopg.Connection[Any], roles: Mapping[str, str] | None, *, keep: bool) -> dict[str, str]:
    """Give each role its functions: what was granted before, and what is asked for now."""
    granted = [(kind, name) for kind, name in connection.execute(protocol.GRANTEES).fetchall()] if keep else []
    if roles is None:
        _create_roles(connection)
    asked = CREATED_ROLES if roles is None else roles
    for kind, name in dict.fromkeys([*granted, *asked.items()]):
        connection.execute(protocol.ROLE_GRANT, [kind, name, script.functions_of(kind)])
    return dict(asked)


def _create_roles(connection: psycopg.Connection[Any]) -> None:
    try:
        with connection.transaction():
            for name in CREATED_ROLES.values():
                connection.execute(protocol.ROLE_ENSURE, [name])
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionDenied(
            "this user may not create roles; use existing ones (--roles producer=…,consumer=…,admin=…), "
            "or let the owner alone use the schema (--roles none)"
        ) from error


def install_sql(roles: Mapping[str, str] | None = None) -> str:
    """The whole installation as a script for psql, to be read or run by somebody else."""
    asked = CREATED_ROLES if roles is None else roles
    lines = ["begin;", script.install_script()]
    for kind, name in asked.items():
        if roles is None:
            lines.append(_text("select trunkline.role_ensure({});", name))
        lines.append(_text("select trunkline.role_grant({}, {}, {});", kind, name, script.functions_of(kind)))
    lines.append(
        _text(
            "update trunkline.meta set schema_version = {}, oldest_client = {};",
            script.schema_version(),
            protocol.OLDEST_CLIENT,
        )
    )
    return "\n".join([*lines, "commit;", ""])


def _text(statement: str, *values: Any) -> str:
    return sql.SQL(statement).format(*(sql.Literal(value) for value in values)).as_string()


def catalogue(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Every object of the installed schema, with a digest of what defines it."""
    with connection.transaction():
        # For this transaction alone: behind a pooler the session goes on to serve others.
        connection.execute(protocol.PLAIN_PATH)
        rows = connection.execute(script.catalogue_query().encode()).fetchall()
    return {name: hashlib.sha256(definition.encode()).hexdigest()[:16] for name, definition in rows}


def expected_catalogue() -> dict[str, str]:
    """What ``catalogue`` gives for a schema that nobody has changed."""
    text = files("trunkline.sql").joinpath("catalogue.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, str])


def verify(url: str) -> int:
    """Compare the installed schema with the one this package installs; the number of objects that are as they should
    be. SchemaDamaged lists the differences."""
    with _connect(url) as connection:
        version = installed_version(connection)
        if version == 0:
            raise SchemaMissing("Trunkline is not installed in this database; run: trunkline db install")
        if version != script.schema_version():
            raise SchemaOutdated(
                f"the schema has version {version}, and this package brings {script.schema_version()}; "
                "run: trunkline db upgrade"
            )
        found, expected = catalogue(connection), expected_catalogue()
    differences = [f"missing: {name}" for name in expected.keys() - found.keys()]
    differences += [f"not ours: {name}" for name in found.keys() - expected.keys()]
    differences += [f"changed: {name}" for name in expected.keys() & found.keys() if expected[name] != found[name]]
    if differences:
        raise SchemaDamaged(
            "the schema is not what this package installs:\n  "
            + "\n  ".join(sorted(differences))
            + "\nrun: trunkline db install, which puts functions back; tables are for you to look at"
        )
    return len(found)


def after_restore(url: str) -> int:
    """Raise the log epoch after a restore; the new epoch."""
    with _connect(url) as connection:
        try:
            row = connection.execute(protocol.AFTER_RESTORE).fetchone()
        except psycopg.Error as error:
            raise translate(error) from error
    assert row is not None
    return int(row[0])


def uninstall(url: str) -> int:
    """Remove the schema with every topic and record in it; how many segments were dropped. Roles stay: they belong to
    the whole server."""
    with _connect(url) as connection:
        if installed_version(connection) == 0:
            raise SchemaMissing("Trunkline is not installed in this database; there is nothing to remove")
        dropped = 0
        for (name,) in connection.execute(protocol.TOPIC_NAMES).fetchall():
            connection.execute(protocol.TOPIC_DELETE, [name])
        # A table at a time: thousands in one transaction would need more locks than a server has by default.
        for (segment_id,) in connection.execute(protocol.SEGMENT_IDS).fetchall():
            connection.execute(protocol.DROP, [segment_id])
            dropped += 1
        connection.execute(protocol.SCHEMA_DROP)
        return dropped


class _Connection:
    """A connection in autocommit whose errors are ours."""

    def __init__(self, url: str) -> None:
        try:
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            raise translate(error) from error

    def __enter__(self) -> psycopg.Connection[Any]:
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._connection.close()
        if isinstance(error, psycopg.Error) and not isinstance(error, TrunklineError):
            raise translate(error) from error


def _connect(url: str) -> _Connection:
    target.parse(url)
    return _Connection(url)
