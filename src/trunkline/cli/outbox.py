"""`trunkline outbox`: tables that are an outbox, and the worker that handles a group's records as a service."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trunkline.cli.output import on_terminal, write_facts, write_json, write_table
from trunkline.cli.run import imported, run_app
from trunkline.cli.server import connect, given_url, url_option
from trunkline.errors import InvalidArgument, NotConfigured, NotFound

if TYPE_CHECKING:
    from trunkline.client.worker import Worker

NEEDS_YAML = "the file of a worker is YAML, which is not installed here: pip install 'trunkline[worker]'"

_CONFIG = click.option(
    "--config", "file", type=click.Path(path_type=Path), required=True, metavar="FILE.yml", help="The worker's file."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group()
def outbox() -> None:
    """Publish the rows of a table; run a worker as a service."""


@outbox.command()
@click.argument("table")
@click.option("--topic", required=True, help="Where its rows go.")
@click.option(
    "--payload", required=True, metavar="COLUMN", help="bytea as it is, text and JSON as UTF-8, others as JSON."
)
@click.option("--key", metavar="COLUMN", help="Text, uuid or whole number. Rows of one key keep their order.")
@click.option("--group-key", metavar="COLUMN", help="What is handled together, within a key: a user, say.")
@click.option("--headers", metavar="COLUMN", help="JSON: an object of text values.")
@click.option("--existing", is_flag=True, help="First the rows that are there already, each once.")
@click.option("--order-by", metavar="COLUMN", help="With --existing: in the order of this column.")
@_JSON
@url_option
def attach(table: str, topic: str, *, existing: bool, order_by: str | None, as_json: bool, **columns: Any) -> None:
    """Publish every row that is inserted into TABLE.

    TABLE is named as in SQL: public.outbox_message_t, "Out Box". A row is published by the transaction that inserts
    it, so both are there or neither; whoever inserts needs no grants for that. You need to own the table, or to have
    been granted TRIGGER on it.

    With --existing nobody can write to the table until its rows are published, and the server keeps them twice until
    then.
    """
    if existing != (order_by is not None):
        raise click.UsageError("--existing and --order-by COLUMN go together: in which order are the rows published?")
    from trunkline import OutboxColumns

    with connect() as tl:
        rows = tl.outbox_attach(table, topic, OutboxColumns(**columns), order_by=order_by, progress=_progress())
    if sys.stderr.isatty() and existing:
        click.echo("\r\033[K", nl=False, err=True)
    if as_json:
        write_json({"attached": table, "topic": topic, "existing": rows})
    else:
        before = f"; {rows:,} rows were there and have been published" if existing else ""
        click.echo(f"attached {table} to topic {topic}{before}")


def _progress() -> Callable[[int], None] | None:
    if not sys.stderr.isatty():
        return None
    return lambda rows: click.echo(f"\r{rows:,} rows", nl=False, err=True)


@outbox.command()
@click.argument("table")
@_JSON
@url_option
def detach(table: str, *, as_json: bool) -> None:
    """Publish the rows of TABLE no longer. What was published stays."""
    with connect() as tl:
        topic = tl.outbox_detach(table)
    if as_json:
        write_json({"detached": table, "topic": topic})
    else:
        click.echo(f"detached {table} from topic {topic}")


@outbox.command()
@click.option("--config", "file", type=click.Path(path_type=Path), metavar="FILE.yml", help="Also of this worker.")
@_JSON
@url_option
def status(file: Path | None, *, as_json: bool) -> None:
    """Show which tables are attached, and what is wrong with them.

    With --config also how a worker stands: how far its group is behind, how many records are in its dead letter
    topic, and why the last of them failed.
    """
    from trunkline.status.outbox import worker_status

    worker = None if file is None else _load(file)
    with connect() as tl:
        sources = tl.outbox_sources()
        stands = None if worker is None else worker_status(tl, worker.group, worker.dead_letter)
    if as_json:
        for each in (*sources, *([stands] if stands else [])):
            write_json(each)
        return
    if not sources and on_terminal():
        click.echo("No table is attached. Attach one: trunkline outbox attach TABLE --topic orders --payload COLUMN")
    else:
        write_table(
            ["table", "topic", "payload", "key", "group key", "headers", "attached", "state"],
            [
                (s.table, s.topic, s.payload, s.key, s.group_key, s.headers, s.attached_at, s.problem or "ok")
                for s in sources
            ],
        )
    if stands is not None:
        click.echo()
        write_facts(
            [
                ("group", stands.group),
                ("lag", stands.lag),
                ("members", stands.members_alive),
                ("partitions held", f"{stands.partitions_held} of {stands.partitions}"),
                ("dead letters", stands.dead_letters),
                ("last error", stands.last_error),
                ("at", stands.last_error_at),
            ]
        )


@outbox.command()
@_CONFIG
@click.option("--check", is_flag=True, help="Read the file and import the handler, and do nothing.")
@url_option
def worker(file: Path, *, check: bool) -> None:
    """Handle a group's records with a function, as a file says.

    The handler's module is imported with the current directory on the path. It runs until SIGTERM or Ctrl-C: then what
    has begun is finished and committed, and it ends with 0. A second signal ends it at once. The format of the file:
    docs/outbox-worker.md. The server is --url, else the file's, else TRUNKLINE_URL.
    """
    found = _load(file)
    import trunkline
    from trunkline.client.worker import app_of, check_topics

    app = app_of(found, _function(found))
    if check:
        click.echo(f"{file} is well-formed: {found.handler} handles {', '.join(found.topics)} for group {found.group}")
        return
    url = given_url() or found.url
    with trunkline.connect(url) as tl:
        check_topics(found, tl)
    run_app(app, url)


@outbox.command()
@_CONFIG
@click.option("--user", metavar="NAME", help="Whom it runs as. Default: as systemd says.")
@click.option(
    "--environment",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where TRUNKLINE_URL is set. Default: beside the worker's file, with the ending .env.",
)
def unit(file: Path, user: str | None, environment: Path | None) -> None:
    """Print a unit of systemd that runs a worker.

    \b
    trunkline outbox unit --config worker.yml --user app > /etc/systemd/system/worker.service
    """
    from trunkline.cli.unit import unit_text

    found = _load(file)
    path = Path(os.path.abspath(file))  # resolve() would follow links, as of a current release
    text = unit_text(
        group=found.group,
        command=[sys.executable, "-m", "trunkline.cli.main", "outbox", "worker", "--config", str(path)],
        folder=Path.cwd(),
        environment=Path(os.path.abspath(environment or path.with_suffix(".env"))),
        user=user,
        handler_timeout_s=found.handler_timeout_s,
    )
    click.echo(text, nl=False)


def _load(file: Path) -> Worker:
    try:
        from trunkline.client.worker import load
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise NotConfigured(NEEDS_YAML) from None
    return load(file)


def _function(worker: Worker) -> Callable[..., Any]:
    """The handler, imported."""
    module = imported(worker.module)
    if not hasattr(module, worker.function):
        raise NotFound(f"{worker.file}: module {worker.module} has no {worker.function}; correct handler")
    found = getattr(module, worker.function)
    if not callable(found):
        raise InvalidArgument(f"{worker.file}: {worker.handler} is no function, but {type(found).__name__}")
    return found  # type: ignore[no-any-return]
