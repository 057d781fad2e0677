"""The command as a process: exit codes, pipes, signals, terminals, and what must never be shown."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, DEADLINE_S, Run, Start
from trunkline import Client, errors
from trunkline.cli import exits
from trunkline.errors import TrunklineError
from trunkline.server import Server

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "exit-codes.md"


def every_error(root: type[TrunklineError] = TrunklineError) -> Iterator[type[TrunklineError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from every_error(kind)


def test_every_error_has_the_exit_code_that_the_document_says() -> None:
    documented: dict[str, int] = {}
    for code, row in re.findall(r"^\| (\d+) \|(.+)$", DOCUMENT.read_text("utf-8"), re.MULTILINE):
        documented |= {error: int(code) for error in re.findall(r"TL\d{3}", row)}
    bases = {errors.ProducerError, errors.SchemaError}
    assert documented == {kind.code: exits.exit_code_of(kind) for kind in every_error() if kind not in bases}


def test_every_exit_code_is_in_the_document_and_in_the_help(run: Run) -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)}
    assert documented == set(exits.MEANINGS)
    shown = run("--help").stdout
    assert all(f"  {code} " in shown for code in exits.MEANINGS)


def test_an_unknown_command_or_option_names_the_nearest(run: Run) -> None:
    command = run("topics")
    assert (command.exit_code, "Did you mean 'topic'?" in command.stderr) == (2, True)
    below = run("topic", "descrbe", "x")
    assert (below.exit_code, "Did you mean 'describe'?" in below.stderr) == (2, True)
    option = run("topic", "create", "x", "--partition", "2")
    assert (option.exit_code, "Did you mean '--partitions'?" in option.stderr) == (2, True)


def test_the_url_may_stand_before_or_after_the_command(run: Run, db_url: str, tl: Client) -> None:
    tl.create_topic("orders")
    assert "orders" in run("--url", db_url, "topic", "list", TRUNKLINE_URL="").stdout
    assert "orders" in run("topic", "list", "--url", db_url, TRUNKLINE_URL="").stdout


def test_without_a_server_it_says_how_to_name_one(run: Run, tmp_path: Path) -> None:
    lost = run("topic", "list", TRUNKLINE_URL=None, TRUNKLINE_DEV_DIR=str(tmp_path / "none"))
    assert (lost.exit_code, "error [TL030]" in lost.stderr) == (3, True)


@pytest.mark.parametrize("command", [("topic", "list"), ("db", "verify"), ("doctor",), ("produce", "orders", "x")])
def test_a_wrong_password_is_refused_and_never_shown(run: Run, server: Server, command: tuple[str, ...]) -> None:
    password = server.url.split("@")[0].rpartition(":")[2]
    for wrong in ("guessed-secret", f"{password}x"):
        refused = run("--url", server.url.replace(password, wrong), *command)
        assert (refused.exit_code, "error [TL035]" in refused.stderr) == (5, True)
        assert wrong not in refused.output
        assert password not in refused.output


def test_what_is_not_a_url_is_not_repeated(run: Run) -> None:
    refused = run("--url", "postgresql://u:secret@[bad/x", "topic", "list")
    assert (refused.exit_code, "secret" in refused.output) == (2, False)


def test_a_server_that_is_not_there_is_unavailable(run: Run) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = run("--url", f"postgresql://u:p@127.0.0.1:{unused.getsockname()[1]}/x", "topic", "list")
    assert (refused.exit_code, "error [TL032]" in refused.stderr) == (4, True)


def test_what_is_not_a_postgres_is_unavailable(run: Run) -> None:
    def hang_up(listener: socket.socket) -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        refused = run("--url", f"postgresql://u:p@127.0.0.1:{listener.getsockname()[1]}/x", "topic", "list")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert (refused.exit_code, "error [TL032]" in refused.stderr) == (4, True)


def test_a_database_that_does_not_exist_is_not_found(run: Run, server: Server) -> None:
    refused = run("--url", server.database_url("nowhere"), "topic", "list")
    assert (refused.exit_code, "error [TL002]" in refused.stderr) == (3, True)


def test_a_database_without_the_schema_names_the_command_to_run(run: Run, empty_url: str) -> None:
    refused = run("--url", empty_url, "topic", "list")
    assert (refused.exit_code, "trunkline db install" in refused.stderr) == (6, True)


def test_a_closed_pipe_ends_it_quietly_while_it_writes(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    tl.publish_many("orders", [b"x" * 1_000] * 2_000)
    process = start("consume", "orders", "-e")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.wait(DEADLINE_S), process.stderr.read()) == (141, b"")


def test_a_closed_pipe_ends_it_quietly_while_it_waits(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    tl.publish("orders", b"x")
    process = start("tail", "orders")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert (process.wait(DEADLINE_S), process.stderr.read()) == (141, b"")


def test_ctrl_c_while_reading_input_leaves_what_was_published(start: Start, tl: Client) -> None:
    tl.create_topic("orders")
    process = start("produce", "orders", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"kept\nunfinished")
    process.stdin.flush()
    assert process.stdout.readline() == b"0:1\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 130
    assert [record.payload for record in tl.read("orders")] == [b"kept"]


def test_on_a_terminal_there_are_tables_and_readable_lines(
    on_terminal: Callable[..., tuple[int, str]], tl: Client
) -> None:
    tl.create_topic("orders", partitions=2)
    tl.publish("orders", b"\x1b[31mred\xff\n", key="k", headers={"a": "1"}, partition=0)
    code, said = on_terminal("topic", "list")
    assert code == 0
    assert re.search(r"^\W*orders\s+2\s+-\s+-\s+\d{4}-", said, re.MULTILINE)
    code, said = on_terminal("consume", "orders", "-e")
    assert code == 0
    assert re.fullmatch(r"0:1  \d{4}-\S+Z  key=k  a=1  \\x1b\[31mred\\xff\\n\r\n", said)
    code, said = on_terminal("get", "orders", "0:1")
    assert code == 0
    assert "header     a=1\r\n" in said
    assert "\\x1b[31mred\\xff\r\n" in said


def test_help_needs_nothing_heavy() -> None:
    """Goal: --help is quick. Method: the command line's own modules import neither the driver nor Rich."""
    code = (
        "import sys, types; package = types.ModuleType('trunkline'); package.__path__ = [sys.argv.pop(1)]\n"
        "package.__version__ = '0'; sys.modules['trunkline'] = package\n"
        "import trunkline.cli.main\n"
        "print(sorted({'psycopg', 'msgspec', 'rich', 'asyncio'} & set(sys.modules)))"
    )
    folder = str(Path(exits.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    assert done.stdout == "[]\n"


def test_the_version_is_the_package_s() -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert re.fullmatch(r"trunkline, version \d+\.\d+\.\d+\n", done.stdout)
