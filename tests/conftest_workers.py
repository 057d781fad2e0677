"""How `make test` (`pytest -n auto`) spreads the tests over processes. A single `pytest` runs them one after the other.

A worker is a process with a server of its own; it gets whole files, since tests of a file may share a database. Most
tests wait for a server or a process, Spark computes: the first worker begins with what needs Spark, the others with
everything else, and whoever has nothing left takes what is there. So Spark's session is seldom started twice, and the
processors have something to do while others wait.

`tests/conftest.py` imports the hooks:

    from tests.conftest_workers import pytest_report_to_serializable as pytest_report_to_serializable
    from tests.conftest_workers import pytest_xdist_auto_num_workers as pytest_xdist_auto_num_workers
    from tests.conftest_workers import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

WORKERS_MAX = 6
"""More would need more memory than a small machine has: each a server, some a Java."""
SPARK = ("tests/spark/", "tests/examples/test_spark_examples.py", "tests/cli/test_cli_demo.py")
LONGEST = ("tests/pooler/", "tests/docs/", "tests/groups/", "tests/queues/test_processes.py")
"""Begun before all others, so that nobody waits for them in the end."""
SINGLE = ("tests/pooler/test_suite.py", "tests/docs/test_documents.py", "tests/examples/test_spark_examples.py")
"""Files of long tests that share nothing: each test may go to another worker."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are processors, since most tests wait: on two, groups, queues, concurrency, outbox and
    mutants take 137 s with three workers and 107 s with six. Spark's tests leave no processor idle by themselves."""
    return min(2 * len(os.sched_getaffinity(0)), WORKERS_MAX)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Schedule:
    return Schedule(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, Any]:
    """What a test logs or fails with may hold lone surrogates, which cannot be sent to the process that shows it."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_sendable(key): _sendable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_sendable, value))
    return value


class Schedule(LoadFileScheduling):
    """Whole files, in the order that suits the worker who asks."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file in SINGLE else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        begins_with_spark = node is next(iter(self.assigned_work))
        chosen = min(self.workqueue, key=lambda scope: _rank(scope, begins_with_spark=begins_with_spark))
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _rank(scope: str, *, begins_with_spark: bool) -> tuple[bool, int]:
    """The smallest comes first; among equals the order of collection."""
    longest = [number for number, file in enumerate(LONGEST) if scope.startswith(file)]
    return scope.startswith(SPARK) != begins_with_spark, min(longest, default=len(LONGEST))
