"""`trunkline dlq`: dead letters, looked at, sent back, or passed over. What is done is trunkline.redrive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trunkline.cli.output import on_terminal, printable, readable, time_text, write_json, write_table
from trunkline.cli.server import connect, server_url, url_option
from trunkline.errors import InvalidArgument

if TYPE_CHECKING:
    from trunkline import DeadLetter, LetterFilter, RedriveReport

LIMIT_MAX = 10_000


@click.group()
def dlq() -> None:
    """List, view, redrive, purge dead letters."""


def _filter_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.option("--key", help=r"Only letters with this key; \xNN is a byte."),
        click.option("--since", help="Only what was put away since then: -1h is an hour ago, @2026-01-01T00:00:00Z."),
        click.option("--origin", metavar="TOPIC", help="Only letters that came from this topic."),
        click.option("--reason", metavar="GLOB", help="Only letters with such a reason, for example 'ValueError*'."),
    ):
        command = option(command)
    return command


def _chosen(reason: str | None, origin: str | None, since: str | None, key: str | None) -> LetterFilter:
    from trunkline import LetterFilter
    from trunkline.cli.escapes import unescape

    return LetterFilter(
        reason=reason,
        origin=origin,
        since=None if since is None else _time(since),
        key=None if key is None else unescape(key),
    )


def _time(text: str) -> datetime:
    from trunkline.engine.offsets import parse_place

    moment = parse_place(text, now=datetime.now(UTC)).time
    if moment is None:
        raise InvalidArgument(f"not a time: {text!r}; write for example -1h or @2026-01-01T00:00:00Z")
    return moment


@dlq.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@url_option
def list_topics(*, as_json: bool) -> None:
    """List topics of dead letters.

    Those that a queue puts its dead letters into, and those that were redriven or purged. Letters are in the log; of
    these, the ones to see to stand behind the last place up to which all were redriven or purged.
    """
    from trunkline.status.queues import asking, read_dead_letter_topics

    with asking(server_url()) as ask:
        topics = read_dead_letter_topics(ask)
    if as_json:
        for each in topics:
            write_json(each)
        return
    if not topics and on_terminal():
        click.echo("No queue has a dead letter topic. See: trunkline queue alter --help")
        return
    write_table(
        ["topic", "letters", "to see to", "newest", "queues"],
        [
            (
                each.topic,
                "missing" if each.letters is None else each.letters,
                each.waiting,
                each.newest_at,
                ", ".join(each.queues) or None,
            )
            for each in topics
        ],
    )


@dlq.command()
@click.argument("topic")
@click.option(
    "-n", "--limit", type=click.IntRange(1, LIMIT_MAX), default=20, show_default=True, help="At most so many."
)
@_filter_options
@click.option("--all", "include_done", is_flag=True, help="Also those that were redriven or purged.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")
@url_option
def view(
    topic: str,
    limit: int,
    *,
    include_done: bool,
    as_json: bool,
    **conditions: str | None,
) -> None:
    """Show dead letters: why, where from, and what.

    The oldest of each partition first; without those that were redriven or purged. Nothing is changed. Piped, or
    with --json, JSON lines as `trunkline consume` writes them, with `dead_letter` and `is_done`.
    """
    import trunkline

    chosen = _chosen(**conditions)
    with connect() as tl:
        letters = trunkline.dead_letters(tl, topic, chosen, letters_max=limit, include_done=include_done)
    if as_json or not on_terminal():
        for letter in letters:
            write_json(_fields(letter))
    elif not letters:
        click.echo(f"There are no such dead letters in {topic}.")
    else:
        for letter in letters:
            click.echo(_text(letter))


def _fields(letter: DeadLetter) -> dict[str, Any]:
    from trunkline.cli.record import record_fields
    from trunkline.engine.redriving import letter_facts

    return {**record_fields(letter.record), "dead_letter": letter_facts(letter.record), "is_done": letter.is_done}


def _text(letter: DeadLetter) -> str:
    from trunkline.engine.dead_letters import PREFIX
    from trunkline.engine.redriving import letter_facts

    record, said = letter.record, letter_facts(letter.record)
    done = "  (redriven or purged)" if letter.is_done else ""
    place = f"{said['topic']} {said['partition']}:{said['offset']}" if said["topic"] else "unknown"
    lines = [f"{record.partition}:{record.offset}  {time_text(record.append_time)}{done}"]
    lines += [f"  reason    {printable(said['reason'] or '-')}"]
    lines += [f"  origin    {printable(place)}, {printable(said['attempts'] or '?')} attempts"]
    lines += [f"  cut       {printable(said['cut'])}"] if said["cut"] else []
    lines += [f"  key       {readable(record.key)}"] if record.key is not None else []
    own = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    lines += [f"  header    {printable(name)}={readable(value)}" for name, value in own]
    return "\n".join([*lines, f"  payload   {readable(record.payload)}"])


@dlq.command()
@click.argument("topic")
@click.option("--to", metavar="TOPIC", help="Send them there. Default: to the topic that each came from.")
@_filter_options
@click.option("--rate", help="At most so many: 100/s, 10/m.")
@click.option("--max", "letters_max", type=click.IntRange(min=1), help="End after so many were sent.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def redrive(
    topic: str,
    to: str | None,
    rate: str | None,
    letters_max: int | None,
    *,
    dry_run: bool,
    as_json: bool,
    **conditions: str | None,
) -> None:
    """Send dead letters back to where they came from.

    Each letter is sent once, however often this is run, also where it is killed half way. What a filter does not
    take stays for a later run with another one. The headers of its death are taken off; trunkline-redriven is added.
    """
    import trunkline
    from trunkline.status.queues import parse_rate

    chosen = _chosen(**conditions)
    rate_per_s = None if rate is None else parse_rate(rate)
    with connect() as tl:
        report = trunkline.redrive(
            tl,
            topic,
            chosen,
            to=to,
            rate_per_s=rate_per_s,
            letters_max=letters_max,
            dry_run=dry_run,
            progress=_progress(),
        )
    if as_json:
        write_json(report)
    else:
        _write(report)


def _progress() -> Callable[[int, int], None] | None:
    """One line that changes, for whoever watches."""
    if not sys.stderr.isatty():
        return None
    return lambda looked, sent: click.echo(f"\r{looked:,} looked at, {sent:,} sent ", err=True, nl=False)


def _write(report: RedriveReport) -> None:
    if sys.stderr.isatty():
        click.echo(err=True)
    write_table(["topic", "would be sent" if report.is_dry_run else "sent"], list(report.topics.items()))
    # Sentences are for people: what a pipe gets is the table.
    counts = f"{report.sent_before:,} were sent before, {report.passed_over:,} do not match and stay"
    click.echo(("nothing was changed; " if report.is_dry_run else "") + counts, err=True)
    if report.unfit:
        click.echo(f"{report.unfit:,} cannot go back, and stay; the first: {report.first_unfit}", err=True)
    if not report.is_complete:
        click.echo("there are more; run it again", err=True)


@dlq.command()
@click.argument("topic")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def purge(topic: str, *, yes: bool, as_json: bool) -> None:
    """Pass over all dead letters that are there now.

    No redrive sends them any more, and `dlq view` shows them with --all only. The records stay in the log until the
    topic's retention takes them.
    """
    import trunkline

    with connect() as tl:
        tl.topic(topic)
        if not yes:
            held = sum(each.end - each.start for each in tl.offsets(topic))
            click.confirm(f"Pass over the dead letters in {topic}, which holds {held:,}?", abort=True, err=as_json)
        passed = trunkline.purge_letters(tl, topic)
    if as_json:
        write_json({"topic": topic, "passed_over": passed})
    else:
        click.echo(f"passed over {passed:,} dead letters of {topic}; its retention takes the records")
