"""Real servers in throw-away directories that every account can reach, and real child processes."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trunkline.server
from trunkline.server import Server

RunPython = Callable[..., subprocess.CompletedProcess[str]]

CHILD_DEADLINE_S = 60.0
# Hides and replaces system files for one command only. An ordinary user is root there, and nowhere else.
MOUNT_NAMESPACE = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", "--mount")
SOURCE = Path(trunkline.server.__file__).parents[2]


def _new_directory() -> Path:
    # Not pytest's tmp_path, which only its owner may enter: PostgreSQL could not run under an account there.
    path = Path(tempfile.gettempdir()).resolve() / f"trunkline-test-{secrets.token_hex(6)}"
    path.mkdir(mode=0o755)
    return path


def _remove(place: Path) -> None:
    for lock in place.rglob("trunkline.lock"):
        trunkline.server.stop(lock.parent)
    shutil.rmtree(place)


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory; every server below it is stopped afterwards."""
    path = _new_directory()
    yield path
    _remove(path)


@pytest.fixture(scope="session")
def shared_place() -> Iterator[Path]:
    path = _new_directory()
    yield path
    _remove(path)


@pytest.fixture
def server(shared_place: Path) -> Server:
    """A running server that tests may stop, kill and start again, but not reset."""
    return trunkline.server.start(shared_place / "dev")


@pytest.fixture(scope="session")
def child_environment() -> dict[str, str]:
    others = ("TRUNKLINE_DEV_DIR", "TRUNKLINE_URL")
    outside = {name: value for name, value in os.environ.items() if name not in others}
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**outside, "PYTHONPATH": path}


@pytest.fixture(scope="session")
def run_python(child_environment: dict[str, str]) -> RunPython:
    """Runs Python code in a process of its own, behind a command such as `unshare` if one is given."""

    def run(
        code: str, *arguments: object, behind: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*behind, sys.executable, "-c", code, *map(str, arguments)],
            env={**child_environment, **environment},
            capture_output=True,
            text=True,
            timeout=CHILD_DEADLINE_S,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def user_namespaces() -> None:
    """Skips where the kernel or the container forbids them."""
    _need("unshare", "--user", "true", reason="user namespaces are forbidden here")


@pytest.fixture(scope="session")
def mount_namespaces() -> None:
    """Skips where no file system may be mounted, not even for ourselves: nothing can be hidden then."""
    mount = "mount -t tmpfs none /mnt"
    _need(*MOUNT_NAMESPACE, "sh", "-c", mount, reason="mount namespaces are forbidden here")


def _need(*command: str, reason: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no `{command[0]}` here")
    result = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_DEADLINE_S, check=False)
    if result.returncode != 0:
        pytest.skip(f"{reason}: {result.stderr.strip()}")
