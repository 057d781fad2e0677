"""`trunkline group`: create, look at, move, delete, check."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from trunkline.cli import exits
from trunkline.cli.group_blocked import blocked, redrive
from trunkline.cli.group_lag import holder_text, lag
from trunkline.cli.output import on_terminal, write_facts, write_findings, write_json, write_table
from trunkline.cli.server import connect, server_url, url_option
from trunkline.cli.values import PARTITION, Seconds

if TYPE_CHECKING:
    from trunkline import CursorMove
    from trunkline.status.groups import GroupStatus

LOSE = "lose what they have in hand, and go on at the new place"


@click.group()
def group() -> None:
    """Create, describe, move, delete, check groups."""


def _json_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


@group.command()
@click.argument("name")
@click.option("--topic", "topics", multiple=True, required=True, help="What it reads. Repeatable.")
@click.option(
    "--start",
    default="earliest",
    show_default=True,
    help="Where it begins: earliest, latest, an offset that every partition has, or a time: -1h, @2026-01-01.",
)
@_json_option
@url_option
def create(name: str, topics: tuple[str, ...], start: str, *, as_json: bool) -> None:
    """Create a group that reads topics."""
    from trunkline.status.groups import status_of

    begin = _start(start)
    with connect() as tl:
        tl.create_group(name, topics, start=begin)
        made = tl.describe_group(name)
    if as_json:
        write_json(status_of(made))
    else:
        click.echo(f"created group {name}, which reads {', '.join(sorted(set(topics)))}")


def _start(text: str) -> Literal["earliest", "latest"] | int | datetime:
    place = _place({"earliest": "start", "latest": "end"}.get(text, text))
    if isinstance(place, str):
        return "earliest" if place == "start" else "latest"
    return place


def _place(text: str) -> Literal["start", "end"] | int | datetime:
    """Where a group is to stand, as the client takes it."""
    from trunkline.engine.offsets import END, START, parse_place

    bound = parse_place(text, now=datetime.now(UTC))
    if bound.time is not None:
        return bound.time
    if bound == START:
        return "start"
    return "end" if bound == END else bound.value


@group.command("list")
@_json_option
@url_option
def list_groups(*, as_json: bool) -> None:
    """List all groups."""
    with connect() as tl:
        groups = tl.groups()
    if as_json:
        for each in groups:
            write_json(each)
        return
    if not groups and on_terminal():
        click.echo("There are no groups. Create one: trunkline group create billing --topic orders")
        return
    write_table(
        ["group", "topics", "members", "partitions", "lag", "created"],
        [
            (each.name, ", ".join(each.topics), each.members, each.partitions, each.lag, each.created_at)
            for each in groups
        ],
    )


@group.command()
@click.argument("name")
@_json_option
@url_option
def describe(name: str, *, as_json: bool) -> None:
    """Show a group: its partitions and who holds them, its members.

    A partition is held by a member, free, still held by one that is gone, or shared by readers at most once, who
    are no members.
    """
    from trunkline.status.groups import status_of

    with connect() as tl:
        status = status_of(tl.describe_group(name))
    if as_json:
        write_json(status)
    else:
        _write_status(status)


def _write_status(status: GroupStatus) -> None:
    facts: list[tuple[str, object]] = [("group", status.name), ("lag", status.lag), ("members", status.members_alive)]
    failures = status.failures
    if failures.last_at is not None:
        where = f"{failures.last_topic}, partition {failures.last_partition}, offset {failures.last_offset}"
        facts += [("failed", failures.failed_records), ("last error", f"{failures.last_reason} ({where})")]
        facts += [("failed at", failures.last_at)]
    if failures.blocked_keys:
        facts += [("blocked keys", failures.blocked_keys), ("parked records", failures.parked_records)]
    write_facts(facts)
    click.echo()
    write_table(
        ["topic", "partition", "start", "cursor", "end", "lag", "holder", "epoch", "moved", "at"],
        [
            (
                each.topic,
                each.partition,
                each.start,
                each.cursor,
                each.end,
                each.lag,
                holder_text(each),
                each.epoch,
                each.moved,
                each.moved_at,
            )
            for each in status.partitions
        ],
    )
    click.echo()
    write_table(
        ["member", "name", "topics", "alive", "known by", "partitions", "joined"],
        [
            (
                f"#{each.member_id}",
                each.name,
                ", ".join(each.topics),
                "yes" if each.is_alive else "no",
                "session" if each.by_session else "heartbeats",
                each.partitions,
                each.joined_at,
            )
            for each in status.members
        ],
    )


group.add_command(lag)
group.add_command(blocked)
group.add_command(redrive)


@group.command()
@click.argument("name", metavar="GROUP")
@click.option("--topic", required=True, help="In which topic.")
@click.option("--partition", type=PARTITION, help="Only in this partition. Default: all.")
@click.option("--to", help="start, end, an offset, or a time: -1h is an hour ago, @2026-01-01T00:00:00Z a date.")
@click.option("--like", metavar="GROUP", help="Where another group stands.")
@click.option("--execute", is_flag=True, help="Do it. Otherwise it only says what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def seek(
    name: str,
    topic: str,
    partition: int | None,
    to: str | None,
    like: str | None,
    *,
    execute: bool,
    as_json: bool,
) -> None:
    """Move a group, forwards or back.

    Without --execute nothing is changed. Its living members lose what they have in hand: they cannot commit it, and
    go on at the new place.
    """
    if (to is None) == (like is None):
        raise click.UsageError("say where to, by one of --to and --like")
    place = None if to is None else _place(to)
    with connect() as tl:
        alive = sum(member.is_alive for member in tl.describe_group(name).members)
        moves = tl.seek_group(name, topic, place, like_group=like, partition=partition, execute=execute)
    if as_json:
        write_json({"group": name, "executed": execute, "members_alive": alive, "moves": moves})
        return
    write_table(
        ["topic", "partition", "from", "to", "effect"],
        [(move.topic, move.partition, move.from_offset, move.to_offset, _effect(move)) for move in moves],
    )
    members = f"its {alive} living member{'' if alive == 1 else 's'} " if alive else ""
    # Sentences are for people: what a pipe gets is the table.
    if execute:
        click.echo(f"moved group {name}" + (f"; {members}{LOSE}" if alive else ""), err=True)
    else:
        click.echo("nothing was changed; add --execute" + (f": {members}will {LOSE}" if alive else ""), err=True)


def _effect(move: CursorMove) -> str:
    distance = move.to_offset - move.from_offset
    return f"skips {distance:,}" if distance > 0 else f"repeats {-distance:,}" if distance < 0 else "-"


@group.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--cut-off", is_flag=True, help="Although it has living members: they can commit nothing more.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def delete(name: str, *, yes: bool, cut_off: bool, as_json: bool) -> None:
    """Delete a group with its cursors. The records stay."""
    with connect() as tl:
        if not yes:
            behind = tl.describe_group(name).lag
            click.confirm(f"Delete group {name}, which is {behind:,} records behind?", abort=True, err=as_json)
        tl.delete_group(name, cut_off=cut_off)
    if as_json:
        write_json({"deleted": name})
    else:
        click.echo(f"deleted group {name}")


@group.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@click.option("--lag-max", type=click.IntRange(min=0), help="How far behind it may be, all partitions together.")
@click.option("--age-max", type=Seconds(), help="How long a record may wait: 30s, 5m, 1h30m.")
@click.option("--members-min", type=click.IntRange(min=0), help="How many living members it must have.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: findings, and the groups behind them.")
@url_option
@click.pass_context
def check(
    context: click.Context,
    names: tuple[str, ...],
    lag_max: int | None,
    age_max: float | None,
    members_min: int | None,
    *,
    as_json: bool,
) -> None:
    """Check groups, for monitoring. Default: all of them.

    A line a finding: ok, a note, a warning or a problem. A limit that is passed is a problem, and so is a group that
    retention has passed. Exit code 0 without a problem, 1 with one, 3 if a group does not exist. Nothing is changed.
    """
    from trunkline.status.check import check_groups
    from trunkline.status.group_findings import Limits

    found = check_groups(server_url(), names, Limits(lag_max, age_max, members_min))
    if as_json:
        write_json(found)
    else:
        write_findings(found.findings)
    context.exit(exits.FAILURE if found.has_problem else exits.OK)
