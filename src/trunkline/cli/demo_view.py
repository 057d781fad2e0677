"""What the demo shows: a live table on a terminal, a line now and then elsewhere, and the summary."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

import click
import psycopg

from trunkline.cli.demo_load import TOPIC, Load
from trunkline.cli.output import bytes_text
from trunkline.errors import LogBroken

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.live import Live

LINE_EVERY_S = 2.0
DESCRIBE_EVERY_S = 1.0

GAPLESS = """\
select r.partition, count(*) as records, min(r."offset") as first, max(r."offset") as last,
       max(r."offset") - min(r."offset") + 1 - count(distinct r."offset") as missing,
       count(*) - count(distinct r."offset") as twice
from trunkline.records('orders', max_records => 2147483647) r
group by r.partition order by r.partition"""

NEXT = """\
  trunkline dev --detach                     a server to keep
  trunkline topic create orders -p 4         a topic in it
  echo hello | trunkline produce orders      publish
  trunkline tail orders                      watch it
  trunkline doctor                           look at server and log
  make bench                                 measure it against one row a record"""


class Rates:
    """Records a second of each worker, over about the last two seconds."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[float, int]]] = {}

    def rate(self, name: str, count: int) -> float:
        """Add what was counted until now; the rate since the oldest kept count."""
        seen = self._seen.setdefault(name, [(time.monotonic(), 0)])
        seen.append((time.monotonic(), count))
        while len(seen) > 2 and seen[-1][0] - seen[0][0] > 2:
            seen.pop(0)
        (first_s, first), (last_s, last) = seen[0], seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


class View:
    """Shows the load while it runs."""

    def __init__(self, load: Load, *, live: bool) -> None:
        self._load = load
        self._rates = Rates()
        self._live: Live | None = _new_live() if live else None
        self._line_at = time.monotonic()
        self._log_text = ""
        self._described_at = 0.0

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, left_s: float) -> None:
        """Show how it stands. Without a terminal, a line every two seconds."""
        ends = self._load.ends()
        writers = [
            (each.name, each.count, self._rates.rate(f"writer {each.name}", each.count), each.p50_ms)
            for each in self._load.writers
        ]
        readers = [
            (
                each.name,
                each.count,
                self._rates.rate(f"reader {each.name}", each.count),
                self._load.lag(each, ends),
            )
            for each in self._load.readers
        ]
        if self._live is not None:
            self._live.update(_tables(writers, readers, self._log(), left_s), refresh=True)
        elif time.monotonic() - self._line_at >= LINE_EVERY_S:
            self._line_at = time.monotonic()
            wrote, read = sum(row[2] for row in writers), sum(row[2] for row in readers)
            lag = max(row[3] for row in readers)
            p50_ms = max(row[3] for row in writers)
            click.echo(f"written {wrote:,.0f}/s (p50 {p50_ms:.1f} ms), read {read:,.0f}/s, lag {lag:,}; {self._log()}")

    def _log(self) -> str:
        if time.monotonic() - self._described_at >= DESCRIBE_EVERY_S:
            self._described_at = time.monotonic()
            segments = self._load.describe().segments
            size = sum(segment.byte_count or 0 for segment in segments)
            records = self._load.published
            self._log_text = f"{records:,} records, {bytes_text(size)} in {len(segments)} segments"
        return self._log_text


def _new_live() -> Live:
    from rich.live import Live

    return Live(auto_refresh=False)


def _tables(
    writers: list[tuple[str, int, float, float]],
    readers: list[tuple[str, int, float, int]],
    log: str,
    left_s: float,
) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for column in ("records", "records/s", "p50 of 100 records", "lag"):
        table.add_column(column, justify="right")
    for name, count, rate, p50_ms in writers:
        table.add_row(f"writer {name}", f"{count:,}", f"{rate:,.0f}", f"{p50_ms:.1f} ms", "")
    for name, count, rate, lag in readers:
        table.add_row(f"reader {name}", f"{count:,}", f"{rate:,.0f}", "", f"{lag:,}")
    group: Group = Group(f"topic {TOPIC}: {log}", table, f"{max(0.0, left_s):.0f} s to go; Ctrl-C ends it")
    return group


def write_summary(load: Load, url: str) -> None:
    """What was done, checked by SQL."""
    published, seconds = load.published, load.wrote_s
    click.echo(f"\nPublished  {published:,} records in {seconds:.1f} s: {published / seconds:,.0f} a second")
    for reader in load.readers:
        click.echo(f"Read       {reader.count:,} by the reader of the {reader.name}, in order, none missing")
    segments = load.describe().segments
    size = sum(segment.byte_count or 0 for segment in segments)
    click.echo(
        f"On disk    {bytes_text(size)} in {len(segments)} segments, {size / max(1, published):.0f} bytes a record"
    )
    click.echo(f"\nAnd the database says:\n\n{GAPLESS}\n")
    _check_gapless(url, published)
    click.echo(f"\nWhat to try next:\n\n{NEXT}")


def _check_gapless(url: str, published: int) -> None:
    with psycopg.connect(url) as connection:
        rows = connection.execute(GAPLESS).fetchall()
    click.echo(" partition   records  first      last  missing  twice")
    for partition, records, first, last, missing, twice in rows:
        click.echo(f"{partition:10}{records:10,}{first:7,}{last:10,}{missing:9,}{twice:7,}")
    found = sum(row[1] for row in rows)
    if found != published or any(missing or twice for *_, missing, twice in rows):
        raise LogBroken(f"{published:,} records were published, and the log holds {found:,}")
    click.echo(f"\n{found:,} of {published:,} records are there, every offset once.")
