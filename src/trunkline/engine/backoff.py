"""How long to wait before the next attempt."""

from __future__ import annotations


def backoff_s(attempt: int, *, first_s: float, max_s: float, chance: float) -> float:
    """Doubles from ``first_s`` up to ``max_s``, spread over its upper half by ``chance`` in [0, 1).

    Attempts count from 0. The spread keeps clients that failed together from coming back together.
    """
    full = min(max_s, first_s * 2.0 ** min(attempt, 30))
    return full * (0.5 + chance / 2)
