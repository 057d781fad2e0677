"""Puts the installation script together from the files of this folder.

A script brings a database from one schema version to the newest: the migrations in between, then every function
anew, then what each role may call. Its pieces are the files as they stand; nothing is rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

_GRANTS = re.compile(r"^-- grants: (.+)$", re.MULTILINE)
_NOT_FUNCTIONS = ("migrations", "install")
ROLES = ("producer", "consumer", "admin")


def _read(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


def migrations() -> list[tuple[int, str]]:
    """Number and text of every migration, in order."""
    found = sorted(
        (entry for entry in files(__package__).joinpath("migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    return [(int(entry.name[:4]), entry.read_text(encoding="utf-8")) for entry in found]


def schema_version() -> int:
    """The version that this package installs: the number of its last migration."""
    return migrations()[-1][0]


def functions() -> dict[str, str]:
    """Name and text of every function, in a stable order."""
    return {entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8") for entry in _function_files()}


def _function_files() -> Iterator[Traversable]:
    for folder in sorted(files(__package__).iterdir(), key=lambda entry: entry.name):
        if folder.is_dir() and folder.name not in _NOT_FUNCTIONS:
            entries = (entry for entry in folder.iterdir() if entry.name.endswith(".sql"))
            yield from sorted(entries, key=lambda entry: entry.name)


def functions_of(role: str) -> list[str]:
    """What a role may call: the functions whose header grants it. An administrator may call all that are granted."""
    return [name for name, text in functions().items() if role in _granted(name, text)]


def _granted(name: str, text: str) -> set[str]:
    found = _GRANTS.search(text)
    if not found:
        raise ValueError(f"the header of {name}.sql has no line '-- grants: …'")
    granted = set(found[1].split(", ")) - {"none"}
    return granted | {"admin"} if granted else granted


def catalogue_query() -> str:
    """The query that lists everything the schema consists of."""
    return _read("install", "catalogue.sql")


def install_script(from_version: int = 0) -> str:
    """The statements, without BEGIN and COMMIT, that bring a schema of that version (0: none) to the newest."""
    pieces = [_read("install", "begin.sql")]
    pieces += [text for number, text in migrations() if number > from_version]
    pieces += [_read("install", "replace.sql"), *functions().values(), _read("install", "finish.sql")]
    return "\n".join(pieces)
