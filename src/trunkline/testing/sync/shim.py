"""What the suite needs of the world it runs in; its counterpart is ``trunkline.testing.aio.shim``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
SuiteT = TypeVar("SuiteT", bound=type)


def runs_by_itself(suite: SuiteT) -> SuiteT:
    """Nothing to do: its tests are plain."""
    return suite


class Running(Generic[T]):
    """A call that goes on beside the test, in a thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="conformance", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:  # noqa: BLE001 - raised by result, in the test's thread
            self._error = error

    def begin(self) -> None:
        """Let it come as far as it comes by itself: threads do."""

    def result(self, patience_s: float) -> T:
        """What it returns or raises; fails where it does not end in time."""
        self._thread.join(patience_s)
        assert not self._thread.is_alive(), f"it has not ended within {patience_s:g} s"
        if self._error is not None:
            raise self._error
        return self._results[0]


def at_once(patience_s: float, *calls: Callable[[], T]) -> list[T]:
    """Run all calls at the same time, each in a thread; their results in order."""
    running = [Running(call) for call in calls]
    return [each.result(patience_s) for each in running]
