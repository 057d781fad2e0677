"""What Spark's errors mean to the writer of a pipeline file: the step or sink, its line, and one sentence.

Spark wraps an error several times, with plans and stacks of two languages. An error of ours that happened in a Python
process of Spark's is found in the text and raised again as what it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import PySparkException

from trunkline import errors
from trunkline.client import target
from trunkline.errors import InvalidArgument, QueryFailed, TrunklineError
from trunkline.nodes import Place, Text
from trunkline.spark.pipeline.file import SqlStep, Step

WRAPPED_LINES = 1
"""The SQL of a step stands in parentheses, one line further down than in its own text."""

_OURS = re.compile(r"trunkline\.errors\.(\w+): ([^\n]+)")
_LINE = re.compile(r"line (\d+),? pos(?:ition)? \d+")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)?)\] ([^\n]+)")
_WRAPPERS = ("STREAM_FAILED", "PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF", "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR")
_TAIL = re.compile(r"\s*SQLSTATE: \w{5}.*$", re.DOTALL)
_CONTEXT = re.compile(r"== SQL \(line (\d+), position \d+\) ==\n([^\n]+)")
_TRACED = re.compile(r"^(\w[\w.]*(?:Error|Exception|Warning)): ([^\n]+)$", re.MULTILINE)


def in_sql(error: PySparkException, sql: Text) -> InvalidArgument:
    """An error of the analysis of a step."""
    found = _LINE.search(str(error))
    place = sql.line_of(int(found[1]) - WRAPPED_LINES) if found else sql.first_line
    return place.error(sentence(str(error)))


def of_query(error: BaseException, place: Place, steps: Sequence[Step], url: str) -> TrunklineError:
    """An error that ended a running query."""
    text = _with_causes(error)
    ours = _OURS.findall(text)
    if isinstance(error, TrunklineError):
        kind: type[TrunklineError] = type(error)
        said = text
    elif ours:
        name, said = ours[-1]
        found = getattr(errors, name, None)
        kind = found if isinstance(found, type) and issubclass(found, TrunklineError) else QueryFailed
    else:
        kind, said = QueryFailed, sentence(text)
        place = _in_steps(text, steps) or place
    return kind(without_password(f"{place}: {said}", url))


def _with_causes(error: BaseException) -> str:
    """What it says, and then what caused it, each without the state of the query."""
    texts = []
    cause: BaseException | None = error
    while cause is not None:
        texts.append(_said(str(cause)))
        cause = getattr(cause, "_cause", None)
    return "\n".join(texts)


def _said(text: str) -> str:
    return text.split("\n=== Streaming Query ===", maxsplit=1)[0]


def sentence(text: str) -> str:
    """What an error of Spark's says, without plan, stack and state."""
    head = _said(text)
    conditions = [said for name, said in _CONDITION.findall(head) if name not in _WRAPPERS]
    traced = _TRACED.findall(head)
    if conditions:
        said = conditions[-1]
    elif traced:
        said = f"{traced[-1][0]}: {traced[-1][1]}"
    else:
        said = head.strip().split("\n")[0]
    return _TAIL.sub("", said).rstrip(" ;") or "Spark does not say why"


def without_password(text: str, url: str) -> str:
    """Whatever the text came from, the passwords of the URL are not in it."""
    parts = target.parse(url)
    for secret in (parts.get("password"), parts.get("sslpassword")):
        if secret:
            text = text.replace(secret, "***")
    return text


def _in_steps(text: str, steps: Sequence[Step]) -> Place | None:
    """The step whose SQL Spark quotes."""
    for line, quoted in _CONTEXT.findall(text):
        number = int(line) - WRAPPED_LINES
        for step in steps:
            lines = step.made.sql.value.split("\n") if isinstance(step.made, SqlStep) else []
            if 1 <= number <= len(lines) and quoted.strip(". ") in lines[number - 1]:
                return step.made.sql.line_of(number)
    return None
