"""`trunkline group blocked` and `redrive`: keys whose records are parked, and handling them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from trunkline.cli.output import on_terminal, readable, write_json, write_table
from trunkline.cli.server import connect, url_option

if TYPE_CHECKING:
    from trunkline import BlockedKey

COLUMNS = ["topic", "partition", "key", "group key", "first", "records", "failed", "attempts", "since", "due", "reason"]


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@url_option
def blocked(name: str, *, as_json: bool) -> None:
    """Show the keys of a group whose records are parked.

    Of the records of a key some have failed, and the others wait behind them until the key is redriven.
    """
    with connect() as tl:
        keys = tl.blocked_keys(name)
    if as_json:
        for each in keys:
            write_json(_fields(each))
    elif not keys and on_terminal():
        click.echo(f"No key of group {name} is blocked.")
    else:
        _write(keys)


@click.command()
@click.argument("name", metavar="GROUP")
@click.option("--key", help=r"Only keys of this first part; \xNN is a byte.")
@click.option("--group-key", help=r"Only keys of this second part; \xNN is a byte.")
@click.option("--discard-failed", is_flag=True, help="Drop the records that failed; redrive what stood behind them.")
@click.option("--execute", is_flag=True, help="Do it. Otherwise it only says what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@url_option
def redrive(
    name: str, key: str | None, group_key: str | None, *, discard_failed: bool, execute: bool, as_json: bool
) -> None:
    """Have parked records handled again, in their order, before anything newer of their key.

    Without --execute nothing is changed. Whoever reads the partition does it, within about a second; where it fails
    again they stay parked. Default: all keys.
    """
    from trunkline.cli.escapes import unescape

    with connect() as tl:
        keys = tl.redrive_group(
            name,
            key=None if key is None else unescape(key),
            group_key=None if group_key is None else unescape(group_key),
            discard_failed=discard_failed,
            execute=execute,
        )
    if as_json:
        write_json({"group": name, "executed": execute, "keys": [_fields(each) for each in keys]})
        return
    _write(keys)
    # Sentences are for people: what a pipe gets is the table.
    done = f"asked for a redrive in group {name}" if execute else "nothing was changed; add --execute"
    click.echo(done, err=True)


def _write(keys: list[BlockedKey]) -> None:
    write_table(
        COLUMNS,
        [
            (
                each.topic,
                each.partition,
                None if each.key is None else readable(each.key),
                None if each.group_key is None else readable(each.group_key),
                each.first_offset,
                each.record_count,
                each.failed_count,
                each.attempts,
                each.blocked_at,
                each.due_at,
                each.reason,
            )
            for each in keys
        ],
    )


def _fields(found: BlockedKey) -> dict[str, Any]:
    import msgspec

    from trunkline.cli.record import bytes_field

    others = {name: value for name, value in msgspec.structs.asdict(found).items() if name not in ("key", "group_key")}
    return {**others, **bytes_field("key", found.key), **bytes_field("group_key", found.group_key)}
