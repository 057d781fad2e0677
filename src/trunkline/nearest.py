"""The nearest known name to one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_name(name: object, known: Iterable[str]) -> str:
    """A phrase for an error message: the likely name, else all of them."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names)}"
