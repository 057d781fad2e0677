"""Times of many, as percentiles of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

PERCENTILES = (50, 95, 99)


class Sample(NamedTuple):
    """How long it took, and how many records it took so long for."""

    took_s: float
    records: int = 1


def percentile(samples: Iterable[Sample], percent: float) -> float:
    """The least time that so many percent of the records did not exceed, in milliseconds."""
    ordered = sorted(samples)
    wanted = percent / 100 * sum(sample.records for sample in ordered)
    seen = 0
    for sample in ordered:
        seen += sample.records
        if seen >= wanted:
            return sample.took_s * 1_000
    raise ValueError("there is nothing to take a percentile of")


def percentiles(samples: Sequence[Sample]) -> dict[int, float]:
    return {percent: percentile(samples, percent) for percent in PERCENTILES}
