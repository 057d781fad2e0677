"""`trunkline run`: what it loads, how it ends, and what becomes of records whose process dies."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.cli.conftest import DEADLINE_S, Run, Start
from tests.concurrency.sessions import wait_until
from trunkline import Client

PLAIN = """
import os
import trunkline
from tests.cli import told

app = trunkline.App()
settings = trunkline.HandlerSettings(commit_interval_s=0.05)


@app.on("orders", group="billing", create=True, settings=settings)
def bill(record):
    app.client.publish("begun", record.payload)
    {body}
    app.client.publish("ended", record.payload)
"""
ASYNC = (
    PLAIN.replace("import trunkline", "import trunkline.aio")
    .replace("trunkline.App", "trunkline.aio.App")
    .replace("def ", "async def ")
    .replace("app.client.publish", "await app.client.publish")
)
UNTIL_TOLD = {
    PLAIN: "told.until_nothing_begins()",
    ASYNC: "await told.until_nothing_begins_async()",
}
WORLDS = pytest.mark.parametrize("text", [PLAIN, ASYNC], ids=["plain", "async"])

# A module is imported once in a process, whatever its folder.
NAMES = (f"billing_{number}" for number in count())

Write = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module into a folder, which is the current one; what ``:app`` in it is called."""
    monkeypatch.chdir(tmp_path)
    # A process that is gone is noticed soon.
    monkeypatch.setenv("TRUNKLINE_HEARTBEAT_S", "0.2")
    monkeypatch.setenv("TRUNKLINE_SESSION_TIMEOUT_S", "3")

    def write(text: str) -> str:
        name = next(NAMES)
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return f"{name}:app"

    return write


@pytest.fixture
def topics(tl: Client) -> Client:
    for name in ("orders", "begun", "ended"):
        tl.create_topic(name)
    return tl


def payloads(tl: Client, topic: str) -> list[bytes]:
    return [record.payload for record in tl.read(topic)]


def wait_for(tl: Client, topic: str, wanted: list[bytes], process: subprocess.Popen[bytes]) -> None:
    def has_come() -> bool:
        if payloads(tl, topic) == wanted:
            return True
        assert process.poll() is None, process.stderr and process.stderr.read()
        return False

    wait_until(has_come, f"{topic} has {wanted}", deadline_s=DEADLINE_S)


@WORLDS
def test_sigterm_finishes_what_is_being_handled_commits_and_ends_well(
    text: str, module: Write, start: Start, topics: Client
) -> None:
    """The handler waits until the app has been told to end."""
    target = module(text.format(body=UNTIL_TOLD[text]))
    topics.publish_many("orders", [b"first", b"second"])
    process = start("run", target)
    wait_for(topics, "begun", [b"first"], process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    assert payloads(topics, "ended") == [b"first"]

    other = start("run", module(text.format(body="")))
    wait_for(topics, "ended", [b"first", b"second"], other)
    other.send_signal(signal.SIGINT)
    assert other.wait(DEADLINE_S) == 0
    assert process.stderr is not None
    assert b"bill of group billing handles orders, 1 at once\n" in process.stderr.read()


@WORLDS
def test_a_signal_that_finds_the_main_thread_asleep_is_seen(
    text: str, module: Write, start: Start, topics: Client
) -> None:
    """The handler's own thread gets it, and nothing wakes the one whose business signals are."""
    body = "import signal, threading; signal.pthread_kill(threading.get_ident(), signal.SIGTERM)"
    topics.publish("orders", b"first")
    process = start("run", module(text.format(body=body)))
    assert process.wait(DEADLINE_S) == 0
    assert payloads(topics, "ended") == [b"first"]


@WORLDS
@pytest.mark.parametrize("death", ["os._exit(3)", "os.kill(os.getpid(), 9)"], ids=["exit", "kill"])
def test_a_record_whose_process_dies_goes_to_another_process(
    text: str, death: str, module: Write, start: Start, topics: Client
) -> None:
    topics.publish_many("orders", [b"first", b"second"])
    dying = start("run", module(text.format(body=death)))
    assert dying.wait(DEADLINE_S) in (3, -9)
    assert (payloads(topics, "begun"), payloads(topics, "ended")) == ([b"first"], [])
    other = start("run", module(text.format(body="")))
    wait_for(topics, "ended", [b"first", b"second"], other)


@WORLDS
def test_a_handler_that_fails_for_good_ends_the_command_with_its_reason(
    text: str, module: Write, start: Start, topics: Client
) -> None:
    text = text.replace("commit_interval_s=0.05", "max_attempts=1")
    process = start("run", module(text.format(body="raise ValueError('no account')")))
    topics.publish("orders", b"x")
    assert process.wait(DEADLINE_S) == 1
    assert process.stderr is not None
    said = process.stderr.read().decode()
    assert "error [TL017]: bill of group billing at orders, partition 0, offset 1 failed" in said
    assert "ValueError: no account" in said


@WORLDS
def test_a_handler_that_does_not_return_ends_the_command(
    text: str, module: Write, start: Start, topics: Client
) -> None:
    wait = "await asyncio.Event().wait()" if text is ASYNC else "threading.Event().wait()"
    text = text.replace("import os", "import asyncio, os, threading")
    text = text.replace("commit_interval_s=0.05", "handler_timeout_s=0.2")
    process = start("run", module(text.format(body=wait)))
    topics.publish("orders", b"x")
    assert process.wait(DEADLINE_S) == 1
    assert process.stderr is not None
    assert b"error [TL015]: bill of group billing" in process.stderr.read()


def test_the_url_of_the_command_line_counts(run: Run, module: Write) -> None:
    refused = run("--url", "postgresql://nobody:secret@127.0.0.1:1/none", "run", module(PLAIN.format(body="")))
    assert (refused.exit_code, "secret" in refused.output) == (4, False)


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("billing", 2, "write MODULE:APP"),
        (":app", 2, "write MODULE:APP"),
        ("billing:", 2, "write MODULE:APP"),
        ("billing:app()", 2, "write MODULE:APP"),
        ("no_such_module:app", 3, "there is no module no_such_module"),
        ("no_such_module.below:app", 3, "there is no module no_such_module"),
    ],
)
def test_what_names_no_app_is_refused(run: Run, module: Write, target: str, code: int, said: str) -> None:
    refused = run("run", target)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 3, "has no app; its apps: none"),
        ("import trunkline\nbilling = trunkline.App()", 3, "its apps: billing"),
        ("app = 5", 2, "is not a trunkline.App, but a int"),
        ("import no_such_module", 1, "No module named 'no_such_module'"),
        ("\n\nvalue = 1 / 0", 1, "line 3, in <module>"),
        ("def app(:", 1, "SyntaxError"),
        ("import trunkline\napp = trunkline.App()", 2, "handles nothing"),
    ],
    ids=["empty", "other name", "not an app", "import", "raises", "syntax", "no handlers"],
)
def test_a_module_without_a_usable_app_is_refused(run: Run, module: Write, text: str, code: int, said: str) -> None:
    refused = run("run", module(text))
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output
    assert "cli/run.py" not in refused.output
