"""Where the server that tests share keeps its data: in memory, where the system has room for it there.

Every test makes a database of some three hundred files and drops it. ext4 does not give a deleted file's place away for
minutes, and looks at all of them whenever a file is made: the hundredth database takes five times as long as the first.
Processes notice no difference, killed ones included; servers that a test kills are its own, and lie on the disk.

`tests/conftest.py` imports the fixture:

    from tests.conftest_place import server_folder as server_folder
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import trunkline.server
from trunkline.errors import EmbeddedServerError

MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 3 * 2**30
"""What several runs beside each other may take; in a container there is often far less."""
PREFIX = "trunkline-tests-"


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder for the shared server; gone after the run."""
    if not _has_room(MEMORY):
        yield tmp_path_factory.mktemp("server")
        return
    _sweep(MEMORY)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _has_room(place: Path) -> bool:
    return place.is_dir() and os.access(place, os.W_OK) and shutil.disk_usage(place).free >= FREE_BYTES_MIN


def _sweep(place: Path) -> None:
    """Ends and removes what runs that were killed have left: nobody else gives memory back."""
    for left in place.glob(f"{PREFIX}*"):
        with suppress(OSError, EmbeddedServerError):  # another run sweeps as well, or it is another user's
            if not Path(f"/proc/{left.name.removeprefix(PREFIX).partition('-')[0]}").exists():
                trunkline.server.stop(left / "data")
                shutil.rmtree(left)
