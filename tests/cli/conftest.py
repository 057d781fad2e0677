"""The real command: inside this process where that is enough, as a process of its own where signals, pipes and
terminals matter."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import sql

import trunkline
from trunkline import Client, Consumer, ConsumerSettings
from trunkline.cli.main import cli
from trunkline.server import Server

ROOT = Path(__file__).resolve().parents[2]
# Modules of tests may use tests/cli/told.py.
IMPORTS = os.pathsep.join([str(Path(trunkline.__file__).parents[1]), str(ROOT)])
COMMAND = (sys.executable, "-c", "from trunkline.cli.main import main; main()")
DEADLINE_S = 90.0

Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="session")
def shared_url(
    server: Server, template: str, database_names: Iterator[str], database_url: Callable[[str], str]
) -> Iterator[str]:
    name = next(database_names)
    with psycopg.connect(server.url, autocommit=True) as connection:
        statement = sql.SQL("create database {} template {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        yield database_url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def db_url(shared_url: str) -> Iterator[str]:
    """One database for all tests of the command, without topics and groups: making one for each would take most of
    the time."""
    yield shared_url
    with trunkline.connect(shared_url) as client:
        for group in client.groups():
            client.delete_group(group.name, cut_off=True)
        for topic in client.topics():
            client.delete_topic(topic.name)


@pytest.fixture
def run(db_url: str) -> Run:
    """Runs a command in this process, against the test's own database unless told otherwise."""

    def command(*arguments: object, stdin: bytes | str = b"", **environment: str | None) -> Result:
        runner = CliRunner(env={"TRUNKLINE_URL": db_url, **environment})
        result = runner.invoke(cli, [str(argument) for argument in arguments], input=stdin, prog_name="trunkline")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return command


@pytest.fixture
def start(db_url: str) -> Iterator[Start]:
    """Starts a command as a process of its own; whatever still runs after the test is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def command(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TRUNKLINE_URL": db_url, "PYTHONPATH": IMPORTS}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*COMMAND, *arguments], env=environment, **{**pipes, **options})  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield command
    for process in started:
        process.kill()
        process.wait(DEADLINE_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def on_terminal(start: Start) -> Callable[..., tuple[int, str]]:
    """Runs a command on a terminal of its own; its exit code and what the terminal got."""

    def command(*arguments: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        process = start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        said = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        return process.wait(DEADLINE_S), said.decode()

    return command


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that nobody holds the other side any more
        return b""


@pytest.fixture
def tl(db_url: str) -> Iterator[Client]:
    with trunkline.connect(db_url) as client:
        yield client


@pytest.fixture
def empty_url(server: Server, database_names: Iterator[str]) -> Iterator[str]:
    """A database without the schema."""
    name = next(database_names)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield server.database_url(name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def orders(tl: Client) -> None:
    """Topic orders with two partitions and ten records in each."""
    tl.create_topic("orders", partitions=2)
    for partition in (0, 1):
        tl.publish_many("orders", [b"x"] * 10, partition=partition)


@pytest.fixture
def billing(tl: Client, orders: None) -> None:
    """Group billing, which has read nothing of orders yet."""
    tl.create_group("billing", "orders")


@pytest.fixture
def reader(tl: Client, billing: None) -> Iterator[Consumer]:
    """A living member of billing with everything in hand, and nothing committed."""
    settings = ConsumerSettings(name="reader:1")
    with tl.consumer("orders", group="billing", settings=settings) as consumer:
        assert len(consumer.poll()) == 20
        yield consumer
