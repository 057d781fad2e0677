"""What the demo has seen, as a picture: throughput above, lag below."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path


@dataclass
class Samples:
    """Counts and lags as they were at moments of the demo, in seconds since its start."""

    at_s: list[float] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)
    lags: dict[str, list[int]] = field(default_factory=dict)

    def add(self, at_s: float, counts: dict[str, int], lags: dict[str, int]) -> None:
        """Names that come later have been zero before."""
        for kept, given in ((self.counts, counts), (self.lags, lags)):
            for name in given:
                kept.setdefault(name, [0] * len(self.at_s))
            for name, values in kept.items():
                values.append(given.get(name, 0))
        self.at_s.append(at_s)


def write_plot(samples: Samples, path: Path) -> bool:
    """Write the picture; False where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    middles = [(a + b) / 2 for a, b in pairwise(samples.at_s)]
    for name, counts in samples.counts.items():
        above.plot(middles, _rates(samples.at_s, counts), label=name)
    for name, lags in samples.lags.items():
        below.plot(samples.at_s, lags, label=name)
    above.set_title("orders a second")
    below.set_title("lag, in records")
    below.set_xlabel("seconds")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)
    return True


def _rates(at_s: list[float], counts: list[int]) -> list[float]:
    pairs = list(zip(at_s, counts, strict=True))
    return [(c - a) / (t - s) if t > s else 0.0 for (s, a), (t, c) in pairwise(pairs)]
