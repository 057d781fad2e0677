"""What the demo shows: a live table on a terminal, a line now and then elsewhere, and the summary."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
import psycopg

from trunkline.cli.demo_load import GROUP, TOPIC, Load
from trunkline.cli.demo_plot import Samples
from trunkline.cli.output import bytes_text
from trunkline.errors import LogBroken

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.live import Live

LINE_EVERY_S = 2.0
LOOK_EVERY_S = 0.5

GAPLESS = """\
select r.partition, count(*) as records, min(r."offset") as first, max(r."offset") as last,
       max(r."offset") - min(r."offset") + 1 - count(distinct r."offset") as missing,
       count(*) - count(distinct r."offset") as twice
from trunkline.records('orders', max_records => 2147483647) r
group by r.partition order by r.partition"""

BY_MINUTE = """\
with sold as (
    select date_trunc('minute', (o.body ->> 'time')::timestamptz) as minute,
           count(*) as orders, round(sum((o.body ->> 'amount')::numeric), 2) as revenue
    from (select convert_from(r.payload, 'UTF8')::jsonb as body
          from trunkline.records('orders', max_records => 2147483647) r) o
    where o.body ? 'amount' group by 1),
written as (
    select (w.body ->> 'minute')::timestamptz as minute,
           (w.body ->> 'orders')::bigint as orders, (w.body ->> 'revenue')::numeric as revenue
    from (select convert_from(r.payload, 'UTF8')::jsonb as body
          from trunkline.records('revenue', max_records => 2147483647) r) w)
select count(s.minute) as minutes, sum(s.orders) as orders, sum(s.revenue) as revenue,
       count(*) filter (where w.orders is distinct from s.orders
                           or abs(w.revenue - s.revenue) > 0.005) as differ
from sold s full join written w using (minute)"""

NEXT = """\
  trunkline dev --detach                     a server to keep
  trunkline topic create orders -p 4         a topic in it
  echo hello | trunkline produce orders      publish
  trunkline tail orders                      watch it
  trunkline pipeline run FILE.yml            aggregate it (docs/pipelines.md)
  trunkline doctor                           look at server and log
  make bench                                 measure it"""


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
        return (last - first) / (last_s - first_s) if last_s - first_s > 0.2 else 0.0


Row = tuple[str, str, str, str, str]


class View:
    """Shows the demo while it runs, and remembers what it has seen."""

    def __init__(self, load: Load, *, live: bool) -> None:
        self.samples = Samples()
        self._load = load
        self._rates = Rates()
        self._live: Live | None = _new_live() if live else None
        self._line_at = self._looked_at = time.monotonic() - LINE_EVERY_S
        self._lags: dict[str, int] = {}
        self._log_text = ""

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, what: str) -> None:
        """Show how it stands. Without a terminal, a line every two seconds."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        if self._live is not None:
            self._live.update(_table(self._rows(), self._log_text, what), refresh=True)
        elif now - self._line_at >= LINE_EVERY_S:
            self._line_at = now
            wrote = sum(self._rates.rate(each.name, each.count) for each in self._load.writers)
            billed = sum(self._rates.rate(each.name, each.count) for each in self._load.billers)
            lags = ", ".join(f"{name} {lag:,}" for name, lag in self._lags.items())
            click.echo(f"written {wrote:,.0f}/s, billed {billed:,.0f}/s; lag {lags}; {self._log_text}")

    def _look(self) -> None:
        load = self._load
        self._lags = load.lags()
        counts = {"published": load.published, "billed": sum(each.count for each in load.billers)}
        handled = {f"spark: {name}": load.published - lag for name, lag in self._lags.items() if name != GROUP}
        self.samples.add(time.monotonic() - load.began_at, counts | handled, self._lags)
        segments = load.describe().segments
        size = bytes_text(sum(segment.byte_count or 0 for segment in segments))
        self._log_text = f"{load.published:,} records, {size} in {len(segments)} segments"

    def _rows(self) -> list[Row]:
        load = self._load
        rows: list[Row] = [
            (f"writer {each.name}", f"{each.count:,}", self._rate(each.name, each.count), f"{each.p50_ms:.1f} ms", "")
            for each in load.writers
        ]
        billed = sum(each.count for each in load.billers)
        rows.append((f"group {GROUP}", f"{billed:,}", self._rate(GROUP, billed), "", f"{self._lags.get(GROUP, 0):,}"))
        for name, lag in self._lags.items():
            if name != GROUP:
                count = max(0, load.published - lag)
                rows.append((f"spark {name}", f"{count:,}", self._rate(name, count), "", f"{lag:,}"))
        return rows

    def _rate(self, name: str, count: int) -> str:
        return f"{self._rates.rate(name, count):,.0f}"


def _new_live() -> Live:
    from rich.live import Live

    return Live(auto_refresh=False)


def _table(rows: list[Row], log: str, what: str) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for column in ("orders", "orders/s", "p50 of 50 orders", "lag"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    group: Group = Group(f"topic {TOPIC}: {log}", table, f"{what}; Ctrl-C ends it")
    return group


def write_summary(load: Load, url: str, lake: Path | None) -> None:
    """What was done, computed by SQL over the tables, and checked."""
    published, seconds = load.published, load.wrote_s
    click.echo(f"\nPublished  {published:,} orders in {seconds:.1f} s: {published / seconds:,.0f} a second")
    billed, amount = sum(each.count for each in load.billers), sum(each.billed for each in load.billers)
    click.echo(f"Billed     {billed:,} by the group {GROUP}: {amount:,.2f}")
    segments = load.describe().segments
    size = sum(segment.byte_count or 0 for segment in segments)
    click.echo(
        f"On disk    {bytes_text(size)} in {len(segments)} segments, {size / max(1, published):.0f} bytes an order"
    )
    with psycopg.connect(url) as connection:
        _check_gapless(connection, published + (1 if lake else 0))
        if lake is not None:
            _check_minutes(connection, published, Decimal(amount), lake)
    click.echo(f"\nWhat to try next:\n\n{NEXT}")


def _check_gapless(connection: psycopg.Connection[tuple[int, ...]], published: int) -> None:
    click.echo(f"\nThe database says:\n\n{GAPLESS}\n")
    rows = connection.execute(GAPLESS.encode()).fetchall()
    click.echo(" partition   records  first      last  missing  twice")
    for partition, records, first, last, missing, twice in rows:
        click.echo(f"{partition:10}{records:10,}{first:7,}{last:10,}{missing:9,}{twice:7,}")
    found = sum(row[1] for row in rows)
    if found != published or any(missing or twice for *_, missing, twice in rows):
        raise LogBroken(f"{published:,} records were published, and the log holds {found:,}")
    click.echo(f"\n{found:,} of {published:,} records are there, every offset once.")


def _check_minutes(
    connection: psycopg.Connection[tuple[int, ...]], published: int, amount: Decimal, lake: Path
) -> None:
    from trunkline.spark.lake import row_count

    click.echo(f"\nAnd of what Spark has made of them:\n\n{BY_MINUTE}\n")
    ((minutes, orders, revenue, differ),) = connection.execute(BY_MINUTE.encode()).fetchall()
    click.echo(" minutes    orders        revenue  differ")
    click.echo(f"{minutes:8,}{orders:10,}{revenue:15,.2f}{differ:8,}")
    rows = row_count(lake)
    click.echo(f"\n{rows:,} minutes stand in Parquet too, in {lake}")
    if differ or orders != published or revenue != amount or rows != minutes:
        raise LogBroken("Spark's minutes are not those of the orders; the queries above say where they differ")
    click.echo(f"Every minute is right: {published:,} orders, once each, by way of Spark.")


def minutes_of(url: str) -> int:
    """How many minutes the orders are of."""
    with psycopg.connect(url) as connection:
        ((minutes, *_),) = connection.execute(BY_MINUTE.encode()).fetchall()
    return int(minutes)
