"""`trunkline group lag`: how far groups are behind, once or again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from trunkline.cli.output import on_terminal, report_passing, rich_table, write_json, write_table, write_tabs
from trunkline.cli.server import connect, url_option
from trunkline.cli.values import Seconds
from trunkline.errors import NotFound, TrunklineError

if TYPE_CHECKING:
    from trunkline import Client
    from trunkline.status.groups import LagRow, PartitionStatus

COLUMNS = ["group", "topic", "partition", "cursor", "end", "lag", "holder"]
RATES = ["read/s", "new/s"]

Show = Callable[[list["LagRow"]], None]


@click.command()
@click.argument("group", required=False)
@click.option("--topic", help="Only this topic. Default: all that the group reads.")
@click.option("--watch", is_flag=True, help="Again and again, with rates, until Ctrl-C.")
@click.option("--interval", type=Seconds(), default="2s", show_default=True, help="How long --watch waits in between.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@url_option
def lag(group: str | None, topic: str | None, interval: float, *, watch: bool, as_json: bool) -> None:
    """Show how far a group is behind in each partition. Default: every group.

    The lag is the end of the log less the group's cursor. With --watch the table is kept up to date, with the records
    a second that the group has read, and that are new, since the last look; piped, each look adds lines with its time.
    """
    with connect() as tl:
        if topic is not None:
            tl.topic(topic)
        rows = _look(tl, group, topic)
        if watch:
            _watch(tl, group, topic, interval, rows, as_json=as_json)
        elif as_json:
            for row in rows:
                write_json(row)
        elif not rows and on_terminal():
            click.echo("There are no groups." if topic is None else f"No group reads {topic}.")
        else:
            write_table(COLUMNS, map(_cells, rows))


def _look(tl: Client, group: str | None, topic: str | None) -> list[LagRow]:
    """How it stands now; NotFound where the group does not exist, or does not read the topic."""
    from trunkline.status.groups import lag_rows, status_of

    if group is not None:
        rows = [row for row in lag_rows([status_of(tl.describe_group(group))]) if topic in (None, row.topic)]
        if topic is not None and not rows:
            raise NotFound(f"group {group} does not read {topic}; see: trunkline group describe {group}")
        return rows
    found = []
    for each in tl.groups():
        # Whoever deletes one meanwhile does not spoil the rest.
        with suppress(NotFound):
            found.append(status_of(tl.describe_group(each.name)))
    return [row for row in lag_rows(found) if topic in (None, row.topic)]


def _watch(
    tl: Client, group: str | None, topic: str | None, interval_s: float, rows: list[LagRow], *, as_json: bool
) -> None:
    from trunkline.cli.follow import wait_unless_closed
    from trunkline.status.groups import with_rates

    looked_s = time.monotonic()
    with _showing(as_json=as_json) as show:
        show(rows)
        while True:
            wait_unless_closed(interval_s)
            try:
                now = _look(tl, group, topic)
            except TrunklineError as error:
                report_passing(error)
                continue
            now_s = time.monotonic()
            show(with_rates(now, rows, now_s - looked_s))
            rows, looked_s = now, now_s


@contextmanager
def _showing(*, as_json: bool) -> Iterator[Show]:
    """How looks are shown: a table that is kept up to date on a terminal, lines with their time elsewhere."""
    if as_json:
        yield _write_json_lines
    elif on_terminal():
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            yield lambda rows: live.update(rich_table([*COLUMNS, *RATES], map(_rated, rows)), refresh=True)
    else:
        write_tabs(["time", *COLUMNS, *RATES])
        yield _write_lines


def _write_lines(rows: list[LagRow]) -> None:
    at = datetime.now(UTC)
    for row in rows:
        write_tabs([at, *_rated(row)])


def _write_json_lines(rows: list[LagRow]) -> None:
    import msgspec

    at = datetime.now(UTC)
    for row in rows:
        write_json({"time": at, **msgspec.structs.asdict(row)})


def _cells(row: LagRow) -> list[object]:
    return [row.group, row.topic, row.partition, row.cursor, row.end, row.lag, holder_text(row)]


def _rated(row: LagRow) -> list[object]:
    rates = (row.consumed_per_s, row.published_per_s)
    return [*_cells(row), *(None if rate is None else f"{rate:,.0f}" for rate in rates)]


def holder_text(held: LagRow | PartitionStatus) -> str | None:
    """Who reads a partition: a member, one that is gone, many at most once (shared), or nobody."""
    if held.held == "gone":
        return f"{held.holder} (gone)"
    return "shared" if held.held == "shared" else held.holder
