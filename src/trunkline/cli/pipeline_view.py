"""What `trunkline pipeline run` shows: a live table on a terminal, a line a batch when piped, or JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trunkline.cli.output import on_terminal, rich_table, write_json, write_tabs

if TYPE_CHECKING:
    from pyspark.sql import Row
    from rich.live import Live

    from trunkline.spark.pipeline.progress import BatchDone, Look
    from trunkline.spark.pipeline.run import Face, Started

COLUMNS = ("sink", "batch", "rows", "rows/s", "lag", "state")
LINE_EVERY_S = 2.0


@contextmanager
def view(*, as_json: bool) -> Iterator[Face]:
    """The face for where standard output goes."""
    if as_json:
        yield JsonView()
    elif on_terminal():
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            yield LiveView(live)
    else:
        yield LineView()


class LineView:
    """A line a batch, tab-separated, at most one in two seconds for each sink; and one when a query ends."""

    def __init__(self) -> None:
        self._shown_s: dict[str, float] = {}
        self._held: dict[str, BatchDone] = {}
        self._rows: dict[str, int] = {}
        self._ended: set[str] = set()

    def begin(self, started: Sequence[Started]) -> None:
        for each in started:
            click.echo(f"{each.sink}: group {each.group}, checkpoint {each.checkpoint}", err=True)
        write_tabs(["time", *COLUMNS])

    def batch(self, done: BatchDone) -> None:
        self._rows[done.sink] = self._rows.get(done.sink, 0) + done.rows
        self._held[done.sink] = done

    def look(self, looks: Sequence[Look]) -> None:
        now_s = time.monotonic()
        for each in looks:
            has_ended = each.state in ("done", "stopped", "failed")
            if has_ended and each.sink not in self._ended:
                self._ended.add(each.sink)
                self._write(each)
            elif each.sink in self._held and now_s - self._shown_s.get(each.sink, -LINE_EVERY_S) >= LINE_EVERY_S:
                self._write(each)

    def _write(self, look: Look) -> None:
        self._held.pop(look.sink, None)
        self._shown_s[look.sink] = time.monotonic()
        write_tabs([datetime.now(UTC), *_cells(look)])

    def rows(
        self,
        sink: str,
        batch: int,
        columns: Sequence[str],  # noqa: ARG002 - the lines of several sinks and batches have no common head
        rows: Sequence[Row],
        *,
        more: bool,
    ) -> None:
        for row in rows:
            write_tabs([sink, batch, *row])
        if more:
            write_tabs([sink, batch, "…"])


class LiveView:
    """A table that is kept up to date; rows for the console stand above it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        # Rows come from a thread of Spark's.
        self._lock = threading.Lock()

    def begin(self, started: Sequence[Started]) -> None:
        for each in started:
            self._live.console.print(
                f"{each.sink}: group {each.group}, checkpoint {each.checkpoint}", markup=False, highlight=False
            )

    def batch(self, done: BatchDone) -> None:
        """The table says it."""

    def look(self, looks: Sequence[Look]) -> None:
        with self._lock:
            self._live.update(rich_table(COLUMNS, map(_cells, looks)), refresh=True)

    def rows(self, sink: str, batch: int, columns: Sequence[str], rows: Sequence[Row], *, more: bool) -> None:
        with self._lock:
            self._live.console.print(rich_table(columns, rows, title=f"{sink}, batch {batch}"))
            if more:
                self._live.console.print("and more", highlight=False)


class JsonView:
    """An object for each start, batch, row and end."""

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._lock = threading.Lock()

    def begin(self, started: Sequence[Started]) -> None:
        for each in started:
            self._write({"started": each.sink, "group": each.group, "checkpoint": each.checkpoint})

    def batch(self, done: BatchDone) -> None:
        import msgspec

        self._write({"time": datetime.now(UTC), **msgspec.structs.asdict(done)})

    def look(self, looks: Sequence[Look]) -> None:
        for each in looks:
            if each.state in ("done", "stopped", "failed") and each.sink not in self._ended:
                self._ended.add(each.sink)
                self._write({"ended": each.sink, "state": each.state, "rows": each.rows})

    def rows(
        self,
        sink: str,
        batch: int,
        columns: Sequence[str],
        rows: Sequence[Row],
        *,
        more: bool,  # noqa: ARG002
    ) -> None:
        for row in rows:
            self._write({"sink": sink, "batch": batch, "row": dict(zip(columns, map(_plain, row), strict=True))})

    def _write(self, value: dict[str, Any]) -> None:
        with self._lock:
            write_json(value)


def _plain(value: Any) -> Any:
    """What JSON can hold, of what Spark hands out: rows in rows become objects."""
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def _cells(look: Look) -> list[object]:
    rate = None if look.rows_per_s is None else f"{look.rows_per_s:,.0f}"
    lag = None if look.lag is None else f"{look.lag:,}"
    return [look.sink, look.batch, f"{look.rows:,}", rate, lag, look.state]
