"""`trunkline doctor`: what is worth knowing about the server and the log, worst first."""

from __future__ import annotations

import click

from trunkline.cli import exits
from trunkline.cli.output import write_findings, write_json
from trunkline.cli.server import server_url, url_option


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: findings, and the facts behind them.")
@url_option
@click.pass_context
def doctor(context: click.Context, *, as_json: bool) -> None:
    """Look for what is, or will be, wrong.

    It looks at the server, the schema, old snapshots, retention, locks and groups.
    Each finding is ok, a note, a warning or a problem. Exit code 1 if there is a problem. A role sees what it is
    allowed to see; the owner of the schema, with pg_read_all_stats, sees everything. Nothing is changed.
    """
    from trunkline.status.doctor import examine

    report = examine(server_url())
    if as_json:
        write_json(report)
    else:
        write_findings(report.findings)
    context.exit(exits.FAILURE if report.has_problem else exits.OK)
