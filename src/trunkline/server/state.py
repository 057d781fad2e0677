"""What is remembered about a server between two calls: one small JSON file, readable by its owner only.

The file alone never proves that a server runs: `pid` is where to look, the life lock and the
postmaster decide.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path
from urllib.parse import quote

import msgspec

from trunkline.errors import EmbeddedServerError
from trunkline.server.directory import Directory

USER = "trunkline"
DATABASE = "trunkline"
HOST = "127.0.0.1"


class State(msgspec.Struct, frozen=True, kw_only=True):
    password: str
    port: int | None = None
    pid: int | None = None
    version: str = ""
    binaries: str = ""
    settings: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"State(port={self.port}, pid={self.pid}, version={self.version!r}, password=***)"

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{quote(database, safe='')}"


def read(directory: Directory) -> State | None:
    """None where no server has ever been."""
    try:
        return msgspec.json.decode(directory.state.read_bytes(), type=State)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise EmbeddedServerError(
            f"{directory.state} is damaged; drop the server's data with `trunkline dev reset`"
        ) from error


def write(directory: Directory, state: State) -> State:
    """All or nothing, also across a power failure."""
    descriptor, name = tempfile.mkstemp(dir=directory.path, prefix="state.unfinished.")  # 0600 by contract
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(directory.state)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return state


def new_password() -> str:
    return secrets.token_hex(24)
