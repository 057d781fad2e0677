"""Processes that work at the same time.

Writers and readers are processes, so that one interpreter's lock is no part of what is measured. A job is prepared
(connected, payloads made, statements prepared) before anybody starts; then all start together.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

READY_S = 120.0
WORK_S = 1_800.0
END_S = 5.0


class WorkerFailed(Exception):
    """A process of the benchmark failed; its own traceback is in the message."""


class Job(Protocol[T_co]):
    """What a process is sent: opened, it gives the work to be timed."""

    def opened(self) -> AbstractContextManager[Callable[[], T_co]]: ...


class Crew:
    """A number of processes that live as long as the crew. None is left behind when the block ends."""

    def __init__(self, size: int) -> None:
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(size):
            mine, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs,), name=f"bench-{number}", daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self._processes.append(process)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            if kind is None:
                pipe.send(None)
                process.join(END_S)
            pipe.close()
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, jobs: Sequence[Job[T]], *, before: Callable[[], object] | None = None) -> list[T]:
        """What each job returned. ``before`` is called when all are ready, right before they start."""
        pipes = self._pipes[: len(jobs)]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        for pipe in pipes:
            _answer(pipe, READY_S)
        if before is not None:
            before()
        for pipe in pipes:
            pipe.send("go")
        return [_answer(pipe, WORK_S) for pipe in pipes]


def _answer(pipe: Connection, deadline_s: float) -> Any:
    if not pipe.poll(deadline_s):
        raise WorkerFailed(f"a process of the benchmark has not answered for {deadline_s:g} s")
    try:
        ok, result = pipe.recv()
    except EOFError:
        raise WorkerFailed("a process of the benchmark ended; the system may have run out of memory") from None
    if not ok:
        raise WorkerFailed(str(result))
    return result


def _work(pipe: Connection) -> None:
    """The life of a process: jobs, one after the other, until there is none."""
    try:
        while (job := pipe.recv()) is not None:
            try:
                _one(pipe, job)
            except Exception:  # noqa: BLE001 - whatever it was, the one who sent the job must know
                pipe.send((False, traceback.format_exc()))
    except (EOFError, KeyboardInterrupt):
        pass


def _one(pipe: Connection, job: Job[object]) -> None:
    with job.opened() as work:
        pipe.send((True, None))
        pipe.recv()
        result = work()
    pipe.send((True, result))
