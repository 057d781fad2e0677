"""How things are shown: tables and readable text on a terminal, tab-separated or JSON lines when piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, BinaryIO

import click

if TYPE_CHECKING:
    from rich.table import Table

    from trunkline.errors import TrunklineError
    from trunkline.status.findings import Finding

LEVEL_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


def on_terminal() -> bool:
    return sys.stdout.isatty()


def stdout() -> BinaryIO:
    """Standard output as bytes, for what must arrive exactly as it is."""
    return sys.stdout.buffer


def write_json(value: Any) -> None:
    """One JSON object, on one line, at once: somebody may be waiting for it."""
    import msgspec

    stdout().write(msgspec.json.encode(value) + b"\n")
    stdout().flush()


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table on a terminal; else a header and a line a row, separated by tabs."""
    if not on_terminal():
        for line in (columns, *rows):
            write_tabs(line)
        return
    from rich.console import Console

    Console().print(rich_table(columns, rows, title=title))


def write_tabs(cells: Iterable[object]) -> None:
    """One line, its cells separated by tabs."""
    click.echo("\t".join(map(cell_text, cells)))


def rich_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> Table:
    """A table for a terminal; columns of numbers stand on the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    cells = [[cell_text(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        known = [row[number] for row in cells if row[number] != "-"]
        numeric = bool(known) and all(cell.replace(",", "").isdigit() for cell in known)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def write_findings(findings: Iterable[Finding]) -> None:
    """A finding a line: level, subject, text and next step."""
    if not on_terminal():
        for finding in findings:
            write_tabs((finding.level, finding.subject, finding.text, finding.next_step))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        said = f"{finding.text}; {finding.next_step}" if finding.next_step else finding.text
        level = Text(finding.level, style=LEVEL_STYLES[finding.level])
        table.add_row(level, Text(finding.subject), Text(cell_text(said)))
    Console().print(table)


def write_facts(facts: Iterable[tuple[str, object]]) -> None:
    """A name and a value a line: aligned on a terminal, separated by a tab when piped."""
    shown = [(name, cell_text(value)) for name, value in facts]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:{width}}  {value}" if on_terminal() else f"{name}\t{value}")


def report_passing(error: TrunklineError) -> None:
    """One look of many has failed: say so where the next one may succeed; otherwise it is raised again."""
    if not error.retryable:
        raise error
    click.echo(f"error [{error.code}]: {error}", err=True)


def cell_text(value: object) -> str:
    """A value as one line of text: nothing in it moves the cursor or ends the cell."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return time_text(value)
    return printable(str(value))


def printable(text: str) -> str:
    """Text in which whatever is not printable is escaped: a payload must not command the terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def readable(value: bytes) -> str:
    """Bytes as a person reads them: UTF-8 where they are, escaped where they are not."""
    return printable(value.decode(errors="backslashreplace"))


def time_text(moment: datetime) -> str:
    """In UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def bytes_text(count: int | None) -> str:
    """A size with its unit: 512 B, 1.5 MiB."""
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(seconds: float | None) -> str:
    """A duration in its two largest units: 7 d, 1 h 30 min, 45 s."""
    from trunkline.status.findings import age_text

    return "-" if seconds is None else age_text(timedelta(seconds=seconds))
