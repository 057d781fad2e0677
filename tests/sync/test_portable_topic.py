# Generated from tests/aio/test_portable_topic.py by tools/twins.py (make fix). Change the source, not this file.
"""A topic of the portable API under bad input, bad drivers and bad ends."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from tests.sync.scripted import ScriptedTopic
from tests.sync.shim import Gate, wait_until
from trunkline import Message, errors
from trunkline.testing.sync.shim import Running

PATIENCE_S = 30.0

NOT_MESSAGES: list[Any] = [
    None,
    "text",
    5,
    ["list"],
    Message("text"),  # type: ignore[arg-type]
    Message(None),  # type: ignore[arg-type]
    Message(b"", key=5),  # type: ignore[arg-type]
    Message(b"", key="\ud800"),
    Message(b"", attributes="text"),  # type: ignore[arg-type]
    Message(b"", attributes=[("a", "b")]),  # type: ignore[arg-type]
    Message(b"", attributes={"a": b"b"}),  # type: ignore[dict-item]
    Message(b"", attributes={"a": None}),  # type: ignore[dict-item]
    Message(b"", attributes={b"a": "b"}),  # type: ignore[dict-item]
    Message(b"", attributes={5: "b"}),  # type: ignore[dict-item]
    Message(b"", attributes={"": "b"}),
    Message(b"", attributes={"a": "\ud800"}),
    Message(b"", attributes={"\udfff": "b"}),
    Message(b"", headers={"a": "b"}),
    Message(b"", partition=0),
    Message(b"", group_key="user"),
    Message(b"", deliver_after_s=5),
]


@pytest.mark.parametrize("bad", NOT_MESSAGES, ids=range(len(NOT_MESSAGES)))
def test_what_is_no_message_is_refused_and_nothing_is_sent(bad: Any) -> None:
    driver = ScriptedTopic()
    with driver.opened() as topic:
        with pytest.raises(errors.InvalidArgument):
            topic.send(bad)
    assert driver.batches == []


def test_bytes_of_any_kind_are_a_message() -> None:
    driver = ScriptedTopic()
    with driver.opened() as topic:
        bodies: list[Any] = [b"1", bytearray(b"2"), memoryview(b"3")]
        for message in (*bodies, Message(bodies[1]), Message(b"5", attributes={})):
            topic.send(message)
    assert driver.batches == [[b"1"], [b"2"], [b"3"], [b"2"], [b"5"]]


def test_a_driver_that_raises_what_it_likes_is_a_driver_error_without_secrets() -> None:
    driver = ScriptedTopic([ZeroDivisionError("at user:hunter2"), errors.NotFound("no hunter2 here")])
    with driver.opened() as topic:
        with pytest.raises(
            errors.DriverError, match=r"driver memory raised ZeroDivisionError: at user:\*\*\*"
        ) as caught:
            topic.send(b"1")
        assert "hunter2" not in f"{caught.value.__cause__!r}"
        with pytest.raises(errors.NotFound, match=r"no \*\*\* here"):
            topic.send(b"2")
        assert "hunter2" not in repr(topic)


def test_S2_23_errors_of_single_messages_and_what_is_behind_them_have_no_secrets() -> None:
    """Method: the password is in an answer, in a note, in the cause of a cause, in a group, and in the context."""
    word = "hunter2"
    answered = errors.PermissionDenied(f"refused {word}")
    noted = errors.PermissionDenied("refused")
    noted.add_note(f"by {word}")
    caused = errors.PermissionDenied("refused")
    caused.__cause__ = OSError("no connection")
    caused.__cause__.__cause__ = ExceptionGroup("many", [OSError(f"password={word}")])
    met = errors.PermissionDenied("refused")
    met.__context__ = OSError(f"password={word}")
    harmless = errors.PermissionDenied("refused")
    harmless.__cause__ = OSError("no connection")
    foreign = ValueError(f"bad {word}")
    driver = ScriptedTopic([[answered], [noted], [caused], met, harmless, foreign])
    with driver.opened() as topic:
        for _ in range(6):
            with pytest.raises(errors.TrunklineError) as caught:
                topic.send(b"1")
            shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.__context__)
            assert word not in shown
    assert isinstance(harmless.__cause__, OSError)


def test_what_a_driver_raised_is_the_cause_where_there_are_no_secrets() -> None:
    raised = ZeroDivisionError()
    driver = ScriptedTopic([raised])
    with driver.opened("memory://orders") as topic:
        with pytest.raises(errors.DriverError) as caught:
            topic.send(b"1")
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (lambda: None, "NoneType where a list of answers was due"),
        (lambda: iter(["a"]), "iterator where a list of answers was due"),
        (lambda: (each for each in "a"), "generator where a list of answers was due"),
        (lambda: "a", "str where a list of answers was due"),
        (lambda: 5, "int where a list of answers was due"),
        (lambda: [ValueError("no")], "ValueError as the answer for a message"),
        (lambda: [None], "NoneType as the answer for a message"),
        (lambda: (b"a",), "bytes as the answer for a message"),
    ],
)
def test_a_driver_that_answers_with_anything_else_is_a_driver_error(
    answers: Callable[[], Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ScriptedTopic()

    def send_batch(_: object) -> Any:
        return answers()

    monkeypatch.setattr(driver, "send_batch", send_batch)
    with driver.opened() as topic:
        with pytest.raises(errors.DriverError, match=said):
            topic.send(b"1")


def test_a_driver_may_answer_with_any_sequence_and_any_text() -> None:
    class Id(str):
        __slots__ = ()

    driver = ScriptedTopic([("a",), deque(["b"]), [Id("c")]])  # type: ignore[list-item]
    with driver.opened() as topic:
        assert [topic.send(b"1") for _ in range(3)] == ["a", "b", "c"]


@pytest.mark.parametrize("answers", [[], ["a", "b"]])
def test_a_driver_that_answers_too_little_or_too_much_is_a_driver_error(answers: list[Any]) -> None:
    driver = ScriptedTopic([answers])
    with driver.opened() as topic:
        with pytest.raises(errors.DriverError, match="answers for 1 messages"):
            topic.send(b"1")


def test_closing_waits_for_what_is_under_way_and_in_line() -> None:
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened()
    first = Running(lambda: topic.send(b"0"))
    wait_until(lambda: len(driver.batches) == 1)
    second = Running(lambda: topic.send(b"1"))
    wait_until(lambda: len(topic._lane._line) == 1)
    closing = Running(topic.close)
    wait_until(lambda: topic._closed)
    with pytest.raises(errors.Closed):
        topic.send(b"late")
    driver.gate.open()
    closing.result(PATIENCE_S)
    assert [first.result(PATIENCE_S), second.result(PATIENCE_S)] == ["id-0", "id-1"]
    assert driver.is_closed


def test_closing_ends_though_a_driver_hangs_and_who_is_in_line_is_told(caplog: pytest.LogCaptureFixture) -> None:
    driver = ScriptedTopic(gate=Gate())
    assert driver.gate is not None
    topic = driver.opened(close_timeout_s=0.05)
    stuck = Running(lambda: topic.send(b"0"))
    wait_until(lambda: len(driver.batches) == 1)
    in_line = Running(lambda: topic.send(b"1"))
    wait_until(lambda: len(topic._lane._line) == 1)
    with caplog.at_level(logging.WARNING):
        Running(topic.close).result(PATIENCE_S)
    assert "still under way" in caplog.text
    with pytest.raises(errors.Cancelled):
        in_line.result(PATIENCE_S)
    driver.gate.open()
    assert stuck.result(PATIENCE_S) == "id-0"


def test_a_driver_that_cannot_be_closed_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ScriptedTopic()

    def close() -> None:
        raise OSError("hunter2")

    monkeypatch.setattr(driver, "close", close)
    with caplog.at_level(logging.WARNING):
        driver.opened().close()
    assert "could not be closed well" in caplog.text
    assert "hunter2" not in caplog.text


FORK = """
import os, trunkline
from trunkline.errors import Closed
from trunkline.testing import MemoryBroker

with MemoryBroker() as broker:
    broker.create_topic("orders")
    broker.create_subscription("orders", "emails")
    topic = trunkline.open_topic("memory://orders")
    topic.send(b"1")
    subscription = trunkline.open_subscription("memory://orders?subscription=emails")
    message = subscription.receive()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: topic.send(b"1"), subscription.receive, message.ack, topic.close, subscription.close):
            try:
                call()
            except Closed:
                refused += 1
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    message.ack()
    topic.close()
    subscription.close()
    print(os.waitstatus_to_exitcode(status))
"""


def test_what_was_opened_belongs_to_one_process() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.stdout == "5\n", done.stderr
