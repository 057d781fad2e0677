"""A run as a picture: each ratio with its target, and what a held snapshot does over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.lines import Line
from benchmarks.report import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACHED, MISSED, REPORTED, TARGET = "#2a7f62", "#c0392b", "#8aa1b1", "#1d1d1d"


def draw(run: Run, path: Path) -> bool:
    """Write a PNG; False where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    bars = [line for line in run.lines if line.ratio is not None and line.baseline is not None]
    figure = Figure(figsize=(12, 4.5 + 0.26 * max(4, len(bars))), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, height_ratios=[max(4, len(bars)) * 0.26, 3.2])
    _ratios(upper, bars)
    _snapshot(lower, [line for line in run.lines if "records_per_s" in (line.series or {})])
    place = run.environment
    figure.suptitle(
        f"trunkline bench {run.title}, {run.scale} run of {run.started_at:%Y-%m-%d}: PostgreSQL "
        f"{place.server_version}, {place.cpus} CPUs, fsync {place.fsync}, {place.file_system}, commit {place.commit}",
        fontsize=10,
    )
    figure.savefig(path, dpi=110)
    return True


def _ratios(axes: Axes, bars: list[Line]) -> None:
    least = min((line.ratio for line in bars if line.ratio), default=1.0)
    left = min(0.1, least / 2)
    for row, line in enumerate(reversed(bars)):
        assert line.ratio is not None
        colour = REPORTED if line.ok is None else REACHED if line.ok else MISSED
        axes.barh(row, max(line.ratio, 1.1 * left) - left, left=left, color=colour, height=0.7)
        if line.of == "ratio" and line.target is not None and not isinstance(line.target, tuple):
            axes.plot([line.target, line.target], [row - 0.45, row + 0.45], color=TARGET, linewidth=2)
        axes.text(max(line.ratio, left) * 1.05, row, f"{line.ratio:.2f}", va="center", fontsize=7)
    names = [f"{line.name} ({line.flush})" if line.flush == "slow" else line.name for line in reversed(bars)]
    axes.set_yticks(range(len(bars)), names, fontsize=7)
    axes.set_xscale("log")
    axes.set_xlim(left=left)
    axes.axvline(1.0, color=TARGET, linewidth=0.5, linestyle=":")
    axes.set_ylim(-0.7, max(1, len(bars)) - 0.3)
    axes.set_xlabel(
        "ratio to what the line is compared with; the mark is the target; grey is reported only", fontsize=8
    )


def _snapshot(axes: Axes, lines: list[Line]) -> None:
    for line in lines:
        rates = (line.series or {})["records_per_s"]
        share = [100 * index / len(rates) for index in range(len(rates))]
        style = "-" if line.flush == "fast" else "--"
        axes.plot(share, rates, style, label=f"{line.name}, {line.flush} flush")
    axes.set_title("records/s while a snapshot is held, batches of 10, 4 writers", fontsize=8)
    axes.set_xlabel("% of the time", fontsize=8)
    axes.set_ylim(bottom=0)
    if lines:
        axes.legend(fontsize=7)
