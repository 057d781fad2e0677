"""The server's postgresql.conf: initdb's own, then ours, then what the caller asks for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from trunkline.errors import InvalidArgument
from trunkline.server.directory import Directory
from trunkline.server.state import HOST

SMALL = {
    "shared_buffers": "128MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
# Measurements and tests must mean what they say: a development server keeps what it acknowledges.
DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
OURS = {
    "listen_addresses": HOST,
    # TCP alone: a socket's path may have 107 bytes only, and Spark needs TCP anyway.
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "log_destination": "stderr",
    "logging_collector": "off",
}
FILES = {"config_file", "data_directory", "hba_file", "ident_file", "external_pid_file"}
INCLUDES = {"include", "include_dir", "include_if_exists"}
RESERVED = {*OURS, *FILES, *INCLUDES, "port"}
NAME = r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)?"
OFF = {"off", "false", "no", "0", "f", "n", "of", "fa", "fal", "fals"}


def check(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as given, names in lower case; InvalidArgument for what may not be set."""
    checked: dict[str, str] = {}
    for name, value in settings.items():
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise InvalidArgument(f"{name!r} is not the name of a PostgreSQL setting")
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidArgument(f"the value of {name} must be a str on one line, for example '64' or 'on'")
        checked[name.lower()] = value
    for name, value in checked.items():
        _check_allowed(name, value)
    return checked


def _check_allowed(name: str, value: str) -> None:
    if name in RESERVED:
        raise InvalidArgument(f"{name} is decided by the embedded server and cannot be set")
    if name in DURABLE and value.strip().lower() in OFF:
        raise InvalidArgument(f"{name}={value} would weaken durability, which the embedded server never does")


def write(directory: Directory, settings: Mapping[str, str], *, gid: int | None) -> None:
    """For the server's eyes: owner, and the group that the server runs under if that is another one."""
    lines = [f"include '{directory.pgdata.name}/postgresql.conf'"]
    values = {**SMALL, **DURABLE, **OURS, **settings}
    lines += [f"{name} = {_quoted(value)}" for name, value in values.items()]
    directory.config.unlink(missing_ok=True)
    descriptor = os.open(directory.config, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
        if gid is not None:
            os.fchown(descriptor, -1, gid)
            os.fchmod(descriptor, 0o640)


def _quoted(value: str) -> str:
    # PostgreSQL reads backslashes in quoted values as escapes.
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
