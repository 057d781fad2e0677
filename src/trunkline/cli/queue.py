"""`trunkline queue`: create, look at, pause, alter, delete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from trunkline.cli.output import (
    bytes_text,
    duration_text,
    on_terminal,
    time_text,
    write_facts,
    write_json,
    write_table,
)
from trunkline.cli.server import server_url, url_option
from trunkline.cli.values import pairs_option, parse_bytes
from trunkline.errors import InvalidArgument

if TYPE_CHECKING:
    from trunkline.status.facts import Ask
    from trunkline.status.queues import OpenClaim, QueueStatus

SET_HELP = (
    "A setting: ack_deadline_s=30s, max_attempts=5, dead_letter=TOPIC, ordered_by_key=on, pause_above=0.5, "
    "bury_expired=on, table_bytes=64MiB. Repeatable. `none` takes one away, or puts a default back."
)

COLUMNS = ["partition", "start", "floor", "frontier", "end", "ready", "in flight", "waiting", "next due", "expired"]


@click.group()
def queue() -> None:
    """Create, describe, pause, alter, delete queues."""


def _json_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


@contextmanager
def _asking() -> Iterator[Ask]:
    from trunkline.status.queues import asking

    with asking(server_url()) as ask:
        yield ask


@queue.command()
@click.argument("topic")
@click.argument("name")
@click.option(
    "--start", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True, help="Where it begins."
)
@pairs_option("--set", "settings", help=SET_HELP)
@_json_option
@url_option
def create(
    topic: str, name: str, start: Literal["earliest", "latest"], settings: list[tuple[str, str]], *, as_json: bool
) -> None:
    """Create a queue of a topic."""
    from trunkline.status.queues import create_queue

    wanted = parse_queue_settings(settings)
    with _asking() as ask:
        made = create_queue(ask, topic, name, wanted, start=start)
        _say(made, f"created queue {name} of {topic}", as_json=as_json)
        _warn_of_missing(ask, made)


@queue.command("list")
@click.option("--topic", help="Only those of this topic.")
@_json_option
@url_option
def list_queues(topic: str | None, *, as_json: bool) -> None:
    """List queues.

    Of the records of a queue some are ready, which nobody has claimed yet, some in flight, which a reader holds, and
    some wait until they are due.
    """
    from trunkline.status.queues import read_queues

    with _asking() as ask:
        queues = read_queues(ask, topic)
    if as_json:
        for each in queues:
            write_json(each)
        return
    if not queues and on_terminal():
        click.echo("There are no queues. Create one: trunkline queue create orders billing")
        return
    write_table(
        ["topic", "queue", "ready", "in flight", "waiting", "expired", "dead letters", "paused", "created"],
        [
            (
                each.topic,
                each.name,
                each.ready,
                each.in_flight,
                each.waiting,
                each.expired,
                each.dead_letter,
                each.paused_at,
                each.created_at,
            )
            for each in queues
        ],
    )


@queue.command()
@click.argument("topic")
@click.argument("name")
@click.option("--claims", "with_claims", is_flag=True, help="Show what is held, by whom, until when, and what waits.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def describe(topic: str, name: str, *, with_claims: bool, as_json: bool) -> None:
    """Show a queue: its settings, and where it stands in each partition.

    Everything below the floor is done. Up to the frontier everything was handed out at least once, or set aside; end
    is the next offset of the log. Expired records were taken by retention before they were done.
    """
    from trunkline.status.queues import read_claims, read_queue

    with _asking() as ask:
        status = read_queue(ask, topic, name)
        claims = read_claims(ask, topic, name) if with_claims else None
    if as_json:
        write_json(_fields(status, claims))
    else:
        _write_status(status, claims)


def _fields(status: QueueStatus, claims: list[OpenClaim] | None) -> dict[str, Any]:
    import msgspec

    fields = msgspec.structs.asdict(status)
    return fields if claims is None else {**fields, "claims": claims}


def _write_status(status: QueueStatus, claims: list[OpenClaim] | None) -> None:
    paused = None
    if status.paused_at is not None:
        why = f": {status.pause_reason}" if status.pause_reason else ""
        paused = f"since {time_text(status.paused_at)}{why}"
    write_facts([("queue", status.name), ("topic", status.topic), ("paused", paused or "no"), *_settings(status)])
    click.echo()
    write_table(
        [*COLUMNS, "tables"],
        [
            (
                each.partition,
                each.start,
                each.floor,
                each.frontier,
                each.end,
                each.ready,
                each.in_flight,
                each.waiting,
                each.next_due,
                each.expired,
                bytes_text(each.table_bytes),
            )
            for each in status.partitions
        ],
    )
    if claims is None:
        return
    click.echo()
    write_table(
        ["partition", "claim", "offsets", "records", "attempt", "holder", "claimed", "until"],
        [
            (
                each.partition,
                each.claim_no,
                each.offsets,
                each.record_count,
                each.attempt,
                each.holder or "(waits)",
                each.claimed_at,
                each.deadline,
            )
            for each in claims
        ],
    )


def _settings(status: QueueStatus) -> list[tuple[str, object]]:
    return [
        ("ack_deadline_s", duration_text(status.ack_deadline_s)),
        ("max_attempts", "none" if status.max_attempts is None else status.max_attempts),
        ("dead_letter", status.dead_letter or "none"),
        ("ordered_by_key", "on" if status.ordered_by_key else "off"),
        ("pause_above", "none" if status.pause_above is None else f"{status.pause_above:g}"),
        ("bury_expired", "on" if status.bury_expired else "off"),
    ]


@queue.command()
@click.argument("topic")
@click.argument("name")
@click.option("--reason", help="Why, for whoever finds it paused.")
@_json_option
@url_option
def pause(topic: str, name: str, reason: str | None, *, as_json: bool) -> None:
    """Hand out nothing of a queue until it is resumed.

    What readers hold they can still acknowledge, extend and give back.
    """
    from trunkline.status.queues import pause_queue

    with _asking() as ask:
        paused = pause_queue(ask, topic, name, reason)
    _say(paused, f"paused queue {name} of {topic}; go on: trunkline queue resume {topic} {name}", as_json=as_json)


@queue.command()
@click.argument("topic")
@click.argument("name")
@_json_option
@url_option
def resume(topic: str, name: str, *, as_json: bool) -> None:
    """Let readers of a queue go on."""
    from trunkline.status.queues import read_queue, resume_queue

    with _asking() as ask:
        was_paused = resume_queue(ask, topic, name)
        resumed = read_queue(ask, topic, name)
    _say(resumed, f"{'resumed' if was_paused else 'was not paused:'} queue {name} of {topic}", as_json=as_json)


@queue.command()
@click.argument("topic")
@click.argument("name")
@pairs_option("--set", "settings", required=True, help=SET_HELP)
@_json_option
@url_option
def alter(topic: str, name: str, settings: list[tuple[str, str]], *, as_json: bool) -> None:
    """Change settings of a queue. Claims that are held keep their deadlines."""
    from trunkline.status.queues import alter_queue

    changes = parse_queue_settings(settings)
    with _asking() as ask:
        changed = alter_queue(ask, topic, name, changes)
        known = dict(_settings(changed))
        shown = ", ".join(f"{setting} = {known.get(setting, text)}" for setting, text in settings)
        _say(changed, f"queue {name} of {topic}: {shown}", as_json=as_json)
        _warn_of_missing(ask, changed)


@queue.command()
@click.argument("topic")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def delete(topic: str, name: str, *, yes: bool, as_json: bool) -> None:
    """Delete a queue, with what is known of its claims. The records stay.

    Its readers get an error. A queue of the same name begins anew.
    """
    from trunkline.status.queues import delete_queue, read_queue

    with _asking() as ask:
        status = read_queue(ask, topic, name)
        if not yes:
            left = status.ready + status.waiting + status.in_flight
            click.confirm(
                f"Delete queue {name} of {topic}, which has {left:,} records to deliver?", abort=True, err=as_json
            )
        delete_queue(ask, topic, name)
    if as_json:
        write_json({"deleted": name, "topic": topic})
    else:
        click.echo(f"deleted queue {name} of {topic}")


def parse_queue_settings(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """The settings of a queue as people write them; one that does not exist is an error that names the nearest."""
    from trunkline.status.queues import check_settings

    given: dict[str, str] = {}
    for name, text in pairs:
        if name in given:
            raise InvalidArgument(f"{name} is set twice, to {given[name]!r} and to {text!r}")
        given[name] = text
    check_settings(list(given))
    return {name: _setting(name, text) for name, text in given.items()}


def _setting(name: str, text: str) -> float | str | None:
    if text.lower() == "none":
        return None
    try:
        if name == "ack_deadline_s":
            return _seconds(text)
        if name in ("ordered_by_key", "bury_expired"):
            return _switch(text)
        if name == "table_bytes":
            return parse_bytes(text)
        if name == "max_attempts":
            return _whole(text)
        return _fraction(text) if name == "pause_above" else text
    except InvalidArgument as error:
        raise InvalidArgument(f"{name}: {error}") from error


def _seconds(text: str) -> float:
    from trunkline.engine.offsets import parse_duration

    if re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    return parse_duration(text).total_seconds()


def _switch(text: str) -> bool:
    if text.lower() not in ("on", "off"):
        raise InvalidArgument(f"not a switch: {text!r}; write on or off")
    return text.lower() == "on"


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text, re.ASCII):
        raise InvalidArgument(f"not a whole number: {text!r}")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise InvalidArgument(f"not a part of 1: {text!r}; write for example 0.5")
    return value


def _say(status: QueueStatus, sentence: str, *, as_json: bool) -> None:
    if as_json:
        write_json(status)
    else:
        click.echo(sentence)


def _warn_of_missing(ask: Ask, status: QueueStatus) -> None:
    from trunkline.status.queues import missing_topic

    if missing_topic(ask, status.dead_letter):
        create_it = f"trunkline topic create {status.dead_letter}"
        click.echo(f"note: topic {status.dead_letter} does not exist yet; create it: {create_it}", err=True)
