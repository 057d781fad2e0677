"""What a Python worker of Spark's should do differently while it works for us."""

from __future__ import annotations

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
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == _KEEPER:
        main.traceback = SimpleNamespace(  # type: ignore[attr-defined]
            print_exc=_print_other_failures, format_exc=traceback.format_exc
        )


def _print_other_failures() -> None:
    if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
        traceback.print_exc()
