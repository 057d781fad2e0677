"""What a Python worker of Spark's should do differently while it works for us."""

from __future__ import annotations

import gc
import sys
import traceback
from types import SimpleNamespace

_KEEPER = "pyspark.daemon"


def leave_quietly() -> None:
    """Let a worker whose connection Spark has closed end without a word.

    Over the sockets that sessions of ours use (``defaults.LOCAL_SOCKETS``), writing to a closed connection is an error
    at once, where TCP takes it silently: each worker that is not needed any more, as after a ``limit``, would end with
    a traceback on the terminal. Anywhere but in such a worker this does nothing.
    """
    if _is_worker():
        sys.modules["__main__"].traceback = SimpleNamespace(  # type: ignore[attr-defined]
            print_exc=_print_other_failures, format_exc=traceback.format_exc
        )


def spare_collections() -> None:
    """Let a worker leave what it has imported out of its collections of garbage.

    Spark collects garbage in a worker after each task, while the next one waits for it. With Arrow and its driver that
    took 40 ms, for modules that stay anyway. What exists at this moment is never collected: to be called at the end of
    imports. Anywhere but in such a worker this does nothing.
    """
    if _is_worker():
        gc.freeze()


def _is_worker() -> bool:
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) == _KEEPER


def _print_other_failures() -> None:
    if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
        traceback.print_exc()
