"""Programs beside the tests' own Spark: Python programs, Spark's servers, packages that only one test needs."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pyspark
import pytest

DEADLINE_S = 300.0
"""After that a program counts as stuck; two cores may be shared by many."""

OWN_TOOLS = Path(__file__).parents[2] / ".tools" / "uv" / "bin" / "python"
"""The Python that `make setup` has made for uv, which has pip: the project's own environment has none."""


def run_program(code: str, **environ: str) -> str:
    """What a Python program prints. It must end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spark_class(name: str, *arguments: str) -> list[str]:
    """How a class of Spark is started from the package; the shell becomes the Java, so its process id is that one's."""
    return [str(Path(pyspark.__path__[0]) / "bin" / "spark-class"), name, *arguments]


@contextmanager
def started(command: list[str], log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the background, with what it says in a file; ended afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(condition: Callable[[], object], *processes: subprocess.Popen[bytes]) -> None:
    """Until a condition holds, as long as these processes live."""
    until = monotonic() + DEADLINE_S
    while not condition():
        for process in processes:
            assert process.poll() is None, f"{process.args!r} has ended with {process.returncode}"
        assert monotonic() < until, "waited in vain"
        sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def packages(*requirements: str) -> Path:
    """A folder with packages that are not installed, fetched once a run; skips where no index is in reach."""
    folder = Path(tempfile.mkdtemp(prefix="trunkline-packages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    python = OWN_TOOLS if OWN_TOOLS.exists() else sys.executable
    command = [str(python), "-m", "pip", "install", "--quiet", "--target", str(folder), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(requirements)} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return folder
