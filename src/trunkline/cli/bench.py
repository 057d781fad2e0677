"""`trunkline bench`: the benchmarks of the repository."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from trunkline.cli.server import given_url
from trunkline.errors import NotFound

REPOSITORY = Path(__file__).resolve().parents[3]


@click.group()
def bench() -> None:
    """Measure against a baseline.

    Needs a clone of the repository.
    """


def _benchmark(run: Callable[..., None]) -> click.Command:
    """A command that takes its arguments as they are: the benchmark itself knows what they mean."""
    arguments = click.argument(
        "arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--quick] [--json] [--only NAME] [ARGUMENT]..."
    )
    return bench.command(context_settings={"ignore_unknown_options": True})(arguments(run))


@_benchmark
def log(arguments: tuple[str, ...]) -> None:
    """Measure the log against one row a record.

    Without --url it starts a PostgreSQL of its own. Arguments are handed on to the benchmark, whose exit code
    it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("log", arguments)


@_benchmark
def groups(arguments: tuple[str, ...]) -> None:
    """Measure consumer groups against readers that poll.

    Without --url it starts a PostgreSQL of its own. Arguments are handed on to the benchmark, whose exit code
    it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("groups", arguments)


@_benchmark
def spark(arguments: tuple[str, ...]) -> None:
    """Measure topics in Spark against its own JDBC source.

    Without --url it starts a PostgreSQL of its own. Needs the extra spark, Java, and PostgreSQL's JDBC driver (Debian's
    libpostgresql-jdbc-java, or its path in TRUNKLINE_JDBC_JAR). Arguments are handed on to the benchmark, whose exit
    code it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("spark", arguments)


@_benchmark
def outbox(arguments: tuple[str, ...]) -> None:
    """Measure transactions that publish against those that do not.

    Without --url it starts a PostgreSQL of its own. Arguments are handed on to the benchmark, whose exit code
    it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("outbox", arguments)


@_benchmark
def queues(arguments: tuple[str, ...]) -> None:
    """Measure queues against tables whose rows are hidden or deleted.

    Without --url it starts a PostgreSQL of its own. Arguments are handed on to the benchmark, whose exit code
    it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("queues", arguments)


@_benchmark
def portable(arguments: tuple[str, ...]) -> None:
    """Measure the portable API against the brokers' own clients.

    Without --url it starts a PostgreSQL of its own. Arguments are handed on to the benchmark, whose exit code
    it is: 0 all targets reached, 1 a target missed, 2 the server's durability is weakened, 64 wrong use.
    """
    _become("portable", arguments)


def _become(name: str, arguments: tuple[str, ...]) -> NoReturn:
    if not (REPOSITORY / "benchmarks" / f"{name}.py").exists():
        raise NotFound("the benchmarks are not part of the package: run this in a clone of the repository")
    url = given_url()
    handed_on = [*(("--url", url) if url is not None else ()), *arguments]
    search = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    sys.stdout.flush()
    # In place of this process, so that signals and the exit code are the benchmark's own. -P: the folder that
    # the caller stands in may have benchmarks of its own.
    program = [sys.executable, "-P", "-m", f"benchmarks.{name}", *handed_on]
    os.execve(sys.executable, program, {**os.environ, "PYTHONPATH": search})  # noqa: S606 - a fixed program
