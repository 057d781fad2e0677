"""`trunkline doctor`: what is worth knowing about the server and the log, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trunkline.cli import exits
from trunkline.cli.output import cell_text, on_terminal, write_json
from trunkline.cli.server import server_url, url_option

if TYPE_CHECKING:
    from trunkline.status.findings import Finding

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: findings, and the facts behind them.")
@url_option
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> None:
    """Look for what is, or will be, wrong.

    It looks at the server, the schema, old snapshots, retention and locks.
    Each finding is ok, a note, a warning or a problem. Exit code 1 if there is a problem. A role sees what it is
    allowed to see; the owner of the schema, with pg_read_all_stats, sees everything. Nothing is changed.
    """
    from trunkline.status.doctor import examine

    report = examine(server_url())
    if as_json:
        write_json(report)
    else:
        _write(report.findings)
    context.exit(exits.FAILURE if report.has_problem else exits.OK)


def _write(findings: list[Finding]) -> None:
    if not on_terminal():
        for finding in findings:
            cells = (finding.level, finding.subject, finding.text, finding.next_step)
            click.echo("\t".join(map(cell_text, cells)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        said = f"{finding.text}; {finding.next_step}" if finding.next_step else finding.text
        level = Text(finding.level, style=STYLES[finding.level])
        table.add_row(level, Text(finding.subject), Text(cell_text(said)))
    Console().print(table)
