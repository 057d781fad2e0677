"""`trunkline topic`: create, look at, change, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trunkline.cli.output import (
    bytes_text,
    duration_text,
    on_terminal,
    write_facts,
    write_json,
    write_table,
)
from trunkline.cli.server import connect, url_option
from trunkline.cli.values import pairs_option, parse_settings

if TYPE_CHECKING:
    from trunkline import Topic, TopicDescription

PARTITIONS = click.IntRange(1, 1024)
SET_HELP = (
    "A setting, repeatable: retention_age_s=7d, retention_bytes=10GiB, segment_bytes, segment_age_s, "
    "record_bytes_max, retention_consumed=on, notify_in_commit=on, … "
    "`none` takes a limit of retention away, or puts a default back."
)


@click.group()
def topic() -> None:
    """Create, describe, alter, delete topics."""


def _json_option(command: click.decorators.FC) -> click.decorators.FC:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(command)


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=PARTITIONS, default=1, show_default=True)
@pairs_option("--set", "settings", help=SET_HELP)
@_json_option
@url_option
def create(name: str, partitions: int, settings: list[tuple[str, str]], *, as_json: bool) -> None:
    """Create a topic."""
    from trunkline.settings import TopicSettings

    wanted = TopicSettings.of(parse_settings(settings))
    with connect() as tl:
        made = tl.create_topic(name, partitions=partitions, settings=wanted)
    _say(made, f"created topic {made.name} with {_partitions(made.partitions)}", as_json=as_json)


@topic.command("list")
@_json_option
@url_option
def list_topics(*, as_json: bool) -> None:
    """List all topics."""
    with connect() as tl:
        topics = tl.topics()
    if as_json:
        for each in topics:
            write_json(each)
        return
    if not topics and on_terminal():
        click.echo("There are no topics. Create one: trunkline topic create orders")
        return
    write_table(
        ["topic", "partitions", "retention_age", "retention_bytes", "created"],
        [
            [
                each.name,
                each.partitions,
                duration_text(each.retention_age_s),
                bytes_text(each.retention_bytes),
                each.created_at,
            ]
            for each in topics
        ],
    )


@topic.command()
@click.argument("name")
@_json_option
@url_option
def describe(name: str, *, as_json: bool) -> None:
    """Show a topic: its settings, partitions and segments."""
    with connect() as tl:
        description = tl.describe_topic(name)
    if as_json:
        write_json(description)
    else:
        _write_description(description)


def _write_description(description: TopicDescription) -> None:
    settings = _settings(description.topic)
    write_facts([("topic", description.topic.name), ("created", description.topic.created_at), *settings])
    click.echo()
    write_table(
        ["partition", "start", "end", "records"],
        [(each.partition, each.start, each.end, each.end - each.start) for each in description.ranges],
    )
    click.echo()
    write_table(
        ["segment", "state", "opened", "sealed", "newest record", "size"],
        [
            (
                each.segment_id,
                each.state,
                each.opened_at,
                each.sealed_at,
                each.last_append_time,
                bytes_text(each.byte_count),
            )
            for each in description.segments
        ],
    )


def _settings(topic: Topic) -> list[tuple[str, object]]:
    """The settings of a topic by name, with their units."""
    from trunkline.settings import TopicSettings

    def shown(name: str) -> str:
        value = getattr(topic, name)
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "on" if value else "off"
        if name.endswith("_s"):
            return duration_text(value)
        return bytes_text(value) if "bytes" in name else str(value)

    return [(name, shown(name)) for name in TopicSettings.__struct_fields__]


@topic.command()
@click.argument("name")
@pairs_option("--set", "settings", required=True, help=SET_HELP)
@_json_option
@url_option
def alter(name: str, settings: list[tuple[str, str]], *, as_json: bool) -> None:
    """Change settings of a topic."""
    changes = parse_settings(settings)
    with connect() as tl:
        changed = tl.alter_topic(name, **changes)
    shown = ", ".join(f"{setting} = {value}" for setting, value in _settings(changed) if setting in changes)
    _say(changed, f"topic {changed.name}: {shown}", as_json=as_json)


@topic.command("add-partitions")
@click.argument("name")
@click.argument("partitions", type=PARTITIONS)
@click.option(
    "--break-key-order",
    is_flag=True,
    help="Do it although keyed records exist: a key's later records may stand in another partition.",
)
@_json_option
@url_option
def add_partitions(name: str, partitions: int, *, break_key_order: bool, as_json: bool) -> None:
    """Raise a topic's number of partitions to PARTITIONS."""
    with connect() as tl:
        changed = tl.add_partitions(name, partitions, break_key_order=break_key_order)
    _say(changed, f"topic {changed.name} has {_partitions(changed.partitions)}", as_json=as_json)


@topic.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@url_option
def delete(name: str, *, yes: bool) -> None:
    """Delete a topic with all its records. Its name is free at once."""
    with connect() as tl:
        if not yes:
            held = sum(each.end - each.start for each in tl.offsets(name))
            click.confirm(f"Delete topic {name} with its {held:,} records?", abort=True)
        tl.delete_topic(name)
    click.echo(f"deleted topic {name}")


def _say(topic: Topic, sentence: str, *, as_json: bool) -> None:
    if as_json:
        write_json(topic)
    else:
        click.echo(sentence)


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
